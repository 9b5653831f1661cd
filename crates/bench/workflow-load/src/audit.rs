//! Proves after a load that nothing acknowledged was lost: every started instance ended, and every signal was applied once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_measure::clock::{Instant, now, wall_ms};
use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_workflow::audit::{self, FindingKind, Report};
use plimsoll_workflow::instance::{DeadLetter, DeadReason, Status};
use plimsoll_workflow::port::{Find, Record, SignalKey, Store, Stored};
use tokio::time::sleep;

use crate::ledger::{Fate, Ledger, Promise, Sent};
use crate::target::Shared;
use crate::work::{Part, Received, Work, received};

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
    /// Dead letters of the run, apart from late answers.
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
    progress(0, Comparison::new(promises, &shared.run, &shared.works).expected);
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
        let result = step(shared, promises, &mut open).await;
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
async fn step<S: Store>(
    shared: &Shared<S>,
    promises: &Promises<'_>,
    open: &mut Vec<(String, Promise)>,
) -> Stored<bool> {
    let mut left = Vec::new();
    for page in open.chunks(PAGE) {
        let ids: Vec<_> = page.iter().map(|(id, _)| id.clone()).collect();
        let records = shared.engine.store().load(&ids).await?;
        for ((id, promise), record) in page.iter().zip(records) {
            let Some(record) = record.filter(|record| !record.status.is_ended()) else { continue };
            answer(shared, promises, *promise, &record).await?;
            left.push((id.clone(), *promise));
        }
    }
    *open = left;
    Ok(open.is_empty() && !shared.engine.store().has_signals().await?)
}

