//! When a scenario became better or worse: the runs of one scenario in order of time, and where their figures changed.
//!
//! A threshold asks whether today is worse than a number that somebody once wrote down. A history asks where the level
//! changed, by how much and whether noise alone would do that: [`divisive`] finds the places, `levels` says how large
//! each change is and leaves out those that nobody cares about. Everything here is a pure function of the runs.

mod form;

mod follow;

mod order;

pub mod divisive;
mod energy;
mod levels;

pub use follow::{Request, follow};
pub use form::{Change, FORMAT, History, Made, Settings, Track};
pub use order::{Error, RUNS_MAX, RUNS_MIN, VARYING};
