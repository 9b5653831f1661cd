//! Names anomalies and holds the result of a check.

use std::collections::BTreeMap;
use std::fmt;

use crate::claim::{Claim, Isolation, Order};

/// The most examples that a report holds of each kind. All are counted.
pub const EXAMPLES_MAX: usize = 10;

/// A kind of anomaly. The letters are the names of Adya's phenomena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A list has the same element twice.
    DuplicateElement,
    /// A read shows an element that nothing appended.
    PhantomElement,
    /// Two reads of a list disagree about the order of its elements.
    IncompatibleOrder,
    /// A transaction does not see its earlier reads and appends.
    Internal,
    /// A committed transaction appended after an element of an aborted one.
    DirtyUpdate,
    /// A read shows an element of an aborted transaction (G1a).
    AbortedRead,
    /// A read shows a state in the middle of a transaction (G1b).
    IntermediateRead,
    /// Two transactions appended to the same state of a list that both had read.
    LostUpdate,
    /// An acknowledged append is missing in the last read.
    LostAppend,
    /// Some appends of a committed transaction exist, others are missing in the last read.
    HalfTransaction,
    /// A read misses an append that was acknowledged before the read started.
    StaleRead,
    /// No order of the operations on one list explains their answers.
    NotLinearizable,
    /// A cycle of appends (G0).
    DirtyWrite(Order),
    /// A cycle of appends and reads of them (G1c).
    CircularInformationFlow(Order),
    /// A cycle with one read of an older state (G-single).
    ReadSkew(Order),
    /// A cycle with several reads of older states, no two in succession (G-nonadjacent).
    LongFork(Order),
    /// A cycle with successive reads of older states (G2).
    WriteSkew(Order),
}

impl Kind {
    /// Whether a system with this claim must prevent the anomaly.
    pub fn violates(self, claim: Claim) -> bool {
        let (isolation, order) = self.least();
        claim.isolation >= isolation && claim.order >= order
    }

    /// The weakest claim that the anomaly violates.
    const fn least(self) -> (Isolation, Order) {
        match self {
            Self::DuplicateElement
            | Self::PhantomElement
            | Self::IncompatibleOrder
            // The last read follows all operations, in any order.
            | Self::LostAppend
            | Self::HalfTransaction => (Isolation::ReadUncommitted, Order::Any),
            Self::DirtyUpdate | Self::AbortedRead | Self::IntermediateRead => {
                (Isolation::ReadCommitted, Order::Any)
            }
            Self::Internal | Self::LostUpdate => (Isolation::Snapshot, Order::Any),
            Self::StaleRead => (Isolation::ReadUncommitted, Order::RealTime),
            Self::NotLinearizable => (Isolation::Snapshot, Order::RealTime),
            Self::DirtyWrite(order) => (Isolation::ReadUncommitted, order),
            Self::CircularInformationFlow(order) => (Isolation::ReadCommitted, order),
            Self::ReadSkew(order) | Self::LongFork(order) => (Isolation::Snapshot, order),
            Self::WriteSkew(order) => (Isolation::Serializable, order),
        }
    }

    const fn words(self) -> (&'static str, Order) {
        match self {
            Self::DuplicateElement => ("duplicate element", Order::Any),
            Self::PhantomElement => ("phantom element", Order::Any),
            Self::IncompatibleOrder => ("incompatible order", Order::Any),
            Self::Internal => ("internal inconsistency", Order::Any),
            Self::DirtyUpdate => ("dirty update", Order::Any),
            Self::AbortedRead => ("aborted read (G1a)", Order::Any),
            Self::IntermediateRead => ("intermediate read (G1b)", Order::Any),
            Self::LostUpdate => ("lost update", Order::Any),
            Self::LostAppend => ("lost append", Order::Any),
            Self::HalfTransaction => ("half transaction", Order::Any),
            Self::StaleRead => ("stale read", Order::Any),
            Self::NotLinearizable => ("not linearizable", Order::Any),
            Self::DirtyWrite(order) => ("dirty write (G0)", order),
            Self::CircularInformationFlow(order) => ("circular information flow (G1c)", order),
            Self::ReadSkew(order) => ("read skew (G-single)", order),
            Self::LongFork(order) => ("long fork (G-nonadjacent)", order),
            Self::WriteSkew(order) => ("write skew (G2)", order),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, order) = self.words();
        out.write_str(words)?;
        match order {
            Order::Any => Ok(()),
            Order::Session => out.write_str(" in session order"),
            Order::RealTime => out.write_str(" in real time"),
        }
    }
}

/// A contradiction in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its kind.
    pub kind: Kind,
    /// The transactions that contradict each other, as indices into the history. Those of a cycle are in its order.
    pub transactions: Vec<u32>,
    /// The contradiction in words.
    pub explanation: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.kind, self.explanation)
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that aborted.
    pub aborted: u64,
    /// Transactions whose outcome the client does not know.
    pub unknown: u64,
    /// Lists that were appended to or read.
    pub lists: u64,
    /// Lists whose linearizability was not decided within the limits.
    pub lists_not_decided: u64,
    /// Cycles whose kind was not decided within the limits.
    pub cycles_not_decided: u64,
    /// The number of anomalies of each kind. Cycles count once for each group of transactions that depend on each other.
    pub counts: BTreeMap<Kind, u64>,
    /// The first anomalies of each kind, at most [`EXAMPLES_MAX`].
    pub examples: Vec<Anomaly>,
}

impl Report {
    /// Examples of the anomalies that a system with this claim must prevent.
    pub fn violations(&self, claim: Claim) -> impl Iterator<Item = &Anomaly> {
        self.examples.iter().filter(move |anomaly| anomaly.kind.violates(claim))
    }

    /// The number of anomalies that a system with this claim must prevent.
    pub fn violation_count(&self, claim: Claim) -> u64 {
        let violations = self.counts.iter().filter(|(kind, _)| kind.violates(claim));
        violations.map(|(_, count)| count).sum()
    }

    /// Counts an anomaly, and explains it if its kind has few examples.
    pub(crate) fn add(&mut self, kind: Kind, explain: impl FnOnce() -> (Vec<u32>, String)) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= EXAMPLES_MAX as u64 {
            let (transactions, explanation) = explain();
            self.examples.push(Anomaly { kind, transactions, explanation });
        }
    }
}
