//! Compiles a definition to a flat list of nodes, and names every problem by its path.

mod compile;
mod emit;
mod limits;
mod url;

use std::fmt;

pub use compile::Problem;
pub use url::Url;

use crate::cron::Cron;
use crate::definition::{Join, Method, OnFailure, OnTimeout, Version};
use crate::expression::Expression;

/// A compiled definition.
#[derive(Clone, Debug)]
pub struct Program {
    /// The definition's version.
    pub version: Version,
    /// The nodes. The first step is node 0.
    pub nodes: Vec<Node>,
    /// The node that takes the next entry of the compensation list.
    pub undo: usize,
    /// Whether a program of the jq language reads the clock: a repeated step may then have another result.
    pub reads_clock: bool,
}

/// One node of a program.
#[derive(Clone, Debug)]
pub struct Node {
    /// The names of the step and the steps around it, such as `review/approve`. Migration finds nodes by it.
    pub path: String,
    /// The work of the node.
    pub kind: Kind,
    /// The node after it.
    pub next: usize,
}

/// The work of a node.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A call.
    Call(Call),
    /// A task for a person.
    Task(Task),
    /// A wait for a signal.
    Wait(Wait),
    /// A timer.
    Timer(Timer),
    /// Branches at the same time: their first nodes.
    Fork {
        /// The first node of each branch.
        branches: Vec<usize>,
        /// The branches that must end.
        join: Join,
    },
    /// The end of a branch.
    Join,
    /// The test before a repetition.
    Repeat {
        /// The condition of one more repetition.
        condition: Option<Expression>,
        /// Repetitions at most.
        max: Option<u32>,
        /// The first node of the repeated steps.
        body: usize,
    },
    /// The choice of a case: the nodes where the cases begin. Without a case, the next node follows.
    Branch(Vec<(Expression, usize)>),
    /// Nothing: the next node follows.
    Jump,
    /// A sub-workflow.
    Child(Child),
    /// The start of an independent instance.
    Continue {
        /// The definition's name.
        definition: String,
        /// Its input; default: all data.
        input: Option<Expression>,
    },
    /// New data.
    Set(Expression),
    /// The end as failed.
    Fail(String),
    /// The end.
    End,
    /// The next compensation, or the end.
    Undo,
}

/// A call node.
#[derive(Clone, Debug)]
pub struct Call {
    /// The callee.
    pub target: Target,
    /// The input; default: all data.
    pub input: Option<Expression>,
    /// The field that gets the result.
    pub result: Option<String>,
    /// The longest time of an attempt.
    pub timeout_ms: u64,
    /// Attempts at most.
    pub attempts: u32,
    /// The time before the second attempt; it doubles.
    pub backoff_ms: u64,
    /// The longest time between two attempts.
    pub backoff_max_ms: u64,
    /// The consequence of the last failure.
    pub on_failure: OnFailure,
    /// The compensating node.
    pub compensate: Option<usize>,
}

/// The callee of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A named function of the process.
    Function(String),
    /// An HTTP service.
    Http {
        /// The method.
        method: Method,
        /// The address.
        url: String,
        /// Further headers.
        headers: Vec<(String, String)>,
    },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(name) => f.write_str(name),
            Self::Http { url, .. } => f.write_str(url),
        }
    }
}

/// A task node.
#[derive(Clone, Debug)]
pub struct Task {
    /// The line for the inbox.
    pub title: String,
    /// Roles that may act.
    pub roles: Vec<String>,
    /// The data that the person sees.
    pub payload: Option<Expression>,
    /// The check of the completed payload.
    pub validate: Option<Expression>,
    /// The field that gets the completed payload.
    pub result: Option<String>,
    /// The longest wait.
    pub timeout_ms: Option<u64>,
    /// The consequence of the timeout.
    pub on_timeout: OnTimeout,
}

/// A wait node.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The signal's name.
    pub signal: String,
    /// The field that gets the body.
    pub result: Option<String>,
    /// The longest wait.
    pub timeout_ms: Option<u64>,
    /// The consequence of the timeout.
    pub on_timeout: OnTimeout,
}

/// A timer node.
#[derive(Clone, Debug)]
pub enum Timer {
    /// A length, in milliseconds.
    After(u64),
    /// A program for the moment.
    Until(Expression),
    /// The next moment of a schedule.
    Cron(Cron),
}

/// A sub-workflow node.
#[derive(Clone, Debug)]
pub struct Child {
    /// The definition's name.
    pub definition: String,
    /// Its input; default: all data.
    pub input: Option<Expression>,
    /// The field that gets its data.
    pub result: Option<String>,
    /// The consequence of its failure.
    pub on_failure: OnFailure,
}

impl Program {
    /// The node at an index, if the program has one.
    pub fn node(&self, at: usize) -> Option<&Node> {
        self.nodes.get(at)
    }

    /// The node with a path.
    pub fn find(&self, path: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.path == path)
    }
}
