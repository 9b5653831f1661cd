//! Counts the work of this process: operations of the store, starts, changes, ends and calls.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use plimsoll_service::metrics::{DurationHistogram, Page};
use plimsoll_workflow::instance::{DeadLetter, DeadReason, Status};
use plimsoll_workflow::port::{Commit, Committed, Inserted, Leases};

/// The operations of a store, in the order of its trait.
const OPERATIONS: [&str; 25] = [
    "deploy",
    "definitions",
    "deployed",
    "start",
    "publish",
    "lease",
    "holders",
    "due",
    "load",
    "commit",
    "forget",
    "remove",
    "postpone",
    "bury",
    "dead",
    "redrive",
    "redriven",
    "write_tasks",
    "tasks",
    "find",
    "list",
    "backlog",
    "known",
    "signals_of",
    "signals",
];
const ENDS: [Status; 5] =
    [Status::Done, Status::Failed, Status::Cancelled, Status::Parked, Status::Quarantined];
const REASONS: [DeadReason; 8] = [
    DeadReason::UnknownInstance,
    DeadReason::Ended,
    DeadReason::Unused,
    DeadReason::Full,
    DeadReason::Stale,
    DeadReason::Refused,
    DeadReason::Quarantined,
    DeadReason::Unreadable,
];

/// Counters by the position of their label in a list.
#[derive(Debug)]
struct Counts<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; N])
    }
}

impl<const N: usize> Counts<N> {
    fn add(&self, at: Option<usize>) {
        if let Some(count) = at.and_then(|at| self.0.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&self, page: &mut Page, name: &str, help: &str, label: &str, values: [&str; N]) {
        page.begin(name, "counter", help);
        for (value, count) in values.iter().zip(&self.0) {
            page.sample(name, &format!("{label}=\"{value}\""), count.load(Ordering::Relaxed));
        }
    }
}

/// The counters of a process.
#[derive(Debug, Default)]
pub struct Metrics {
    operations: [DurationHistogram; OPERATIONS.len()],
    failures: Counts<{ OPERATIONS.len() }>,
    starts: Counts<2>,
    signals: Counts<2>,
    changes: Counts<2>,
    ends: Counts<{ ENDS.len() }>,
    dead: Counts<{ REASONS.len() }>,
    calls: Counts<3>,
    call_time: DurationHistogram,
    running_calls: AtomicUsize,
    running_operations: AtomicUsize,
    is_draining: AtomicBool,
    partitions: AtomicUsize,
    owners: AtomicUsize,
    free_partitions: AtomicUsize,
    waiting: AtomicUsize,
    news: AtomicU64,
}

/// Counts one piece of work as in flight until this value is dropped, also if its future is dropped.
#[derive(Debug)]
pub(crate) struct InFlight<'a>(&'a AtomicUsize);

impl<'a> InFlight<'a> {
    fn begin(running: &'a AtomicUsize) -> Self {
        running.fetch_add(1, Ordering::SeqCst);
        Self(running)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The outcome of a call, for its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// Answered.
    Done,
    /// Failed, although it may have taken effect.
    Failed,
    /// Refused for good.
    Refused,
}

impl Metrics {
    /// Counts an operation of the store as in flight until the guard is dropped.
    pub(crate) fn operation_begins(&self) -> InFlight<'_> {
        InFlight::begin(&self.running_operations)
    }

    /// Counts an operation of the store.
    pub(crate) fn operation(&self, name: &str, ns: u64, is_done: bool) {
        let at = OPERATIONS.iter().position(|known| *known == name);
        let histogram = at.and_then(|at| self.operations.get(at));
        histogram.into_iter().for_each(|histogram| histogram.record(ns));
        self.failures.add(at.filter(|_| !is_done));
    }

    pub(crate) fn started(&self, inserted: &[Inserted]) {
        inserted.iter().for_each(|inserted| self.starts.add(Some(*inserted as usize)));
    }

