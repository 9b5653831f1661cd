//! Tests that the lanes of all workers of a process share overdue operations.

use plimsoll_load::arrivals::Arrivals;
use plimsoll_load::phase::{Overdue, Phase};
use plimsoll_load::stop::Stop;
use plimsoll_load::worker::Ended;
use plimsoll_measure::clock::MILLISECOND_NS;
use plimsoll_measure::duration::Span;
use plimsoll_measure::interval::Tally;

use crate::scripted::{Script, phase, simulate_all};

const MS: u64 = MILLISECOND_NS;
/// One operation in 100 takes 200 ms, all others 2 ms.
const SCRIPT: Script = Script { slow_ns: 200 * MS, ..Script::steady(2 * MS) };

fn open(arrivals: Arrivals) -> Phase {
    phase(arrivals, Stop { duration: Some(Span::from_secs(20)), ..Stop::default() })
}

fn whole(phase: Phase, workers: u64) -> Tally {
    simulate_all(phase, SCRIPT, workers, 1).0.remove(0)
}

/// The 50th, 95th and 99th percentile of the response time, in milliseconds.
fn percentiles(tally: &Tally) -> [f64; 3] {
    [50.0, 95.0, 99.0].map(|percent| tally.response.at(percent) as f64 / MS as f64)
}

#[test]
fn the_number_of_workers_changes_no_response_time() {
    let constant = open(Arrivals::Constant { rate: 1000.0, connections: 16 });
    let one = whole(constant.clone(), 1);
    for workers in [2, 16] {
        let tally = whole(constant.clone(), workers);
        assert_eq!(percentiles(&tally), percentiles(&one), "{workers} workers");
        assert_eq!((tally.count, tally.due, tally.skipped), (20_000, 20_000, 0));
        assert_eq!(tally.response, one.response, "{workers} workers");
    }
}

#[test]
fn every_due_operation_of_all_workers_is_sent_or_skipped() {
    let drain = Span::from_secs(1);
    let sent = open(Arrivals::Poisson { rate: 1000.0, connections: 6 });
    let drained = Phase { drain, ..sent.clone() };
    let mut skipping = sent.clone();
    skipping.loads[0].overdue = Overdue::Skip { after: Span::from_ns(50 * MS) };
    for (name, phase, skips) in [("send", sent, false), ("drain", drained, true), ("skip", skipping, true)] {
        // Six lanes have time for 3 of 4 operations.
        let script = Script { slow_ns: 400 * MS, ..Script::steady(4 * MS) };
        let (tallies, ends) = simulate_all(phase, script, 4, 1);
        let whole = &tallies[0];
        assert_eq!(whole.count + whole.skipped, whole.due, "{name}");
        assert!((19_000..21_000).contains(&whole.due), "{name}: {}", whole.due);
        assert_eq!(whole.skipped > 3000, skips, "{name}: {}", whole.skipped);
        assert!(ends.iter().all(|(ended, _)| *ended == Ended::Duration), "{name}: {ends:?}");
    }
}

#[test]
fn an_operation_of_a_worker_without_documents_left_is_sent_by_another() {
    let stop = Stop { documents: Some(4001), duration: Some(Span::from_secs(60)), ..Stop::default() };
    let (tallies, ends) =
        simulate_all(phase(Arrivals::Constant { rate: 1000.0, connections: 16 }, stop), SCRIPT, 16, 1);
    assert_eq!((tallies[0].documents, tallies[0].skipped), (4001, 0));
    assert!(ends.iter().all(|(ended, to_ns)| *ended == Ended::Documents && *to_ns < 5_000 * MS), "{ends:?}");
}
