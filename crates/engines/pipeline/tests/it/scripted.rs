//! Provides scripted sources and sinks.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use plimsoll_pipeline::port::source::Last;
use plimsoll_pipeline::{
    Assignment, Assignments, Batch, Clock, Identity, Intake, Order, Partition, Position, Promise, Read,
    Record, Replay, Settled, Sink, SinkError, SinkFactory, Source, SourceError, Verdict,
};

/// A source of `count` events of one byte in one partition. It keeps its own position.
pub struct Counting {
    pub partition: Partition,
    pub count: u64,
    pub next: u64,
    pub batch: usize,
    /// The clock of the events, and their times.
    pub clock: (Clock, u64),
    pub assignment: Option<Arc<Assignment>>,
    pub committed: Arc<Mutex<Vec<u64>>>,
}

impl Counting {
    pub fn new(count: u64, batch: usize) -> Self {
        let partition = Partition::new("counting", 0);
        Self {
            partition,
            count,
            next: 0,
            batch,
            clock: (Clock::Here, 1),
            assignment: None,
            committed: Arc::default(),
        }
    }
}

impl Source for Counting {
    fn replay(&self) -> Replay {
        Replay::FromItself
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        self.assignment = Some(assignments.open(self.partition.clone())?.0);
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        if self.next == self.count {
            return Ok(Read::End);
        }
        let mut read = Read::Idle;
        let assignment = self.assignment.clone().unwrap();
        while intake.space().events > 0 && self.next < self.count {
            let mut batch = intake.batch(&self.partition);
            let most = (self.count - self.next).min(intake.space().events.min(self.batch) as u64);
            let (clock, appended_ms) = self.clock;
            batch.set_clock(clock);
            for offset in self.next..self.next + most {
                batch.push(Record { offset, appended_ms, key: None, payload: Some(&[offset as u8]) });
            }
            self.next += most;
            batch.set_position(Position::at(self.next));
            intake.hand_over(&assignment, batch);
            read = Read::Some;
        }
        Ok(read)
    }

    fn commit(&mut self, reached: &[(Partition, Position)], _last: Last) -> Result<(), SourceError> {
        self.committed.lock().unwrap().extend(reached.iter().map(|(_, position)| position.next));
        Ok(())
    }
}

type Script = dyn Fn(&Batch) -> Verdict + Send + Sync;

/// A source without events.
pub struct Silent;

impl Source for Silent {
    fn replay(&self) -> Replay {
        Replay::FromItself
    }

    fn open(&mut self, _lanes: &Arc<Assignments>) -> Result<(), SourceError> {
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        std::thread::sleep(intake.wait());
        Ok(Read::Idle)
    }

    fn commit(&mut self, _reached: &[(Partition, Position)], _last: Last) -> Result<(), SourceError> {
        Ok(())
    }
}

/// A sink whose verdicts come from a closure. It can be blocked.
#[derive(Clone)]
pub struct Scripted {
    pub promise: Promise,
    pub capacity: usize,
    script: Arc<Script>,
    gate: Arc<(Mutex<bool>, Condvar)>,
    /// The offsets of all written events, in order of writing.
    pub written: Arc<Mutex<Vec<u64>>>,
}

impl Scripted {
    pub fn new(script: impl Fn(&Batch) -> Verdict + Send + Sync + 'static) -> Self {
        Self {
            promise: Promise {
                durable: true,
                identity: Identity::Once,
                order: Order::Any,
                writes_dead_letters: false,
            },
            capacity: 1,
            script: Arc::new(script),
            gate: Arc::new((Mutex::new(true), Condvar::new())),
            written: Arc::default(),
        }
    }

    pub fn writing() -> Self {
        Self::new(|_| Verdict::WRITTEN)
    }

    pub fn set_open(&self, open: bool) {
        *self.gate.0.lock().unwrap() = open;
        self.gate.1.notify_all();
    }

    pub fn written(&self) -> Vec<u64> {
        self.written.lock().unwrap().clone()
    }
}

impl SinkFactory for Scripted {
    fn promise(&self) -> Promise {
        self.promise
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Worker { sink: self.clone(), batches: VecDeque::new() }))
    }
}

struct Worker {
    sink: Scripted,
    batches: VecDeque<Batch>,
}

impl Sink for Worker {
    fn capacity(&self) -> usize {
        self.sink.capacity
    }

    fn submit(&mut self, batch: Batch) {
        self.batches.push_back(batch);
        assert!(self.batches.len() <= self.sink.capacity, "no more than its capacity");
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        let (open, changed) = &*self.sink.gate;
        let open = changed.wait_timeout_while(open.lock().unwrap(), wait, |open| !*open).unwrap().0;
        if !*open {
            return None;
        }
        let batch = self.batches.pop_front()?;
        let verdict = (self.sink.script)(&batch);
        if let Verdict::Written { refused, .. } = &verdict {
            let mut written = self.sink.written.lock().unwrap();
            for (index, event) in batch.events().iter().enumerate() {
                if !refused.iter().any(|one| one.index as usize == index) {
                    written.push(event.offset);
                }
            }
        }
        Some(Settled { batch, verdict })
    }
}
