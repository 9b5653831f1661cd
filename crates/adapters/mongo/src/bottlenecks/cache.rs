//! Checks the storage engine's cache: whether threads that serve clients also evict pages.

use plimsoll_load::bottlenecks::level::{levels_between, per_s_between};
use plimsoll_load::bottlenecks::observation::both;
use plimsoll_load::bottlenecks::reading::{reading, share};
use plimsoll_load::bottlenecks::{
    DEPARTURE, Finding, Level, NOT_REPORTED, NotObserved, Observation, departs,
};
use plimsoll_measure::line::Reading;
use plimsoll_measure::sample::ServerSample;

use super::WAIT_SHARE_MAX;

/// WiredTiger's `eviction_dirty_trigger`: above this share, threads that serve clients first evict dirty pages.
const DIRTY_SHARE_MAX: f64 = 0.20;
/// WiredTiger's `eviction_trigger`: above this share, threads that serve clients first evict pages of any kind.
const USED_SHARE_MAX: f64 = 0.95;
/// From this number of pages per second on, evictions by clients' threads count.
const EVICTIONS_PER_S_MIN: f64 = 10.0;

/// Finds a full or dirty cache, and clients' threads that evict pages or wait for them.
pub(super) fn check(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let sides = (baseline, knee);
    let seen = [dirty(sides), used(sides), evictions(sides), waiting(sides)];
    let unseen = seen.iter().find_map(|it| it.as_ref().err().copied()).unwrap_or(NOT_REPORTED);
    let seen: Vec<(bool, Reading)> = seen.into_iter().flatten().collect();
    let departed = seen.iter().any(|(departed, _)| *departed);
    let readings: Vec<_> = seen.into_iter().map(|(_, reading)| reading).collect();
    if readings.is_empty() { Err(unseen) } else { Ok(Finding { departed, readings }) }
}

/// The seconds in which the cache was full or dirty, or clients' threads waited for it.
pub(super) fn levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    let in_service = side.in_service().max(f64::MIN_POSITIVE);
    levels_between(side, |before, after| {
        let dirty = of_max(after, after.cache_dirty_bytes).map(|share| share >= DIRTY_SHARE_MAX);
        let used = of_max(after, after.cache_bytes).map(|share| share >= USED_SHARE_MAX);
        let waited = per_s_between(before, after, waited_us)
            .map(|us_per_s| us_per_s / 1e6 / in_service >= WAIT_SHARE_MAX);
        [dirty, used, waited].into_iter().flatten().reduce(|a, b| a || b)
    })
}

fn dirty(sides: (&Observation, &Observation)) -> Result<(bool, Reading), NotObserved> {
    let shares = both(sides, |side| side.max(|it| of_max(it, it.cache_dirty_bytes)))?;
    Ok((departs(shares.0, shares.1, DIRTY_SHARE_MAX), share("dirty share of the cache", shares)))
}

fn used(sides: (&Observation, &Observation)) -> Result<(bool, Reading), NotObserved> {
    let shares = both(sides, |side| side.max(|it| of_max(it, it.cache_bytes)))?;
    Ok((departs(shares.0, shares.1, USED_SHARE_MAX), share("used share of the cache", shares)))
}

/// Compares evictions per operation: a higher rate alone is not a deviation.
fn evictions(sides: (&Observation, &Observation)) -> Result<(bool, Reading), NotObserved> {
    let per_s = both(sides, |side| side.per_s(|it| it.cache_application_evictions))?;
    let per_operation =
        |per_s: f64, side: &Observation| per_s / side.operations_per_s().max(f64::MIN_POSITIVE);
    let (before, at) = (per_operation(per_s.0, sides.0), per_operation(per_s.1, sides.1));
    let departed = per_s.1 >= EVICTIONS_PER_S_MIN && at >= before * DEPARTURE;
    Ok((departed, reading("pages evicted by application threads", "/s", per_s)))
}

fn waiting(sides: (&Observation, &Observation)) -> Result<(bool, Reading), NotObserved> {
    let shares = both(sides, |side| side.share_of_service(waited_us))?;
    let departed = departs(shares.0, shares.1, WAIT_SHARE_MAX);
    Ok((departed, share("share of the service time spent on pages", shares)))
}

/// The microseconds that clients' threads spent on the cache: the sum of the parts that the server reports.
fn waited_us(sample: &ServerSample) -> Option<u64> {
    let parts = [
        sample.cache_application_read_us,
        sample.cache_application_write_us,
        sample.cache_application_wait_us,
    ];
    parts.into_iter().flatten().reduce(u64::saturating_add)
}

fn of_max(sample: &ServerSample, bytes: Option<u64>) -> Option<f64> {
    let most = sample.cache_bytes_max.filter(|most| *most > 0)?;
    Some(bytes? as f64 / most as f64)
}
