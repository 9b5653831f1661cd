//! Tests the time after a load's end in which it may still send and be answered.

use std::error::Error;
use std::sync::Arc;

use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::phase::{Documents, Phase};
use plimsoll_load::runtime::Simulated;
use plimsoll_load::stop::Stop;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_load::worker::{self, Control, End, Order, Supply};
use plimsoll_measure::clock::{Instant, MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::duration::Span;
use plimsoll_measure::interval::{Reply, Tally};

use crate::scripted::{Lane, Script, Scripted, alone, phase, simulate};

const MS: u64 = MILLISECOND_NS;

/// The scripted server, behind a target that can give up its operations.
struct Impatient(Arc<Scripted>);

/// A lane whose operation may have been given up.
struct GivenUpLane(Lane, bool);

impl Target for Impatient {
    type Lane = GivenUpLane;

    const GIVES_UP: bool = true;

    fn begin(&self, documents: Option<u64>) {
        self.0.begin(documents);
    }

    async fn open(&self) -> Result<GivenUpLane, Box<dyn Error + Send + Sync>> {
        self.0.open().await.map(|lane| GivenUpLane(lane, false))
    }

    fn prepare(&self, lane: &mut GivenUpLane, operation: usize, number: u64) -> Prepared {
        self.0.prepare(&mut lane.0, operation, number)
    }

    async fn send(&self, lane: &mut GivenUpLane) -> Reply {
        self.0.send(&mut lane.0).await
    }

    fn discard(&self, lane: &mut GivenUpLane) {
        self.0.discard(&mut lane.0);
    }

    fn tick(&self) {}

    fn is_broken(&self, lane: &GivenUpLane) -> bool {
        lane.1 || self.0.is_broken(&lane.0)
    }

    fn give_up(&self, lane: &mut GivenUpLane) -> Reply {
        lane.1 = true;
        Reply::failed(
            plimsoll_measure::outcome::Outcome::Unknown(plimsoll_measure::outcome::Doubt::Timeout),
            1,
        )
    }

    async fn settle(&self, lane: &mut GivenUpLane) {
        self.0.settle(&mut lane.0).await;
    }
}

fn impatient(phase: Phase, script: Script) -> (Tally, u64) {
    let clock = Simulated::default();
    let target = Arc::new(Impatient(Scripted::new(&clock, script)));
    let backlogs = alone(&phase, Share::WHOLE);
    let order = Order {
        phase: Arc::new(phase),
        operations: 1,
        share: Share::WHOLE,
        start: Instant::default(),
        supply: Arc::new(Supply::of(1)),
        backlogs,
    };
    let whole = Arc::new(std::sync::Mutex::new(Tally::default()));
    let (inside, sum) = (clock.clone(), whole.clone());
    let to_ns = clock.run(async move {
        let end: End<_> = worker::run(inside, target, Vec::new(), order, Control::default(), move |slice| {
            slice.tallies.iter().for_each(|tally| sum.lock().unwrap().merge(tally));
        })
        .await;
        end.to_ns
    });
    let whole = whole.lock().unwrap().clone();
    (whole, to_ns)
}

fn graceful(arrivals: Arrivals, grace: Option<u64>) -> Phase {
    let stop = Stop { duration: Some(Span::from_secs(2)), ..Stop::default() };
    let mut phase = phase(arrivals, stop);
    phase.loads[0].documents = Documents::Used;
    phase.loads[0].timing.graceful_stop = grace.map(|ms| Span::from_ns(ms * MS));
    phase
}

const CLOSED: Arrivals = Arrivals::Closed { writers: 3 };
/// From 1.5 s on no operation is answered before the fifth second.
const FROZEN: Script = Script { frozen: (1_500 * MS, 5 * SECOND_NS), ..Script::steady(MS) };

#[test]
fn operations_in_flight_after_the_grace_period_are_unknown_and_given_up() {
    let (whole, to_ns) = impatient(graceful(CLOSED, Some(500)), FROZEN);
    assert_eq!((whole.errors.unknown(), to_ns), (3, 2_500 * MS));
    assert_eq!(whole.due, whole.completed());
    let (whole, to_ns) = impatient(graceful(CLOSED, Some(0)), FROZEN);
    assert_eq!((whole.errors.unknown(), to_ns), (3, 2_000 * MS));
}

#[test]
fn without_a_grace_period_a_load_waits_for_its_answers() {
    let (whole, to_ns) = impatient(graceful(CLOSED, None), FROZEN);
    assert_eq!((whole.errors.total(), to_ns), (0, 5 * SECOND_NS));
}

#[test]
fn a_target_that_cannot_give_up_is_awaited() {
    let outcome = simulate(graceful(CLOSED, Some(500)), FROZEN, Share::WHOLE);
    assert_eq!((outcome.whole.errors.total(), outcome.to_ns), (0, 5 * SECOND_NS));
}

#[test]
fn answers_within_the_grace_period_count() {
    let (whole, to_ns) = impatient(graceful(CLOSED, Some(4_000)), FROZEN);
    assert_eq!((whole.errors.total(), to_ns), (0, 5 * SECOND_NS));
}

#[test]
fn the_loads_grace_period_replaces_the_drain_of_its_phase() {
    // 500 of 1000 a second are done: 1000 are overdue at the end and would need two seconds.
    let script = Script { turn_ns: 2 * MS, ..Script::steady(0) };
    let open = || Arrivals::Constant { rate: 1000.0, connections: 4 };
    let skipped = |grace| {
        let outcome = simulate(graceful(open(), grace), script, Share::WHOLE);
        assert_eq!(outcome.whole.due, 2000);
        assert_eq!(outcome.whole.count + outcome.whole.skipped, 2000);
        outcome.whole.skipped
    };
    assert_eq!(skipped(None), 0);
    assert_eq!(skipped(Some(3_000)), 0);
    assert!((495..=500).contains(&skipped(Some(1_000))), "{}", skipped(Some(1_000)));
    assert!((995..=1000).contains(&skipped(Some(0))), "{}", skipped(Some(0)));
}
