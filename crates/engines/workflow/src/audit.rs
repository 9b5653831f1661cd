//! Checks the invariants of states and of a whole store.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::explain::waits;
use crate::instance::{Body, Effect, Parent, State, Status, TaskStatus, Token, Wait, Work};
use crate::port::{Find, Inbox, Record, SignalKey, Store, Stored, partition_of};
use crate::program::{Kind, Program};
use crate::worker::Registry;

/// Rows of one page. A row without a readable key shortens its page, so only an empty page is the last one.
const PAGE: usize = 500;
/// Findings in a report at most; more are counted.
const FINDINGS_MAX: usize = 10_000;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// The instance.
    pub instance: String,
    /// The kind.
    pub kind: FindingKind,
    /// The details.
    pub words: String,
}

/// The kind of a broken invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// The state cannot be read.
    Unreadable,
    /// The state contradicts itself, or its record.
    Broken,
    /// An open instance has no reason to wait.
    Unexplained,
    /// An instance waits for a sub-workflow that is missing or has ended, or a sub-workflow has no waiting parent.
    Orphan,
    /// A waiting task has no open row, or an open row has no waiting task.
    Task,
    /// A due instance, an effect or a due signal is left, or an instance waits for the definition that it runs.
    Backlog,
}

/// A store's audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Instances by status.
    pub instances: BTreeMap<String, u64>,
    /// Signals that are not consumed.
    pub signals: u64,
    /// Dead letters by reason.
    pub dead: BTreeMap<String, u64>,
    /// Broken invariants.
    pub findings: Vec<Finding>,
    /// Broken invariants that are not among the findings.
    #[serde(default)]
    pub findings_omitted: u64,
    /// Whether the audit ended at its bound: the rest of the store is unchecked.
    #[serde(default)]
    pub is_cut: bool,
}

/// Audits a store at rest: clients are quiet and workers have finished. While clients or workers use the store, a finding may be
/// pending work: audit again.
///
/// # Errors
///
/// If the store fails.
pub async fn audit(store: &impl Store, now_ms: u64) -> Stored<Report> {
    within(store, now_ms, usize::MAX).await
}

/// The same, but reads at most `rows_max` instances, open tasks, signals and dead letters, each.
///
/// # Errors
///
/// If the store fails.
pub async fn within(store: &impl Store, now_ms: u64, rows_max: usize) -> Stored<Report> {
    let mut report = Report::default();
    let registry = Registry::default();
    registry.learn(&store.definitions().await?);
    let mut open_rows = open_rows(store, rows_max).await?;
    report.is_cut = open_rows.len() >= rows_max;
    let mut seen = 0;
    let mut find = Find { limit: PAGE, ..Find::default() };
    loop {
        let page = store.find(&find).await?;
        let mut relatives = Vec::new();
        for record in &page {
            *report.instances.entry(record.status.name().into()).or_default() += 1;
            let program = registry.program(&record.definition.hash);
            let state = report.record(record, program.as_deref(), store.partitions(), now_ms);
            let Some(state) = state else { continue };
            report.tasks(&state, &mut open_rows);
            relatives.extend(family(&state));
        }
        report.family(store, relatives).await?;
        seen += page.len();
        if seen >= rows_max {
            report.is_cut = true;
            break;
        }
        let Some(last) = page.last() else { break };
        find.after = Some(last.id.clone());
    }
    let is_cut = report.is_cut;
    // If only a part of the store was read, a task without its instance proves nothing.
    for (row, instance) in open_rows.into_iter().filter(|_| !is_cut) {
        report.add(&instance, FindingKind::Task, format!("the open task {row} has no waiting token"));
    }
    report.signals(store, now_ms, rows_max).await?;
    report.dead(store, rows_max).await?;
    Ok(report)
}

/// A relative that must exist.
struct Relative {
    id: String,
    /// The instance that has the relative.
    instance: String,
    /// The visit in which the parent waits.
    visit: u64,
    /// Whether the relative is the parent.
    is_parent: bool,
}

impl Relative {
    /// Whether the state of the relative is right. A parent that has stopped waiting cancels its child.
    fn is_well(&self, state: &State) -> bool {
        if self.is_parent {
            return state.visiting(self.visit).is_some_and(|token| token.wait == Wait::Child);
        }
        let is_its_parent = |parent: &Parent| parent.instance == self.instance && parent.visit == self.visit;
        !state.status.is_ended() && state.parent.as_ref().is_some_and(is_its_parent)
    }
}

