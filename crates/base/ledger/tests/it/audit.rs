//! Tests the audit against a model in plain maps, over random histories.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use plimsoll_ledger::{
    Allocation, Audit, Changes, Content, Findings, Found, Ledger, OtherWriters, Run, State, Touched,
    Versions, WorkerLedger,
};

use crate::random::Random;

const RUN: Run = Run { time_s: 1_700_000_000, tag: [0xab, 0xcd, 0xef] };

/// A history and the findings of a scan.
struct History {
    allocation: Allocation,
    states: HashMap<u64, State>,
    touched: HashSet<u64>,
    changes: HashMap<u64, Change>,
    other_writers: OtherWriters,
    found: Vec<Found>,
}

/// The changes of a document after its insert, and the outcome of the last attempt.
#[derive(Clone, Copy)]
struct Change {
    replaced: u32,
    last: Last,
}

#[derive(Clone, Copy, PartialEq)]
enum Last {
    Acknowledged,
    ReplacementInDoubt,
    /// In doubt, and a read has shown it.
    ReplacementRead,
    /// Acknowledged or in doubt, and a read has shown it.
    Read,
    Deleted,
    DeletionInDoubt,
}

impl History {
    fn random(random: &mut Random) -> History {
        let limit = random.below(600);
        let allocation =
            Allocation::new(1 + random.below(40), 1 + random.below(5), Some(limit)).expect("an allocation");
        let states: HashMap<_, _> = (0..limit).map(|number| (number, random_state(random))).collect();
        let touched = match random.below(2) {
            0 => HashSet::new(),
            _ => (0..random.below(30)).map(|_| random.below(limit + 1)).filter(|n| *n < limit).collect(),
        };
        let changed = if random.below(2) == 0 { 0 } else { random.below(60) };
        let changes = (0..changed).map(|_| (random.below(limit + 1), random_change(random)));
        let changes = changes.filter(|(number, _)| *number < limit).collect();
        let other_writers =
            if random.below(2) == 0 { OtherWriters::Expected } else { OtherWriters::Excluded };
        let found = (0..limit + 20).flat_map(|number| random_found(random, number, limit)).collect();
        History { allocation, states, touched, changes, other_writers, found }
    }

    fn ledger(&self) -> Ledger {
        self.ledger_of(0..self.allocation.workers())
    }

    /// The ledger of these workers' shard.
    fn ledger_of(&self, kept: Range<u64>) -> Ledger {
        let mut ledger = Ledger::of_shard(RUN, self.allocation, kept.clone());
        let changes = Changes { versions: self.versions(), ..Changes::default() };
        ledger.adopt(kept.start, WorkerLedger::unjournaled().with_changes(changes));
        for (number, state) in &self.states {
            if self.allocation.locate(*number).is_some_and(|slot| kept.contains(&slot.worker)) {
                ledger.set(*number..*number + 1, *state);
            }
        }
        ledger
    }

    fn versions(&self) -> Versions {
        let mut versions = Versions::default();
        for (number, change) in &self.changes {
            let Some(slot) = self.allocation.locate(*number) else { continue };
            for _ in 0..change.replaced {
                versions.replace(slot);
                versions.acknowledge(slot);
            }
            match change.last {
                Last::Acknowledged => {}
                Last::ReplacementInDoubt => drop(versions.replace(slot)),
                Last::ReplacementRead => {
                    versions.replace(slot);
                    versions.read(slot);
                }
                Last::Read => {
                    versions.read(slot);
                }
                Last::Deleted | Last::DeletionInDoubt => {
                    versions.delete(slot);
                }
            }
            if change.last == Last::Deleted {
                versions.acknowledge(slot);
            }
        }
        versions
    }

    fn is_deleted(&self, number: u64) -> bool {
        self.changes.get(&number).is_some_and(|change| change.last == Last::Deleted)
    }

    /// Whether the audit excludes a document.
    fn is_left_out(&self, number: u64) -> bool {
        let doubtful = |change: &Change| change.last == Last::DeletionInDoubt;
        self.touched.contains(&number) || self.changes.get(&number).is_some_and(doubtful)
    }

    /// The versions in which a document may exist.
    fn promised(&self, number: u64) -> std::ops::RangeInclusive<u32> {
        let Some(change) = self.changes.get(&number) else { return 0..=0 };
        match change.last {
            Last::Acknowledged | Last::Read => change.replaced..=change.replaced,
            Last::ReplacementInDoubt | Last::ReplacementRead => change.replaced..=change.replaced + 1,
            Last::Deleted | Last::DeletionInDoubt => 0..=u32::MAX,
        }
    }

    /// The version that a read has shown.
    fn read(&self, number: u64) -> Option<u32> {
        let change = self.changes.get(&number)?;
        let is_read = matches!(change.last, Last::Read | Last::ReplacementRead);
        is_read.then(|| self.highest(number))
    }

