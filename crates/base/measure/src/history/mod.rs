//! Finds when a scenario became better or worse, from its runs in order of time.
//!
//! A threshold compares today with a fixed number. A history finds where the level changed, by how much, and whether
//! noise alone explains it: `divisive` finds the positions, sizes the changes and drops small ones. All
//! functions are pure functions of the runs.

mod form;

mod follow;

mod order;

mod divisive;

pub use follow::{Request, follow};
pub use form::{Change, FORMAT, History, HistoryRun, Settings, Track};
pub use order::{Error, RUNS_MAX, RUNS_MIN, VARYING};
