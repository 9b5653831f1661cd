//! One assigned partition: which of its batches are settled, and how far it may be committed.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::budget::{Budget, Space};
use super::ticket::Ticket;
use crate::place::{Partition, Position};

/// One assignment of a partition to this process.
///
/// Batches are numbered as they leave the source and may be settled in any order; the position moves over the settled
/// ones at the front and never past one that is not. An assignment that ended takes no more batches, and what is
/// settled late changes nothing: the next assignment is a lane of its own.
#[derive(Debug)]
pub struct Lane {
    partition: Partition,
    number: usize,
    epoch: u64,
    ring: Mutex<Ring>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Ring {
    /// The number of the batch at the front.
    first: u64,
    waiting: VecDeque<Waiting>,
    /// Threads that wait until everything is settled.
    watched: usize,
    /// The position behind the last batch of the settled front, if it was not taken since.
    reached: Option<Position>,
    /// Takes no more batches.
    closed: bool,
    /// Belongs to another process, or to another assignment.
    lost: bool,
}

#[derive(Debug)]
struct Waiting {
    behind: Position,
    settled: bool,
}

impl Lane {
    /// A lane without batches, the `number`-th of its pipeline, held in an epoch (zero without a fence).
    pub(super) fn new(partition: Partition, number: usize, epoch: u64) -> Self {
        Self { partition, number, epoch, ring: Mutex::default(), moved: Condvar::new() }
    }

    /// The partition.
    pub const fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Its number among the assignments of the pipeline, which spreads lanes over workers.
    pub const fn number(&self) -> usize {
        self.number
    }

    /// The epoch in which it is held; zero without a fence.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the assignment has ended.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Whether what is settled from now on counts no more.
    pub(crate) fn is_lost(&self) -> bool {
        self.lock().lost
    }

    /// The claim of the next batch, after which the source stands at `behind`; `None` when the assignment has ended.
    pub(crate) fn claim(
        self: &Arc<Self>,
        behind: Position,
        held: Space,
        budget: &Arc<Budget>,
    ) -> Option<Ticket> {
        let mut ring = self.lock();
        if ring.closed {
            return None;
        }
        let sequence = ring.first + ring.waiting.len() as u64;
        ring.waiting.push_back(Waiting { behind, settled: false });
        Some(Ticket::new(Arc::clone(self), sequence, held, Arc::clone(budget)))
    }

    pub(super) fn settle(&self, sequence: u64) {
        let mut ring = self.lock();
        let Some(waiting) = sequence.checked_sub(ring.first).and_then(|at| ring.waiting.get_mut(at as usize))
        else {
            return;
        };
        waiting.settled = true;
        while ring.waiting.front().is_some_and(|front| front.settled) {
            ring.first += 1;
            ring.reached = ring.waiting.pop_front().map(|front| front.behind);
        }
        let watched = ring.watched > 0;
        drop(ring);
        if watched {
            self.moved.notify_all();
        }
    }

    /// How far everything is settled, if that moved since it was last asked.
    pub fn take_reached(&self) -> Option<Position> {
        self.lock().reached.take()
    }

    /// How many batches are not settled, or wait behind one that is not.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Waits until everything is settled; says whether it is.
    pub(super) fn wait_settled(&self, wait: Duration) -> bool {
        let mut ring = self.lock();
        ring.watched += 1;
        let waited = self.moved.wait_timeout_while(ring, wait, |ring| !ring.waiting.is_empty());
        let mut ring = waited.unwrap_or_else(PoisonError::into_inner).0;
        ring.watched -= 1;
        ring.waiting.is_empty()
    }

    /// Takes no more batches.
    pub(super) fn stop(&self) {
        self.lock().closed = true;
    }

    /// Ends the assignment: what is settled from now on counts no more. Gives how far it came, if that was not taken.
    pub(super) fn close(&self) -> Option<Position> {
        let mut ring = self.lock();
        ring.closed = true;
        ring.lost = true;
        ring.first += ring.waiting.len() as u64;
        ring.waiting.clear();
        ring.reached.take()
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Limits;

    fn lane() -> (Arc<Lane>, Arc<Budget>) {
        let budget = Arc::new(Budget::new(Limits::default()));
        (Arc::new(Lane::new(Partition::new("t", 0), 0, 0)), budget)
    }

    fn claim(lane: &Arc<Lane>, budget: &Arc<Budget>, next: u64) -> Ticket {
        let held = Space { events: 10, bytes: 10 };
        budget.hold(held, Space::default());
        lane.claim(Position::at(next), held, budget).unwrap()
    }

    #[test]
    fn the_position_never_passes_a_batch_that_is_not_settled() {
        let (lane, budget) = lane();
        let [first, second, third] = [10, 25, 30].map(|next| claim(&lane, &budget, next));
        second.settle();
        assert_eq!(lane.take_reached(), None);
        first.settle();
        assert_eq!(lane.take_reached(), Some(Position::at(25)));
        assert_eq!(lane.take_reached(), None);
        drop(third);
        claim(&lane, &budget, 40).settle();
        assert_eq!(lane.take_reached(), None, "a dropped ticket is a gap for good");
        assert_eq!(budget.in_flight(), Space::default(), "its memory is free nevertheless");
    }

    #[test]
    fn every_order_of_settling_reaches_the_same_end() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
            let (lane, budget) = lane();
            let mut tickets: Vec<_> = (1..=4).map(|next| Some(claim(&lane, &budget, next))).collect();
            order.iter().for_each(|at| tickets[*at].take().unwrap().settle());
            assert_eq!(lane.take_reached(), Some(Position::at(4)), "{order:?}");
            assert_eq!(lane.waiting(), 0);
        }
    }

    #[test]
    fn a_split_batch_is_settled_when_all_of_its_parts_are() {
        let (lane, budget) = lane();
        let ticket = claim(&lane, &budget, 10);
        let part = ticket.split();
        ticket.settle();
        assert_eq!((lane.take_reached(), budget.in_flight().events), (None, 10));
        part.settle();
        assert_eq!((lane.take_reached(), budget.in_flight().events), (Some(Position::at(10)), 0));
    }

    #[test]
    fn what_a_batch_grew_by_is_free_again_with_it() {
        let (lane, budget) = lane();
        let ticket = claim(&lane, &budget, 10);
        let part = ticket.split();
        part.grow(7);
        part.settle();
        assert_eq!(budget.in_flight().bytes, 17);
        ticket.settle();
        assert_eq!(budget.in_flight().bytes, 0);
    }

    #[test]
    fn what_is_settled_after_the_end_of_the_assignment_counts_no_more() {
        let (lane, budget) = lane();
        let [early, late] = [10, 20].map(|next| claim(&lane, &budget, next));
        early.settle();
        assert_eq!(lane.close(), Some(Position::at(10)));
        late.settle();
        assert_eq!(lane.take_reached(), None);
        assert!(lane.claim(Position::at(30), Space::default(), &budget).is_none());
    }
}
