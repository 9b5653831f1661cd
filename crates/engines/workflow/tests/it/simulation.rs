//! Simulates several workers on one store: crashes after any store call, lost and repeated hints, lost answers, writes that happen in part, zombies
//! and clocks that go back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::FutureExt;
use plimsoll_measure::random::Random;
use plimsoll_workflow::audit::audit;
use plimsoll_workflow::file::read;
use plimsoll_workflow::instance::{Act, Body, Signal, StartRequest, State, Status, TaskStatus};
use plimsoll_workflow::memory::{Memory, Removal};
use plimsoll_workflow::port::{Find, Inbox, Record, Services, SignalKey, Store, StoreError};
use plimsoll_workflow::step::{Again, Answer, Call, CallError, start};
use plimsoll_workflow::worker::{Core, Happened, Hint, Job, Registry, Settings, perform};
use serde_json::{Value, json};

const SEEDS: u64 = 1200;
const TURNS: usize = 400;
const WORKERS: usize = 3;
const PARTITIONS: u16 = 4;

const DEFINITIONS: [&str; 6] = [
    "
name: collect
steps:
- repeat:
    while: '(.got | length) < .want'
    steps:
    - wait: {name: next, signal: s, result: last}
    - service: {name: count, function: count, retries: {attempts: 100, backoff_max: 200ms}}
    - set: {value: '.got += [.last]'}
",
    "
name: child
steps:
- timer: {after: 1s}
- wait: {signal: s, result: last}
",
    "
name: parent
steps:
- service: {function: count, compensate: {service: {function: undo}}}
- fork:
    branches:
    - - workflow: {definition: child, input: '{}', on_failure: continue}
    - - task: {name: review, validate: '. == 1', result: review}
- continue_with: {definition: short, input: '{}'}
",
    "
name: race
steps:
- wait: {name: next, signal: s, timeout: 300ms, on_timeout: continue, result: last}
- service: {function: count, input: '{last}'}
- fork:
    branches:
    - - service: {function: count}
    - - wait: {signal: s, timeout: 100ms, on_timeout: continue, result: other}
- service: {function: count}
",
    "
name: short
steps:
- timer: {after: 100ms}
- service: {function: count}
",
    "
name: clocked
steps:
- wait: {name: next, signal: s, timeout: 300ms, on_timeout: continue, result: last}
- service: {function: count, input: '{last, at: $now}'}
- service: {function: count, input: '{at: $now}', compensate: {service: {function: undo}}}
",
];

/// Definitions whose calls begin only after their change is stored: they read the clock, or can be undone.
const STORED_FIRST: [&str; 2] = ["parent", "clocked"];

fn registry() -> Arc<Registry> {
    static REGISTRY: OnceLock<Arc<Registry>> = OnceLock::new();
    let build = || {
        let registry = Registry::default();
        DEFINITIONS.iter().for_each(|text| drop(registry.add(&read(text).unwrap().0).unwrap()));
        Arc::new(registry)
    };
    REGISTRY.get_or_init(build).clone()
}

/// Functions that fail now and then. An idempotency key names one target and one input.
#[derive(Default)]
struct Functions {
    random: Mutex<Option<Random>>,
    keys: Mutex<BTreeMap<String, (String, Value)>>,
    /// Keys with two calls.
    ambiguous: Mutex<BTreeSet<String>>,
    /// The keys of each instance, visit and target.
    visits: Mutex<BTreeMap<(String, u64, String), BTreeSet<String>>>,
}

impl Services for Functions {
    async fn call(&self, call: &Call) -> Result<Value, CallError> {
        let call_of_key = (call.target.to_string(), call.input.clone());
        let mut keys = self.keys.lock().unwrap();
        let known = keys.entry(call.key.clone()).or_insert_with(|| call_of_key.clone());
        if *known != call_of_key {
            self.ambiguous.lock().unwrap().insert(call.key.clone());
        }
        let visit = (call.instance.clone(), call.visit, call_of_key.0);
        self.visits.lock().unwrap().entry(visit).or_default().insert(call.key.clone());
        let mut random = self.random.lock().unwrap();
        match random.as_mut().map(|random| random.bits() % 5) {
            Some(0) => Err(CallError { message: "broken".into(), again: Again::Maybe }),
            _ => Ok(json!(1)),
        }
    }
}

