//! Estimates the documents, the time and the disk of one run of a cell.

use plimsoll_document::Source;
use plimsoll_load::phase::{Load, Phase};
use plimsoll_load::stop::Stop;
use plimsoll_mongo::operation_builder::identity;
use plimsoll_mongo::setup::Setup;

use plimsoll_run::system::Estimate;
use plimsoll_scenario::Plan;

/// Seconds of a run without its load: calibration before and after, connecting, the page.
pub const RUN_S: f64 = 8.0;
/// The assumed rate of an audit, in documents per second.
pub const AUDIT_PER_S: f64 = 50_000.0;
/// Seconds to start and end a server and a service.
pub const STAGE_S: f64 = 5.0;
/// The assumed rate of filling a service's database, in writes per second: the rate of the slowest design of
/// the service's readings.
pub const FILL_PER_S: f64 = 10_000.0;
/// The assumed size of a document in a service's database, in bytes.
const KEPT_BYTES: f64 = 200.0;
/// The number of sample documents for the mean size.
const SAMPLES: u64 = 500;

/// The estimate of one run of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunEstimate {
    /// The maximum number of documents; absent if only time ends the load.
    pub documents: Option<u64>,
    /// Mean bytes of a document; zero if unknown.
    pub document_bytes: f64,
    /// The number of documents stored before the load.
    pub filled: u64,
    /// The maximum seconds of load; absent if only documents or operations end it.
    pub load_s: Option<f64>,
    /// Seconds of all other steps of the run.
    pub around_s: f64,
}

/// Estimates a run: its operations, plus the system's own estimate `besides`.
pub fn of(plan: &Plan, besides: &Estimate) -> RunEstimate {
    match (&besides.audited, &besides.fill) {
        (Some(setup), _) => audited(plan, setup),
        (None, Some(fill)) => staged(plan, fill.documents, fill.writes),
        (None, None) => sent(plan),
    }
}

/// Estimates a run on a database, which is audited. Reading back an unknown number of documents takes less time than writing
/// them.
pub fn audited(plan: &Plan, setup: &Setup) -> RunEstimate {
    let load = sent(plan);
    let audit_s = load.documents.map_or(load.load_s.unwrap_or(0.0), |count| count as f64 / AUDIT_PER_S);
    RunEstimate {
        document_bytes: setup.source.as_ref().map_or(0.0, |source| mean_bytes(source, setup)),
        around_s: RUN_S + audit_s,
        ..load
    }
}

/// Estimates a run on a service that is started and filled with this number of documents in `writes` writes.
pub fn staged(plan: &Plan, filled: u64, writes: u64) -> RunEstimate {
    let around_s = RUN_S + STAGE_S + writes as f64 / FILL_PER_S;
    RunEstimate { document_bytes: KEPT_BYTES, filled, around_s, ..sent(plan) }
}

/// Estimates a run on a running service: only its load.
pub fn sent(plan: &Plan) -> RunEstimate {
    let phases = &plan.phases;
    RunEstimate {
        documents: phases.iter().map(|phase| documents(plan, phase)).sum(),
        load_s: phases.iter().map(seconds).sum(),
        around_s: RUN_S,
        ..RunEstimate::default()
    }
}

/// The maximum number of documents that a phase inserts; `None` if unknown.
fn documents(plan: &Plan, phase: &Phase) -> Option<u64> {
    let batch = |load: &Load| {
        let operations = load.mix.iter().map(|(index, _)| &plan.operations[*index].1);
        let batches = operations.filter(|operation| operation.makes());
        batches.map(|operation| u64::from(operation.documents())).max().unwrap_or(0)
    };
    if phase.loads.iter().all(|load| batch(load) == 0) {
        return Some(0);
    }
    let of_loads = |count: fn(&Load, Stop) -> Option<u64>| {
        let inserts = phase.loads.iter().filter(|load| batch(load) > 0);
        inserts.map(|load| Some(count(load, phase.stop)? * batch(load))).sum::<Option<u64>>()
    };
    let (by_operations, by_time) = (of_loads(counted), of_loads(timed));
    [phase.stop.documents, by_operations, by_time].into_iter().flatten().min()
}

