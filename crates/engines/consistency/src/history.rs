//! Defines a history: the transactions that clients sent, and what each of them read.

use thiserror::Error;

/// Identifies one list, such as a field of a document.
pub type ListId = u64;

/// An element of a list. Nothing appends the same element to a list twice.
pub type Element = u64;

/// The most transactions of a history: nodes of the graph are numbered with 32 bits.
pub const TRANSACTIONS_MAX: usize = 1 << 30;

/// One transaction as its client saw it. `T5` in an explanation is the sixth of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The client. A client sends one transaction at a time.
    pub process: u32,
    /// The moment before the first step was sent, in nanoseconds of one clock for all clients.
    pub invoked_ns: u64,
    /// The moment after the last answer was read. Ignored if the outcome is unknown: the transaction may commit at any later time.
    pub completed_ns: u64,
    /// The outcome.
    pub outcome: Outcome,
    /// The steps in their order. The elements of reads count only if the transaction committed.
    pub steps: Vec<Step>,
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server acknowledged the commit.
    Committed,
    /// Nothing of the transaction exists or will ever exist.
    Aborted,
    /// The client does not know whether the transaction committed.
    Unknown,
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Appends an element to the end of a list.
    Append {
        /// The list.
        list: ListId,
        /// The element.
        element: Element,
    },
    /// Reads a whole list.
    Read {
        /// The list.
        list: ListId,
        /// The elements, from the first to the last.
        elements: Vec<Element>,
    },
}

impl Step {
    /// The list of the step.
    pub const fn list(&self) -> ListId {
        match self {
            Self::Append { list, .. } | Self::Read { list, .. } => *list,
        }
    }
}

/// The reason why a history cannot be checked.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidHistory {
    /// The order of a list cannot be inferred if its elements do not differ.
    #[error("T{first} and T{second} both appended {element} to list {list}: append each element once")]
    RepeatedElement {
        /// The list.
        list: ListId,
        /// The element.
        element: Element,
        /// The first transaction that appended it.
        first: u32,
        /// The second one.
        second: u32,
    },
    /// A transaction completed before it started.
    #[error("T{0} completed before it was invoked: take both times from one monotonic clock")]
    Interval(u32),
    /// There are more than [`TRANSACTIONS_MAX`].
    #[error(
        "the history has {0} transactions, and at most {TRANSACTIONS_MAX} can be checked: record a shorter load"
    )]
    TooLong(usize),
}