/// The relatives of a waiting instance. A child may be missing while its start is pending.
fn family(state: &State) -> Vec<Relative> {
    let is_pending = |child: &str| {
        state.outbox.iter().any(|effect| matches!(&effect.work, Work::Start(start) if start.id == child))
    };
    let children = state.tokens.iter().filter(|token| token.wait == Wait::Child);
    let children = children.map(|token| (state.visit_id(token.visit), token.visit));
    let relative = |(id, visit, is_parent)| Relative { id, instance: state.id.clone(), visit, is_parent };
    let children = children.filter(|(id, _)| !is_pending(id)).map(|(id, visit)| relative((id, visit, false)));
    let parent = state.parent.as_ref().filter(|_| !state.status.is_ended());
    let parent = parent.map(|parent| relative((parent.instance.clone(), parent.visit, true)));
    children.chain(parent).collect()
}

/// The ids of open tasks, with their instances.
async fn open_rows(store: &impl Store, rows_max: usize) -> Stored<BTreeMap<String, String>> {
    let mut rows = BTreeMap::new();
    let mut inbox = Inbox { status: Some(TaskStatus::Open), limit: PAGE, ..Inbox::default() };
    loop {
        let page = store.tasks(&inbox).await?;
        let Some(last) = page.last() else { return Ok(rows) };
        inbox.after = Some(last.id.clone());
        rows.extend(page.into_iter().map(|row| (row.id, row.instance)));
        if rows.len() >= rows_max {
            return Ok(rows);
        }
    }
}

impl Report {
    fn add(&mut self, instance: &str, kind: FindingKind, words: impl Into<String>) {
        if self.findings.len() >= FINDINGS_MAX {
            self.findings_omitted += 1;
            return;
        }
        self.findings.push(Finding { instance: instance.into(), kind, words: words.into() });
    }

    /// Checks a record; returns its state.
    fn record(
        &mut self,
        record: &Record,
        program: Option<&Program>,
        partitions: u16,
        now_ms: u64,
    ) -> Option<State> {
        let state = match State::decode(&record.body) {
            Ok(state) => state,
            Err(error) => {
                self.add(&record.id, FindingKind::Unreadable, error.to_string());
                return None;
            }
        };
        let misplaced = program.map(|program| misplaced(program, &state)).unwrap_or_default();
        for words in violations(&state).into_iter().chain(misplaced) {
            self.add(&record.id, FindingKind::Broken, words);
        }
        let same = (&state.id, state.status, partition_of(&state.id, partitions), &state.version)
            == (&record.id, record.status, record.partition, &record.definition);
        let is_postponed = record.note.is_some();
        if !same || !(is_postponed || state.due_ms() == record.due_ms) {
            self.add(&record.id, FindingKind::Broken, "the record differs from its state");
        }
        if !state.status.is_ended() && waits(&state).is_empty() {
            self.add(&record.id, FindingKind::Unexplained, "nothing can move the instance");
        }
        if record.due_ms.is_some_and(|due_ms| due_ms <= now_ms) {
            self.add(&record.id, FindingKind::Backlog, "the instance is due");
        } else if let Some(note) = record.note.as_ref().filter(|_| program.is_none()) {
            // Its moment is postponed again and again.
            self.add(&record.id, FindingKind::Backlog, format!("the instance is postponed: {note}"));
        }
        Some(state)
    }

    /// Checks the tasks of an instance against the open rows, and removes their rows from `open_rows`. Rows with a pending change prove nothing.
    fn tasks(&mut self, state: &State, open_rows: &mut BTreeMap<String, String>) {
        let row = |effect: &'_ Effect| match &effect.work {
            Work::Task(row) => Some(row.id.clone()),
            _ => None,
        };
        let pending: BTreeSet<_> = state.outbox.iter().filter_map(row).collect();
        for token in state.tokens.iter().filter(|token| matches!(token.wait, Wait::Task { .. })) {
            let id = state.visit_id(token.visit);
            if open_rows.remove(&id).is_none() && !pending.contains(&id) {
                let words = format!("the task of visit {} has no open row", token.visit);
                self.add(&state.id, FindingKind::Task, words);
            }
        }
        for id in pending {
            open_rows.remove(&id);
        }
    }

    async fn family(&mut self, store: &impl Store, relatives: Vec<Relative>) -> Stored<()> {
        let ids: Vec<_> = relatives.iter().map(|relative| relative.id.clone()).collect();
        let records = store.load(&ids).await?;
        for (relative, record) in relatives.into_iter().zip(records) {
            let state = record.and_then(|record| State::decode(&record.body).ok());
            if !state.is_some_and(|state| relative.is_well(&state)) {
                let words = match relative.is_parent {
                    true => "does not wait for it",
                    false => "is missing, has ended, or has another parent",
                };
                let words = format!("the relative {} {words}", relative.id);
                self.add(&relative.instance, FindingKind::Orphan, words);
            }
        }
        Ok(())
    }

    /// Counts the waiting signals. A signal whose moment has not come waits rightly.
    async fn signals(&mut self, store: &impl Store, now_ms: u64, rows_max: usize) -> Stored<()> {
        let mut after = None;
        loop {
            let page = store.signals(after.as_ref(), PAGE).await?;
            self.signals += page.len() as u64;
            for signal in page.iter().filter(|signal| signal.due_ms <= now_ms) {
                self.add(
                    &signal.instance,
                    FindingKind::Backlog,
                    format!("the signal {} is not consumed", signal.id),
                );
            }
            let Some(last) = page.last() else { return Ok(()) };
            self.is_cut |= self.signals >= rows_max as u64;
            if self.is_cut {
                return Ok(());
            }
            after = Some(SignalKey::of(last));
        }
    }

    async fn dead(&mut self, store: &impl Store, rows_max: usize) -> Stored<()> {
        let mut after = None;
        loop {
            let page = store.dead(after.as_ref(), PAGE).await?;
            for letter in &page {
                *self.dead.entry(letter.reason.name().into()).or_default() += 1;
            }
            let Some(last) = page.last() else { return Ok(()) };
            self.is_cut |= self.dead.values().sum::<u64>() >= rows_max as u64;
            if self.is_cut {
                return Ok(());
            }
            after = Some(SignalKey::of(&last.signal));
        }
    }
}

