//! Defines what a system promises about its transactions.

/// A promise: an isolation level, and a further order that transactions follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The isolation level.
    pub isolation: Isolation,
    /// The order that the isolation level respects.
    pub order: Order,
}

/// An isolation level, from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Appends of two transactions do not interleave.
    ReadUncommitted,
    /// Transactions read only final, committed states.
    ReadCommitted,
    /// Transactions read one snapshot, and the first committer wins.
    Snapshot,
    /// Transactions behave as if one ran after the other.
    Serializable,
}

/// The order that transactions follow, from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Any order that the isolation level allows.
    Any,
    /// A client's transactions follow each other.
    Session,
    /// A transaction follows all that completed before its start.
    RealTime,
}

impl Claim {
    /// Serializable in the order of real time; for single operations on one list this is linearizability.
    pub const STRICT_SERIALIZABLE: Self = Self { isolation: Isolation::Serializable, order: Order::RealTime };
    /// Snapshot isolation in the order of real time.
    pub const STRONG_SNAPSHOT: Self = Self { isolation: Isolation::Snapshot, order: Order::RealTime };
}
