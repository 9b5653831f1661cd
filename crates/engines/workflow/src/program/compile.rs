//! Compiles a definition, and collects every problem.

use std::collections::HashSet;
use std::fmt;

use plimsoll_measure::duration::Span;

use super::limits::{NAME_BYTES_MAX, NODES_MAX};
use super::{Kind, Node, Program};
use crate::definition::Definition;
use crate::expression::Expression;

/// A problem of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path of the value in the file, such as `steps[0].service.input`.
    pub path: String,
    /// The problem and its remedy.
    pub words: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Problem {}

impl Program {
    /// Compiles a definition that may be stored. Instances of it run on, so rules may only become looser.
    ///
    /// # Errors
    ///
    /// Every problem of the definition.
    pub fn compile(definition: &Definition) -> Result<Self, Vec<Problem>> {
        Self::of(definition, Compiler::default())
    }

    /// Compiles a definition that is deployed now. Further rules hold for it: on the addresses and headers of HTTP steps.
    ///
    /// # Errors
    ///
    /// Every problem of the definition.
    pub fn compile_new(definition: &Definition) -> Result<Self, Vec<Problem>> {
        Self::of(definition, Compiler { is_new: true, ..Compiler::default() })
    }

    fn of(definition: &Definition, mut compiler: Compiler) -> Result<Self, Vec<Problem>> {
        compiler.name("name", &definition.name);
        if let Some(start) = &definition.start {
            compiler.cron("start.cron", &start.cron);
        }
        compiler.steps("steps", "", &definition.steps, 0);
        compiler.push("", Kind::End);
        let undo = compiler.compensations();
        if compiler.nodes.len() > NODES_MAX {
            let words = format!("the definition has more than {NODES_MAX} steps: use sub-workflows");
            compiler.problem("steps", words);
        }
        if !compiler.problems.is_empty() {
            return Err(compiler.problems);
        }
        let reads_clock = compiler.reads_clock;
        Ok(Self { version: definition.version(), nodes: compiler.nodes, undo, reads_clock })
    }
}

/// The nodes and problems so far.
#[derive(Debug, Default)]
pub(super) struct Compiler {
    pub(super) nodes: Vec<Node>,
    pub(super) problems: Vec<Problem>,
    /// The compensations to compile after the steps, with their place, path and the node that they undo.
    pub(super) pending: Vec<(String, String, crate::definition::Undo, usize)>,
    names: HashSet<String>,
    paths: HashSet<String>,
    reads_clock: bool,
    /// Whether the definition is deployed now, and keeps further rules.
    pub(super) is_new: bool,
}

impl Compiler {
    pub(super) fn problem(&mut self, path: impl Into<String>, words: impl Into<String>) {
        self.problems.push(Problem { path: path.into(), words: words.into() });
    }

    /// Adds a node, followed by the next one to be added.
    pub(super) fn push(&mut self, path: &str, kind: Kind) -> usize {
        let at = self.nodes.len();
        self.nodes.push(Node { path: path.to_owned(), kind, next: at + 1 });
        at
    }

    /// Makes the next added node the successor of a node.
    pub(super) fn lead_here(&mut self, at: usize) {
        let here = self.nodes.len();
        self.lead(at, here);
    }

    pub(super) fn lead(&mut self, at: usize, next: usize) {
        if let Some(node) = self.nodes.get_mut(at) {
            node.next = next;
        }
    }

    /// Compiles a program of the jq language, if one is given.
    pub(super) fn expression(&mut self, place: &str, text: Option<&String>) -> Option<Expression> {
        match Expression::compile(text?) {
            Ok(expression) => {
                self.reads_clock |= expression.reads_clock();
                Some(expression)
            }
            Err(error) => {
                self.problem(place, error.to_string());
                None
            }
        }
    }

    pub(super) fn cron(&mut self, place: &str, text: &str) -> Option<crate::cron::Cron> {
        crate::cron::Cron::parse(text).map_err(|words| self.problem(place, words)).ok()
    }

    /// Checks a name.
    pub(super) fn name(&mut self, place: &str, name: &str) {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(allowed) {
            let words = format!(
                "the name `{name}` is invalid: use up to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`"
            );
            self.problem(place, words);
        }
    }

    /// Checks the name of a step, which only one step may have.
    pub(super) fn step_name(&mut self, place: &str, name: &str) {
        self.name(place, name);
        if !self.names.insert(name.to_owned()) {
            self.problem(place, format!("a second step has the name `{name}`: choose another"));
        }
    }

    /// Checks that only one step has a path: a name may look like the path of a step without a name.
    pub(super) fn step_path(&mut self, place: &str, path: &str) {
        if !self.paths.insert(path.to_owned()) {
            self.problem(place, format!("a second step has the path `{path}`: choose another name"));
        }
    }
}

pub(super) const fn ms(span: Span) -> u64 {
    span.as_ns() / 1_000_000
}
