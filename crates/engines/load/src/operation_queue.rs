//! Supplies one worker's operations of one load: first overdue, then scheduled ones, until both are exhausted.

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_measure::clock::Instant;

use crate::arrivals::Share;
use crate::mix::{Mix, scramble};
use crate::phase::{Documents, Overdue, Phase};
use crate::schedule::Schedule;

mod backlog;

pub use backlog::{Backlog, Call};

/// Supplies the operations of one load.
pub struct OperationQueue {
    /// The overdue operations of all workers of the process.
    backlog: Arc<Backlog>,
    /// The index of the worker in the process.
    worker: usize,
    mix: Mix,
    overdue_rule: Overdue,
    operations_left: Option<u64>,
    documents: Documents,
    exhausted: bool,
    source: Source,
    /// The index of each operation's tally.
    tallies: Vec<usize>,
    /// The start of the load.
    start: Instant,
    /// The end of the load: no operation is due from then on. `None` if time does not end the load.
    end: Option<Instant>,
    /// The end of the time in which overdue operations may be sent.
    until: Option<Instant>,
}

enum Source {
    Closed {
        next: u64,
        step: u64,
    },
    /// `returned` were taken and put back, by due time; the schedule continues after them.
    Open {
        schedule: Schedule,
        returned: VecDeque<Slot>,
    },
}

/// One operation of the schedule.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The number in the plan.
    pub number: u64,
    /// The operation's index in the plan.
    pub operation: usize,
    /// The index of the operation's tally.
    pub tally: usize,
    /// The due time; `None` for closed arrivals, whose operations each follow the last one of their writer.
    pub due: Option<Instant>,
    /// The moment when the pacer noted the operation, if no lane took it in time.
    pub awake: Option<Instant>,
}

impl OperationQueue {
    /// Creates one worker's queue for the load `index` of a phase that starts at `start`; none if the mix has
    /// no weight. `tallies` contains the index of each operation's tally, and the last argument the backlog and the
    /// worker's index in it.
    pub fn new(
        phase: &Phase,
        index: usize,
        share: Share,
        start: Instant,
        tallies: Vec<usize>,
        (backlog, worker): (Arc<Backlog>, usize),
    ) -> Option<Self> {
        let load = &phase.loads[index];
        let seed = scramble(phase.seed, index as u64);
        let share = narrowed(share, u64::from(load.arrivals.connections()));
        let source = match Schedule::new(&load.arrivals, share, seed) {
            None => Source::Closed { next: share.index, step: share.of },
            Some(schedule) => Source::Open { schedule, returned: VecDeque::new() },
        };
        let end = load.end(phase.stop).map(|span| start + span.as_ns());
        let grace = load.timing.graceful_stop.unwrap_or(phase.drain);
        Some(Self {
            backlog,
            worker,
            mix: Mix::by(load.mix_by, &load.mix, seed)?,
            overdue_rule: load.overdue,
            operations_left: load.limits(phase.stop).operations.map(|total| share.part(total)),
            documents: load.documents,
            exhausted: false,
            source,
            tallies,
            start: start + load.timing.start.as_ns(),
            end,
            until: end.map(|end| end + grace.as_ns()),
        })
    }

    /// The end of the load, from which on no operation is due, if time ends it.
    pub const fn end(&self) -> Option<Instant> {
        self.end
    }

    /// The end of the time in which overdue operations may be sent, if time ends the load.
    pub const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Whether no further operation is due.
    pub fn has_ended(&self, now: Instant) -> bool {
        self.end.is_some_and(|end| now >= end)
    }

