//! Bounds the searches of a check.

/// The limits of the searches. A report counts every search that reached a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The states of one list that the search for a linear order visits.
    pub states_max: usize,
    /// The edges that the search for the shortest cycle of one kind follows in one component.
    pub cycle_steps_per_component: u64,
    /// The edges that all searches for cycles follow.
    pub cycle_steps_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { states_max: 1_000_000, cycle_steps_per_component: 10_000_000, cycle_steps_max: 200_000_000 }
    }
}
