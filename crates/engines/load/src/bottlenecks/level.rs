//! Describes when a resource was at its limit.

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::sample::ServerSample;

use super::{NOT_REPORTED, NotObserved, Observation};

/// A time in which a resource was at its limit for a share of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Nanoseconds from the run's start to its start.
    pub from_ns: u64,
    /// Nanoseconds from the run's start to its end.
    pub to_ns: u64,
    /// The share at the limit, 0 to 1.
    pub share: f64,
}

impl Level {
    /// A time that was wholly at the limit, or not at all.
    pub fn new((from_ns, to_ns): (u64, u64), is_at_limit: bool) -> Self {
        Self { from_ns, to_ns, share: if is_at_limit { 1.0 } else { 0.0 } }
    }
}

/// Judges each pair of neighbouring samples: whether the resource was at its limit between them. Pairs without the counter are
/// left out.
///
/// # Errors
/// No pair reports it.
pub fn levels_between(
    side: &Observation,
    is_at_limit: impl Fn(&ServerSample, &ServerSample) -> Option<bool>,
) -> Result<Vec<Level>, NotObserved> {
    let pairs = side.samples.windows(2);
    let level = |pair: &[ServerSample]| {
        Some(Level::new((pair[0].at_ns, pair[1].at_ns), is_at_limit(&pair[0], &pair[1])?))
    };
    let levels: Vec<_> = pairs.filter_map(level).collect();
    if levels.is_empty() { Err(NOT_REPORTED) } else { Ok(levels) }
}

/// The growth of a counter per second between two samples; none if one lacks it, or the server restarted.
pub fn per_s_between(
    before: &ServerSample,
    after: &ServerSample,
    counter: impl Fn(&ServerSample) -> Option<u64>,
) -> Option<f64> {
    let grown = counter(after)?.checked_sub(counter(before)?)?;
    let length_ns = after.at_ns.checked_sub(before.at_ns).filter(|length_ns| *length_ns > 0)?;
    Some(grown as f64 * SECOND_NS as f64 / length_ns as f64)
}
