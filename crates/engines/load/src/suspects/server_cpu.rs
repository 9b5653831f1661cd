//! The server's process has no CPU left.

use super::reading::reading;
use super::{Machine, NOT_LOCAL, Seen, Side, Unseen};

/// A server within this share of all cores, or of whole cores, has no CPU left.
const SHARE_MAX: f64 = 0.90;
/// A whole core that is used by more than this is not the limit of a single thread.
const WHOLE_MAX: f64 = 1.05;

/// Against the cores that the load itself leaves, and against whole cores: a server with one busy thread is at its limit at
/// one core, however many there are.
pub(super) fn look(baseline: &Side, knee: &Side, machine: Machine) -> Result<Seen, Unseen> {
    let at = knee.probe.server_cores.ok_or(NOT_LOCAL)?;
    let before = baseline.probe.server_cores.ok_or(NOT_LOCAL)?;
    let left = |side: &Side| {
        (f64::from(machine.cores) - side.probe.client_cpu * f64::from(machine.workers)).max(0.5)
    };
    let whole = at.round().max(1.0);
    let at_limit = at >= left(knee) * SHARE_MAX || (at >= whole * SHARE_MAX && at <= whole * WHOLE_MAX);
    let readings = vec![
        reading("used by the server", "cores", (before, at)),
        reading("left by the load itself", "cores", (left(baseline), left(knee))),
    ];
    Ok(Seen { departed: at_limit && at > before, readings })
}
