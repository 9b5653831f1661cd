//! The disk below the server's storage is never idle.

use super::reading::{MIB, reading, share};
use super::side::both;
use super::{Machine, NOT_LOCAL, NOT_REPORTED, Seen, Side, Unseen, departs};

/// A disk that is busy for this share of the time has hardly a moment left. One that does many things at once may still
/// take more: that is why the bytes stand beside it.
const BUSY_MAX: f64 = 0.90;

/// The share of the time that the disk had something to do, and what the server wrote and read meanwhile.
pub(super) fn look(baseline: &Side, knee: &Side, _: Machine) -> Result<Seen, Unseen> {
    let sides = (baseline, knee);
    let busy = both(sides, |side| Ok(side.per_s(|it| it.disk_busy_ms)? / 1e3));
    let busy = busy.map_err(|reason| if reason == NOT_REPORTED { NOT_LOCAL } else { reason })?;
    let busy = (busy.0.min(1.0), busy.1.min(1.0));
    let mib = |side: &Side, counter: fn(&plimsoll_measure::sample::ServerSample) -> Option<u64>| {
        side.per_s(counter).map(|bytes| bytes / MIB)
    };
    let written = both(sides, |side| mib(side, |it| it.process_written_bytes));
    let read = both(sides, |side| mib(side, |it| it.process_read_bytes));
    let mut readings = vec![share("disk busy", busy)];
    readings.extend(written.map(|written| reading("written by the server", "MiB/s", written)));
    readings.extend(read.map(|read| reading("read by the server", "MiB/s", read)));
    Ok(Seen { departed: departs(busy.0, busy.1, BUSY_MAX), readings })
}