/// The contradictions between a state and its program, in words.
fn misplaced(program: &Program, state: &State) -> Vec<String> {
    let is_right = |token: &Token| {
        let Some(node) = program.node(token.at) else { return false };
        matches!(
            (&token.wait, &node.kind),
            (Wait::Ready, _)
                | (Wait::Call { .. }, Kind::Call(_))
                | (Wait::Signal { .. }, Kind::Wait(_))
                | (Wait::Timer { .. }, Kind::Timer(_) | Kind::Undo)
                | (Wait::Task { .. }, Kind::Task(_))
                | (Wait::Child, Kind::Child(_))
                | (Wait::Join { .. }, Kind::Fork { .. })
        )
    };
    let wrong = state.tokens.iter().filter(|token| !is_right(token));
    let wrong = wrong.map(|token| format!("the token {} waits at a node of another kind", token.id));
    let awaited = state.tokens.iter().filter_map(|token| match &program.node(token.at)?.kind {
        Kind::Wait(wait) if matches!(token.wait, Wait::Signal { .. }) => Some(wait.signal.as_str()),
        _ => None,
    });
    let awaited: BTreeSet<_> = awaited.collect();
    let kept = state.kept.iter().filter(|signal| match &signal.body {
        Body::Named { name, .. } => awaited.contains(name.as_str()),
        _ => false,
    });
    let kept = kept.map(|signal| format!("the signal {} is kept, and a step waits for it", signal.id));
    wrong.chain(kept).collect()
}

/// The invariants that a state breaks, in words.
pub fn violations(state: &State) -> Vec<String> {
    let mut broken = tokens(state);
    broken.extend(status(state));
    broken
}

fn status(state: &State) -> Vec<String> {
    let tokens = state.tokens.len();
    let wrong = match state.status {
        status if status.is_ended() => {
            (tokens > 0).then(|| format!("the instance is {} and has {tokens} tokens", status.name()))
        }
        _ if tokens == 0 => Some(format!("the instance is {} without a token", state.status.name())),
        Status::Compensating if tokens > 1 => Some(format!("a compensation has {tokens} tokens")),
        Status::Running if state.ending.is_some() => Some("a running instance is ending".into()),
        Status::Compensating if state.ending.is_none() => Some("a compensation leads to no end".into()),
        Status::Parked if state.error.is_none() => Some("the instance is parked without a reason".into()),
        _ => None,
    };
    wrong.into_iter().collect()
}

