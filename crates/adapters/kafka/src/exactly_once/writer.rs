//! Writes for one worker: collects batches into a transaction, and commits it while the next one is written.
//!
//! Two producers take turns. A record is sent when the earlier records of its partition are acknowledged. The
//! offsets of a transaction are sent when the transaction before it is committed. So the committed records
//! never have gaps, and a failed transaction also aborts the next one.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};
use plimsoll_pipeline::{Batch, FailureClass, Settled, Sink, Verdict};
use rdkafka::error::RDKafkaErrorCode;

use super::BATCHES_MAX;
use super::commit::{Commit, Outcome};
use super::commit_thread::CommitThread;
use super::step::Step;
use super::transaction::Transaction;
use super::transaction_buffer::{Outlets, QueueError};
use crate::backoff::Backoff;
use crate::error::describe;
use crate::membership::Membership;
use crate::sink::error_class::{self, Class};
use crate::sink::partition_throttle::PartitionThrottle;

/// The limits at which a transaction is committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The number of records.
    pub(super) records_min: u64,
    /// The age in nanoseconds.
    pub(super) age_max_ns: u64,
}

/// The state of the transaction that is written.
#[derive(Debug)]
enum State {
    /// No transaction.
    None,
    /// The transaction collects batches since this moment.
    Open(Instant),
    /// The transaction is being aborted. If the previous transaction failed too, it is aborted first.
    Aborting(String),
}

/// Writes batches in transactions.
pub(super) struct Writer {
    commit: Commit,
    written: Transaction,
    stage: State,
    throttle: PartitionThrottle,
    membership: Arc<Membership>,
    rules: Rules,
    /// Batches that arrived without an open transaction.
    waiting: VecDeque<Batch>,
    done: VecDeque<Settled>,
    hurry: bool,
    /// The reason why the pipeline stops once the transactions are aborted.
    over: Option<String>,
}

impl Writer {
    pub(super) fn new(
        outlets: [Outlets; 2],
        thread: CommitThread,
        membership: Arc<Membership>,
        rules: Rules,
    ) -> Self {
        let [written, other] = outlets.map(Transaction::of);
        Self {
            commit: Commit::of(other, thread),
            written,
            stage: State::None,
            throttle: PartitionThrottle::default(),
            membership,
            rules,
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            hurry: false,
            over: None,
        }
    }

    /// Advances both transactions by one step.
    fn advance(&mut self) {
        self.collect_reports();
        if let Some(outcome) = self.commit.advance() {
            self.handle_outcome(outcome);
        }
        match &self.stage {
            State::None => self.begin(),
            State::Open(since) => self.fill(*since),
            State::Aborting(reason) => self.abort(&reason.clone()),
        }
        self.throttle.close();
    }

    /// Collects reports. An unacknowledged record aborts its transaction and the next one.
    fn collect_reports(&mut self) {
        let before = self.commit.transaction.reports(&mut self.throttle);
        let now = self.written.reports(&mut self.throttle);
        if let Some(code) = before
            && self.commit.mark_failed()
        {
            self.refuse(code);
        }
        // Records of an aborted transaction are reported as well, without new information.
        if let (Some(code), State::Open(_)) = (now, &self.stage) {
            self.refuse(code);
        }
    }

    fn refuse(&mut self, code: RDKafkaErrorCode) {
        if error_class::of(code) != Class::Transient {
            let topic = &self.written.outlets.to.topic;
            self.over = Some(format!("a record of {topic:?} was refused ({})", describe(code)));
        }
        self.stage = State::Aborting(describe(code));
    }

