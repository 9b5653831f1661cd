//! Checks the invariants of states and of a whole store.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::explain::waits;
use crate::instance::{State, Status, TaskRow, TaskStatus, Wait};
use crate::port::{Find, Inbox, Record, SignalKey, Store, Stored, partition_of};

/// Rows of one page.
const PAGE: usize = 500;

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
    /// A due instance, an effect or a signal is left.
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
    let mut open_rows = open_rows(store, rows_max).await?;
    report.is_cut = open_rows.len() >= rows_max;
    let mut seen = 0;
    let mut find = Find { limit: PAGE, ..Find::default() };
    loop {
        let page = store.find(&find).await?;
        let mut children = BTreeSet::new();
        for record in &page {
            *report.instances.entry(record.status.name().into()).or_default() += 1;
            let Some(state) = report.record(record, store.partitions(), now_ms) else { continue };
            report.tasks(&state, &mut open_rows);
            children.extend(family(&state));
        }
        report.family(store, children.into_iter().collect()).await?;
        seen += page.len();
        if seen >= rows_max {
            report.is_cut = true;
            break;
        }
        let Some(last) = page.last().filter(|_| page.len() == PAGE) else { break };
        find.after = Some(last.id.clone());
    }
    let is_cut = report.is_cut;
    // If only a part of the store was read, a task without its instance proves nothing.
    for row in open_rows.into_values().filter(|_| !is_cut) {
        report.add(
            &row.instance,
            FindingKind::Task,
            format!("the open task {} has no waiting token", row.id),
        );
    }
    report.signals(store, rows_max).await?;
    report.dead(store, rows_max).await?;
    Ok(report)
}

/// Relatives that must exist: the id, the visit of the waiting parent, and whether the relative is the parent.
type Relative = (String, String, u64, bool);

/// The relatives of a waiting instance. An instance with pending effects may not have them yet.
fn family(state: &State) -> Vec<Relative> {
    if !state.outbox.is_empty() {
        return Vec::new();
    }
    let children = state.tokens.iter().filter(|token| token.wait == Wait::Child);
    let child = |visit| (state.visit_id(visit), state.id.clone(), visit, false);
    let mut family: Vec<_> = children.map(|token| child(token.visit)).collect();
    let parent = state.parent.as_ref().filter(|_| !state.status.is_ended());
    family.extend(parent.map(|parent| (parent.instance.clone(), state.id.clone(), parent.visit, true)));
    family
}

async fn open_rows(store: &impl Store, rows_max: usize) -> Stored<BTreeMap<String, TaskRow>> {
    let mut rows = BTreeMap::new();
    let mut inbox = Inbox { status: Some(TaskStatus::Open), limit: PAGE, ..Inbox::default() };
    loop {
        let page = store.tasks(&inbox).await?;
        inbox.after = page.last().map(|row| row.id.clone());
        let is_last = page.len() < PAGE;
        rows.extend(page.into_iter().map(|row| (row.id.clone(), row)));
        if is_last || rows.len() >= rows_max {
            return Ok(rows);
        }
    }
}

impl Report {
    fn add(&mut self, instance: &str, kind: FindingKind, words: impl Into<String>) {
        self.findings.push(Finding { instance: instance.into(), kind, words: words.into() });
    }

    /// Checks a record; returns its state.
    fn record(&mut self, record: &Record, partitions: u16, now_ms: u64) -> Option<State> {
        let state = match State::decode(&record.body) {
            Ok(state) => state,
            Err(error) => {
                self.add(&record.id, FindingKind::Unreadable, error.to_string());
                return None;
            }
        };
        for words in violations(&state) {
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
        }
        Some(state)
    }

    /// Checks the tasks of an instance against the open rows, and removes their rows from `open_rows`.
    fn tasks(&mut self, state: &State, open_rows: &mut BTreeMap<String, TaskRow>) {
        for token in state.tokens.iter().filter(|token| matches!(token.wait, Wait::Task { .. })) {
            let row = open_rows.remove(&state.visit_id(token.visit));
            if row.is_none() && state.outbox.is_empty() {
                let words = format!("the task of visit {} has no open row", token.visit);
                self.add(&state.id, FindingKind::Task, words);
            }
        }
        if !state.outbox.is_empty() {
            open_rows.retain(|_, row| row.instance != state.id);
        }
    }

    async fn family(&mut self, store: &impl Store, relatives: Vec<Relative>) -> Stored<()> {
        let ids: Vec<_> = relatives.iter().map(|(id, ..)| id.clone()).collect();
        let records = store.load(&ids).await?;
        for ((id, instance, visit, is_parent), record) in relatives.into_iter().zip(records) {
            let state = record.and_then(|record| State::decode(&record.body).ok());
            let waits = |state: &State| state.visiting(visit).is_some_and(|token| token.wait == Wait::Child);
            // A parent that has stopped waiting cancels its child.
            let is_well =
                state.is_some_and(|state| if is_parent { waits(&state) } else { !state.status.is_ended() });
            if !is_well {
                let words = if is_parent { "does not wait for it" } else { "is missing or has ended" };
                self.add(&instance, FindingKind::Orphan, format!("the relative {id} {words}"));
            }
        }
        Ok(())
    }

    async fn signals(&mut self, store: &impl Store, rows_max: usize) -> Stored<()> {
        let mut after = None;
        loop {
            let page = store.signals(after.as_ref(), PAGE).await?;
            self.signals += page.len() as u64;
            for signal in &page {
                self.add(
                    &signal.instance,
                    FindingKind::Backlog,
                    format!("the signal {} is not consumed", signal.id),
                );
            }
            let Some(last) = page.last().filter(|_| page.len() == PAGE) else { return Ok(()) };
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
            let Some(last) = page.last().filter(|_| page.len() == PAGE) else { return Ok(()) };
            self.is_cut |= self.dead.values().sum::<u64>() >= rows_max as u64;
            if self.is_cut {
                return Ok(());
            }
            after = Some(SignalKey::of(&last.signal));
        }
    }
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
    let mut visits = HashSet::new();
    let roots = state.tokens.iter().filter(|token| token.parent.is_none()).count();
    if roots > 1 {
        broken.push(format!("{roots} tokens have no parent"));
    }
    for token in &state.tokens {
        if !visits.insert(token.visit) || token.visit > state.visits {
            broken.push(format!("the visit {} is not unique", token.visit));
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
