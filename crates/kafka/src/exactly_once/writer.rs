//! The writer of one worker: gathers batches to a transaction, and ends it.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};
use plimsoll_pipeline::{Batch, FailureClass, Settled, Sink, Verdict};
use rdkafka::producer::Producer as _;

use super::BATCHES_MAX;
use super::gathered::{Gathered, Outlets, Trouble};
use super::step::{self, Step};
use crate::error::said;
use crate::membership::Membership;
use crate::nap::Nap;
use crate::sink::class::{self, Class};

/// When a transaction is committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// With so many records.
    pub(super) records_min: u64,
    /// When it is so old, in nanoseconds.
    pub(super) age_max_ns: u64,
}

/// Where a transaction stands.
#[derive(Debug)]
enum Stage {
    /// There is none.
    None,
    /// It gathers since then.
    Open(Instant),
    /// It is being committed; the offsets are in it already, or not.
    Committing { offsets: bool },
    /// It is being given up.
    Aborting(String),
}

/// Writes batches in transactions.
pub(super) struct Writer {
    outlets: Outlets,
    membership: Arc<Membership>,
    rules: Rules,
    stage: Stage,
    gathered: Gathered,
    /// Batches that came while a transaction was being ended.
    waiting: VecDeque<Batch>,
    done: VecDeque<Settled>,
    hurry: bool,
    /// Why the pipeline cannot go on once the transaction is given up.
    over: Option<String>,
}

impl Writer {
    pub(super) fn new(outlets: Outlets, membership: Arc<Membership>, rules: Rules) -> Self {
        Self {
            outlets,
            membership,
            rules,
            stage: Stage::None,
            gathered: Gathered::default(),
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            hurry: false,
            over: None,
        }
    }

    /// One turn of the transaction.
    fn turn(&mut self) {
        self.listen();
        match &self.stage {
            Stage::None => self.begin(),
            Stage::Open(since) => self.fill(*since),
            Stage::Committing { .. } if self.outlets.producer.in_flight_count() > 0 => {}
            Stage::Committing { offsets: false } => self.send_offsets(),
            Stage::Committing { offsets: true } => match step::commit(&self.outlets.producer) {
                Step::Done => {
                    self.done.extend(mem::take(&mut self.gathered).written());
                    self.stage = Stage::None;
                }
                step => self.follow(step),
            },
            Stage::Aborting(reason) => self.abort(reason.clone()),
        }
    }

    /// Takes reports; a record that was not acknowledged ends the transaction.
    fn listen(&mut self) {
        let tally = self.outlets.producer.client().context().take();
        if matches!(self.stage, Stage::None | Stage::Aborting(_)) {
            return;
        }
        let worst = tally.failed.iter().map(|(_, _, code)| *code).max_by_key(|code| class::of(*code));
        let Some(code) = worst else { return };
        if class::of(code) != Class::Passing {
            self.over = Some(format!("a record of {:?} was refused ({})", self.outlets.to.topic, said(code)));
        }
        self.stage = Stage::Aborting(said(code));
    }

    fn begin(&mut self) {
        self.let_go_of_stale();
        if self.waiting.is_empty() {
            return;
        }
        match step::begin(&self.outlets.producer) {
            Step::Done => {
                self.stage = Stage::Open(clock::now());
                self.gather();
            }
            step => self.follow(step),
        }
    }

    fn gather(&mut self) {
        self.let_go_of_stale();
        self.waiting.drain(..).for_each(|batch| self.gathered.add(batch));
    }

    /// A batch of an assignment that has ended is read by another member, or by this one again: it must not be written.
    fn let_go_of_stale(&mut self) {
        let (held, stale): (VecDeque<_>, VecDeque<_>) =
            self.waiting.drain(..).partition(|batch| self.membership.holds(batch));
        self.waiting = held;
        self.done.extend(stale.into_iter().map(|batch| Settled { batch, verdict: Verdict::Left }));
    }

    fn fill(&mut self, since: Instant) {
        match self.gathered.enqueue(&self.outlets) {
            Ok(()) => {}
            Err(Trouble::Full) => return,
            Err(Trouble::Ends(reason)) => {
                self.stage = Stage::Aborting(reason);
                return;
            }
            Err(Trouble::Nowhere(reason)) => {
                self.over = Some(reason.clone());
                self.stage = Stage::Aborting(reason);
                return;
            }
        }
        let old = clock::now().since(since) >= self.rules.age_max_ns;
        let many =
            self.gathered.records() >= self.rules.records_min || self.gathered.batches().len() >= BATCHES_MAX;
        if old || many || self.hurry {
            self.stage = Stage::Committing { offsets: false };
        }
    }

    fn send_offsets(&mut self) {
        let Some(generation) = self.membership.generation(self.gathered.batches()) else {
            self.stage = Stage::Aborting("a partition went to another member".to_owned());
            return;
        };
        match step::send_offsets(&self.outlets.producer, self.gathered.batches(), &generation) {
            Step::Done => self.stage = Stage::Committing { offsets: true },
            step => self.follow(step),
        }
    }

    fn follow(&mut self, step: Step) {
        match step {
            Step::Done | Step::Again => {}
            Step::Abort(reason) => self.stage = Stage::Aborting(reason),
            Step::Over(reason) => self.fail_all(FailureClass::Final, &reason),
        }
    }

    fn abort(&mut self, reason: String) {
        match (step::abort(&self.outlets.producer), self.over.take()) {
            (Step::Over(reason), _) | (Step::Done, Some(reason)) => {
                self.fail_all(FailureClass::Final, &reason)
            }
            (Step::Done, None) => self.fail_all(FailureClass::Passing, &reason),
            (Step::Again | Step::Abort(_), over) => self.over = over,
        }
    }

    /// Gives everything back in order, also what waited: an offset behind a gap must never be committed.
    fn fail_all(&mut self, class: FailureClass, reason: &str) {
        let batches = mem::take(&mut self.gathered).into_batches();
        for batch in batches.into_iter().chain(self.waiting.drain(..)) {
            self.done.push_back(Settled { batch, verdict: Verdict::failed(class, reason) });
        }
        self.stage = Stage::None;
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
        let mut nap = Nap::new();
        loop {
            let before = self.outlets.producer.in_flight_count();
            self.outlets.producer.poll(Duration::ZERO);
            if self.done.is_empty() {
                self.turn();
            }
            let left = wait.saturating_sub(Duration::from_nanos(clock::now().since(began)));
            if !self.done.is_empty() || left.is_zero() {
                return self.done.pop_front();
            }
            let came = self.outlets.producer.in_flight_count() < before;
            if came { nap.wake() } else { nap.take(left) }
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
        let producer = producer(&cluster, &[1_000_000], Duration::from_secs(1), &[]).unwrap();
        let to = Target { topic: "orders".to_owned(), placing: Placing::Same, bytes_max: 1_000_000 };
        let outlets = Outlets { producer, to, letters: None };
        let rules = Rules { records_min: 1, age_max_ns: 1 };
        let mut writer = Writer::new(outlets, Arc::default(), rules);
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record::default());
        writer.submit(batch);
        let left = writer.settle(Duration::ZERO).unwrap();
        assert_eq!((left.batch.events().len(), left.verdict), (1, Verdict::Left));
        assert!(writer.settle(Duration::ZERO).is_none());
    }
}
