//! Compares B with A by a statistical test.
//!
//! The unit is the run. Runs of A and B are measured in turns, and each pair gives one log ratio a metric, which
//! cancels slow changes of the machine. Pairs that still resemble their neighbours widen the interval. One test decides ([`sign_flip`]), its interval gives the size, and a minimum
//! effect excludes irrelevant differences. One metric is primary; the others are tested together (Holm). All
//! functions are pure functions of the runs.

mod form;

mod compare;
mod correlation;
mod judge;
mod values;

mod measures;
mod pairing;

mod soundness;

mod differences;

pub mod sign_flip;

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod trials;

pub use compare::{Request, check, compare};
pub use correlation::LEVEL as CORRELATION_LEVEL;
pub use differences::{Subject, differing_keys};
pub(crate) use differences::{differences, is_varied};
pub use form::{
    Better, Broken, Comparison, Correlation, Difference, FORMAT, Method, Metric, Noise, Pair, Settings, Side,
    SideRun, Unit, Verdict,
};
pub use judge::{MIN_EFFECT, TOO_WIDE};
pub use measures::{Measure, measures};
pub use pairing::{Error, RunError};
pub(crate) use pairing::{listed, usable};
pub(crate) use soundness::{is_idle, is_kept};
