//! Tests scans and hints that arrive after the worker has applied and removed their signals.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use plimsoll_workflow::file::read;
use plimsoll_workflow::instance::{Signal, StartRequest, State};
use plimsoll_workflow::memory::{Memory, Removal};
use plimsoll_workflow::port::{Inserted, Record, Services, Store};
use plimsoll_workflow::step::{Call, CallError, start};
use plimsoll_workflow::worker::{Core, Happened, Hint, Job, Registry, Settings, perform};
use serde_json::{Value, json};

const NOW_MS: u64 = 1_000;
/// More signals than an instance remembers.
const SIGNALS: u64 = 70;
const COUNTER: &str =
    "name: counter\nsteps:\n- repeat:\n    steps:\n    - wait: {signal: go}\n    - set: {value: '.n += 1'}\n";

/// Counts calls.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Services for Counting {
    async fn call(&self, _: &Call) -> Result<Value, CallError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Value::Null)
    }
}

struct Lab {
    core: Core,
    store: Memory,
    registry: Arc<Registry>,
    services: Counting,
    /// Whether the answers of scans are held back.
    holds: bool,
    held: Vec<Happened>,
}

impl Lab {
    fn new(removal: Removal) -> Self {
        let (store, registry) = (Memory::new(4, removal), Arc::new(Registry::default()));
        let core = Core::new(Settings::new("one"), registry.clone(), 4);
        Self { core, store, registry, services: Counting::default(), holds: false, held: Vec::new() }
    }

    /// Passes news to the core, and does all work that follows.
    fn tell(&mut self, happened: Happened) {
        let mut news = VecDeque::from([happened]);
        while let Some(happened) = news.pop_front() {
            for job in self.core.handle(happened, NOW_MS) {
                let is_scan = matches!(job, Job::Scan { .. });
                let done =
                    perform(&self.store, &self.services, &self.registry, job, NOW_MS).now_or_never().unwrap();
                if is_scan && self.holds { self.held.push(done) } else { news.push_back(done) }
            }
        }
    }

    /// Starts an instance in the store only.
    fn start(&self, definition: &str) -> Record {
        let program = self.registry.add(&read(definition).unwrap().0).unwrap();
        let request = StartRequest {
            id: "i".into(),
            definition: program.version.name.clone(),
            key: None,
            parent: None,
            depth: 0,
            input: json!({"n": 0}),
        };
        let record = Record::of(&start(&program, request, NOW_MS).unwrap(), 4, 1, 0).unwrap();
        self.store.start(std::slice::from_ref(&record)).now_or_never().unwrap().unwrap();
        record
    }

    fn publish(&self, number: u64) -> Signal {
        let signal = Signal::named("i", format!("s{number}"), "go", Value::Null, NOW_MS);
        self.store.publish(std::slice::from_ref(&signal)).now_or_never().unwrap().unwrap();
        signal
    }
}

/// The part that comes late.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Late {
    Scan,
    Hint,
}

fn check(removal: Removal, late: Late) {
    let mut lab = Lab::new(removal);
    let record = lab.start(COUNTER);
    lab.tell(Happened::Tick);
    lab.tell(Happened::Hint(Hint::Started(record)));
    let first = lab.publish(0);
    lab.holds = late == Late::Scan;
    lab.tell(Happened::Hint(Hint::Work));
    assert_eq!(lab.held.len(), usize::from(lab.holds), "a held scan has seen the first signal");
    lab.tell(Happened::Hint(Hint::Published(first.clone())));
    for number in 1..=SIGNALS {
        let signal = lab.publish(number);
        lab.tell(Happened::Hint(Hint::Published(signal)));
    }
    lab.holds = false;
    for happened in std::mem::take(&mut lab.held) {
        lab.tell(happened);
    }
    if late == Late::Hint {
        lab.tell(Happened::Hint(Hint::Published(first)));
    }
    let records = lab.store.load(&["i".to_owned()]).now_or_never().unwrap().unwrap();
    let state = State::decode(&records[0].as_ref().unwrap().body).unwrap();
    assert_eq!(state.data["n"], json!(SIGNALS + 1), "each signal is applied once");
}

#[test]
fn a_signal_in_a_late_answer_of_a_scan_is_not_applied_again() {
    check(Removal::WithCommit, Late::Scan);
    check(Removal::AfterCommit, Late::Scan);
}

#[test]
fn a_signal_in_a_late_hint_is_not_applied_again() {
    check(Removal::WithCommit, Late::Hint);
    check(Removal::AfterCommit, Late::Hint);
}

#[test]
fn a_signal_that_is_sent_again_after_many_others_is_not_applied_again() {
    for removal in [Removal::WithCommit, Removal::AfterCommit] {
        let mut lab = Lab::new(removal);
        let record = lab.start(COUNTER);
        lab.tell(Happened::Tick);
        lab.tell(Happened::Hint(Hint::Started(record)));
        for round in 0..2 {
            for number in (0..=SIGNALS).filter(|number| round == 0 || number % 7 == 0) {
                let signal = lab.publish(number);
                lab.tell(Happened::Hint(Hint::Work));
                lab.tell(Happened::Hint(Hint::Published(signal)));
            }
        }
        let records = lab.store.load(&["i".to_owned()]).now_or_never().unwrap().unwrap();
        let state = State::decode(&records[0].as_ref().unwrap().body).unwrap();
        assert_eq!(state.data["n"], json!(SIGNALS + 1), "each signal is applied once");
        let signal = Signal::named("i", "s0", "go", Value::Null, NOW_MS);
        let inserted = lab.store.publish(&[signal]).now_or_never().unwrap().unwrap();
        assert_eq!(inserted, [Inserted::Known]);
    }
}

const CALL: &str = "name: call\nsteps:\n- service: {function: f}\n";

#[test]
fn a_call_in_a_late_answer_of_a_scan_is_not_repeated() {
    let mut lab = Lab::new(Removal::WithCommit);
    lab.tell(Happened::Tick);
    let record = lab.start(CALL);
    lab.holds = true;
    lab.tell(Happened::Hint(Hint::Work));
    assert_eq!(lab.held.len(), 1, "a held scan has seen the waiting call");
    lab.tell(Happened::Hint(Hint::Started(record)));
    lab.holds = false;
    for happened in std::mem::take(&mut lab.held) {
        lab.tell(happened);
    }
    assert_eq!(lab.services.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_call_in_a_late_hint_of_a_start_is_not_repeated() {
    let mut lab = Lab::new(Removal::WithCommit);
    lab.tell(Happened::Tick);
    let record = lab.start(CALL);
    lab.tell(Happened::Hint(Hint::Work));
    assert_eq!(lab.services.0.load(Ordering::Relaxed), 1, "the scan brought the instance");
    lab.tell(Happened::Hint(Hint::Started(record)));
    assert_eq!(lab.services.0.load(Ordering::Relaxed), 1);
}