    pub(crate) fn published(&self, inserted: &[Inserted]) {
        inserted.iter().for_each(|inserted| self.signals.add(Some(*inserted as usize)));
    }

    pub(crate) fn committed(&self, commits: &[Commit], results: &[Committed]) {
        for (commit, result) in commits.iter().zip(results) {
            self.changes.add(Some(*result as usize));
            let end = ENDS.iter().position(|end| *end == commit.record.status);
            self.ends.add(end.filter(|_| *result == Committed::Won));
        }
    }

    pub(crate) fn buried(&self, letters: &[DeadLetter]) {
        for letter in letters {
            self.dead.add(REASONS.iter().position(|reason| *reason == letter.reason));
        }
    }

    pub(crate) fn leased(&self, leases: &Leases) {
        self.partitions.store(leases.held.len(), Ordering::Relaxed);
        self.owners.store(leases.owners, Ordering::Relaxed);
        self.free_partitions.store(leases.free, Ordering::Relaxed);
    }

    pub(crate) fn waiting(&self, signals: usize) {
        self.waiting.store(signals, Ordering::Relaxed);
    }

    /// Counts news of work from another process.
    pub(crate) fn heard(&self) {
        self.news.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call as in flight until the guard is dropped. `None` if this process begins no more calls.
    pub(crate) fn call_begins(&self) -> Option<InFlight<'_>> {
        let call = InFlight::begin(&self.running_calls);
        // The call is counted first, so that a drain cannot miss it.
        (!self.is_draining.load(Ordering::SeqCst)).then_some(call)
    }

