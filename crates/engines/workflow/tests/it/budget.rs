//! Counts the store's operations for a round trip, a timer and an idle worker.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt;
use plimsoll_workflow::file::read;
use plimsoll_workflow::instance::{Signal, StartRequest};
use plimsoll_workflow::memory::{Memory, Removal};
use plimsoll_workflow::port::{Record, Services, Store};
use plimsoll_workflow::step::{Call, CallError, start};
use plimsoll_workflow::worker::{Core, Finished, Happened, Hint, Job, Registry, Settings, perform};
use serde_json::Value;

use super::examples::text;

struct Noop;

impl Services for Noop {
    async fn call(&self, _: &Call) -> Result<Value, CallError> {
        Ok(Value::Null)
    }
}

/// One worker whose jobs are counted by kind.
struct Counted {
    core: Core,
    store: Memory,
    registry: Arc<Registry>,
    now_ms: u64,
    operations: Vec<&'static str>,
    finished: Vec<Finished>,
}

impl Counted {
    fn new() -> Self {
        let (store, registry) = (Memory::new(16, Removal::WithCommit), Arc::new(Registry::default()));
        for name in ["signal-round-trip", "timer"] {
            registry.add(&read(text(name)).unwrap().0).unwrap();
        }
        let core = Core::new(Settings::new("one"), registry.clone(), 16);
        let mut counted =
            Self { core, store, registry, now_ms: 0, operations: Vec::new(), finished: Vec::new() };
        counted.happen(Happened::Tick);
        counted.operations.clear();
        counted
    }

    /// Does all jobs that follow, in order and without passing time.
    fn happen(&mut self, first: Happened) {
        let mut queue = VecDeque::from([first]);
        while let Some(happened) = queue.pop_front() {
            for job in self.core.handle(happened, self.now_ms) {
                self.operations.extend(operation(&job));
                if let Job::Tell(change) = job {
                    self.finished.extend(change.end);
                    continue;
                }
                self.store.set_clock(self.now_ms);
                let done = perform(&self.store, &Noop, &self.registry, job, self.now_ms).now_or_never();
                queue.extend(done);
            }
        }
    }

    fn start(&mut self, id: &str, definition: &str) {
        let (id, definition) = (id.to_owned(), definition.to_owned());
        let program = self.registry.latest(&definition).unwrap();
        let request = StartRequest { id, definition, key: None, parent: None, depth: 0, input: Value::Null };
        let record = Record::of(&start(&program, request, self.now_ms).unwrap(), 16, 1, 0).unwrap();
        self.operations.push("start");
        self.store.start(std::slice::from_ref(&record)).now_or_never().unwrap().unwrap();
        self.happen(Happened::Hint(Hint::Started(record)));
    }

    fn publish(&mut self, signal: Signal) {
        self.operations.push("publish");
        self.store.publish(std::slice::from_ref(&signal)).now_or_never().unwrap().unwrap();
        self.happen(Happened::Hint(Hint::Published(signal)));
    }

    /// Lets time pass from tick to tick.
    fn pass(&mut self, ms: u64) {
        let end_ms = self.now_ms + ms;
        while self.core.wake_ms() <= end_ms {
            self.now_ms = self.now_ms.max(self.core.wake_ms());
            self.happen(Happened::Tick);
        }
        self.now_ms = end_ms;
    }
}

/// The store's operation of a job.
fn operation(job: &Job) -> Option<&'static str> {
    match job {
        Job::Lease(_) => Some("lease"),
        Job::Holders => Some("holders"),
        Job::Scan { .. } => Some("due"),
        Job::Load(_) => Some("load"),
        Job::Definitions(_) => Some("definitions"),
        Job::Commit(_) => Some("commit"),
        Job::Remove(_) => Some("remove"),
        Job::Forget { .. } => Some("forget"),
        Job::Postpone(_) => Some("postpone"),
        Job::Bury(_) => Some("bury"),
        Job::Drain(_) => Some("drain"),
        Job::Announce(_) | Job::Call(_) | Job::Tell(_) => None,
    }
}

#[test]
fn a_round_trip_takes_four_operations() {
    let mut counted = Counted::new();
    counted.start("i", "signal-round-trip");
    counted.publish(Signal::named("i", "s", "go", Value::Null, 0));
    assert_eq!(counted.operations, ["start", "commit", "publish", "commit"]);
    assert_eq!(counted.finished.len(), 1);
}

#[test]
fn a_timer_takes_one_operation_after_its_start() {
    let mut counted = Counted::new();
    counted.start("i", "timer");
    counted.pass(2000);
    counted.operations.retain(|operation| !["due", "lease"].contains(operation));
    assert_eq!(counted.operations, ["start", "commit"]);
    assert_eq!(counted.finished.len(), 1);
}

#[test]
fn a_worker_without_work_takes_less_than_one_operation_a_second() {
    let mut counted = Counted::new();
    for number in 0..100 {
        counted.start(&format!("i{number}"), "signal-round-trip");
    }
    counted.pass(60_000);
    counted.operations.clear();
    counted.pass(600_000);
    assert!(counted.operations.len() < 300, "{}", counted.operations.len());
}