/// A worker with its unfinished jobs and undelivered results.
struct Process {
    core: Core,
    jobs: Vec<(Job, u64)>,
    results: Vec<Happened>,
    /// Frozen until this moment.
    frozen_until_ms: u64,
    /// The clock's deviation.
    skew_ms: i64,
}

impl Process {
    fn clock_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_add_signed(self.skew_ms)
    }
}

struct World {
    seed: u64,
    random: Random,
    now_ms: u64,
    store: Memory,
    functions: Functions,
    processes: Vec<Process>,
    started: u64,
    /// Instances that the store acknowledged, and their signals.
    instances: Vec<String>,
    acknowledged: BTreeMap<String, BTreeSet<u64>>,
    unacknowledged: Vec<Signal>,
    signals: u64,
    chaos: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let removal = if seed.is_multiple_of(2) { Removal::WithCommit } else { Removal::AfterCommit };
        let functions = Functions::default();
        *functions.random.lock().unwrap() = Some(Random::new(seed ^ 1));
        let mut world = Self {
            seed,
            random: Random::new(seed),
            now_ms: 1_000_000,
            store: Memory::new(PARTITIONS, removal),
            functions,
            processes: Vec::new(),
            started: 0,
            instances: Vec::new(),
            acknowledged: BTreeMap::new(),
            unacknowledged: Vec::new(),
            signals: 0,
            chaos: true,
        };
        world.processes = (0..WORKERS).map(|_| world.process()).collect();
        world
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.bits() % bound.max(1)
    }

    /// One time in `bound`, as long as there is chaos.
    fn mishap(&mut self, bound: u64) -> bool {
        self.chaos && self.below(bound) == 0
    }

    /// A fresh worker.
    fn process(&mut self) -> Process {
        self.started += 1;
        let settings = Settings {
            ttl_ms: 3000,
            margin_ms: 300,
            batch: 1 + (self.random.bits() % 8) as usize,
            calls_max: 4,
            poll_min_ms: 100,
            poll_max_ms: 800,
            ahead_ms: 1500,
            ..Settings::new(format!("owner {}", self.started))
        };
        let core = Core::new(settings, registry(), PARTITIONS);
        let skew_ms = (self.random.bits() % 200).cast_signed();
        Process { core, jobs: Vec::new(), results: vec![Happened::Tick], frozen_until_ms: 0, skew_ms }
    }

    /// Does a job now; the store may fail before or after it.
    fn perform(&mut self, job: Job, asked_ms: u64) -> Happened {
        let fails_before = self.mishap(15);
        if fails_before && let Some(failed) = failed(&job, asked_ms) {
            return failed;
        }
        let loses_answer = self.mishap(15);
        self.store.set_clock(self.now_ms);
        if matches!(job, Job::Drain(_) | Job::Commit(_)) && self.mishap(5) {
            // One of the writes of a drain fails, or the removal of the signals after a commit, and those before it have happened.
            let writes = self.below(4);
            self.store.fail_after(writes);
        }
        let registry = registry();
        let given =
            perform(&self.store, &self.functions, &registry, job.clone(), asked_ms).now_or_never().unwrap();
        self.store.fail_after(u64::MAX);
        if loses_answer { failed(&job, asked_ms).unwrap_or(given) } else { given }
    }

    fn turn_of_a_worker(&mut self) {
        let index = self.below(WORKERS as u64) as usize;
        if self.processes[index].frozen_until_ms > self.now_ms {
            return;
        }
        if self.mishap(60) {
            return self.crash(index);
        }
        if self.mishap(60) {
            // A zombie: its jobs go on later, long after its leases have ended.
            self.processes[index].frozen_until_ms = self.now_ms + 2000 + self.below(6000);
            return;
        }
        if self.mishap(80) {
            // The clock is set back, or forward again.
            self.processes[index].skew_ms = 200 - self.below(5000).cast_signed();
        }
        let (jobs, results) =
            (self.processes[index].jobs.len() as u64, self.processes[index].results.len() as u64);
        if jobs > 0 && (results == 0 || self.below(2) == 0) {
            let at = self.below(jobs) as usize;
            let (job, asked_ms) = self.processes[index].jobs.swap_remove(at);
            let result = self.perform(job, asked_ms);
            self.processes[index].results.push(result);
        } else if results > 0 {
            let count = 1 + self.below(results.min(3));
            let take = |_| {
                let at = self.below(self.processes[index].results.len() as u64) as usize;
                self.processes[index].results.swap_remove(at)
            };
            let news = (0..count).map(take).collect();
            self.turn(index, news);
        } else {
            let process = &self.processes[index];
            if process.core.wake_soon_ms(process.clock_ms(self.now_ms)) <= process.clock_ms(self.now_ms) {
                self.turn(index, vec![Happened::Tick]);
            }
        }
    }

    fn turn(&mut self, index: usize, news: Vec<Happened>) {
        let process = &mut self.processes[index];
        let now_ms = process.clock_ms(self.now_ms);
        let (answers, jobs): (Vec<_>, Vec<_>) =
            process.core.turn(news, now_ms).into_iter().partition(|job| matches!(job, Job::Tell(_)));
        process.jobs.extend(jobs.into_iter().map(|job| (job, now_ms)));
        answers.iter().for_each(|job| self.check_change(job));
    }

    /// Checks that the worker reports a change and an end only after the store has it.
    fn check_change(&self, job: &Job) {
        let Job::Tell(change) = job else { return };
        let records =
            self.store.load(std::slice::from_ref(&change.instance)).now_or_never().unwrap().unwrap();
        let record = records[0].as_ref().unwrap();
        assert!(record.version >= change.version, "seed {}", self.seed);
        let Some(end) = &change.end else { return };
        let state = State::decode(&record.body).unwrap();
        assert_eq!((state.status, &state.data), (end.status, &end.data), "seed {}", self.seed);
    }

    /// Ends a worker. Some of its jobs reach the store, and their results are lost.
    fn crash(&mut self, index: usize) {
        let jobs = std::mem::take(&mut self.processes[index].jobs);
        for (job, asked_ms) in jobs {
            if self.below(2) == 0 {
                self.perform(job, asked_ms);
            }
        }
        self.processes[index] = self.process();
    }

    /// Passes a hint to some workers, once or several times, or to none.
    fn hint(&mut self, hint: &Hint) {
        for index in 0..WORKERS {
            let times = if self.chaos { self.below(3) } else { 1 };
            (0..times).for_each(|_| self.processes[index].results.push(Happened::Hint(hint.clone())));
        }
    }

    fn start(&mut self) {
        let number = self.instances.len();
        let definition = ["collect", "parent", "short", "collect", "race", "race", "clocked"][number % 7];
        let want = 1 + self.below(4);
        let input = if definition == "collect" { json!({"got": [], "want": want}) } else { Value::Null };
        let id = format!("i{number}");
        let request = StartRequest {
            id: id.clone(),
            definition: definition.into(),
            key: None,
            parent: None,
            depth: 0,
            input,
        };
        let state = start(&registry().latest(definition).unwrap(), request, self.now_ms).unwrap();
        let record = Record::of(&state, PARTITIONS, 1, 0).unwrap();
        self.store.start(std::slice::from_ref(&record)).now_or_never().unwrap().unwrap();
        self.instances.push(id);
        self.hint(&Hint::Started(record));
    }

    /// Sends a signal, a repeated signal or a signal whose first answer was lost.
    fn send(&mut self, instance: String) {
        self.signals += 1;
        let number = self.signals;
        let mut signal = Signal::named(
            instance,
            format!("s{number}"),
            "s",
            json!(number),
            self.now_ms + self.random.bits() % 50,
        );
        if self.mishap(4) {
            signal.due_ms = self.now_ms + self.below(2000);
        }
        if self.mishap(6) {
            // The client does not hear the answer, and asks again later.
            if self.below(2) == 0 {
                self.store.publish(std::slice::from_ref(&signal)).now_or_never().unwrap().unwrap();
            }
            return self.unacknowledged.push(signal);
        }
        self.publish(&signal);
    }

    fn publish(&mut self, signal: &Signal) {
        self.store.publish(std::slice::from_ref(signal)).now_or_never().unwrap().unwrap();
        if let Body::Named { body, .. } = &signal.body {
            let number = body.as_u64().unwrap();
            self.acknowledged.entry(signal.instance.clone()).or_default().insert(number);
        }
        self.hint(&Hint::Published(signal.clone()));
    }

    fn client(&mut self) {
        match self.below(8) {
            0 | 1 if self.instances.len() < 9 => self.start(),
            2 => {
                if let Some(signal) = self.unacknowledged.pop() {
                    self.publish(&signal);
                }
            }
            3 => self.act(),
            _ => {
                let at = self.below(self.instances.len() as u64) as usize;
                // Instances that collect prove their signals, and those that race have timeouts.
                let at = if at % 7 > 3 { at } else { at - at % 7 % 3 };
                if let Some(instance) = self.instances.get(at).cloned() {
                    self.send(instance);
                }
            }
        }
    }

    /// Acts on an open task, not always validly.
    fn act(&mut self) {
        let inbox = Inbox { status: Some(TaskStatus::Open), limit: 10, ..Inbox::default() };
        let rows = self.store.tasks(&inbox).now_or_never().unwrap().unwrap();
        for row in rows {
            let payload = json!(if self.chaos { self.below(2) } else { 1 });
            let body = Body::Act {
                visit: row.visit,
                by: "a".into(),
                roles: Vec::new(),
                act: Act::Complete { payload },
            };
            self.signals += 1;
            let signal = Signal::new(row.instance, format!("act{}", self.signals), body, self.now_ms);
            self.publish(&signal);
        }
    }

    fn run(&mut self) {
        for _ in 0..TURNS {
            match self.below(10) {
                0 => self.client(),
                1 => self.now_ms += self.below(300),
                _ => self.turn_of_a_worker(),
            }
        }
        self.settle();
    }

    /// Runs everything to its end without faults.
    fn settle(&mut self) {
        self.chaos = false;
        *self.functions.random.lock().unwrap() = None;
        while let Some(signal) = self.unacknowledged.pop() {
            self.publish(&signal);
        }
        for _ in 0..60 {
            self.finish_waits();
            for _ in 0..150 {
                self.turn_of_a_worker();
            }
            self.now_ms += 500;
        }
    }

    /// Gives every waiting instance the signals that it lacks.
    fn finish_waits(&mut self) {
        self.act();
        let records = self.records();
        for (record, state) in records {
            if record.status == Status::Parked {
                self.signals += 1;
                let retry =
                    Signal::new(record.id, format!("retry{}", self.signals), Body::Retry, self.now_ms);
                self.publish(&retry);
            } else if state.tokens.iter().any(|token| token.wait.kind() == "signal") {
                self.send(record.id);
            }
        }
    }

    fn records(&self) -> Vec<(Record, State)> {
        let find = Find { limit: 1000, ..Find::default() };
        let records = self.store.find(&find).now_or_never().unwrap().unwrap();
        records.into_iter().map(|record| (record.clone(), State::decode(&record.body).unwrap())).collect()
    }

    /// Checks that a callee which remembers keys sees each call once, whatever was lost or repeated.
    fn check_keys(&self) {
        let names: BTreeMap<_, _> =
            self.records().into_iter().map(|(record, _)| (record.id, record.definition.name)).collect();
        for ((instance, visit, target), keys) in &*self.functions.visits.lock().unwrap() {
            let is_stored_first = STORED_FIRST.contains(&names[instance].as_str());
            let place = format!("seed {}: visit {visit} of {instance} calls {target}", self.seed);
            assert!(!is_stored_first || keys.len() == 1, "{place} with the keys {keys:?}");
        }
    }

    /// Everything that was acknowledged was applied exactly once, or is a dead letter.
    fn check(&self) {
        let seed = self.seed;
        let report = audit(&self.store, self.now_ms).now_or_never().unwrap().unwrap();
        assert_eq!(report.findings, [], "seed {seed}");
        assert!(self.functions.ambiguous.lock().unwrap().is_empty(), "seed {seed}: a key names two calls");
        self.check_keys();
        let letters = self.store.dead(None, 10_000).now_or_never().unwrap().unwrap();
        for (record, state) in self.records() {
            assert!(state.status.is_ended(), "seed {seed}: {state:#?}");
            if record.definition.name != "collect" {
                continue;
            }
            assert_eq!(state.status, Status::Done, "seed {seed}: {state:#?}");
            let got: Vec<u64> =
                state.data["got"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
            let dead = letters.iter().filter(|letter| letter.signal.instance == record.id);
            let dead = dead.filter_map(|letter| match &letter.signal.body {
                Body::Named { body, .. } => body.as_u64(),
                _ => None,
            });
            let mut seen: Vec<u64> = got.iter().copied().chain(dead).collect();
            seen.sort_unstable();
            let once: BTreeSet<u64> = seen.iter().copied().collect();
            assert_eq!(seen.len(), once.len(), "seed {seed}: {} applied a signal twice: {seen:?}", record.id);
            let sent = self.acknowledged.get(&record.id).cloned().unwrap_or_default();
            assert_eq!(once, sent, "seed {seed}: {} lost a signal", record.id);
        }
        for id in &self.instances {
            assert!(self.records().iter().any(|(record, _)| record.id == *id), "seed {seed}: {id} is lost");
        }
    }
}

