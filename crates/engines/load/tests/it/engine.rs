//! Tests all workers together, on the machine's clock.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::engine::{Engine, Progress, RunError};
use plimsoll_load::fault::{Fault, Planned, Spacing};
use plimsoll_load::runtime::Spin;
use plimsoll_load::stop::Stop;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::clock;
use plimsoll_measure::duration::Span;
use plimsoll_measure::interval::Reply;

use crate::scripted::phase;

/// A target that opens a limited number of connections and refuses the next ones.
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

/// A worker's target that answers every twentieth operation after 20 ms and all others at once.
#[derive(Default)]
struct Uneven {
    sent: Mutex<Vec<u64>>,
}

impl Target for Uneven {
    type Lane = u64;

    fn begin(&self, _documents: Option<u64>) {}

    async fn open(&self) -> Result<u64, Box<dyn Error + Send + Sync>> {
        Ok(0)
    }

    fn prepare(&self, lane: &mut u64, _operation: usize, number: u64) -> Prepared {
        *lane = number;
        Prepared::Ready
    }

    async fn send(&self, lane: &mut u64) -> Reply {
        self.sent.lock().unwrap().push(*lane);
        if lane.is_multiple_of(20) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Reply::acknowledged(1)
    }

    fn discard(&self, _lane: &mut u64) {}

    fn tick(&self) {}

    fn is_broken(&self, _lane: &u64) -> bool {
        false
    }

    async fn settle(&self, _lane: &mut u64) {}
}

#[test]
fn threads_share_overdue_operations_and_send_each_once() {
    let workers = (0..4).map(|_| Arc::new(Uneven::default())).collect();
    let mut engine = Engine::new(workers, 1, Share::WHOLE, Spin::Off).unwrap();
    let open = phase(Arrivals::Constant { rate: 500.0, connections: 4 }, operations(1000));
    let mut completed = 0;
    let finished = engine.run(&open, &Control::default(), &mut [], |progress| {
        if let Progress::Second(second) = progress {
            completed += second.tallies.iter().map(|tally| tally.count).sum::<u64>();
        }
    });
    assert_eq!((finished.unwrap().ended, completed), (Ended::Operations, 1000));
    let sent: Vec<_> = engine.targets().map(|target| target.sent.lock().unwrap().clone()).collect();
    let foreign = |(worker, sent): (usize, &Vec<u64>)| {
        sent.iter().filter(|number| **number % 4 != worker as u64).count()
    };
    assert!(sent.iter().enumerate().map(foreign).sum::<usize>() > 0, "no operation was shared");
    let mut all = sent.concat();
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
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
    let error = engine(1).run(&closed, &Control::default(), &mut [], |_| ()).unwrap_err();
    assert!(matches!(&error, RunError::Connect(reason) if reason.to_string() == "refused"), "{error}");
}

#[test]
fn a_server_that_refuses_between_two_phases_does_not_end_the_run() {
    let mut engine = engine(2);
    let control = Control::default();
    engine.run(&phase(Arrivals::Closed { writers: 1 }, operations(10)), &control, &mut [], |_| ()).unwrap();
    let mut count = 0;
    let more = phase(Arrivals::Closed { writers: 4 }, operations(10));
    let finished = engine.run(&more, &control, &mut [], |progress| {
        if let Progress::Second(second) = progress {
            count += second.tallies.iter().map(|tally| tally.count).sum::<u64>();
        }
    });
    assert_eq!((finished.unwrap().ended, count), (Ended::Operations, 10));
}

/// Counts its beginnings as one and its ends as a hundred.
struct Shut(Arc<AtomicU32>);

impl Fault for Shut {
    fn begin(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.fetch_add(100, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn faults_happen_during_the_load_and_are_undone_at_its_end() {
    let done = Arc::new(AtomicU32::new(0));
    let mut slow = phase(
        Arrivals::Constant { rate: 100.0, connections: 1 },
        Stop { duration: Some(Span::from_ns(300_000_000)), ..Stop::default() },
    );
    let planned = |at_ms: u64, lasts: u64| Planned {
        name: "shut".into(),
        key: 0,
        at: Span::from_ns(at_ms * 1_000_000),
        lasts: Span::from_secs(lasts),
        every: None,
        times: 1,
        spacing: Spacing::Even,
    };
    slow.faults = vec![planned(50, 0), planned(100, 3600)];
    let mut events = 0;
    let mut faults: Vec<Box<dyn Fault>> = vec![Box::new(Shut(done.clone())), Box::new(Shut(done.clone()))];
    let finished = engine(1)
        .run(&slow, &Control::default(), &mut faults, |progress| {
            events += u32::from(matches!(progress, Progress::Fault(_)));
        })
        .unwrap();
    assert_eq!((events, done.load(Ordering::Relaxed)), (4, 202));
    let [first, second] = &finished.faults[..] else { panic!("{:?}", finished.faults) };
    assert!(first.from_ns >= 50_000_000 && first.to_ns.is_some_and(|to_ns| to_ns >= first.from_ns));
    assert!(second.to_ns.is_some_and(|to_ns| to_ns >= 300_000_000), "{second:?}");
}

#[test]
fn a_phase_begins_at_its_moment_with_all_connections_open_or_not_at_all() {
    let mut engine = engine(2);
    let (control, closed) = (Control::default(), phase(Arrivals::Closed { writers: 2 }, operations(10)));
    let at = clock::now() + 300_000_000;
    engine.begin_at(at);
    let mut began = None;
    let finished = engine.run(&closed, &control, &mut [], |progress| {
        if let Progress::Began(start) = progress {
            began = Some(start);
        }
    });
    assert_eq!((finished.unwrap().start, began), (at, Some(at)));
    engine.begin_at(clock::now() - 1_500_000_000);
    let late = engine.run(&closed, &control, &mut [], |_| ()).unwrap_err();
    assert!(late.to_string().contains("the requested start passed 1.5 s ago"), "{late}");
    engine.run(&closed, &control, &mut [], |_| ()).unwrap();
}

#[test]
fn a_phase_that_waits_for_its_start_can_be_stopped() {
    let mut engine = engine(2);
    let (control, closed) = (Control::default(), phase(Arrivals::Closed { writers: 2 }, operations(10)));
    engine.begin_at(clock::now() + 3_600_000_000_000);
    control.stop();
    let finished = engine.run(&closed, &control, &mut [], |_| ()).unwrap();
    assert_eq!(finished.ended, Ended::Interrupted);
}
