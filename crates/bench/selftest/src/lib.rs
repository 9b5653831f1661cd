//! Checks Plimsoll's figures and audits against loads and servers whose truth is known.

mod anomalies;
mod arithmetic;
mod clean;
mod copies;
mod defects;
mod freeze;
mod pairs;
mod rate;
mod rounds;
mod score;
mod trial;

use serde::Serialize;

pub use rounds::{DEFECTS_MAX, DefectCheck, Round, Size, rounds};
pub use score::{Score, score};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The name of the check.
    pub name: &'static str,
    /// Whether it passed.
    pub passed: bool,
    /// The measured and the expected values.
    pub figure: String,
    /// The seeded defects, by kind; `None` if the check is about figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
}

impl Finding {
    /// The result of a check that seeds this many kinds of defects. It passes if exactly these are named.
    fn of_defects(name: &'static str, seeded: u64, passed: bool, figure: String) -> Self {
        let named = if passed { seeded } else { 0 };
        Self { name, passed, figure, score: Some(Score { seeded, named }) }
    }
}

/// A check. It fails if it cannot be run.
pub type Check = fn() -> anyhow::Result<Finding>;

/// The checks of every self-test, about a minute.
pub const CHECKS: [Check; 20] = [
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
    defects::forget_updates,
    defects::repeat_updates,
    defects::unindex,
    defects::stale,
    defects::backwards,
    copies::members,
    copies::shards,
    anomalies::anomalies,
    clean::clean,
];

/// The longer checks.
pub const LONG_CHECKS: [Check; 2] = [pairs::same, pairs::handicap];