/// The result of a job whose answer is an error. A call has none.
fn failed(job: &Job, asked_ms: u64) -> Option<Happened> {
    let error = || StoreError::Unavailable("simulated".into());
    Some(match job {
        Job::Lease(_) => Happened::Leased { asked_ms, result: Err(error()) },
        Job::Scan { limit, .. } => Happened::Scanned { limit: *limit, result: Err(error()) },
        Job::Load(tags) => Happened::Loaded { tags: tags.clone(), result: Err(error()) },
        Job::Definitions(question) => Happened::Defined { question: *question, result: Err(error()) },
        Job::Commit(commits) => Happened::Committed {
            results: commits.iter().map(|(tag, _)| (tag.clone(), Err(error()))).collect(),
        },
        Job::Remove(keys) => Happened::Settled { keys: keys.clone(), result: Err(error()) },
        Job::Drain(batches) => {
            let done = batches.iter().map(|(tag, _)| (tag.clone(), Err(error()))).collect();
            Happened::Drained { done, records: Vec::new(), signals: Vec::new() }
        }
        Job::Call(call) => {
            let error = CallError { message: "lost".into(), again: Again::Maybe };
            let answer = Answer { visit: call.visit, attempt: call.attempt, result: Err(error) };
            Happened::Called { instance: call.instance.clone(), key: call.key.clone(), answer }
        }
        Job::Postpone(signals) => {
            let keys = signals.iter().map(|signal| signal.key.clone()).collect();
            Happened::Settled { keys, result: Err(error()) }
        }
        Job::Bury(letters) => {
            let keys = letters.iter().map(|letter| SignalKey::of(&letter.signal)).collect();
            Happened::Settled { keys, result: Err(error()) }
        }
        Job::Announce(_) | Job::Tell(_) | Job::Forget { .. } | Job::Holders => return None,
    })
}

#[test]
fn nothing_acknowledged_is_lost_or_applied_twice_whatever_fails() {
    let first = std::env::var("PLIMSOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let (from, to) = first.map_or((0, SEEDS), |seed| (seed, seed + 1));
    for seed in from..to {
        let mut world = World::new(seed);
        world.run();
        world.check();
    }
}
