//! Tests loads that open a connection for each operation, with exact results.

use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::phase::{Connections, Phase};
use plimsoll_load::stop::Stop;
use plimsoll_load::worker::Ended;
use plimsoll_measure::clock::{MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::duration::Span;
use plimsoll_measure::outcome::Rejection;

use crate::scripted::{Script, phase, simulate};

const MS: u64 = MILLISECOND_NS;
/// Answers after 1 ms; a connection takes 4 ms.
const SCRIPT: Script = Script { handshake_ns: 4 * MS, ..Script::steady(MS) };

fn churning(arrivals: Arrivals) -> Phase {
    let mut phase = phase(arrivals, Stop { duration: Some(Span::from_secs(2)), ..Stop::default() });
    phase.loads[0].connections = Connections::PerOperation;
    phase
}

/// Checks the number of operations, each of which opens a connection, and their longest response time, in
/// milliseconds.
fn check(arrivals: Arrivals, operations: u64, response_ms: u64) {
    let outcome = simulate(churning(arrivals), SCRIPT, Share::WHOLE);
    assert_eq!((outcome.whole.count, *outcome.target.dialled.lock().unwrap()), (operations, operations));
    let longest_ns = outcome.whole.response.max();
    assert!(longest_ns.abs_diff(response_ms * MS) <= response_ms * MS / 1000 + 1, "{longest_ns}");
    assert_eq!(outcome.seconds.iter().map(|second| second.reconnects).sum::<u64>(), 0, "none was lost");
}

#[test]
fn the_response_time_counts_the_handshake_of_each_operation() {
    check(Arrivals::Closed { writers: 2 }, 2 * 2000 / 5, 5);
    check(Arrivals::Constant { rate: 100.0, connections: 4 }, 200, 5);
}

#[test]
fn a_late_connection_counts_from_the_due_time() {
    // Two operations are due every 5 ms, and one lane takes 5 ms for each: the queue grows by one operation every 5 ms.
    let outcome =
        simulate(churning(Arrivals::Constant { rate: 400.0, connections: 1 }), SCRIPT, Share::WHOLE);
    assert_eq!(outcome.whole.count, 800);
    assert!(outcome.whole.response.max() > SECOND_NS && outcome.whole.service.max() < 6 * MS);
}

#[test]
fn kept_connections_are_opened_before_the_load() {
    let stop = Stop { duration: Some(Span::from_secs(1)), ..Stop::default() };
    let outcome = simulate(phase(Arrivals::Closed { writers: 1 }, stop), SCRIPT, Share::WHOLE);
    assert_eq!((outcome.whole.count, *outcome.target.dialled.lock().unwrap()), (1000, 0));
}

#[test]
fn an_operation_without_a_connection_fails_and_its_writer_pauses() {
    let script = Script { down: (SECOND_NS, SECOND_NS + 500 * MS), ..SCRIPT };
    let outcome = simulate(churning(Arrivals::Closed { writers: 1 }), script, Share::WHOLE);
    let refused = outcome.whole.errors.of_class(Rejection::NotTried.name());
    // One attempt takes 4 ms and the pause 10 ms.
    assert!((500 / 14 - 1..=500 / 14 + 1).contains(&refused), "{refused}");
    assert_eq!((outcome.ended, outcome.whole.errors.total() - refused), (Ended::Duration, 1));
}