    /// The highest sent version of a document.
    fn highest(&self, number: u64) -> u32 {
        let in_doubt = [Last::ReplacementInDoubt, Last::ReplacementRead];
        let sent = |change: &Change| change.replaced + u32::from(in_doubt.contains(&change.last));
        self.changes.get(&number).map_or(0, sent)
    }

    fn marks(&self) -> Touched {
        let mut touched = Touched::None;
        self.touched.iter().for_each(|number| touched.mark(&self.allocation, *number..*number + 1));
        touched
    }

    fn state(&self, number: u64) -> State {
        self.states.get(&number).copied().unwrap_or_default()
    }
}

fn random_state(random: &mut Random) -> State {
    match random.below(10) {
        0 => State::NotSent,
        1 => State::Rejected,
        2 => State::Unknown,
        _ => State::Acknowledged,
    }
}

fn random_change(random: &mut Random) -> Change {
    let last = match random.below(7) {
        5 => Last::Read,
        6 => Last::ReplacementRead,
        0 => Last::ReplacementInDoubt,
        1 => Last::Deleted,
        2 => Last::DeletionInDoubt,
        _ => Last::Acknowledged,
    };
    Change { replaced: random.below(3) as u32, last }
}

/// Mostly one intact sighting; sometimes none, two, a corrupted or a foreign document.
fn random_found(random: &mut Random, number: u64, limit: u64) -> Vec<Found> {
    let stamp = Some(RUN.receipt(number).stamp());
    let intact = Found::Receipt { number, content: Content::Follows(0), stamp };
    let other = Some(RUN.receipt(random.below(limit + 9)).stamp());
    let version = random.below(4) as u32;
    let copy = Found::Foreign { stamp: Some(RUN.receipt(number).stamp_of(random.below(4) as u32)) };
    match random.below(30) {
        0 => vec![],
        1 => vec![intact, intact],
        2 => vec![intact, Found::Receipt { number, content: Content::Differs, stamp: None }, intact],
        3 => vec![Found::Receipt { number, content: Content::Differs, stamp: None }],
        4 => vec![Found::Receipt { number, content: Content::Follows(0), stamp: other }],
        5 => vec![intact, Found::Foreign { stamp: other }, copy],
        6 => vec![intact, Found::Foreign { stamp: None }],
        7 => vec![intact, Found::Foreign { stamp: Some(random.below(1 << 41) as i64) }],
        8..14 => vec![Found::Receipt { number, content: Content::Follows(version), stamp: None }],
        _ => vec![intact],
    }
}

/// The audit's rules in their simplest form.
fn model(history: &History) -> Findings {
    let mut findings = Findings::default();
    let mut copies: HashMap<u64, u64> = HashMap::new();
    for found in &history.found {
        match *found {
            Found::Receipt { number, content, stamp } => {
                let copies = copies.entry(number).or_default();
                *copies += u64::from(model_receipt(history, number, content, stamp, &mut findings));
            }
            Found::OtherRun { .. } => findings.foreign += 1,
            Found::Foreign { stamp } => model_foreign(history, stamp, &mut findings),
        }
    }
    let numbers: HashSet<u64> = history.states.keys().chain(copies.keys()).copied().collect();
    for number in numbers {
        model_number(history, number, copies.get(&number).copied().unwrap_or(0), &mut findings);
    }
    findings
}

/// Whether a sighting counts: a version before the acknowledged version is not promised.
fn model_receipt(
    history: &History,
    number: u64,
    content: Content,
    stamp: Option<i64>,
    findings: &mut Findings,
) -> bool {
    let sent = history.state(number) != State::NotSent;
    let right = stamp.is_none_or(|stamp| stamp == RUN.receipt(number).stamp());
    let promised = history.promised(number);
    let judged = sent && !history.is_left_out(number);
    let version = if let Content::Follows(version) = content { Some(version) } else { None };
    if judged && right && version.is_some_and(|version| version < *promised.start()) {
        return false;
    }
    let follows = right && version.is_some_and(|version| promised.contains(&version));
    let read = history.read(number).filter(|_| judged && right);
    findings.read_then_gone += u64::from(version.zip(read).is_some_and(|(version, read)| version < read));
    // If the deletion is in doubt, the content is still checked, but not the version.
    let judged = sent && !history.touched.contains(&number);
    findings.corrupted += u64::from(judged && !follows);
    true
}

