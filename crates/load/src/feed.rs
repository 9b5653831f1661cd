//! Where one worker's operations of one load come from: the schedule, what of it is overdue, and when it has dried up.

use std::collections::VecDeque;

use plimsoll_measure::clock::Instant;

use crate::arrivals::{Schedule, Share};
use crate::mix::{Mix, scramble};
use crate::phase::{Documents, Load, Overdue, Phase};

/// Where the operations of one load come from.
pub struct Feed {
    mix: Mix,
    overdue_rule: Overdue,
    operations_left: Option<u64>,
    documents: Documents,
    exhausted: bool,
    source: Source,
}

enum Source {
    Closed { next: u64, step: u64 },
    Open { schedule: Schedule, overdue: VecDeque<Slot> },
}

/// One operation of the schedule.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Its number in the plan.
    pub number: u64,
    /// Which operation of the plan it is.
    pub operation: usize,
    /// When it is due; closed arrivals are due when they are sent.
    pub due: Option<Instant>,
    /// When the pacer noticed it, if no lane took it in time.
    pub awake: Option<Instant>,
}

impl Feed {
    /// The feed of one worker; nothing where the mix has no weight.
    pub fn new(load: &Load, share: Share, phase: &Phase, index: usize) -> Option<Self> {
        let seed = scramble(phase.seed, index as u64);
        let share = narrowed(share, u64::from(load.arrivals.connections()));
        let source = match Schedule::new(&load.arrivals, share, seed) {
            None => Source::Closed { next: share.index, step: share.of },
            Some(schedule) => Source::Open { schedule, overdue: VecDeque::new() },
        };
        Some(Self {
            mix: Mix::by(load.mix_by, &load.mix, seed)?,
            overdue_rule: load.overdue,
            operations_left: phase.stop.operations.map(|total| share.part(total)),
            documents: load.documents,
            exhausted: false,
            source,
        })
    }

    /// Whether the next operation is there as soon as the last one has ended.
    pub const fn is_closed(&self) -> bool {
        matches!(self.source, Source::Closed { .. })
    }

    /// Whether its operations were all taken.
    pub const fn is_over(&self) -> bool {
        matches!(self.operations_left, Some(0))
    }

    /// Whether nothing of it is left to send.
    pub fn is_dry(&self) -> bool {
        let waiting = matches!(&self.source, Source::Open { overdue, .. } if !overdue.is_empty());
        (self.exhausted || self.is_over()) && !waiting
    }

    /// Whether its operations make documents.
    pub fn makes_documents(&self) -> bool {
        self.documents == Documents::Made
    }

    /// Whether it makes documents and has some left.
    pub fn is_supplying(&self) -> bool {
        self.makes_documents() && !self.exhausted
    }

    /// There are no documents left for it. What is overdue stays counted as due: it was, and was not done.
    pub fn exhaust(&mut self) {
        self.exhausted = true;
        if let Source::Open { overdue, .. } = &mut self.source {
            overdue.clear();
        }
    }

    /// The next operation in time, if it is due before `end`; marks it as taken.
    pub fn take_scheduled(&mut self, start: Instant, end: Option<Instant>) -> Option<Slot> {
        if self.exhausted || self.is_over() {
            return None;
        }
        let (due, number) = match &mut self.source {
            Source::Closed { next, step } => {
                let number = *next;
                *next += *step;
                (None, number)
            }
            Source::Open { schedule, .. } => {
                let due = start + schedule.peek()?.0;
                if end.is_some_and(|end| due >= end) {
                    return None;
                }
                (Some(due), schedule.take()?.1)
            }
        };
        self.operations_left = self.operations_left.map(|left| left - 1);
        Some(Slot { number, operation: self.mix.pick(number), due, awake: None })
    }

    /// An operation that it gave has ended after this time of service.
    pub fn done(&mut self, operation: usize, service_ns: u64) {
        self.mix.done(operation, service_ns);
    }

    /// The overdue operation that waits longest.
    pub fn take_overdue(&mut self) -> Option<Slot> {
        match &mut self.source {
            Source::Open { overdue, .. } => overdue.pop_front(),
            Source::Closed { .. } => None,
        }
    }

    /// Takes the next operation that is due by `now` and keeps it as overdue, noticed `now`; gives a copy.
    pub fn notice(&mut self, start: Instant, end: Option<Instant>, now: Instant) -> Option<Slot> {
        self.next_due(start, end).filter(|due| *due <= now)?;
        let slot = Slot { awake: Some(now), ..self.take_scheduled(start, end)? };
        if let Source::Open { overdue, .. } = &mut self.source {
            overdue.push_back(slot);
        }
        Some(slot)
    }

    /// When the next operation is due; nothing for closed arrivals and after the end.
    pub fn next_due(&self, start: Instant, end: Option<Instant>) -> Option<Instant> {
        match &self.source {
            Source::Open { schedule, .. } if !self.exhausted && !self.is_over() => schedule
                .peek()
                .map(|(due_ns, _)| start + due_ns)
                .filter(|due| end.is_none_or(|end| *due < end)),
            _ => None,
        }
    }

    /// Whether the scenario gives up an operation that is this late.
    pub fn is_too_late(&self, slot: &Slot, now: Instant) -> bool {
        match (self.overdue_rule, slot.due) {
            (Overdue::Skip { after }, Some(due)) => now.since(due) > after.as_ns(),
            _ => false,
        }
    }
}

/// The share among those workers that have one of `connections`.
pub const fn narrowed(share: Share, connections: u64) -> Share {
    Share { index: share.index, of: if share.of < connections { share.of } else { connections } }
}
