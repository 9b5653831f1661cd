//! Checks the waits for durable writes: journal syncs, flow control and replication lag.

use plimsoll_load::bottlenecks::level::{levels_between, per_s_between};
use plimsoll_load::bottlenecks::observation::both;
use plimsoll_load::bottlenecks::reading::{partial, reading, share};
use plimsoll_load::bottlenecks::{Finding, Level, NotObserved, Observation, departs};

use super::WAIT_SHARE_MAX;

/// The slowest sync that does not break an objective of tens of milliseconds, in milliseconds.
const SYNC_MS_MAX: f64 = 5.0;
/// Above this share of the time, each group of writes waits for the sync of the previous group.
const SYNCING_SHARE_MAX: f64 = 0.90;
/// Up to this share of the time, flow control is accidental.
const LAGGED_SHARE_MAX: f64 = 0.10;
/// The smallest relevant lag, in seconds. Servers count whole seconds, so one second may be rounding.
const LAG_S_MAX: f64 = 2.0;

/// Finds slow or continuous journal syncs: an acknowledged write with `j: true` waits for a sync. A single
/// slow sync in the background delays no operation.
pub(super) fn journal(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let sides = (baseline, knee);
    let per_s = both(sides, |side| side.per_s(|it| it.journal_syncs))?;
    let us_per_s = both(sides, |side| side.per_s(|it| it.journal_sync_us))?;
    let mean_ms = |us_per_s: f64, per_s: f64| (per_s > 0.0).then(|| us_per_s / per_s / 1e3);
    let mean = (mean_ms(us_per_s.0, per_s.0), mean_ms(us_per_s.1, per_s.1));
    let time = (us_per_s.0 / 1e6, us_per_s.1 / 1e6);
    let slower = mean.1.is_some_and(|at| departs(mean.0.unwrap_or(0.0), at, SYNC_MS_MAX));
    let slower = slower && time.1 >= WAIT_SHARE_MAX;
    let readings = vec![
        partial("mean journal sync", "ms", mean),
        share("share of the time spent syncing", time),
        reading("journal syncs", "/s", per_s),
    ];
    Ok(Finding { departed: slower || departs(time.0, time.1, SYNCING_SHARE_MAX), readings })
}

/// The seconds of slow or continuous journal syncs.
pub(super) fn journal_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    levels_between(side, |before, after| {
        let syncs = per_s_between(before, after, |it| it.journal_syncs)?;
        let us_per_s = per_s_between(before, after, |it| it.journal_sync_us)?;
        let (time, is_slow) = (us_per_s / 1e6, syncs > 0.0 && us_per_s / syncs / 1e3 >= SYNC_MS_MAX);
        Some(time >= SYNCING_SHARE_MAX || is_slow && time >= WAIT_SHARE_MAX)
    })
}

/// Finds flow control: the primary delays writes so that the majority can follow.
pub(super) fn flow_control(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let sides = (baseline, knee);
    let waited = both(sides, |side| side.share_of_service(|it| it.flow_control_us))?;
    let mut departed = departs(waited.0, waited.1, WAIT_SHARE_MAX);
    let mut readings = vec![share("share of the service time spent waiting for flow control", waited)];
    // Older servers do not report how long flow control was engaged.
    if let Ok(lagged) = both(sides, |side| Ok(side.per_s(|it| it.flow_control_lagged_us)? / 1e6)) {
        departed |= departs(lagged.0, lagged.1, LAGGED_SHARE_MAX);
        readings.push(share("share of the time that it was engaged", lagged));
    }
    Ok(Finding { departed, readings })
}

/// The seconds in which writes waited for flow control.
pub(super) fn flow_control_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    let in_service = side.in_service().max(f64::MIN_POSITIVE);
    levels_between(side, |before, after| {
        let waited = per_s_between(before, after, |it| it.flow_control_us)? / 1e6 / in_service;
        let lagged = per_s_between(before, after, |it| it.flow_control_lagged_us).map(|us| us / 1e6);
        Some(waited >= WAIT_SHARE_MAX || lagged.is_some_and(|share| share >= LAGGED_SHARE_MAX))
    })
}

/// Finds a majority whose last write is far behind the primary's.
pub(super) fn replication_lag(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let lag_s = |side: &Observation| side.max(|it| it.replication_lag_ms.map(|ms| ms as f64 / 1e3));
    let lag = both((baseline, knee), lag_s)?;
    let readings = vec![reading("longest lag of the majority", "s", lag)];
    Ok(Finding { departed: departs(lag.0, lag.1, LAG_S_MAX), readings })
}

/// The seconds in which the majority was far behind.
pub(super) fn replication_lag_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    levels_between(side, |_, after| Some(after.replication_lag_ms? as f64 / 1e3 >= LAG_S_MAX))
}
