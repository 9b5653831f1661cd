//! Proves after a load that nothing acknowledged was lost: every started instance ended, and every signal was applied once.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_measure::clock::{Instant, now, wall_ms};
use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_workflow::audit::{self, FindingKind, Report};
use plimsoll_workflow::instance::Status;
use plimsoll_workflow::port::{Find, Record, Store, Stored};
use tokio::time::sleep;

use crate::ledger::{Fate, Ledger, Promise, Sent};
use crate::target::Shared;
use crate::work::received;

/// The maximum number of instances of one request.
const PAGE: usize = 500;
/// The time between two checks of instances that must end.
const PAUSE: Duration = Duration::from_millis(20);
/// The minimum time that instances have to end after the load.
const PATIENCE_MIN: Duration = Duration::from_secs(10);
/// The maximum number of examples.
const EXAMPLES_MAX: usize = 20;

/// The result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audited {
    /// The comparison with the promises.
    pub(crate) integrity: Integrity,
    /// Instances that did not end although nothing was missing.
    pub(crate) stuck: u64,
    /// Dead letters.
    pub(crate) dead_letters: u64,
    /// Broken invariants by kind.
    pub(crate) findings: BTreeMap<String, u64>,
}

/// The ledgers of all threads.
pub(crate) struct Promises<'a>(pub(crate) Vec<&'a Ledger>);