    /// Handles the outcome of the previous transaction. If it failed, the next transaction is not
    /// committed either.
    fn handle_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Committed(buffer) => self.done.extend(buffer.written()),
            Outcome::Failed(reason) => self.stage = State::Aborting(reason),
            Outcome::Over(reason) => self.fail_all(FailureClass::Final, &reason),
        }
    }

    fn begin(&mut self) {
        self.drop_stale();
        if self.waiting.is_empty() {
            return;
        }
        match self.written.begin() {
            Step::Done => {
                self.stage = State::Open(clock::now());
                self.collect_waiting();
            }
            Step::Again => {}
            Step::Abort(reason) => self.stage = State::Aborting(reason),
            Step::Over(reason) => self.fail_all(FailureClass::Final, &reason),
        }
    }

    fn collect_waiting(&mut self) {
        self.drop_stale();
        self.waiting.drain(..).for_each(|batch| self.written.buffer.add(batch));
    }

    /// Drops the batches of an ended assignment. The next owner of the partition reads them again, so they
    /// must not be written.
    fn drop_stale(&mut self) {
        let (held, stale): (VecDeque<_>, VecDeque<_>) =
            self.waiting.drain(..).partition(|batch| self.membership.holds(batch));
        self.waiting = held;
        self.done.extend(stale.into_iter().map(|batch| Settled { batch, verdict: Verdict::Revoked }));
    }

    fn fill(&mut self, since: Instant) {
        match self.written.buffer.enqueue(&self.written.outlets, &mut self.throttle) {
            Ok(true) if self.is_due(since) => self.commit_written(),
            Ok(_) | Err(QueueError::Full) => {}
            Err(QueueError::Abort(reason)) => self.stage = State::Aborting(reason),
            Err(QueueError::Unwritable(reason)) => {
                self.over = Some(reason.clone());
                self.stage = State::Aborting(reason);
            }
        }
    }

    /// Whether the transaction is large or old enough. The transaction grows until the previous one is
    /// committed: the time of a commit does not depend on the size.
    fn is_due(&self, since: Instant) -> bool {
        let buffer = &self.written.buffer;
        let old = clock::now().since(since) >= self.rules.age_max_ns;
        let many = buffer.records() >= self.rules.records_min || buffer.len() >= BATCHES_MAX;
        self.commit.is_none() && (old || many || self.hurry)
    }

    /// Commits a fully queued transaction; the other producer takes the following batches.
    fn commit_written(&mut self) {
        self.stage = State::None;
        if let Some(outcome) = self.commit.take_over(&mut self.written, &self.membership) {
            self.handle_outcome(outcome);
        }
    }

    /// Aborts the open transaction once the outcome of the previous transaction is known.
    fn abort(&mut self, reason: &str) {
        let Some(before) = self.commit.abort() else { return };
        let step = if before == Step::Done { self.written.abort() } else { before };
        match (step, self.over.take()) {
            (Step::Over(reason), _) | (Step::Done, Some(reason)) => {
                self.fail_all(FailureClass::Final, &reason)
            }
            (Step::Done, None) => self.fail_all(FailureClass::Transient, reason),
            (Step::Again | Step::Abort(_), over) => self.over = over,
        }
    }

    /// Returns all batches in order, including waiting batches: an offset after a gap must never be
    /// committed.
    fn fail_all(&mut self, class: FailureClass, reason: &str) {
        let (before, now) = (self.commit.clear(), mem::take(&mut self.written.buffer));
        let batches = before.into_batches().chain(now.into_batches());
        for batch in batches.chain(self.waiting.drain(..)) {
            self.done.push_back(Settled { batch, verdict: Verdict::failed(class, reason) });
        }
        self.throttle.clear();
        self.stage = State::None;
    }

    fn in_flight(&self) -> i32 {
        self.written.in_flight() + self.commit.transaction.in_flight()
    }
}

impl Sink for Writer {
    fn capacity(&self) -> usize {
        BATCHES_MAX
    }

    fn submit(&mut self, batch: Batch) {
        self.waiting.push_back(batch);
        if matches!(self.stage, State::Open(_)) {
            self.collect_waiting();
        }
        self.advance();
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        let began = clock::now();
        let mut backoff = Backoff::new();
        loop {
            let before = self.in_flight();
            for one in [&self.written, &self.commit.transaction] {
                one.outlets.producer.poll(Duration::ZERO);
            }
            if self.done.is_empty() {
                self.advance();
            }
            let left = wait.saturating_sub(Duration::from_nanos(clock::now().since(began)));
            if !self.done.is_empty() || left.is_zero() {
                return self.done.pop_front();
            }
            let came = self.in_flight() < before;
            if came { backoff.reset() } else { backoff.sleep(left) }
        }
    }

    fn flush(&mut self) {
        self.hurry = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::scenario::Placing;
    use crate::sink::{Reports, Target, producer};
    use plimsoll_pipeline::{Partition, Record};

    #[test]
    fn a_batch_of_an_ended_assignment_is_dropped_and_not_reported_as_written() {
        // No broker listens on this port; the dropped batch is never sent.
        let cluster = Cluster::at("127.0.0.1:1");
        let to = Target {
            topic: "orders".to_owned(),
            placing: Placing::Same,
            bytes_max: 1_000_000,
            partitions: 1,
        };
        let outlets = [(); 2].map(|()| {
            let producer =
                producer(&cluster, &[1_000_000], Duration::from_secs(1), &[], Reports::default()).unwrap();
            Outlets { producer: Arc::new(producer), to: to.clone(), letters: None }
        });
        let rules = Rules { records_min: 1, age_max_ns: 1 };
        let mut writer = Writer::new(outlets, CommitThread::start().unwrap(), Arc::default(), rules);
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record::default());
        writer.submit(batch);
        let left = writer.settle(Duration::ZERO).unwrap();
        assert_eq!((left.batch.events().len(), left.verdict), (1, Verdict::Revoked));
        assert!(writer.settle(Duration::ZERO).is_none());
    }
}
