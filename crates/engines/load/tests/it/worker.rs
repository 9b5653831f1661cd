//! Tests one worker's phase with exact results.

use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::due_second::{DueSeconds, Latency, Limit};
use plimsoll_load::phase::{Documents, Overdue, Phase};
use plimsoll_load::retry::Retry;
use plimsoll_load::stop::Stop;
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::clock::{Instant, MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::duration::Span;
use plimsoll_measure::interval::Tally;

use crate::scripted::{RECEIVED, SENT, Script, phase, simulate, simulate_all, simulate_with};

const MS: u64 = MILLISECOND_NS;

fn for_secs(seconds: u64) -> Stop {
    Stop { duration: Some(Span::from_secs(seconds)), ..Stop::default() }
}

fn constant(rate: f64, connections: u32) -> Arrivals {
    Arrivals::Constant { rate, connections }
}

/// Whether two values agree to three significant digits.
fn close(value: u64, expected: u64) -> bool {
    value.abs_diff(expected) <= expected / 1000 + 1
}

#[test]
fn closed_writers_send_one_after_the_other() {
    let outcome =
        simulate(phase(Arrivals::Closed { writers: 2 }, for_secs(1)), Script::steady(10 * MS), Share::WHOLE);
    assert_eq!((outcome.whole.count, outcome.whole.due), (200, 200));
    assert!(close(outcome.whole.response.max(), 10 * MS));
    assert_eq!(outcome.whole.wait.max(), 1);
    assert_eq!(outcome.ended, Ended::Duration);
}

#[test]
fn an_open_load_under_capacity_never_waits() {
    let outcome = simulate(phase(constant(1000.0, 10), for_secs(2)), Script::steady(MS), Share::WHOLE);
    assert_eq!((outcome.whole.count, outcome.whole.due), (2000, 2000));
    assert!(close(outcome.whole.response.max(), MS));
    assert_eq!((outcome.whole.wake.max(), outcome.whole.wait.max()), (1, 1));
    assert_eq!(
        outcome
            .seconds
            .iter()
            .flat_map(|second| &second.tallies)
            .map(|tally| tally.count)
            .collect::<Vec<_>>(),
        [999, 1000, 1]
    );
}

#[test]
fn a_frozen_server_shows_in_the_response_time_and_not_in_the_service_time() {
    let frozen = (10 * SECOND_NS, 11_400 * MS);
    let script = Script { frozen, ..Script::steady(MS) };
    let outcome = simulate(phase(constant(1000.0, 4), for_secs(30)), script, Share::WHOLE);
    assert_eq!(outcome.whole.count, 30_000);
    // If the backlog were sent at once, p99 would be 1.4 s − 1 % of 30 s = 1.1 s. Four connections send it at
    // 4000/s, so p99 is 7 % higher.
    let p99 = outcome.whole.response.at(99.0) as f64 / 1e9;
    assert!((p99 / 1.1 - 1.0).abs() < 0.10, "{p99}");
    assert!(outcome.whole.service.at(99.0) < 2 * MS);
    assert!(outcome.whole.wait.at(99.0) > SECOND_NS / 2);
    assert_eq!(outcome.whole.wake.max(), 1);
}

#[test]
fn overload_grows_the_queue_and_drops_no_operation() {
    let script = Script { turn_ns: 2 * MS, ..Script::steady(0) };
    let outcome = simulate(phase(constant(1000.0, 4), for_secs(4)), script, Share::WHOLE);
    assert_eq!((outcome.whole.count, outcome.whole.due, outcome.whole.skipped), (4000, 4000, 0));
    let in_time: u64 =
        outcome.seconds.iter().filter(|it| it.to_ns <= 4 * SECOND_NS).map(|it| it.tallies[0].count).sum();
    assert!((1999..=2000).contains(&in_time), "{in_time}");
    assert!(close(outcome.whole.response.max(), 4_001 * MS), "{}", outcome.whole.response.max());
    assert_eq!(outcome.to_ns, 8 * SECOND_NS);
}

#[test]
fn operations_overdue_after_the_drain_are_skipped() {
    let mut phase = phase(constant(1000.0, 4), for_secs(4));
    phase.drain = Span::from_secs(1);
    let outcome = simulate(phase, Script { turn_ns: 2 * MS, ..Script::steady(0) }, Share::WHOLE);
    assert_eq!(outcome.whole.count + outcome.whole.skipped, 4000);
    assert!((2500..=2504).contains(&outcome.whole.count), "{}", outcome.whole.count);
}

#[test]
fn a_scenario_may_skip_late_operations_which_are_counted() {
    let mut phase = phase(constant(1000.0, 1), for_secs(2));
    phase.loads[0].overdue = Overdue::Skip { after: Span::from_ns(100 * MS) };
    let outcome = simulate(phase, Script { turn_ns: 2 * MS, ..Script::steady(0) }, Share::WHOLE);
    assert_eq!(outcome.whole.count + outcome.whole.skipped, 2000);
    assert!(outcome.whole.skipped > 800 && outcome.whole.response.max() <= 103 * MS);
}

#[test]
fn workers_send_every_operation_once() {
    let stop = Stop { operations: Some(1000), ..Stop::default() };
    for arrivals in [Arrivals::Closed { writers: 4 }, constant(500.0, 4)] {
        let mut sent: Vec<u64> = (0..3)
            .flat_map(|index| {
                let outcome =
                    simulate(phase(arrivals.clone(), stop), Script::steady(MS), Share { index, of: 3 });
                assert_eq!(outcome.ended, Ended::Operations);
                outcome.target.sent.lock().unwrap().clone()
            })
            .collect();
        sent.sort_unstable();
        assert_eq!(sent, (0..1000).collect::<Vec<_>>());
    }
}

#[test]
fn more_workers_than_connections_still_send_every_arrival() {
    let sent: usize = (0..5)
        .map(|index| {
            let outcome =
                simulate(phase(constant(100.0, 2), for_secs(1)), Script::steady(MS), Share { index, of: 5 });
            outcome.target.sent.lock().unwrap().len()
        })
        .sum();
    assert_eq!(sent, 100);
}

#[test]
fn a_phase_ends_when_its_documents_are_sent() {
    let stop = Stop { documents: Some(1001), ..Stop::default() };
    let documents: u64 = (0..2)
        .map(|index| {
            let phase = phase(Arrivals::Closed { writers: 4 }, stop);
            let outcome = simulate(phase, Script::steady(MS), Share { index, of: 2 });
            assert_eq!(outcome.ended, Ended::Documents);
            outcome.whole.documents
        })
        .sum();
    assert_eq!(documents, 1001);
}

#[test]
fn readers_continue_until_the_last_document_is_sent() {
    // Two of four workers insert; the first has one document more. Every worker reads.
    let stop = Stop { documents: Some(2001), ..Stop::default() };
    for inserts in [Arrivals::Closed { writers: 2 }, constant(2000.0, 2)] {
        let mut phase = phase(inserts.clone(), stop);
        phase.loads.push(phase.loads[0].clone());
        phase.loads[1].arrivals = constant(100.0, 4);
        phase.loads[1].mix = vec![(1, 1.0)];
        phase.loads[1].documents = Documents::Used;
        let (tallies, ends) = simulate_all(phase, Script::steady(MS), 4, 2);
        assert_eq!(tallies[0].documents, 2001, "{inserts:?}");
        assert!((100..=112).contains(&tallies[1].count), "{inserts:?}: {}", tallies[1].count);
        assert_eq!(tallies[0].skipped + tallies[1].skipped, 0);
        assert!(
            ends.iter().all(|(ended, to_ns)| *ended == Ended::Documents && *to_ns <= 1_110 * MS),
            "{ends:?}"
        );
    }
}

#[test]
fn a_limit_of_documents_needs_a_load_that_makes_some() {
    let mut phase = phase(constant(1.0, 1), Stop { documents: Some(1), ..Stop::default() });
    phase.loads[0].documents = Documents::Used;
    assert!(phase.check().unwrap_err().to_string().contains("no load inserts any, so the phase"));
}

#[test]
fn unsent_operations_at_the_end_are_skipped() {
    let script = Script { down: (SECOND_NS, 10 * SECOND_NS), ..Script::steady(MS) };
    let mut phase = phase(constant(100.0, 2), for_secs(5));
    phase.drain = Span::from_secs(2);
    let outcome = simulate(phase, script, Share::WHOLE);
    assert_eq!(outcome.ended, Ended::Duration);
    assert_eq!(outcome.whole.due, 500);
    assert_eq!(outcome.whole.completed() + outcome.whole.skipped, 500);
    assert!(outcome.whole.skipped > 390, "{}", outcome.whole.skipped);
    // The last attempt to connect begins at most a tenth of a second before the drain is over.
    assert!((7 * SECOND_NS..7_200 * MS).contains(&outcome.to_ns), "{}", outcome.to_ns);
}

#[test]
fn a_server_that_returns_within_the_drain_gets_all_overdue_operations() {
    let script = Script { down: (4 * SECOND_NS, 8 * SECOND_NS), ..Script::steady(MS) };
    let outcome = simulate(phase(constant(100.0, 2), for_secs(5)), script, Share::WHOLE);
    assert_eq!((outcome.whole.due, outcome.whole.skipped), (500, 0));
    assert_eq!(outcome.whole.count + outcome.whole.errors.unknown(), 500);
    assert!(outcome.to_ns > 8 * SECOND_NS && outcome.to_ns < 9 * SECOND_NS, "{}", outcome.to_ns);
}

#[test]
fn a_closed_writer_without_a_connection_ends_with_its_phase() {
    let script = Script { down: (SECOND_NS, 8 * SECOND_NS), ..Script::steady(MS) };
    let outcome = simulate(phase(Arrivals::Closed { writers: 2 }, for_secs(5)), script, Share::WHOLE);
    assert_eq!(outcome.ended, Ended::Duration);
    assert!(outcome.to_ns < 5_200 * MS, "{}", outcome.to_ns);
}

#[test]
fn after_a_reconnect_the_operations_in_flight_are_unknown() {
    let script = Script { down: (SECOND_NS, 3 * SECOND_NS), ..Script::steady(MS) };
    let outcome = simulate(phase(constant(100.0, 2), for_secs(5)), script, Share::WHOLE);
    assert_eq!(outcome.ended, Ended::Duration);
    assert!((1..=2).contains(&outcome.whole.errors.unknown()), "{:?}", outcome.whole.errors);
    assert_eq!(outcome.whole.count + outcome.whole.errors.unknown(), 500);
    assert!(outcome.whole.response.max() > 19 * SECOND_NS / 10);
    let reconnects: u64 = outcome.seconds.iter().map(|second| second.reconnects).sum();
    assert_eq!(reconnects, outcome.whole.errors.unknown());
}

#[test]
fn a_retry_completes_an_unknown_operation_and_its_time_counts() {
    let script = Script { down: (SECOND_NS, 3 * SECOND_NS), ..Script::steady(MS) };
    let mut phase = phase(constant(100.0, 2), for_secs(5));
    phase.retry = Some(Retry::Once);
    let outcome = simulate(phase, script, Share::WHOLE);
    assert_eq!((outcome.whole.count, outcome.whole.errors.total()), (500, 0));
    assert!((1..=2).contains(&outcome.whole.retries), "{}", outcome.whole.retries);
    // The bytes of failed attempts count as well.
    assert_eq!(outcome.whole.bytes_sent, (500 + outcome.whole.retries) * SENT);
    assert_eq!(outcome.whole.bytes_received, 500 * RECEIVED);
    assert!(outcome.whole.service.max() > 19 * SECOND_NS / 10);
}

#[test]
fn an_operation_is_retried_until_the_drain_is_over() {
    // Both operations in flight are lost at 4.99 s; the server returns two seconds after the end.
    let script = Script { down: (4_995 * MS, 7 * SECOND_NS), ..Script::steady(10 * MS) };
    let mut phase = phase(Arrivals::Closed { writers: 2 }, for_secs(5));
    phase.retry = Some(Retry::Once);
    let outcome = simulate(phase.clone(), script, Share::WHOLE);
    assert_eq!((outcome.whole.errors.total(), outcome.whole.retries), (0, 2));
    phase.drain = Span::from_secs(1);
    let outcome = simulate(phase, script, Share::WHOLE);
    assert_eq!((outcome.whole.errors.unknown(), outcome.whole.retries), (2, 0));
}

#[test]
fn a_server_that_stays_unreachable_ends_the_phase() {
    let script = Script { down: (SECOND_NS, u64::MAX), ..Script::steady(MS) };
    let outcome = simulate(phase(constant(100.0, 2), for_secs(60)), script, Share::WHOLE);
    assert_eq!(outcome.ended, Ended::Unreachable);
    // The first failed attempt to connect is at one second; the pauses between attempts are at most a tenth
    // of a second.
    assert!((11 * SECOND_NS..=12_100 * MS).contains(&outcome.to_ns), "{}", outcome.to_ns);
}

#[test]
fn a_rare_operation_that_meets_a_short_outage_does_not_end_the_phase() {
    // One operation a minute; the server is down for two seconds around the second operation.
    let script = Script { down: (60 * SECOND_NS, 62 * SECOND_NS), ..Script::steady(MS) };
    let outcome = simulate(phase(constant(1.0 / 60.0, 1), for_secs(150)), script, Share::WHOLE);
    assert_eq!(outcome.ended, Ended::Duration);
    assert_eq!((outcome.whole.count, outcome.whole.errors.unknown()), (2, 1));
}

#[test]
fn a_stop_takes_effect_within_a_tenth_of_a_second_and_discards_prepared_operations() {
    for arrivals in [Arrivals::Closed { writers: 2 }, constant(0.5, 2), constant(1000.0, 2)] {
        let control = Control::default();
        let stop_at = Instant::from_ns(2_500 * MS);
        let outcome = simulate_with(
            phase(arrivals.clone(), for_secs(60)),
            Script::steady(MS),
            Share::WHOLE,
            control,
            Some(stop_at),
        );
        assert_eq!(outcome.ended, Ended::Interrupted, "{arrivals:?}");
        assert!(outcome.to_ns <= 2_601 * MS, "{arrivals:?}: {}", outcome.to_ns);
        let sent = outcome.target.sent.lock().unwrap().len() as u64;
        assert_eq!(outcome.whole.completed(), sent);
    }
}

#[test]
fn parallel_loads_do_not_disturb_each_other() {
    let mut phase = phase(constant(100.0, 2), for_secs(2));
    phase.loads.push(phase.loads[0].clone());
    phase.loads[1].arrivals = constant(50.0, 1);
    let outcome = simulate(phase, Script::steady(MS), Share::WHOLE);
    assert_eq!((outcome.whole.count, outcome.whole.due), (300, 300));
}

#[test]
fn the_seconds_add_up_to_the_whole() {
    let outcome = simulate(
        phase(Arrivals::Poisson { rate: 700.0, connections: 3 }, for_secs(5)),
        Script::steady(MS),
        Share::WHOLE,
    );
    let mut merged = Tally::default();
    outcome.seconds.iter().flat_map(|second| &second.tallies).for_each(|tally| merged.merge(tally));
    assert_eq!(merged, outcome.whole);
    let tenths: u64 = outcome.seconds.iter().flat_map(|second| &second.tenths).map(|tenth| tenth.count).sum();
    assert_eq!(tenths, outcome.whole.count);
    assert_eq!(merged.due, merged.completed());
}

#[test]
fn operations_count_in_the_second_in_which_they_were_due() {
    // The server answers nothing from 0.5 s to 1.2 s; one connection, 100 operations a second.
    let script = Script { frozen: (SECOND_NS / 2, 1200 * MS), ..Script::steady(MS) };
    let limits = vec![Limit { latency: Latency::Response, ns: 50 * MS }];
    let stop = for_secs(2);
    let phase = Phase { limits, ..phase(constant(100.0, 1), stop) };
    let mut due = DueSeconds::default();
    let outcome = simulate(phase, script, Share::WHOLE);
    outcome.seconds.iter().flat_map(|second| &second.due_seconds).for_each(|part| due.add(part));
    let seconds: Vec<_> = due.of(0).iter().map(|it| (it.due, it.ended, it.failed, it.over(0))).collect();
    // In the first second 50 operations wait for 0.2 s or more. In the second one, the operations due before
    // 1.15 s wait for 50 ms or more, and so do some in the queue behind them.
    assert_eq!(seconds[0], (100, 100, 0, 50));
    let (due, ended, failed, over) = seconds[1];
    assert_eq!((due, ended, failed), (100, 100, 0));
    assert!((16..30).contains(&over), "{over}");
    assert_eq!(outcome.whole.due, 200);
}

#[test]
fn operations_that_are_never_sent_are_over_every_limit() {
    // One connection does 10 of 100 operations a second; those that are still overdue after the drain are skipped.
    let limits = vec![Limit { latency: Latency::Service, ns: SECOND_NS }];
    let mut phase = Phase { limits, ..phase(constant(100.0, 1), for_secs(1)) };
    phase.drain = Span::from_ns(50 * MS);
    let outcome = simulate(phase, Script::steady(100 * MS), Share::WHOLE);
    let mut due = DueSeconds::default();
    outcome.seconds.iter().flat_map(|second| &second.due_seconds).for_each(|part| due.add(part));
    let second = due.of(0).remove(0);
    assert_eq!((second.due, second.ended), (100, 100));
    assert_eq!((second.failed, second.over(0)), (89, 89));
}