fn tokens(state: &State) -> Vec<String> {
    let mut broken = Vec::new();
    let (mut visits, mut places) = (HashSet::new(), HashSet::new());
    let roots = state.tokens.iter().filter(|token| token.parent.is_none()).count();
    if roots > 1 {
        broken.push(format!("{roots} tokens have no parent"));
    }
    for token in &state.tokens {
        if !visits.insert(token.visit) || token.visit > state.visits {
            broken.push(format!("the visit {} is not unique", token.visit));
        }
        if token.wait != Wait::Ready && !places.insert(token.at) {
            broken.push(format!("two tokens wait at the node {}", token.at));
        }
        let parent = token.parent.map(|parent| state.token(parent));
        if parent.is_some_and(|parent| !parent.is_some_and(|parent| matches!(parent.wait, Wait::Join { .. })))
        {
            broken.push(format!("the token {} has no waiting parent", token.id));
        }
        if let Wait::Join { open } = token.wait {
            let children = state.tokens.iter().filter(|child| child.parent == Some(token.id)).count();
            if children != open || open == 0 {
                broken.push(format!("the token {} waits for {open} branches and has {children}", token.id));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::Value;

    use super::*;
    use crate::file::read;
    use crate::instance::{Signal, StartRequest};
    use crate::memory::{Memory, Removal};
    use crate::step::start;

    const NOW_MS: u64 = 1_000;
    const CHILD: &str = "name: c\nsteps:\n- wait: {signal: go}\n";

    fn state(text: &str, id: &str) -> State {
        let program = read(text).unwrap().1;
        let (id, definition) = (id.to_owned(), program.version.name.clone());
        let request = StartRequest { id, definition, key: None, parent: None, depth: 0, input: Value::Null };
        start(&program, request, NOW_MS).unwrap()
    }

    /// The findings of a store with these instances and their definitions.
    fn found(texts: &[&str], records: Vec<Record>, signals: &[Signal]) -> Vec<String> {
        let store = Memory::new(1, Removal::WithCommit);
        let definitions: Vec<_> = texts.iter().map(|text| read(text).unwrap().0).collect();
        store.deploy(&definitions, 0).now_or_never().unwrap().unwrap();
        store.start(&records).now_or_never().unwrap().unwrap();
        store.publish(signals).now_or_never().unwrap().unwrap();
        let report = audit(&store, NOW_MS).now_or_never().unwrap().unwrap();
        report.findings.into_iter().map(|finding| finding.words).collect()
    }

    fn record(state: &State) -> Record {
        Record::of(state, 1, 1, 0).unwrap()
    }

    #[test]
    fn an_instance_that_is_postponed_for_ever_is_found_although_it_is_never_due() {
        let unknown = state("name: b\nsteps:\n- timer: {after: 1s}\n", "i");
        let note = Some("the definition is unknown".to_owned());
        let postponed = Record { note, due_ms: Some(NOW_MS + 5_000), ..record(&unknown) };
        let words = found(&[], vec![postponed], &[]);
        assert_eq!(words, ["the instance is postponed: the definition is unknown"]);
    }

    #[test]
    fn a_kept_signal_that_a_step_waits_for_and_a_misplaced_token_are_found() {
        let text = "name: a\nsteps:\n- wait: {signal: go}\n- timer: {after: 1s}\n";
        let mut kept = state(text, "kept");
        kept.kept.push_back(Signal::named("kept", "s", "go", Value::Null, 0));
        let mut misplaced = state(text, "misplaced");
        misplaced.tokens[0].at = 1;
        let mut missing = state(text, "missing");
        missing.tokens[0].at = 99;
        let good = state(text, "good");
        let records = [&kept, &misplaced, &missing, &good].map(record).to_vec();
        assert_eq!(
            found(&[text], records, &[]),
            [
                "the signal s is kept, and a step waits for it",
                "the token 1 waits at a node of another kind",
                "the token 1 waits at a node of another kind",
            ]
        );
    }

    #[test]
    fn a_stranger_with_the_id_of_a_child_is_no_child() {
        let (parent, child) = ("name: p\nsteps:\n- workflow: {definition: c}\n", CHILD);
        let mut waiting = state(parent, "p");
        // The start of the child is done.
        waiting.outbox.clear();
        let stranger = state(child, "p/2");
        let mut own = stranger.clone();
        own.parent = Some(Parent { instance: "p".into(), visit: 2 });
        let audited = |child: &State| found(&[parent, CHILD], vec![record(&waiting), record(child)], &[]);
        assert_eq!(audited(&own), Vec::<String>::new());
        let words = audited(&stranger);
        assert_eq!(words, ["the relative p/2 is missing, has ended, or has another parent"]);
    }

    #[test]
    fn a_pending_effect_hides_only_its_own_row() {
        let text = "name: a\nsteps:\n- fork: {branches: [[{task: {}}], [{task: {}}]]}\n";
        let mut both = state(text, "i");
        // The rows of both tasks are pending, and then only that of the second.
        let due = "the instance is due";
        assert_eq!(found(&[text], vec![record(&both)], &[]), [due]);
        both.outbox.pop_front();
        let words = found(&[text], vec![record(&both)], &[]);
        assert_eq!(words, [due, "the task of visit 5 has no open row"]);
    }

    #[test]
    fn a_delayed_signal_waits_rightly_and_many_findings_are_counted() {
        let signal = |number: usize, due_ms| Signal {
            due_ms,
            ..Signal::named("none", number.to_string(), "go", Value::Null, 0)
        };
        assert_eq!(found(&[], Vec::new(), &[signal(0, NOW_MS + 1)]), Vec::<String>::new());
        let store = Memory::new(1, Removal::WithCommit);
        let signals: Vec<_> = (0..FINDINGS_MAX + 7).map(|number| signal(number, 0)).collect();
        store.publish(&signals).now_or_never().unwrap().unwrap();
        let report = audit(&store, NOW_MS).now_or_never().unwrap().unwrap();
        assert_eq!((report.findings.len(), report.findings_omitted), (FINDINGS_MAX, 7));
    }
}
