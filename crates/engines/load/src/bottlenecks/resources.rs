//! Checks the resources of the server's machine: CPU and disk.

use plimsoll_measure::sample::ServerSample;

use super::observation::both;
use super::reading::{MIB, reading, share};
use super::{Finding, Machine, NOT_LOCAL, NOT_REPORTED, NotObserved, Observation, departs};

/// A server above this share of the cores left to it, or of n whole cores, has no CPU left.
const CORES_SHARE_MAX: f64 = 0.90;
/// The largest use of a single thread, in cores.
const WHOLE_MAX: f64 = 1.05;
/// A disk above this share of the time is busy. A disk with parallel requests may still accept more, so the
/// evidence also shows the bytes.
const DISK_BUSY_MAX: f64 = 0.90;

/// Finds a server process without CPU left. Compares with the cores that the load leaves, and with whole cores: a server with
/// one busy thread is at its limit at one core, on any machine.
pub(super) fn server_cpu(
    baseline: &Observation,
    knee: &Observation,
    machine: Machine,
) -> Result<Finding, NotObserved> {
    let at = knee.probe.server_cores.ok_or(NOT_LOCAL)?;
    let before = baseline.probe.server_cores.ok_or(NOT_LOCAL)?;
    let left = |side: &Observation| {
        (f64::from(machine.cores) - side.probe.client_cpu * f64::from(machine.workers)).max(0.5)
    };
    let whole = at.round().max(1.0);
    let at_limit =
        at >= left(knee) * CORES_SHARE_MAX || (at >= whole * CORES_SHARE_MAX && at <= whole * WHOLE_MAX);
    let readings = vec![
        reading("used by the server", "cores", (before, at)),
        reading("left by the load itself", "cores", (left(baseline), left(knee))),
    ];
    Ok(Finding { departed: at_limit && at > before, readings })
}

/// Finds a disk that is never idle.
pub(super) fn disk(baseline: &Observation, knee: &Observation, _: Machine) -> Result<Finding, NotObserved> {
    let pair = (baseline, knee);
    let busy = both(pair, |it| Ok(it.per_s(|it| it.disk_busy_ms)? / 1e3));
    let busy = busy.map_err(|reason| if reason == NOT_REPORTED { NOT_LOCAL } else { reason })?;
    let busy = (busy.0.min(1.0), busy.1.min(1.0));
    let mib = |it: &Observation, counter: fn(&ServerSample) -> Option<u64>| {
        it.per_s(counter).map(|bytes| bytes / MIB)
    };
    let written = both(pair, |it| mib(it, |it| it.process_written_bytes));
    let read = both(pair, |it| mib(it, |it| it.process_read_bytes));
    let mut readings = vec![share("disk busy", busy)];
    readings.extend(written.map(|written| reading("written by the server", "MiB/s", written)));
    readings.extend(read.map(|read| reading("read by the server", "MiB/s", read)));
    Ok(Finding { departed: departs(busy.0, busy.1, DISK_BUSY_MAX), readings })
}
