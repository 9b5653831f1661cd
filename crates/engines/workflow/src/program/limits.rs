//! Limits the size of a program.

/// Nodes of a program at most.
pub const NODES_MAX: usize = 10_000;
/// Nested lists of steps at most.
pub const DEPTH_MAX: usize = 32;
/// Branches of a fork at most.
pub const BRANCHES_MAX: usize = 100;
/// Bytes of a name at most.
pub const NAME_BYTES_MAX: usize = 100;
/// Attempts of a call at most.
pub const ATTEMPTS_MAX: u32 = 1000;
