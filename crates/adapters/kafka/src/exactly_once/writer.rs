//! Writes for one worker: gathers batches into a transaction, and commits it while the next one is written.
//!
//! Two producers take turns. The records of a transaction go on their way when those before them in their partition were
//! acknowledged; its offsets are sent when the transaction before it is committed. So what is committed is always all up
//! to some place, and a transaction that fails takes the one behind it with it.

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
use super::transaction_buffer::{Outlets, Trouble};
use crate::backoff::Backoff;
use crate::error::said;
use crate::membership::Membership;
use crate::sink::error_class::{self, Class};
use crate::sink::partition_throttle::PartitionThrottle;

/// When a transaction is committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// With so many records.
    pub(super) records_min: u64,
    /// When it is so old, in nanoseconds.
    pub(super) age_max_ns: u64,
}

/// Where the transaction stands that is written.
#[derive(Debug)]
enum Stage {
    /// There is none.
    None,
    /// It gathers since then.
    Open(Instant),
    /// It is being given up, and the one before it if that failed.
    Aborting(String),
}

/// Writes batches in transactions.
pub(super) struct Writer {
    commit: Commit,
    written: Transaction,
    stage: Stage,
    throttle: PartitionThrottle,
    membership: Arc<Membership>,
    rules: Rules,
    /// Batches that came while there was no transaction.
    waiting: VecDeque<Batch>,
    done: VecDeque<Settled>,
    hurry: bool,
    /// Why the pipeline cannot go on once the transactions are given up.
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
            stage: Stage::None,
            throttle: PartitionThrottle::default(),
            membership,
            rules,
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            hurry: false,
            over: None,
        }
    }

    /// One turn of both transactions.
    fn turn(&mut self) {
        self.listen();
        if let Some(outcome) = self.commit.turn() {
            self.note(outcome);
        }
        match &self.stage {
            Stage::None => self.begin(),
            Stage::Open(since) => self.fill(*since),
            Stage::Aborting(reason) => self.abort(&reason.clone()),
        }
        self.throttle.close();
    }

    /// Takes reports; a record that was not acknowledged ends its transaction, and the one behind it.
    fn listen(&mut self) {
        let before = self.commit.transaction.reports(&mut self.throttle);
        let now = self.written.reports(&mut self.throttle);
        if let Some(code) = before
            && self.commit.spoil()
        {
            self.refuse(code);
        }
        // What is given up is reported as well, and says nothing new.
        if let (Some(code), Stage::Open(_)) = (now, &self.stage) {
            self.refuse(code);
        }
    }

    fn refuse(&mut self, code: RDKafkaErrorCode) {
        if error_class::of(code) != Class::Passing {
            let topic = &self.written.outlets.to.topic;
            self.over = Some(format!("a record of {topic:?} was refused ({})", said(code)));
        }
        self.stage = Stage::Aborting(said(code));
    }

    /// What became of the transaction before. What is behind one that failed is not committed either.
    fn note(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Committed(buffer) => self.done.extend(buffer.written()),
            Outcome::Failed(reason) => self.stage = Stage::Aborting(reason),
            Outcome::Over(reason) => self.fail_all(FailureClass::Final, &reason),
        }
    }

    fn begin(&mut self) {
        self.let_go_of_stale();
        if self.waiting.is_empty() {
            return;
        }
        match self.written.begin() {
            Step::Done => {
                self.stage = Stage::Open(clock::now());
                self.gather();
            }
            Step::Again => {}
            Step::Abort(reason) => self.stage = Stage::Aborting(reason),
            Step::Over(reason) => self.fail_all(FailureClass::Final, &reason),
        }
    }

    fn gather(&mut self) {
        self.let_go_of_stale();
        self.waiting.drain(..).for_each(|batch| self.written.buffer.add(batch));
    }

    /// A batch of an assignment that has ended is read by another member, or by this one again: it must not be written.
    fn let_go_of_stale(&mut self) {
        let (held, stale): (VecDeque<_>, VecDeque<_>) =
            self.waiting.drain(..).partition(|batch| self.membership.holds(batch));
        self.waiting = held;
        self.done.extend(stale.into_iter().map(|batch| Settled { batch, verdict: Verdict::Revoked }));
    }

    fn fill(&mut self, since: Instant) {
        match self.written.buffer.enqueue(&self.written.outlets, &mut self.throttle) {
            Ok(true) if self.is_ripe(since) => self.pass_on(),
            Ok(_) | Err(Trouble::Full) => {}
            Err(Trouble::Ends(reason)) => self.stage = Stage::Aborting(reason),
            Err(Trouble::Nowhere(reason)) => {
                self.over = Some(reason.clone());
                self.stage = Stage::Aborting(reason);
            }
        }
    }

    /// Whether it is large or old enough. While the one before it is not committed it goes on to grow: a commit takes as
    /// long for much as for little.
    fn is_ripe(&self, since: Instant) -> bool {
        let buffer = &self.written.buffer;
        let old = clock::now().since(since) >= self.rules.age_max_ns;
        let many = buffer.records() >= self.rules.records_min || buffer.len() >= BATCHES_MAX;
        self.commit.is_none() && (old || many || self.hurry)
    }

    /// All of it is in the queue: the other producer takes what comes now.
    fn pass_on(&mut self) {
        self.stage = Stage::None;
        if let Some(outcome) = self.commit.take_over(&mut self.written, &self.membership) {
            self.note(outcome);
        }
    }

    /// Gives up what is written, as soon as it is known what becomes of the transaction before it: that one comes first.
    fn abort(&mut self, reason: &str) {
        let Some(before) = self.commit.give_up() else { return };
        let step = if before == Step::Done { self.written.give_up() } else { before };
        match (step, self.over.take()) {
            (Step::Over(reason), _) | (Step::Done, Some(reason)) => {
                self.fail_all(FailureClass::Final, &reason)
            }
            (Step::Done, None) => self.fail_all(FailureClass::Passing, reason),
            (Step::Again | Step::Abort(_), over) => self.over = over,
        }
    }

    /// Gives everything back in order, also what waited: an offset behind a gap must never be committed.
    fn fail_all(&mut self, class: FailureClass, reason: &str) {
        let (before, now) = (self.commit.clear(), mem::take(&mut self.written.buffer));
        let batches = before.into_batches().chain(now.into_batches());
        for batch in batches.chain(self.waiting.drain(..)) {
            self.done.push_back(Settled { batch, verdict: Verdict::failed(class, reason) });
        }
        self.throttle.clear();
        self.stage = Stage::None;
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
        if matches!(self.stage, Stage::Open(_)) {
            self.gather();
        }
        self.turn();
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
                self.turn();
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
    use crate::sink::{Target, producer};
    use plimsoll_pipeline::{Partition, Record};

    #[test]
    fn a_batch_of_an_assignment_that_has_ended_is_left_and_not_called_written() {
        // Nobody listens there, and nobody has to: what is left is never sent.
        let cluster = Cluster::at("127.0.0.1:1");
        let to = Target {
            topic: "orders".to_owned(),
            placing: Placing::Same,
            bytes_max: 1_000_000,
            partitions: 1,
        };
        let outlets = [(); 2].map(|()| {
            let producer = producer(&cluster, &[1_000_000], Duration::from_secs(1), &[]).unwrap();
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
