//! Checks Plimsoll's figures and audits against loads and servers whose truth is known.

mod arithmetic;
mod copies;
mod defects;
mod freeze;
mod pairs;
mod rate;
mod rounds;
mod trial;

use serde::Serialize;

pub use rounds::{DEFECTS_MAX, DefectCheck, Round, Size, rounds};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The name of the check.
    pub name: &'static str,
    /// Whether it passed.
    pub passed: bool,
    /// The measured and the expected values.
    pub figure: String,
}

/// A check. It fails if it cannot be run.
pub type Check = fn() -> anyhow::Result<Finding>;

/// The checks of every self-test, about a minute.
pub const CHECKS: [Check; 16] = [
    arithmetic::percentiles,
    arithmetic::merge,
    rate::rate,
    freeze::freeze,
    defects::forget,
    defects::flip,
    defects::duplicate,
    defects::half,
    defects::forget_increments,
    defects::repeat_increments,
    defects::tear_updates,
    defects::unindex,
    defects::stale,
    defects::backwards,
    copies::members,
    copies::shards,
];

/// The longer checks.
pub const LONG_CHECKS: [Check; 2] = [pairs::same, pairs::handicap];