fn model_foreign(history: &History, stamp: Option<i64>, findings: &mut Findings) {
    let sent = |number: &u64| history.state(*number) != State::NotSent;
    let versions = |number: u64| (0..=history.highest(number)).map(move |version| (number, version));
    let mut known = history.states.keys().copied().filter(sent).flat_map(versions);
    let first = stamp.and_then(|stamp| RUN.stamped(stamp));
    match (first, history.other_writers) {
        _ if stamp.is_some_and(|stamp| known.any(|(n, v)| RUN.receipt(n).stamp_of(v) == stamp)) => {
            findings.duplicated += 1;
        }
        (Some(_), _) | (None, OtherWriters::Excluded) => findings.phantom += 1,
        (None, OtherWriters::Expected) => findings.foreign += 1,
    }
}

fn model_number(history: &History, number: u64, copies: u64, findings: &mut Findings) {
    let (state, present) = (history.state(number), u64::from(copies > 0));
    findings.duplicated += u64::from(copies > 1 && state != State::NotSent);
    match (state, history.is_left_out(number)) {
        (State::NotSent, true) if history.touched.contains(&number) => findings.not_audited += copies,
        (State::NotSent, _) => findings.phantom += copies,
        (_, true) => findings.not_audited += 1,
        _ if history.is_deleted(number) => {
            findings.deleted += 1;
            findings.phantom += present;
        }
        (State::Acknowledged, _) => {
            findings.acknowledged += 1;
            findings.found += present;
            findings.lost += 1 - present;
        }
        (State::Rejected, _) => {
            findings.rejected += 1;
            findings.phantom += present;
        }
        (State::Unknown, _) => {
            findings.unknown_present += present;
            findings.unknown_absent += 1 - present;
            findings.read_then_gone += u64::from(present == 0 && history.read(number).is_some());
        }
    }
}

fn audit(history: &History, found: &[Found], scanners: usize) -> Findings {
    let (ledger, touched) = (history.ledger(), history.marks());
    let mut parts: Vec<Audit> =
        (0..scanners).map(|_| Audit::with(&ledger, &touched, history.other_writers)).collect();
    found.iter().enumerate().for_each(|(at, found)| parts[at % scanners].see(*found));
    let mut whole = Audit::with(&ledger, &touched, history.other_writers);
    parts.iter().for_each(|part| whole.merge(part));
    whole.finish()
}

#[test]
fn the_fold_agrees_with_the_model() {
    for seed in 0..400 {
        let history = History::random(&mut Random(seed));
        let findings = audit(&history, &history.found, 1);
        let counts = Findings { examples: Default::default(), ..findings.clone() };
        assert_eq!(counts, model(&history), "seed {seed}");
        assert_eq!(findings.acknowledged, findings.found + findings.lost, "seed {seed}");
    }
}

#[test]
fn order_and_number_of_scanners_do_not_matter() {
    for seed in 1000..1300 {
        let mut random = Random(seed);
        let history = History::random(&mut random);
        let expected = audit(&history, &history.found, 1);
        let mut shuffled = history.found.clone();
        random.shuffle(&mut shuffled);
        let scanners = 1 + random.below(4) as usize;
        assert_eq!(audit(&history, &shuffled, scanners), expected, "seed {seed}, {scanners} scanners");
    }
}

#[test]
fn each_sent_document_is_counted_once() {
    for seed in 2000..2200 {
        let mut history = History::random(&mut Random(seed));
        history.found.clear();
        let sent = history.ledger().counts().sent();
        let f = audit(&history, &[], 1);
        let placed = f.acknowledged + f.rejected + f.unknown_absent + f.deleted + f.not_audited;
        assert_eq!(placed, sent, "seed {seed}");
        assert_eq!((f.phantom, f.duplicated, f.corrupted), (0, 0, 0), "seed {seed}");
    }
}

#[test]
fn the_findings_of_shards_add_up_to_those_of_the_whole() {
    for seed in 3000..3300 {
        let mut random = Random(seed);
        let mut history = History::random(&mut random);
        // The shard that replaced a document recognises its second copy; for the first shard the copy is foreign.
        let later = |stamp| RUN.versioned(stamp).1 > 0;
        history
            .found
            .retain(|found| !matches!(found, Found::Foreign { stamp: Some(stamp) } if later(*stamp)));
        let cut = random.below(history.allocation.workers() + 1);
        let (mut sum, mut foreign) = (Findings::default(), 0);
        for kept in [0..cut, cut..history.allocation.workers()].into_iter().filter(|kept| !kept.is_empty()) {
            let (ledger, touched) = (history.ledger_of(kept), history.marks());
            let mut audit = Audit::with(&ledger, &touched, history.other_writers);
            history.found.iter().for_each(|found| audit.see(*found));
            let findings = audit.finish();
            foreign = findings.foreign;
            sum.merge(&findings);
        }
        // Each shard counts all foreign documents.
        sum.foreign = foreign;
        assert_eq!(sum, audit(&history, &history.found, 1), "seed {seed}, cut at worker {cut}");
    }
}
