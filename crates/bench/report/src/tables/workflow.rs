//! Tabulates the work of the workflow engine: the parts of an instance's life, the calls of its store, and the remaining work.

use plimsoll_measure::histogram::Latency;
use plimsoll_measure::run::Run;
use plimsoll_measure::workflow::Workflow;

use super::{Cell, Table, Tone};
use crate::units::{NONE, counted, duration, exact, latency, percentile, three_digits};

/// The tables of a run on the workflow engine.
pub(crate) fn workflow(run: &Run) -> Vec<Table> {
    run.workflow.iter().flat_map(|work| [times(work), left(work), calls(work), database(work)]).collect()
}

fn times(work: &Workflow) -> Table {
    let stretches = [
        ("start", &work.start_ns),
        ("signal publish", &work.publish_ns),
        ("signal to completion", &work.signal_to_completion_ns),
    ];
    let measured = stretches.into_iter().filter(|(_, times)| times.count > 0);
    Table::of("Parts of an operation", measured)
        .left("", |(name, _): (&str, &Latency)| Cell::strong(name))
        .right("count", |(_, times)| exact(times.count))
        .right("mean", |(_, times)| {
            times.mean.map_or_else(|| NONE.to_owned(), |mean| latency(mean.round() as u64))
        })
        .right("p50", |(_, times)| percentile(times.p50, times))
        .right("p95", |(_, times)| percentile(times.p95, times))
        .right("p99", |(_, times)| percentile(times.p99, times))
        .right("max", |(_, times)| percentile(times.max, times))
        .table()
}

fn left(work: &Workflow) -> Table {
    let drained = work.drain_s.map_or_else(|| Cell::toned("unknown", Tone::Doubtful), |s| duration(s).into());
    let backlog = (work.backlog > 0).then(|| Cell::from(exact(work.backlog)));
    Table::of_facts(
        "Workflow engine",
        vec![
            (
                "store",
                Some(
                    format!("{}, {}, {}", work.store, work.mode, counted(work.workers.into(), "worker"))
                        .into(),
                ),
            ),
            ("open at the end", backlog),
            ("drain overhang", Some(drained)),
            ("dead letters", Some(Cell::fault(work.dead_letters))),
            ("stuck instances", Some(Cell::fault(work.stuck))),
            ("conflicts", Some(exact(work.conflicts).into())),
            ("failed calls", Some(exact(work.failures).into())),
            (
                "calls of the store",
                work.calls_per_operation()
                    .map(|calls| format!("{} for each operation", three_digits(calls)).into()),
            ),
        ],
    )
}

fn calls(work: &Workflow) -> Table {
    Table::of("Calls of the store", &work.calls)
        .left("", |(name, _)| Cell::strong(name))
        .right("calls", |(_, calls)| exact(calls.calls))
        .right("items", |(_, calls)| exact(calls.items))
        .right("items a call", |(_, calls)| three_digits(calls.items as f64 / calls.calls.max(1) as f64))
        .right("failed", |(_, calls)| exact(calls.failed))
        .table()
}

/// The growth of the database's counters, in all and for each operation.
fn database(work: &Workflow) -> Table {
    let operations = if work.started > 0 { work.started } else { work.signals }.max(1) as f64;
    Table::of("Database, by its own counters", work.database.iter().filter(|(_, count)| **count > 0))
        .left("", |(name, _)| Cell::strong(name.replace('_', " ")))
        .right("count", |(_, count)| exact(*count))
        .right("for each operation", |(_, count)| three_digits(*count as f64 / operations))
        .table()
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::workflow::StoreCalls;

    use super::*;

    fn run() -> Run {
        let calls = [("commit".to_owned(), StoreCalls { calls: 4, items: 10, failed: 1 })].into();
        let start_ns = Latency { count: 5, mean: Some(2e6), max: Some(3_000_000), ..Latency::default() };
        let database = [("bytes_in".to_owned(), 50), ("deletes".to_owned(), 0)].into();
        let work = Workflow { started: 5, calls, start_ns, database, dead_letters: 1, ..Workflow::default() };
        Run { workflow: Some(work), ..Run::default() }
    }

    #[test]
    fn a_run_without_the_engine_has_no_tables() {
        assert!(workflow(&Run::default()).is_empty());
    }

    #[test]
    fn parts_that_did_not_happen_and_counters_that_did_not_grow_are_left_out() {
        let [times, left, calls, database] = workflow(&run()).try_into().unwrap();
        assert_eq!((times.rows.len(), calls.rows.len(), database.rows.len()), (1, 1, 1));
        assert_eq!(database.rows[0][2].text, "10.0");
        let dead = left.rows.iter().find(|row| row[0].text == "dead letters").unwrap();
        assert_eq!((dead[1].text.as_str(), dead[1].tone), ("1", Tone::Bad));
        assert!(left.rows.iter().any(|row| row[1].text == "unknown"));
    }
}
