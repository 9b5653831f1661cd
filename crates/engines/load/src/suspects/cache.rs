//! The storage engine's cache: threads that should serve clients make room in it.

use plimsoll_measure::line::Reading;
use plimsoll_measure::sample::ServerSample;

use super::reading::{reading, share};
use super::side::both;
use super::{DEPARTURE, Machine, NOT_REPORTED, Seen, Side, Unseen, departs};

/// WiredTiger's `eviction_dirty_trigger`: from here on threads that serve clients evict dirty pages first.
const DIRTY_SHARE_MAX: f64 = 0.20;
/// WiredTiger's `eviction_trigger`: from here on threads that serve clients evict pages of any kind first.
const USED_SHARE_MAX: f64 = 0.95;
/// Fewer pages a second are housekeeping.
const EVICTIONS_PER_S_MIN: f64 = 10.0;
/// A tenth of the service time is felt in a percentile.
const WAIT_SHARE_MAX: f64 = 0.10;

/// How full and how dirty it is, and what threads that should serve clients do about it.
pub(super) fn look(baseline: &Side, knee: &Side, _: Machine) -> Result<Seen, Unseen> {
    let sides = (baseline, knee);
    let seen = [dirty(sides), used(sides), evictions(sides), waiting(sides)];
    let unseen = seen.iter().find_map(|it| it.as_ref().err().copied()).unwrap_or(NOT_REPORTED);
    let seen: Vec<(bool, Reading)> = seen.into_iter().flatten().collect();
    let departed = seen.iter().any(|(departed, _)| *departed);
    let readings: Vec<_> = seen.into_iter().map(|(_, reading)| reading).collect();
    if readings.is_empty() { Err(unseen) } else { Ok(Seen { departed, readings }) }
}

fn dirty(sides: (&Side, &Side)) -> Result<(bool, Reading), Unseen> {
    let shares = both(sides, |side| side.max(|it| of_max(it, it.cache_dirty_bytes)))?;
    Ok((departs(shares.0, shares.1, DIRTY_SHARE_MAX), share("dirty share of the cache", shares)))
}

fn used(sides: (&Side, &Side)) -> Result<(bool, Reading), Unseen> {
    let shares = both(sides, |side| side.max(|it| of_max(it, it.cache_bytes)))?;
    Ok((departs(shares.0, shares.1, USED_SHARE_MAX), share("used share of the cache", shares)))
}

/// Against the operations, so that a higher rate alone is no departure.
fn evictions(sides: (&Side, &Side)) -> Result<(bool, Reading), Unseen> {
    let per_s = both(sides, |side| side.per_s(|it| it.cache_application_evictions))?;
    let per_operation = |per_s: f64, side: &Side| per_s / side.operations_per_s().max(f64::MIN_POSITIVE);
    let (before, at) = (per_operation(per_s.0, sides.0), per_operation(per_s.1, sides.1));
    let departed = per_s.1 >= EVICTIONS_PER_S_MIN && at >= before * DEPARTURE;
    Ok((departed, reading("pages evicted by application threads", "/s", per_s)))
}

fn waiting(sides: (&Side, &Side)) -> Result<(bool, Reading), Unseen> {
    let shares = both(sides, |side| side.share_of_service(waited_us))?;
    let departed = departs(shares.0, shares.1, WAIT_SHARE_MAX);
    Ok((departed, share("share of the service time spent on pages", shares)))
}

/// Everything that threads which should serve clients did for the cache; the server may report parts of it only.
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