/// Waits until all instances have ended, ends the workers, and audits the store. Reports (instances read, instances expected) to `progress`.
pub(crate) async fn audit<S: Store>(
    shared: &Shared<S>,
    promises: &Promises<'_>,
    patience: Duration,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Audited {
    let began = now();
    let patience = patience.max(PATIENCE_MIN);
    progress(0, Comparison::new(promises, &shared.run).expected);
    let settled = settle(shared, promises, began, patience).await;
    shared.engine.halt().await;
    let mut audited = match look(shared, promises, progress).await {
        Ok(audited) => audited,
        Err(error) => return unread(error.to_string()),
    };
    if let Err(error) = settled {
        audited.integrity.proof = Proof::NotAudited;
        audited.integrity.reason = Some(error.to_string());
    }
    audited.integrity.audit_s = now().since(began) as f64 / 1e9;
    audited
}

fn unread(reason: String) -> Audited {
    let integrity = Integrity { proof: Proof::NotAudited, reason: Some(reason), ..Integrity::default() };
    Audited { integrity, ..Audited::default() }
}

/// Sends the signals that clients did not deliver, and waits until every instance has ended and every signal is consumed. Stops after
/// `patience` without a change.
async fn settle<S: Store>(
    shared: &Shared<S>,
    promises: &Promises<'_>,
    began: Instant,
    patience: Duration,
) -> Stored<()> {
    let (mut open, mut changes, mut progress) = (promises.open(), 0, began);
    loop {
        let result = step(shared, &mut open).await;
        if matches!(result, Ok(true)) {
            return Ok(());
        }
        let latest = shared.engine.store().changes();
        if latest > changes {
            (changes, progress) = (latest, now());
        }
        if u128::from(now().since(progress)) > patience.as_nanos() {
            return result.map(drop);
        }
        sleep(PAUSE).await;
    }
}

/// Answers every open instance once. Returns whether no instance is open and no signal is left.
async fn step<S: Store>(shared: &Shared<S>, open: &mut Vec<(String, Promise)>) -> Stored<bool> {
    let mut left = Vec::new();
    for page in open.chunks(PAGE) {
        let ids: Vec<_> = page.iter().map(|(id, _)| id.clone()).collect();
        let records = shared.engine.store().load(&ids).await?;
        for ((id, promise), record) in page.iter().zip(records) {
            let Some(record) = record.filter(|record| !record.status.is_ended()) else { continue };
            answer(shared, *promise, &record).await?;
            left.push((id.clone(), *promise));
        }
    }
    *open = left;
    Ok(open.is_empty() && shared.engine.store().signals(None, 1).await?.is_empty())
}

/// Sends the signals that the client of an instance would send now. The store recognises a repeated signal by its id.
async fn answer<S: Store>(shared: &Shared<S>, promise: Promise, record: &Record) -> Stored<()> {
    let work = &shared.works[usize::from(promise.operation)];
    let mut signals = work.answers(record);
    signals.extend(if record.due_ms.is_none() { work.at_once(&record.id) } else { Vec::new() });
    for signal in signals {
        // A signal that is refused leaves the instance open, and the audit reports it.
        drop(shared.engine.publish(signal).await);
    }
    Ok(())
}

impl Promises<'_> {
    /// Instances that may exist and whose end was not seen.
    fn open(&self) -> Vec<(String, Promise)> {
        let may_be_open =
            |promise: &Promise| !promise.ended && matches!(promise.start, Fate::Acknowledged | Fate::Unknown);
        let of = |ledger: &&Ledger| {
            let promises = ledger.promises().into_iter().enumerate();
            promises
                .filter(|(_, promise)| may_be_open(promise))
                .map(|(index, promise)| (ledger.id(index), promise))
                .collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    fn receivers(&self) -> BTreeMap<String, Sent> {
        let mut all = BTreeMap::<String, Sent>::new();
        for (receiver, sent) in self.0.iter().flat_map(|ledger| ledger.receivers()) {
            all.entry(receiver).or_default().merge(sent);
        }
        all
    }
}

/// Reads the whole store once, and compares it with the promises.
async fn look<S: Store>(
    shared: &Shared<S>,
    promises: &Promises<'_>,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Stored<Audited> {
    let store = shared.engine.store();
    let report = audit::audit(store, wall_ms()).await?;
    let mut comparison = Comparison::new(promises, &shared.run);
    let mut find = Find { limit: PAGE, ..Find::default() };
    loop {
        let page = store.find(&find).await?;
        page.iter().for_each(|record| comparison.add(record));
        progress(comparison.read, comparison.expected);
        let Some(last) = page.last().filter(|_| page.len() == PAGE) else { break };
        find.after = Some(last.id.clone());
    }
    Ok(comparison.finish(&report))
}

/// Compares stored instances with the promises.
struct Comparison<'a> {
    ledgers: Vec<(&'a Ledger, Vec<Promise>)>,
    seen: Vec<Vec<bool>>,
    receivers: BTreeMap<String, Sent>,
    run: &'a str,
    integrity: Integrity,
    stuck: u64,
    read: u64,
    expected: u64,
}

impl<'a> Comparison<'a> {
    fn new(promises: &Promises<'a>, run: &'a str) -> Self {
        let ledgers: Vec<_> = promises.0.iter().map(|ledger| (*ledger, ledger.promises())).collect();
        let seen = ledgers.iter().map(|(_, promises)| vec![false; promises.len()]).collect();
        let expected = ledgers.iter().map(|(_, promises)| promises.len() as u64).sum();
        let receivers = promises.receivers();
        let integrity = Integrity::default();
        Self { ledgers, seen, receivers, run, integrity, stuck: 0, read: 0, expected }
    }

    /// Compares one stored instance.
    fn add(&mut self, record: &Record) {
        self.read += 1;
        if let Some(sent) = self.receivers.remove(&record.id) {
            return self.receiver(record, sent);
        }
        let found = self.ledgers.iter().enumerate().find_map(|(at, (ledger, promises))| {
            let index = ledger.index(&record.id)?;
            Some((at, index, promises.get(index).copied()))
        });
        match found {
            Some((at, index, Some(promise))) => {
                self.seen[at][index] = true;
                self.instance(record, promise);
            }
            Some((.., None)) => self.phantom(record),
            None => self.integrity.foreign += u64::from(!record.id.starts_with(self.run)),
        }
    }

    fn instance(&mut self, record: &Record, promise: Promise) {
        match (promise.start, record.status) {
            (Fate::Unsent | Fate::Refused, _) => self.phantom(record),
            (Fate::Unknown, _) => self.integrity.unknown_present += 1,
            (Fate::Acknowledged, Status::Done) => self.integrity.found += 1,
            (Fate::Acknowledged, status) => {
                self.stuck += u64::from(!status.is_ended());
                self.lost(format!("{} is {}", record.id, status.name()));
            }
        }
    }

    /// Compares the count of a receiver with the signals that were sent to it.
    fn receiver(&mut self, record: &Record, sent: Sent) {
        let applied = received(record).unwrap_or(0);
        self.integrity.found += applied.min(sent.acknowledged);
        self.integrity.unknown_present += applied.saturating_sub(sent.acknowledged).min(sent.unknown);
        let missing = sent.acknowledged.saturating_sub(applied);
        if missing > 0 {
            self.integrity.lost += missing - 1;
            self.lost(format!("{} applied {applied} of {} signals", record.id, sent.acknowledged));
        }
        let extra = applied.saturating_sub(sent.acknowledged + sent.unknown);
        self.integrity.duplicated += extra;
        if extra > 0 {
            self.example(format!("duplicated: {} applied {applied} signals", record.id));
        }
    }

    fn phantom(&mut self, record: &Record) {
        self.integrity.phantom += 1;
        self.example(format!("phantom: {}", record.id));
    }

    fn lost(&mut self, words: String) {
        self.integrity.lost += 1;
        self.example(format!("lost: {words}"));
    }

    fn example(&mut self, words: String) {
        if self.integrity.examples.len() < EXAMPLES_MAX {
            self.integrity.examples.push(words);
        }
    }

    /// Counts the promises without an instance, and adds the engine's own findings.
    fn finish(mut self, report: &Report) -> Audited {
        let ledgers = std::mem::take(&mut self.ledgers);
        for ((ledger, promises), seen) in ledgers.iter().zip(std::mem::take(&mut self.seen)) {
            for (index, promise) in promises.iter().enumerate().filter(|(index, _)| !seen[*index]) {
                self.missing(ledger, index, *promise);
            }
        }
        for (receiver, sent) in std::mem::take(&mut self.receivers) {
            self.integrity.lost += sent.acknowledged;
            self.example(format!("lost: {receiver} is missing"));
        }
        self.integrity.acknowledged = self.integrity.found + self.integrity.lost;
        let mut findings = BTreeMap::new();
        for finding in &report.findings {
            *findings.entry(kind(finding.kind).to_owned()).or_default() += 1;
            self.example(format!("{}: {}: {}", kind(finding.kind), finding.instance, finding.words));
        }
        self.integrity.corrupted = report.findings.len() as u64;
        let dead_letters = report.dead.values().sum();
        Audited { integrity: self.integrity, stuck: self.stuck, dead_letters, findings }
    }

    fn missing(&mut self, ledger: &Ledger, index: usize, promise: Promise) {
        match promise.start {
            Fate::Acknowledged => self.lost(format!("{} is missing", ledger.id(index))),
            Fate::Unknown => self.integrity.unknown_absent += 1,
            Fate::Refused => self.integrity.rejected += 1,
            Fate::Unsent => {}
        }
    }
}

/// The name of a kind of finding.
const fn kind(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Unreadable => "unreadable",
        FindingKind::Broken => "broken",
        FindingKind::Unexplained => "unexplained",
        FindingKind::Orphan => "orphan",
        FindingKind::Task => "task",
        FindingKind::Backlog => "backlog",
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_workflow::definition::Definition;
    use plimsoll_workflow::instance::{StartRequest, State};
    use plimsoll_workflow::program::Program;
    use plimsoll_workflow::step::start;
    use serde_json::{Value, json};

    use super::*;

    fn state(id: &str) -> State {
        let program = Program::compile(&Definition::new("a").wait("go")).unwrap();
        let request = StartRequest {
            id: id.into(),
            definition: "a".into(),
            key: None,
            parent: None,
            depth: 0,
            input: Value::Null,
        };
        start(&program, request, 1).unwrap()
    }

    fn record(id: &str, status: Status) -> Record {
        let state = State { status, ..state(id) };
        Record::of(&state, 1, 1, 0).unwrap()
    }

    fn counter(id: &str, count: u64) -> Record {
        let state = State { data: json!({"count": count}), ..state(id) };
        Record::of(&state, 1, 1, 0).unwrap()
    }

    fn compared(ledger: &Ledger, records: &[Record]) -> Audited {
        let promises = Promises(vec![ledger]);
        let mut comparison = Comparison::new(&promises, "run");
        records.iter().for_each(|record| comparison.add(record));
        comparison.finish(&Report::default())
    }

    #[test]
    fn an_acknowledged_start_is_found_only_if_its_instance_is_done() {
        let ledger = Ledger::new("run", 0);
        let fates =
            [Fate::Acknowledged, Fate::Acknowledged, Fate::Acknowledged, Fate::Unknown, Fate::Unknown];
        for fate in fates {
            let index = ledger.open(0);
            ledger.note(index, |promise| promise.start = fate);
        }
        let refused = ledger.open(0);
        ledger.note(refused, |promise| promise.start = Fate::Refused);
        let records = [
            record("run-0-0", Status::Done),
            record("run-0-1", Status::Running),
            record("run-0-3", Status::Done),
            record("run-0-5", Status::Running),
            record("run-0-99", Status::Done),
            record("run-0-0/3", Status::Done),
            record("other", Status::Done),
        ];
        let audited = compared(&ledger, &records);
        let found = &audited.integrity;
        assert_eq!((found.acknowledged, found.found, found.lost, audited.stuck), (3, 1, 2, 1));
        assert_eq!((found.unknown_present, found.unknown_absent), (1, 1));
        assert_eq!((found.phantom, found.foreign), (2, 1), "{:?}", found.examples);
        assert!(!found.holds());
    }

    #[test]
    fn a_receiver_tells_lost_and_repeated_signals() {
        let ledger = Ledger::new("run", 0);
        for receiver in ["run-receiver-0-0", "run-receiver-0-1", "run-receiver-0-2"] {
            for fate in [Fate::Acknowledged, Fate::Acknowledged, Fate::Acknowledged, Fate::Unknown] {
                ledger.note_sent(receiver, fate);
            }
        }
        let records =
            [counter("run-receiver-0-0", 4), counter("run-receiver-0-1", 1), counter("run-receiver-0-2", 6)];
        let found = compared(&ledger, &records).integrity;
        assert_eq!((found.acknowledged, found.found, found.lost), (9, 7, 2));
        assert_eq!((found.unknown_present, found.duplicated), (2, 2));
    }

    #[test]
    fn a_missing_receiver_has_lost_all_its_signals() {
        let ledger = Ledger::new("run", 0);
        ledger.note_sent("run-receiver-0-0", Fate::Acknowledged);
        assert_eq!(compared(&ledger, &[]).integrity.lost, 1);
    }
}
