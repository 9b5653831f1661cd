//! Replication lag: the majority does not follow the primary.

use super::reading::reading;
use super::{Machine, Seen, Side, Unseen, departs, side::both};

/// Servers count the lag in whole seconds: one second may be rounding, two are not. In seconds.
const LAG_S_MAX: f64 = 2.0;

/// How far the majority's last write lies behind the primary's.
pub(super) fn look(baseline: &Side, knee: &Side, _: Machine) -> Result<Seen, Unseen> {
    let lag_s = |side: &Side| side.max(|it| it.replication_lag_ms.map(|ms| ms as f64 / 1e3));
    let lag = both((baseline, knee), lag_s)?;
    let readings = vec![reading("longest lag of the majority", "s", lag)];
    Ok(Seen { departed: departs(lag.0, lag.1, LAG_S_MAX), readings })
}
