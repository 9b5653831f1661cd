//! Tests one worker's phase, exactly.

use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::phase::{Documents, Overdue};
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

/// Three significant digits of a histogram.
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
fn an_open_load_under_capacity_waits_for_nothing() {
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
    // 1.4 s − 1 % of 30 s; four connections catch up at 4000/s, a third slower than at once.
    let p99 = outcome.whole.response.at(99.0) as f64 / 1e9;
    assert!((p99 / 1.1 - 1.0).abs() < 0.10, "{p99}");
    assert!(outcome.whole.service.at(99.0) < 2 * MS);
    assert!(outcome.whole.wait.at(99.0) > SECOND_NS / 2);
    assert_eq!(outcome.whole.wake.max(), 1);
}

#[test]
fn overload_makes_the_queue_grow_and_nothing_is_dropped() {
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
fn what_is_overdue_when_the_drain_ends_is_counted_as_skipped() {
    let mut phase = phase(constant(1000.0, 4), for_secs(4));
    phase.drain = Span::from_secs(1);
    let outcome = simulate(phase, Script { turn_ns: 2 * MS, ..Script::steady(0) }, Share::WHOLE);
    assert_eq!(outcome.whole.count + outcome.whole.skipped, 4000);
    assert!((2500..=2504).contains(&outcome.whole.count), "{}", outcome.whole.count);
}

#[test]
fn a_scenario_may_skip_what_is_too_late_and_it_is_counted() {
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
fn more_workers_than_connections_leave_no_arrival_behind() {
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
fn readers_beside_inserts_go_on_until_the_last_worker_has_sent_its_last_document() {
    // Two of four workers insert; the first has a document more. Every worker reads.
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
fn documents_that_nobody_makes_cannot_end_a_phase() {
    let mut phase = phase(constant(1.0, 1), Stop { documents: Some(1), ..Stop::default() });
    phase.loads[0].documents = Documents::Used;
    assert!(phase.check().unwrap_err().to_string().contains("no load of this phase inserts any"));
}

#[test]
fn what_nobody_could_send_before_the_end_is_counted_as_skipped() {
    let script = Script { down: (SECOND_NS, 10 * SECOND_NS), ..Script::steady(MS) };
    let mut phase = phase(constant(100.0, 2), for_secs(5));
    phase.drain = Span::from_secs(2);
    let outcome = simulate(phase, script, Share::WHOLE);
    assert_eq!(outcome.ended, Ended::Duration);
    assert_eq!(outcome.whole.due, 500);
    assert_eq!(outcome.whole.completed() + outcome.whole.skipped, 500);
    assert!(outcome.whole.skipped > 390, "{}", outcome.whole.skipped);
    // A last attempt to connect begins at most a tenth of a second before the drain is over.
    assert!((7 * SECOND_NS..7_200 * MS).contains(&outcome.to_ns), "{}", outcome.to_ns);
}

#[test]
fn a_server_that_comes_back_within_the_drain_gets_everything_that_is_overdue() {
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
fn a_lost_server_is_reached_again_and_what_was_in_flight_is_unknown() {
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
fn a_retry_turns_what_was_unknown_into_what_is_done_and_its_time_is_the_operations() {
    let script = Script { down: (SECOND_NS, 3 * SECOND_NS), ..Script::steady(MS) };
    let mut phase = phase(constant(100.0, 2), for_secs(5));
    phase.retry = Retry::Once;
    let outcome = simulate(phase, script, Share::WHOLE);
    assert_eq!((outcome.whole.count, outcome.whole.errors.total()), (500, 0));
    assert!((1..=2).contains(&outcome.whole.retries), "{}", outcome.whole.retries);
    // The bytes of an attempt that failed went over the wire as well.
    assert_eq!(outcome.whole.bytes_sent, (500 + outcome.whole.retries) * SENT);
    assert_eq!(outcome.whole.bytes_received, 500 * RECEIVED);
    assert!(outcome.whole.service.max() > 19 * SECOND_NS / 10);
}

#[test]
fn a_retry_at_the_end_of_a_phase_is_tried_until_the_drain_is_over() {
    // Both operations in flight are lost at 4.99 s; the server is back two seconds after the end.
    let script = Script { down: (4_995 * MS, 7 * SECOND_NS), ..Script::steady(10 * MS) };
    let mut phase = phase(Arrivals::Closed { writers: 2 }, for_secs(5));
    phase.retry = Retry::Once;
    let outcome = simulate(phase.clone(), script, Share::WHOLE);
    assert_eq!((outcome.whole.errors.total(), outcome.whole.retries), (0, 2));
    phase.drain = Span::from_secs(1);
    let outcome = simulate(phase, script, Share::WHOLE);
    assert_eq!((outcome.whole.errors.unknown(), outcome.whole.retries), (2, 0));
}

#[test]
fn a_server_that_stays_away_ends_the_phase() {
    let script = Script { down: (SECOND_NS, u64::MAX), ..Script::steady(MS) };
    let outcome = simulate(phase(constant(100.0, 2), for_secs(60)), script, Share::WHOLE);
    assert_eq!(outcome.ended, Ended::Unreachable);
    // The first failed attempt to connect comes at one second; the pauses between attempts are a second at most.
    assert!((11 * SECOND_NS..=12_100 * MS).contains(&outcome.to_ns), "{}", outcome.to_ns);
}

#[test]
fn a_rare_operation_that_meets_a_short_outage_does_not_end_the_phase() {
    // One operation a minute, the server away for two seconds around the second one.
    let script = Script { down: (60 * SECOND_NS, 62 * SECOND_NS), ..Script::steady(MS) };
    let outcome = simulate(phase(constant(1.0 / 60.0, 1), for_secs(150)), script, Share::WHOLE);
    assert_eq!(outcome.ended, Ended::Duration);
    assert_eq!((outcome.whole.count, outcome.whole.errors.unknown()), (2, 1));
}

#[test]
fn a_wish_to_stop_is_heard_within_a_tenth_of_a_second_and_gives_back_what_was_ready() {
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
fn loads_side_by_side_do_not_disturb_each_other() {
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
