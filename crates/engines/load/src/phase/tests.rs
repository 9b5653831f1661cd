//! Tests the checks of a phase and its loads.

use super::*;
use crate::arrivals::{Arrivals, Stage};
use crate::rate_floor::RateFloor;
use crate::think::{Random, Think};

fn load(arrivals: Arrivals, timing: Timing) -> Load {
    Load { timing, ..Load::new("a", arrivals) }
}

fn checked(load: Load, stop: Stop) -> Result<(), String> {
    let phase = Phase::new(load, stop);
    phase.check().map(|_| ()).map_err(|error| error.to_string())
}

fn lasting(seconds: u64) -> Stop {
    Stop { duration: Some(Span::from_secs(seconds)), ..Stop::default() }
}

const CLOSED: Arrivals = Arrivals::Closed { writers: 2 };
const OPEN: Arrivals = Arrivals::Constant { rate: 10.0, connections: 2 };

#[test]
fn a_phase_whose_loads_all_end_needs_no_stop() {
    let own = Timing { stop: lasting(5), ..Timing::default() };
    assert_eq!(checked(load(OPEN, own), Stop::default()), Ok(()));
    let each = Timing { stop: Stop { operations_each: Some(3), ..Stop::default() }, ..Timing::default() };
    assert_eq!(checked(load(CLOSED, each), Stop::default()), Ok(()));
    let problem = checked(load(OPEN, Timing::default()), Stop::default()).unwrap_err();
    assert!(problem.contains("without an end"), "{problem}");
}

#[test]
fn keys_that_do_not_apply_to_a_load_are_refused() {
    let think = |think| Timing { think: Some(think), ..Timing::default() };
    let rate_floor = |share, length_s| Timing {
        rate_floor: Some(RateFloor { share, window: Span::from_secs(length_s) }),
        ..Timing::default()
    };
    let stop = |stop| Timing { stop, ..Timing::default() };
    let second = Span::from_secs(1);
    let wrong = Think::Random(Random::Uniform { min: Span::from_secs(2), max: second });
    for (arrivals, timing, part) in [
        (OPEN, think(Think::Constant(second)), "load.a.think: it is for closed arrivals"),
        (CLOSED, think(wrong), "shortest pause is longer"),
        (CLOSED, rate_floor(0.99, 10), "no rate to reach"),
        (OPEN, rate_floor(1.5, 10), "share is over 0 and up to 1"),
        (OPEN, rate_floor(0.99, 0), "`for` from 1s"),
        (
            OPEN,
            stop(Stop { operations_each: Some(1), ..Stop::default() }),
            "load.a.stop.operations_each: it is for",
        ),
        (CLOSED, stop(Stop { documents: Some(1), ..Stop::default() }), "under the phase's `stop`"),
        (
            CLOSED,
            stop(Stop { operations: Some(0), ..Stop::default() }),
            "load.a.stop: stop operations is zero",
        ),
        (
            CLOSED,
            Timing { start: Span::from_secs(60), ..Timing::default() },
            "begins at 1m, and the phase ends at 1m",
        ),
    ] {
        let problem = checked(load(arrivals, timing), lasting(60)).unwrap_err();
        assert!(problem.contains(part), "{part}: {problem}");
    }
}

#[test]
fn a_load_ends_with_its_phase_or_before_it() {
    let timing = Timing { start: Span::from_secs(3), stop: lasting(5), ..Timing::default() };
    assert_eq!(load(OPEN, timing).end(Stop::default()), Some(Span::from_secs(8)));
    assert_eq!(load(OPEN, timing).end(lasting(6)), Some(Span::from_secs(6)));
    assert_eq!(load(OPEN, Timing::default()).end(Stop::default()), None);
}

#[test]
fn a_load_describes_its_arrivals_and_its_timing() {
    let stages = vec![Stage { to: 10, over: Span::from_secs(30) }, Stage { to: 0, over: Span::default() }];
    let timing = Timing {
        start: Span::from_secs(3),
        stop: lasting(5),
        think: Some(Think::Constant(Span::from_secs(1))),
        ..Timing::default()
    };
    assert_eq!(
        load(Arrivals::Writers { from: 1, stages }, timing).describe(),
        "closed, 1 writers, then 10 in 30s, 0 in 0s, thinking 1s, from 3s on, for 5s"
    );
    assert_eq!(load(CLOSED, Timing::default()).describe(), "closed, 2 writers");
    assert_eq!(load(OPEN, timing).arriving(CLOSED).describe(), "closed, 2 writers");
}