/// Sends the signals that the client of an instance would send now, apart from acknowledged ones: the engine must not get back what it lost.
async fn answer<S: Store>(
    shared: &Shared<S>,
    promises: &Promises<'_>,
    promise: Promise,
    record: &Record,
) -> Stored<()> {
    let work = &shared.works[usize::from(promise.operation)];
    let mut signals = work.answers(record);
    signals.extend(if record.due_ms.is_none() { work.at_once(&record.id) } else { Vec::new() });
    let acknowledged = promises.signals(&record.id);
    for signal in signals.into_iter().filter(|signal| !acknowledged.contains(&signal.id)) {
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

    /// The ids of acknowledged signals to an instance.
    fn signals(&self, instance: &str) -> BTreeSet<String> {
        let of = |ledger: &&Ledger| ledger.index(instance).map(|index| ledger.signals(index));
        self.0.iter().find_map(of).unwrap_or_default()
    }

    /// The signals to each receiver, by sender.
    fn receivers(&self) -> BTreeMap<String, BTreeMap<String, Sent>> {
        let mut all = BTreeMap::<String, BTreeMap<String, Sent>>::new();
        for ledger in &self.0 {
            for (receiver, sent) in ledger.receivers() {
                all.entry(receiver).or_default().insert(ledger.prefix().to_owned(), sent);
            }
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
    let mut comparison = Comparison::new(promises, &shared.run, &shared.works);
    let mut find = Find { limit: PAGE, ..Find::default() };
    loop {
        let page = store.find(&find).await?;
        page.iter().for_each(|record| comparison.add(record));
        progress(comparison.read, comparison.expected);
        let Some(last) = page.last() else { break };
        find.after = Some(last.id.clone());
    }
    let mut after = None;
    loop {
        let page = store.dead(after.as_ref(), PAGE).await?;
        page.iter().for_each(|letter| comparison.letter(letter));
        let Some(last) = page.last() else { break };
        after = Some(SignalKey::of(&last.signal));
    }
    Ok(comparison.finish(&report))
}

/// Compares stored instances with the promises.
struct Comparison<'a> {
    ledgers: Vec<(&'a Ledger, Vec<Promise>)>,
    seen: Vec<Vec<bool>>,
    receivers: BTreeMap<String, BTreeMap<String, Sent>>,
    run: &'a str,
    works: &'a [Work],
    integrity: Integrity,
    stuck: u64,
    /// Dead letters by reason.
    letters: BTreeMap<&'static str, u64>,
    read: u64,
    expected: u64,
}

impl<'a> Comparison<'a> {
    fn new(promises: &Promises<'a>, run: &'a str, works: &'a [Work]) -> Self {
        let ledgers: Vec<_> = promises.0.iter().map(|ledger| (*ledger, ledger.promises())).collect();
        let seen = ledgers.iter().map(|(_, promises)| vec![false; promises.len()]).collect();
        let expected = ledgers.iter().map(|(_, promises)| promises.len() as u64).sum();
        let receivers = promises.receivers();
        Self {
            ledgers,
            seen,
            receivers,
            run,
            works,
            integrity: Integrity::default(),
            stuck: 0,
            letters: BTreeMap::new(),
            read: 0,
            expected,
        }
    }

    /// Counts a dead letter of this run, unless it only came late.
    fn letter(&mut self, letter: &DeadLetter) {
        let is_own = self.is_own(&letter.signal.instance);
        if is_own && !self.is_late(letter) {
            *self.letters.entry(letter.reason.name()).or_default() += 1;
        }
    }

    /// Whether an instance belongs to this run.
    fn is_own(&self, instance: &str) -> bool {
        instance.strip_prefix(self.run).is_some_and(|rest| rest.starts_with('-'))
    }

    /// Whether a letter is an answer to a wait that was over by the time it came. Clients answer the state that they see, and in any
    /// definition a timer or another branch may end a wait first.
    fn is_late(&self, letter: &DeadLetter) -> bool {
        let may_be_late = matches!(letter.reason, DeadReason::Unused | DeadReason::Ended | DeadReason::Stale);
        let promise = self.ledgers.iter().find_map(|(ledger, promises)| {
            ledger.index(&letter.signal.instance).and_then(|index| promises.get(index))
        });
        let work = promise.and_then(|promise| self.works.get(usize::from(promise.operation)));
        may_be_late && work.is_some_and(|work| work.part == Part::Answer)
    }

    /// Compares one stored instance.
    fn add(&mut self, record: &Record) {
        self.read += 1;
        if let Some(sent) = self.receivers.remove(&record.id) {
            return self.receiver(&record.id, received(record), &sent);
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
            None => self.integrity.foreign += u64::from(!self.is_own(&record.id)),
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

    /// Compares the signals that a receiver has applied with those that were sent to it.
    fn receiver(&mut self, id: &str, mut applied: BTreeMap<String, Received>, sent: &BTreeMap<String, Sent>) {
        for (sender, sent) in sent {
            self.sender(id, &applied.remove(sender).unwrap_or_default(), sent);
        }
        for (sender, applied) in applied {
            self.unsent(format!("{id} applied {} signals of {sender}", applied.top));
        }
    }

    /// Compares the signals of one sender.
    fn sender(&mut self, id: &str, applied: &Received, sent: &Sent) {
        for number in 0..sent.count.max(applied.top) {
            match (sent.fate(number), applied.has(number)) {
                (Fate::Acknowledged, true) => self.integrity.found += 1,
                (Fate::Acknowledged, false) => self.lost(format!("{id} has not applied signal {number}")),
                (Fate::Unknown, true) => self.integrity.unknown_present += 1,
                (Fate::Unknown, false) => self.integrity.unknown_absent += 1,
                (Fate::Refused | Fate::Unsent, true) => self.unsent(format!("{id} applied signal {number}")),
                (Fate::Refused | Fate::Unsent, false) => {}
            }
        }
        self.integrity.rejected += sent.rejected;
        self.integrity.duplicated += applied.again;
        if applied.again > 0 {
            self.example(format!("duplicated: {id} applied {} signals again", applied.again));
        }
    }

    fn phantom(&mut self, record: &Record) {
        self.unsent(record.id.clone());
    }

    fn unsent(&mut self, words: String) {
        self.integrity.phantom += 1;
        self.example(format!("phantom: {words}"));
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
            self.receiver(&receiver, BTreeMap::new(), &sent);
            self.example(format!("lost: {receiver} is missing"));
        }
        self.integrity.acknowledged = self.integrity.found + self.integrity.lost;
        let mut findings = BTreeMap::new();
        for finding in &report.findings {
            *findings.entry(kind(finding.kind).to_owned()).or_default() += 1;
            self.example(format!("{}: {}: {}", kind(finding.kind), finding.instance, finding.words));
        }
        // Clients send only signals that an instance waits for: a letter that is not late comes from a loss or a double.
        let letters = std::mem::take(&mut self.letters);
        for (reason, count) in &letters {
            self.example(format!("dead letters: {count} are {reason}"));
        }
        let dead_letters = letters.values().sum();
        self.integrity.corrupted = report.findings.len() as u64 + report.findings_omitted + dead_letters;
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
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use futures_util::future::join_all;
    use plimsoll_scenario::{Mode, Unit};
    use plimsoll_workflow::definition::Definition;
    use plimsoll_workflow::instance::{Signal, StartRequest, State};
    use plimsoll_workflow::memory::{Memory, Removal};
    use plimsoll_workflow::program::Program;
    use plimsoll_workflow::step::start;
    use serde_json::{Value, json};

    use super::*;
    use crate::client::{self, Job};
    use crate::embedded::Embedded;

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

    /// A receiver that applied these signals of the thread 0.
    fn receiver(id: &str, top: u64, missing: &[u64], again: u64) -> Record {
        let data = json!({"seen": {"run-0-": {"top": top, "missing": missing, "again": again}}});
        let state = State { data, ..state(id) };
        Record::of(&state, 1, 1, 0).unwrap()
    }

    fn compared(ledger: &Ledger, records: &[Record]) -> Audited {
        let promises = Promises(vec![ledger]);
        let mut comparison = Comparison::new(&promises, "run", &[]);
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

    /// A ledger of four signals to each receiver. The outcome of the last one is unknown.
    fn of_receivers(receivers: &[&str]) -> Ledger {
        let ledger = Ledger::new("run", 0);
        for receiver in receivers {
            for fate in [Fate::Acknowledged, Fate::Acknowledged, Fate::Acknowledged, Fate::Unknown] {
                ledger.note_sent(receiver, ledger.number(receiver), fate);
            }
        }
        ledger
    }

    #[test]
    fn a_receiver_tells_lost_and_repeated_signals() {
        let ledger = of_receivers(&["run-receiver-0-0", "run-receiver-0-1", "run-receiver-0-2"]);
        let records = [
            receiver("run-receiver-0-0", 4, &[], 0),
            receiver("run-receiver-0-1", 1, &[], 0),
            receiver("run-receiver-0-2", 5, &[], 1),
        ];
        let found = compared(&ledger, &records).integrity;
        assert_eq!((found.acknowledged, found.found, found.lost), (9, 7, 2));
        assert_eq!((found.unknown_present, found.unknown_absent), (2, 1));
        assert_eq!((found.duplicated, found.phantom), (1, 1));
    }

    #[test]
    fn a_refused_signal_leaves_no_gap() {
        let ledger = of_receivers(&["run-receiver-0-0"]);
        for fate in [Fate::Refused, Fate::Refused, Fate::Acknowledged] {
            ledger.note_sent("run-receiver-0-0", ledger.number("run-receiver-0-0"), fate);
        }
        let found = compared(&ledger, &[receiver("run-receiver-0-0", 5, &[], 0)]).integrity;
        assert_eq!((found.found, found.unknown_present, found.rejected), (4, 1, 2));
        assert!(found.holds(), "{:?}", found.examples);
    }

    #[test]
    fn a_lost_signal_and_a_repeated_one_do_not_cancel_each_other() {
        let ledger = of_receivers(&["run-receiver-0-0"]);
        let found = compared(&ledger, &[receiver("run-receiver-0-0", 3, &[1], 1)]).integrity;
        assert_eq!((found.lost, found.duplicated), (1, 1));
        // A signal whose outcome is unknown hides no repeated one.
        let found = compared(&ledger, &[receiver("run-receiver-0-0", 3, &[], 1)]).integrity;
        assert_eq!((found.lost, found.unknown_absent, found.duplicated), (0, 1, 1));
        assert!(!found.holds());
    }

    #[test]
    fn a_missing_receiver_has_lost_all_its_signals() {
        let ledger = of_receivers(&["run-receiver-0-0"]);
        assert_eq!(compared(&ledger, &[]).integrity.lost, 3);
    }

    #[test]
    fn a_dead_letter_breaks_the_proof() {
        for (unit, reason) in [(Unit::RoundTrip, DeadReason::Unused), (any_definition(), DeadReason::Full)] {
            let audited = with_letter(unit, "run-0-0", reason);
            assert!(audited.dead_letters == 1 && !audited.integrity.holds(), "{reason:?}");
        }
    }

    /// The client sees a wait, and a timer or another branch ends it before the answer comes.
    #[test]
    fn a_late_answer_to_any_definition_keeps_the_proof() {
        for reason in [DeadReason::Unused, DeadReason::Ended, DeadReason::Stale] {
            let audited = with_letter(any_definition(), "run-0-0", reason);
            assert!(audited.dead_letters == 0 && audited.integrity.holds(), "{reason:?}");
        }
    }

    #[test]
    fn a_dead_letter_of_another_run_keeps_the_proof() {
        for instance in ["other-0-0", "run2-0-0"] {
            let audited = with_letter(Unit::RoundTrip, instance, DeadReason::Unused);
            assert!(audited.dead_letters == 0 && audited.integrity.holds(), "{instance}");
        }
    }

    fn any_definition() -> Unit {
        Unit::Definition("external-resume".into())
    }

    /// Compares one completed instance and one dead letter.
    fn with_letter(unit: Unit, instance: &str, reason: DeadReason) -> Audited {
        let works = [Work::build(&unit, Path::new(".")).unwrap()];
        let ledger = Ledger::new("run", 0);
        ledger.note(ledger.open(0), |promise| promise.start = Fate::Acknowledged);
        let promises = Promises(vec![&ledger]);
        let mut comparison = Comparison::new(&promises, "run", &works);
        comparison.add(&record("run-0-0", Status::Done));
        let signal = Signal::named(instance, "1", "go", Value::Null, 1);
        comparison.letter(&DeadLetter { signal, reason, buried_ms: 2 });
        comparison.finish(&Report::default())
    }

    /// In the control arm each signal of a group is sent alone, and a refused one lets the store repeat the others.
    #[test]
    fn a_refused_signal_among_single_ones_repeats_no_number() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let found = runtime.block_on(async {
            let works = [Work::build(&Unit::Signal { receivers: 1, delay: None }, Path::new(".")).unwrap()];
            let store = Memory::new(1, Removal::WithCommit);
            let (mode, owners) = (Mode::Transactions, vec!["one".to_owned()]);
            let definitions = &works[0].definitions;
            let engine = Embedded::prepare(store.clone(), mode, owners, definitions, 100).await.unwrap();
            engine.begin(&tokio::runtime::Handle::current());
            engine.begin_instance(works[0].name(), &client::receiver("run", 0, 0)).await.unwrap();
            let (ledger, limit) = (Ledger::new("run", 0), Duration::from_secs(60));
            let job = || {
                let index = ledger.open(0);
                Job { engine: &engine, work: &works[0], operation: 0, ledger: &ledger, index, limit }
            };
            store.refuse("-0-5");
            let jobs: Vec<_> = (0..8).map(|_| job()).collect();
            let results = join_all(jobs.iter().map(|job| job.run("run"))).await;
            let failed: Vec<_> = results.iter().map(Result::is_err).collect();
            assert_eq!(failed, [false, false, false, false, false, true, false, false]);
            store.refuse("nothing");
            job().run("run").await.unwrap();
            engine.halt().await;
            let records = store.find(&Find { limit: 10, ..Find::default() }).await.unwrap();
            compared(&ledger, &records).integrity
        });
        assert_eq!((found.found, found.rejected, found.duplicated), (8, 1, 0), "{:?}", found.examples);
        assert!(found.holds(), "{:?}", found.examples);
    }

    /// A store without the signal that a client sent and the store acknowledged.
    #[test]
    fn an_acknowledged_signal_that_the_engine_lost_is_not_sent_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let works = vec![Work::build(&Unit::RoundTrip, Path::new(".")).unwrap()];
            let definitions = works[0].definitions.clone();
            let store = Memory::new(1, Removal::WithCommit);
            let owners = vec!["one".to_owned()];
            let engine = Embedded::prepare(store, Mode::Batches, owners, &definitions, 100).await.unwrap();
            let limit = Duration::from_secs(1);
            let (run, is_lost) = ("run".to_owned(), AtomicBool::new(false));
            let shared = Shared { engine, works, run, limit, is_lost };
            let ledger = Ledger::new("run", 0);
            let (lost, unsent) = (ledger.open(0), ledger.open(0));
            for index in [lost, unsent] {
                ledger.note(index, |promise| promise.start = Fate::Acknowledged);
            }
            ledger.note_signal(lost, "1");
            let record = |index| {
                let record = record(&ledger.id(index), Status::Running);
                Record { due_ms: None, ..record }
            };
            let promises = Promises(vec![&ledger]);
            for index in [lost, unsent] {
                answer(&shared, &promises, ledger.promises()[index], &record(index)).await.unwrap();
            }
            let sent = shared.engine.store().signals(None, 10).await.unwrap();
            let sent: Vec<_> = sent.iter().map(|signal| signal.instance.as_str()).collect();
            assert_eq!(sent, [ledger.id(unsent)]);
        });
    }
}
