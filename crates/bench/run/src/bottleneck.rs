//! Reports saturated resources of a closed-loop run, or of a run that missed its rate.

use plimsoll_load::bottlenecks::WINDOW_S_MIN;
use plimsoll_load::rate_floor::ACHIEVED_MIN;
use plimsoll_load::worker::Ended;
use plimsoll_measure::run::{Bottleneck, PhaseFacts};
use plimsoll_mongo::bottlenecks::at_limit;

use crate::session::Session;

/// The saturated resources of the last phase. `None` if an open load reached its rate.
pub fn of(session: &Session) -> Option<Bottleneck> {
    let phase = session.summary.phases().last()?;
    let watched = &session.watched;
    if phase.open && watched.achieved() >= ACHIEVED_MIN {
        return None;
    }
    let phase_name = phase.name.clone();
    if let Some(reason) = reason(session, phase) {
        return Some(Bottleneck { phase: phase_name, reason: Some(reason), ..Bottleneck::default() });
    }
    let cores = session.watched_cores();
    let examined = at_limit(&watched.observation(
        &session.samples,
        (&session.host_since(0), &session.own_since(0)),
        cores,
    ));
    Some(Bottleneck {
        phase: phase_name,
        reason: None,
        at_limit: examined.bottlenecks,
        below: examined.unmoved,
        unchecked: examined.unchecked,
    })
}

/// The reason why the load of the phase cannot be examined.
fn reason(session: &Session, phase: &PhaseFacts) -> Option<String> {
    if session.watched.length_s() < WINDOW_S_MIN {
        return Some(format!("it lasted less than {WINDOW_S_MIN} s"));
    }
    if session.ended >= Ended::Unreachable || session.stopped {
        return Some("it ended early".to_owned());
    }
    let disturbed = session.summary.faults().iter().any(|fault| fault.phase == phase.name);
    disturbed.then(|| "faults were injected".to_owned())
}
