//! All workers together, on the machine's own clock.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::engine::{Engine, RunError};
use plimsoll_load::runtime::Spin;
use plimsoll_load::stop::Stop;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::interval::Reply;

use crate::scripted::phase;

/// Opens so many connections and refuses the next ones.
struct Refusing {
    left: AtomicU32,
}

impl Target for Refusing {
    type Lane = ();

    fn begin(&self, _documents: Option<u64>) {}

    async fn open(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let less = |left: u32| left.checked_sub(1);
        let opened = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        opened.map(|_| ()).map_err(|_| "refused".into())
    }

    fn prepare(&self, _lane: &mut (), _operation: usize, _number: u64) -> Prepared {
        Prepared::Ready
    }

    async fn send(&self, _lane: &mut ()) -> Reply {
        Reply::acknowledged(1)
    }

    fn discard(&self, _lane: &mut ()) {}

    fn tick(&self) {}

    fn is_broken(&self, _lane: &()) -> bool {
        false
    }

    async fn settle(&self, _lane: &mut ()) {}
}

fn engine(connections: u32) -> Engine<Refusing> {
    let target = Arc::new(Refusing { left: AtomicU32::new(connections) });
    Engine::new(vec![target], 1, Share::WHOLE, Spin::Off).unwrap()
}

fn operations(count: u64) -> Stop {
    Stop { operations: Some(count), ..Stop::default() }
}

#[test]
fn a_server_that_refuses_before_the_first_operation_ends_the_run_with_its_reason() {
    let closed = phase(Arrivals::Closed { writers: 2 }, operations(10));
    let error = engine(1).run(&closed, &Control::default(), |_| ()).unwrap_err();
    assert!(matches!(&error, RunError::Connect(reason) if reason.to_string() == "refused"), "{error}");
}

#[test]
fn a_server_that_refuses_between_two_phases_does_not_end_the_run() {
    let mut engine = engine(2);
    let control = Control::default();
    engine.run(&phase(Arrivals::Closed { writers: 1 }, operations(10)), &control, |_| ()).unwrap();
    let mut count = 0;
    let more = phase(Arrivals::Closed { writers: 4 }, operations(10));
    let finished = engine
        .run(&more, &control, |second| {
            count += second.tallies.iter().map(|tally| tally.count).sum::<u64>();
        })
        .unwrap();
    assert_eq!((finished.ended, count), (Ended::Operations, 10));
}