    /// Lets this process begin no more calls.
    pub(crate) fn begin_drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
    }

    /// Whether a call or an operation of the store is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        let running = [&self.running_calls, &self.running_operations];
        running.iter().any(|running| running.load(Ordering::SeqCst) > 0)
    }

    pub(crate) fn call_ends(&self, ns: u64, outcome: CallOutcome) {
        self.call_time.record(ns);
        self.calls.add(Some(outcome as usize));
    }

    /// Instances that changed to an end, to parked or to quarantined.
    pub fn ended(&self) -> u64 {
        self.ends.0.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Changes that the store accepted.
    pub fn changed(&self) -> u64 {
        self.changes.0[Committed::Won as usize].load(Ordering::Relaxed)
    }

    /// Partitions that this process holds.
    pub fn partitions(&self) -> usize {
        self.partitions.load(Ordering::Relaxed)
    }

    /// Writes all metrics; `backlog` counts the signals in memory, and `is_listening` is whether this process hears of work from others.
    pub fn write(&self, page: &mut Page, backlog: usize, is_listening: bool) {
        self.write_instances(page);
        self.write_calls(page);
        self.write_store(page);
        let help = "News of work from other processes, and openings of their stream. Those of a held partition wake the worker.";
        page.single("plimsoll_workflow_news_total", "counter", help, self.news.load(Ordering::Relaxed));
        let gauges = [
            ("partitions", "Partitions that this process holds.", self.partitions()),
            ("owners", "Processes that ask for partitions.", self.owners.load(Ordering::Relaxed)),
            (
                "partitions_free",
                "Partitions that no process holds: their instances stand still.",
                self.free_partitions.load(Ordering::Relaxed),
            ),
            (
                "waiting_signals",
                "Due signals in the store when this process last accepted or refused a signal, up to ten times its limit of waiting work.",
                self.waiting.load(Ordering::Relaxed),
            ),
            ("backlog_signals", "Signals that wait in the memory of this process.", backlog),
            (
                "listening",
                "1 if this process hears at once of work from others. 0: their work waits for the next poll.",
                usize::from(is_listening),
            ),
        ];
        for (name, help, value) in gauges {
            page.single(&format!("plimsoll_workflow_{name}"), "gauge", help, value);
        }
    }

    fn write_instances(&self, page: &mut Page) {
        let inserted = ["new", "known"];
        let name = "plimsoll_workflow_starts_total";
        self.starts.write(page, name, "Starts of instances, by outcome.", "outcome", inserted);
        let name = "plimsoll_workflow_signals_total";
        self.signals.write(page, name, "Signals that were sent, by outcome.", "outcome", inserted);
        let name = "plimsoll_workflow_changes_total";
        let help = "Changes of instances: won, or lost against another change.";
        self.changes.write(page, name, help, "outcome", ["won", "lost"]);
        let name = "plimsoll_workflow_instances_stopped_total";
        let help = "Changes that ended, parked or quarantined an instance.";
        self.ends.write(page, name, help, "status", ENDS.map(Status::name));
        let name = "plimsoll_workflow_dead_letters_total";
        self.dead.write(page, name, "Dead letters, by reason.", "reason", REASONS.map(DeadReason::name));
    }

    fn write_calls(&self, page: &mut Page) {
        let name = "plimsoll_workflow_calls_total";
        let outcomes = ["done", "failed", "refused"];
        self.calls.write(page, name, "Calls of functions and services, by outcome.", "outcome", outcomes);
        let name = "plimsoll_workflow_call_seconds";
        page.begin(name, "histogram", "Time of calls.");
        self.call_time.write(page, name, "");
        let running = self.running_calls.load(Ordering::Relaxed);
        page.single("plimsoll_workflow_calls_in_flight", "gauge", "Calls in flight.", running);
    }

    fn write_store(&self, page: &mut Page) {
        let name = "plimsoll_workflow_store_seconds";
        page.begin(name, "histogram", "Time of the store's operations.");
        for (operation, histogram) in OPERATIONS.iter().zip(&self.operations) {
            histogram.write(page, name, &format!("operation=\"{operation}\""));
        }
        let name = "plimsoll_workflow_store_failures_total";
        self.failures.write(page, name, "Operations of the store that failed.", "operation", OPERATIONS);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_workflow::instance::Signal;

    use super::*;

    #[test]
    fn each_event_counts_under_its_label() {
        let metrics = Metrics::default();
        metrics.started(&[Inserted::New, Inserted::New, Inserted::Known]);
        metrics.operation("commit", 1_000, false);
        let call = metrics.call_begins();
        assert!(call.is_some() && metrics.is_busy());
        drop(call);
        metrics.begin_drain();
        assert!(metrics.call_begins().is_none() && !metrics.is_busy());
        metrics.call_ends(1_000, CallOutcome::Refused);
        metrics.leased(&Leases { held: Vec::new(), owners: 3, free: 5 });
        let signal = Signal::named("i", "s", "go", serde_json::Value::Null, 0);
        metrics.buried(&[DeadLetter { signal, reason: DeadReason::Unreadable, buried_ms: 1 }]);
        metrics.waiting(11);
        metrics.heard();
        let mut page = Page::default();
        metrics.write(&mut page, 7, true);
        let text = page.text();
        for line in [
            "plimsoll_workflow_starts_total{outcome=\"new\"} 2\n",
            "plimsoll_workflow_starts_total{outcome=\"known\"} 1\n",
            "plimsoll_workflow_store_failures_total{operation=\"commit\"} 1\n",
            "plimsoll_workflow_store_seconds_count{operation=\"commit\"} 1\n",
            "plimsoll_workflow_calls_total{outcome=\"refused\"} 1\n",
            "plimsoll_workflow_calls_in_flight 0\n",
            "plimsoll_workflow_dead_letters_total{reason=\"unreadable\"} 1\n",
            "plimsoll_workflow_owners 3\n",
            "plimsoll_workflow_partitions_free 5\n",
            "plimsoll_workflow_waiting_signals 11\n",
            "plimsoll_workflow_backlog_signals 7\n",
            "plimsoll_workflow_news_total 1\n",
            "plimsoll_workflow_listening 1\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
