//! Writes the conclusions on validity: how far to trust the numbers.

use plimsoll_measure::clock::MILLISECOND_NS;
use plimsoll_measure::run::{PhaseFacts, Run, WarmUp};

use super::Named;
use crate::derived::short_headroom;
use crate::prose::{enumerated, phase as subject};
use crate::units::{duration, latency, percent, three_digits};

/// The conclusions mention a wake error over this p99, in nanoseconds.
const WAKE_NS_MAX: u64 = MILLISECOND_NS;

/// The value of `ended_by` for a phase whose server was unreachable.
const UNREACHABLE: &str = "unreachable";

/// Whether the run ended early, and why.
pub(super) fn interrupted(run: &Run) -> Vec<String> {
    let is_gone = run.phases.iter().any(|phase| phase.ended_by == UNREACHABLE);
    let what = if is_gone { "The server became unreachable" } else { "The run was interrupted" };
    run.interrupted.then(|| format!("{what}: the numbers cover the time up to then.")).into_iter().collect()
}

/// Whether the tool, not the server, may have been measured.
pub(super) fn client(run: &Run) -> Vec<String> {
    let client = &run.client;
    let ceiling = short_headroom(client).map(|headroom| {
        let times = three_digits(headroom);
        format!("the null server's rate is only {times} times the measured rate (under 2), and ")
    });
    let floor = client.high_floor();
    if ceiling.is_none() && floor.is_none() && !client.limited {
        return Vec::new();
    }
    if let Some((name, floor, bound)) = floor.filter(|_| ceiling.is_none()) {
        return vec![format!(
            "Client-limited: the tool's own {name} response time is {}, over a tenth of the bound of {}. The server may be faster.",
            latency(floor),
            latency(bound)
        )];
    }
    vec![format!(
        "Client-limited: {}the tool's busiest worker used {} of a core. The server may sustain a higher rate.",
        ceiling.unwrap_or_default(),
        percent(client.cpu_busiest_worker)
    )]
}

/// Phases whose arrivals wait for the server.
pub(super) fn closed(run: &Run) -> Vec<String> {
    let closed: Vec<_> =
        run.phases.iter().filter(|phase| !phase.open).map(|phase| phase.name.as_str()).collect();
    let phases = match closed.as_slice() {
        [] => return Vec::new(),
        [only] => subject(only),
        several => format!("Phases {}", enumerated(several)),
    };
    vec![format!("{phases}: closed loop hides queueing; use `constant` arrivals.")]
}

/// Whether each phase was steady, and included a checkpoint.
pub(super) fn steadiness(run: &Run) -> Vec<String> {
    run.phases.iter().flat_map(|phase| warm_up(phase).into_iter().chain(checkpoints(phase))).collect()
}

fn warm_up(phase: &PhaseFacts) -> Option<String> {
    let name = subject(&phase.name);
    match &phase.warm_up {
        WarmUp::Steady { .. } => None,
        WarmUp::NotAssessed => Some(format!(
            "{name}: warm-up was not assessed (fewer than 30 intervals of 100 ms); the numbers include it."
        )),
        WarmUp::NotSteady { reason } => Some(format!(
            "{name}: no steady state was found ({reason}); the numbers describe a change, not a level."
        )),
    }
}

fn checkpoints(phase: &PhaseFacts) -> Option<String> {
    (phase.checkpoints == Some(0)).then(|| {
        format!(
            "{}: no full checkpoint in its {}; the numbers do not include the cost of a checkpoint.",
            subject(&phase.name),
            duration(phase.to_s - phase.from_s)
        )
    })
}

/// Operations that the tool sent late.
pub(super) fn wake(&Named { name, it, .. }: &Named<'_>) -> Option<String> {
    let p99 = it.wake_ns.p99.filter(|p99| *p99 > WAKE_NS_MAX).map(latency)?;
    Some(format!(
        "{name}: the tool itself was late: p99 of its wake error is {p99}, over 1 ms; response times include it."
    ))
}

/// Whether Plimsoll was built without optimisations.
pub(super) fn build(run: &Run) -> Vec<String> {
    let sentence = "Plimsoll was built without optimisations: its own cost is higher than necessary.";
    (!run.environment.optimised).then(|| sentence.to_owned()).into_iter().collect()
}
