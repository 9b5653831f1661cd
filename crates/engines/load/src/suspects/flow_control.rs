//! Flow control: the primary holds writes back so that the majority can follow.

use super::reading::share;
use super::side::both;
use super::{Machine, Seen, Side, Unseen, departs};

/// A tenth of the service time is felt in a percentile.
const WAIT_SHARE_MAX: f64 = 0.10;
/// Engaged for a tenth of the window it is no accident.
const LAGGED_SHARE_MAX: f64 = 0.10;

/// How long writes wait for their turn, and how long flow control is engaged.
pub(super) fn look(baseline: &Side, knee: &Side, _: Machine) -> Result<Seen, Unseen> {
    let sides = (baseline, knee);
    let waited = both(sides, |side| side.share_of_service(|it| it.flow_control_us))?;
    let mut departed = departs(waited.0, waited.1, WAIT_SHARE_MAX);
    let mut readings = vec![share("share of the service time spent waiting for flow control", waited)];
    // Older servers do not tell how long it was engaged.
    if let Ok(lagged) = both(sides, |side| Ok(side.per_s(|it| it.flow_control_lagged_us)? / 1e6)) {
        departed |= departs(lagged.0, lagged.1, LAGGED_SHARE_MAX);
        readings.push(share("share of the time that it was engaged", lagged));
    }
    Ok(Seen { departed, readings })
}
