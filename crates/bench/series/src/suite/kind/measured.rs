//! Extracts the outcome of a scenario run and the figures of its last phase.

use plimsoll_measure::clock::utc;
use plimsoll_measure::inspection::{Collection, FORMAT, Inspection};
use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_measure::run::Run;
use plimsoll_measure::suite::Measured;

use super::Ended;
use plimsoll_systems::audit::is_intact;

/// The result of a run, from its summary.
pub fn ended(run: &Run) -> Ended {
    let integrity = run.integrity.as_ref();
    Ended {
        measured: measured(run),
        interrupted: run.interrupted,
        intact: integrity.is_some_and(is_intact),
        reasons: run.reasons.clone(),
    }
}

/// The run's own inspections before and after: of its collection, or of the collections of its service. `None` if it made none.
pub fn states(run: &Run) -> Option<(Inspection, Inspection)> {
    let state = |one: &Option<Collection>, all: &[Collection]| Inspection {
        format: FORMAT,
        server: run.server.clone(),
        collections: one.iter().chain(all).cloned().collect(),
        ..Inspection::default()
    };
    let before = state(&run.collection_before, &run.collections_before);
    let after = state(&run.collection_after, &run.collections_after);
    let seen = !before.collections.is_empty() || !after.collections.is_empty();
    let at = |inspection: Inspection, ms: u64| Inspection { taken: utc(ms), taken_ms: ms, ..inspection };
    let (from, to) = (run.started_ms, run.started_ms + (run.duration_s * 1000.0) as u64);
    seen.then(|| (at(before, from), at(after, to)))
}

/// The figures of the last phase.
fn measured(run: &Run) -> Option<Measured> {
    let phase = run.phases.last()?;
    let counts_documents = phase.documents > 0;
    let total = if counts_documents { phase.documents } else { phase.operations };
    let seconds = (phase.to_s - phase.from_s).max(f64::MIN_POSITIVE);
    let rate_per_s = if counts_documents { phase.documents_per_s } else { phase.operations as f64 / seconds };
    let each = |per_operation: f64| per_operation * phase.operations as f64 / total.max(1) as f64;
    // The server's cost is known only for all phases together.
    let server = Some(&run.server_cost).filter(|_| run.phases.len() == 1);
    let latency = &phase.response_ns;
    Some(Measured {
        unit: if counts_documents { "documents" } else { "operations" }.to_owned(),
        rate_per_s,
        total,
        p50_ns: latency.p50,
        mean_ns: latency.mean.map(|mean| mean.round() as u64),
        p95_ns: latency.p95,
        p99_ns: latency.p99,
        p99_9_ns: latency.p99_9,
        max_ns: latency.max,
        errors: phase.errors,
        lost: run.integrity.as_ref().and_then(lost),
        client_cpu_us: phase.cpu_us_per_operation.map(each),
        server_cpu_us: server.and_then(|cost| cost.cpu_us_per_operation).map(each),
    })
}

/// Missing documents, if the audit searched for each: a mere count finds none.
fn lost(integrity: &Integrity) -> Option<u64> {
    matches!(integrity.proof, Proof::Proven | Proof::ReadBack).then_some(integrity.lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_with(proof: Proof, found: u64) -> (Option<u64>, bool) {
        let integrity = Integrity { proof, acknowledged: 10, found, ..Integrity::default() };
        let phases = vec![plimsoll_measure::run::PhaseFacts::default()];
        let ended = ended(&Run { integrity: Some(integrity), phases, ..Run::default() });
        (ended.measured.unwrap().lost, ended.intact)
    }

    #[test]
    fn the_inspections_of_a_run_are_its_states_before_and_after() {
        assert_eq!(states(&Run::default()), None);
        let named = |name: &str| Collection { namespace: name.into(), ..Collection::default() };
        let run = Run {
            started_ms: 1_000,
            duration_s: 2.0,
            collection_before: Some(named("d.c")),
            collections_after: vec![named("s.a"), named("s.b")],
            ..Run::default()
        };
        let (before, after) = states(&run).unwrap();
        assert_eq!((before.collections.len(), before.taken_ms), (1, 1_000));
        assert_eq!((after.collections.len(), after.taken_ms), (2, 3_000));
    }

    #[test]
    fn a_mere_count_finds_no_losses() {
        assert_eq!(ended_with(Proof::Proven, 10), (Some(0), true));
        assert_eq!(ended_with(Proof::ReadBack, 10), (Some(0), true));
        assert_eq!(ended_with(Proof::Counted, 10), (None, true));
        assert_eq!(
            ended_with(Proof::Counted, 9),
            (None, false),
            "a collection with missing documents is kept as evidence"
        );
        assert_eq!(ended_with(Proof::NotAudited, 0), (None, false));
    }
}