/// The maximum number of operations of a load, by its limits. `None` if operations have no limit.
fn counted(load: &Load, phase: Stop) -> Option<u64> {
    let limits = load.limits(phase);
    let each = limits.operations_each.map(|each| each * u64::from(load.arrivals.connections()));
    limits.operations.into_iter().chain(each).min()
}

/// The maximum number of operations of an open load, by its highest rate and its time. `None` for a closed
/// load, or without an end.
fn timed(load: &Load, phase: Stop) -> Option<u64> {
    let span_s = load.end(phase)?.as_secs() - load.timing.start.as_secs();
    Some((load.arrivals.peak()? * span_s).ceil() as u64)
}

/// The maximum seconds of a phase, including the drain of overdue operations. `None` if the phase has no
/// duration.
fn seconds(phase: &Phase) -> Option<f64> {
    let is_open = phase.loads.iter().any(|load| load.arrivals.is_open());
    let drain = if is_open { phase.drain.as_secs() } else { 0.0 };
    phase.stop.duration.map(|span| span.as_secs() + drain)
}

fn mean_bytes(source: &Source, setup: &Setup) -> f64 {
    let count = source.documents_max().map_or(SAMPLES, |most| most.min(SAMPLES)).max(1);
    let mut encoded = Vec::new();
    for number in 0..count {
        // A number past the end of a file adds no document.
        let _ = source.encode(number, &identity(setup.run, number), &mut encoded);
    }
    encoded.len() as f64 / count as f64
}

#[cfg(test)]
mod tests {
    use super::super::cells::Cell;
    use super::super::cells::tests::{SCENARIO, expanded};
    use super::*;

    fn estimates(text: &str, only: &[&str]) -> Vec<RunEstimate> {
        let cells = expanded(text, only).unwrap().cells;
        let share = |cell: &Cell| {
            let run = plimsoll_ledger::Run { time_s: 0, tag: [0; 3] };
            let context = plimsoll_mongo::setup::Context { seed: 0, run, base: &cell.loaded.base };
            let section = cell.loaded.scenario.section();
            audited(&cell.plan, &Setup::build(&section, &cell.plan.database(), context).unwrap())
        };
        cells.iter().map(share).collect()
    }

    #[test]
    fn a_cell_adds_up_its_phases() {
        let found = estimates(SCENARIO, &[]);
        assert_eq!(
            found.iter().map(|share| share.documents).collect::<Vec<_>>(),
            [Some(10_000), Some(10_000), Some(1_000_000)]
        );
        assert!(found.iter().all(|share| share.load_s.is_none()));
        assert!((140.0..190.0).contains(&found[0].document_bytes), "{}", found[0].document_bytes);
        assert_eq!(estimates(SCENARIO, &["size=10M"])[0].load_s, Some(600.0));
        assert_eq!(found[2].around_s, RUN_S + 20.0, "a million documents are read back");
    }

    #[test]
    fn documents_follow_from_any_limit_or_are_unknown() {
        for (stop, expected) in [
            ("{operations: 7, duration: 5s}", Some(7_000)),
            ("{duration: 5s}", None),
            ("{documents: 10, operations: 7}", Some(10)),
        ] {
            let text =
                SCENARIO.replace("phases.0.stop.documents: 10000}", &format!("phases.0.stop: {stop}}}"));
            assert_eq!(estimates(&text, &["strategy=many", "size=10K"])[0].documents, expected, "{stop}");
        }
        let open = SCENARIO
            .replace("closed: {writers: 1}", "constant: {rate: 20}")
            .replace("phases.0.stop.documents: 10000}", "phases.0.stop: {duration: 5s}}");
        let found = estimates(&open, &["strategy=many", "size=10K"])[0];
        let load_s = 5.0 + plimsoll_load::phase::DRAIN.as_secs();
        assert_eq!((found.documents, found.load_s), (Some(100_000), Some(load_s)), "open arrivals may drain");
    }

    #[test]
    fn a_started_service_is_filled_and_not_audited() {
        let plan = &expanded(SCENARIO, &["size=1M"]).unwrap().cells[0].plan;
        let found = staged(plan, 40_000, 50_000);
        assert_eq!((found.documents, found.filled), (Some(1_000_000), 40_000));
        assert_eq!(found.around_s, RUN_S + STAGE_S + 5.0);
        assert_eq!((sent(plan).around_s, sent(plan).document_bytes), (RUN_S, 0.0));
    }
}
