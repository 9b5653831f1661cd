//! The journal: an acknowledged write with `j: true` waits until it is on the disk.

use super::reading::{partial, reading, share};
use super::side::both;
use super::{Machine, Seen, Side, Unseen, departs};

/// A disk that syncs faster does not break an objective of tens of milliseconds, in milliseconds.
const MEAN_MS_MAX: f64 = 5.0;
/// Syncs follow one another: the next group of writes always waits for the last one's.
const TIME_SHARE_MAX: f64 = 0.90;

/// The mean sync and the share of the time that goes into syncs.
pub(super) fn look(baseline: &Side, knee: &Side, _: Machine) -> Result<Seen, Unseen> {
    let sides = (baseline, knee);
    let per_s = both(sides, |side| side.per_s(|it| it.journal_syncs))?;
    let us_per_s = both(sides, |side| side.per_s(|it| it.journal_sync_us))?;
    let mean_ms = |us_per_s: f64, per_s: f64| (per_s > 0.0).then(|| us_per_s / per_s / 1e3);
    let mean = (mean_ms(us_per_s.0, per_s.0), mean_ms(us_per_s.1, per_s.1));
    let time = (us_per_s.0 / 1e6, us_per_s.1 / 1e6);
    let slower = mean.1.is_some_and(|at| departs(mean.0.unwrap_or(0.0), at, MEAN_MS_MAX));
    let readings = vec![
        partial("mean journal sync", "ms", mean),
        share("share of the time spent syncing", time),
        reading("journal syncs", "/s", per_s),
    ];
    Ok(Seen { departed: slower || departs(time.0, time.1, TIME_SHARE_MAX), readings })
}
