//! Builds the events that announce a run and each phase.

use plimsoll_load::phase::Phase;
use plimsoll_measure::duration::Span;
use plimsoll_measure::environment::ServerFacts;
use plimsoll_measure::event::{Event, Sends};
use plimsoll_measure::run::Run;

use plimsoll_scenario::Loaded;

/// The event of a run's start.
pub fn announcement(loaded: &Loaded, run: &Run) -> Event {
    Event::Started {
        id: run.id.clone(),
        scenario: run.scenario.name.clone(),
        title: loaded.scenario.title.clone(),
        server: describe(&run.server),
        wall_ms: run.started_ms,
        sends: sends(loaded),
    }
}

/// The event of a phase's start.
pub fn phase_event(phase: &Phase, at_ns: u64) -> Event {
    Event::Phase {
        at_ns,
        name: phase.name.clone(),
        duration_s: phase.stop.duration.map(Span::as_secs),
        documents: phase.stop.documents,
    }
}

pub(super) const fn sends(loaded: &Loaded) -> Sends {
    if loaded.scenario.http.is_some() { Sends::Requests } else { Sends::Operations }
}

/// A short description of the server.
pub fn describe(facts: &ServerFacts) -> String {
    let what = facts.product.clone().or_else(|| facts.version.clone()).unwrap_or_else(|| "server".into());
    let profile = facts.profile.as_ref().map(|profile| format!(", {profile}")).unwrap_or_default();
    format!("{what}{profile} at {}", facts.addresses.join(", "))
}