    /// Whether no further operation may be sent.
    pub fn is_drained(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// Whether no operation is left for a connection, ever.
    pub fn is_spent(&self, now: Instant) -> bool {
        self.is_empty() || self.is_drained(now) || (self.has_ended(now) && !self.has_overdue())
    }

    /// Whether an operation of any worker is overdue, or one of this worker was put back.
    fn has_overdue(&self) -> bool {
        !self.backlog.is_empty() || self.has_returned()
    }

    fn has_returned(&self) -> bool {
        matches!(&self.source, Source::Open { returned, .. } if !returned.is_empty())
    }

    /// Whether the next operation is available as soon as the last one has ended.
    pub const fn is_closed(&self) -> bool {
        matches!(self.source, Source::Closed { .. })
    }

    /// Whether all operations were taken.
    pub fn is_over(&self) -> bool {
        self.operations_left == Some(0) && !self.has_returned()
    }

    /// Whether nothing is left to send.
    pub fn is_empty(&self) -> bool {
        self.exhausted || (self.is_over() && !self.has_overdue())
    }

    /// Whether the operations make documents.
    pub fn makes_documents(&self) -> bool {
        self.documents == Documents::Made
    }

    /// Whether the queue makes documents and has some left.
    pub fn is_supplying(&self) -> bool {
        self.makes_documents() && !self.exhausted
    }

    /// Records that this worker's documents are used up. If no worker has documents left, overdue operations
    /// still count as due, and as not done.
    pub fn exhaust(&mut self) {
        self.exhausted = true;
        if let Source::Open { returned, .. } = &mut self.source {
            returned.clear();
        }
        self.backlog.retire(self.worker);
    }

    /// Takes the next scheduled operation, if it is due before the load's end.
    pub fn take_scheduled(&mut self) -> Option<Slot> {
        if self.exhausted || self.is_over() {
            return None;
        }
        let (due, number) = match &mut self.source {
            Source::Closed { next, step } => {
                let number = *next;
                *next += *step;
                (None, number)
            }
            Source::Open { schedule, returned } => {
                if let Some(slot) = returned.pop_front() {
                    return Some(slot);
                }
                if self.operations_left == Some(0) {
                    return None;
                }
                let due = self.start + schedule.peek()?.0;
                if self.end.is_some_and(|end| due >= end) {
                    return None;
                }
                (Some(due), schedule.take()?.1)
            }
        };
        self.operations_left = self.operations_left.map(|left| left - 1);
        let operation = self.mix.pick(number);
        Some(Slot { number, operation, tally: self.tallies[operation], due, awake: None })
    }

    /// Records the service time of an operation that has ended.
    pub fn done(&mut self, operation: usize, service_ns: u64) {
        self.mix.done(operation, service_ns);
    }

    /// Takes the overdue operation of any worker that has waited longest.
    pub fn take_overdue(&self) -> Option<Slot> {
        if self.exhausted { None } else { self.backlog.take() }
    }

    /// Adds an overdue operation to those of all workers.
    pub fn push_overdue(&self, slot: Slot) {
        self.backlog.push(self.worker, slot);
    }

    /// Puts back an operation that is not due yet.
    pub fn put_back(&mut self, slot: Slot) {
        if let Source::Open { returned, .. } = &mut self.source
            && !self.exhausted
        {
            let at = returned.partition_point(|other| other.due <= slot.due);
            returned.insert(at, slot);
        }
    }

    /// Queues the next operation that is due by `now` as overdue, and returns a copy.
    pub fn notice(&mut self, now: Instant) -> Option<Slot> {
        self.next_due().filter(|due| *due <= now)?;
        let slot = Slot { awake: Some(now), ..self.take_scheduled()? };
        self.push_overdue(slot);
        Some(slot)
    }

    /// The due time of the next operation; none for closed arrivals and after the end.
    pub fn next_due(&self) -> Option<Instant> {
        match &self.source {
            Source::Open { schedule, returned } if !self.exhausted && !self.is_over() => {
                let scheduled = || schedule.peek().map(|(due_ns, _)| self.start + due_ns);
                let due = returned.front().map_or_else(scheduled, |slot| slot.due);
                due.filter(|due| self.end.is_none_or(|end| *due < end))
            }
            _ => None,
        }
    }

    /// Whether the scenario skips an operation that is this late.
    pub fn is_too_late(&self, slot: &Slot, now: Instant) -> bool {
        match (self.overdue_rule, slot.due) {
            (Overdue::Skip { after }, Some(due)) => now.since(due) > after.as_ns(),
            _ => false,
        }
    }
}

/// A worker's share of a load with this number of connections. With fewer connections than workers, only one worker for each
/// connection takes part.
pub const fn narrowed(share: Share, connections: u64) -> Share {
    Share { index: share.index, of: if share.of < connections { share.of } else { connections } }
}
