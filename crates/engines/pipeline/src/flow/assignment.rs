//! Tracks which batches of an assigned partition are settled, and the position that may be committed.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::position::{Partition, Position};

/// One assignment of a partition to this process.
///
/// Batches are numbered as they leave the source and may be settled in any order. The position moves past settled batches at
/// the front, never past an unsettled one. An assignment that ended accepts no more batches, and late settling has no effect:
/// the next assignment of the partition is a new one.
#[derive(Debug)]
pub struct Assignment {
    partition: Partition,
    number: usize,
    epoch: u64,
    ring: Mutex<Ring>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Ring {
    /// The number of the first batch in `waiting`.
    first: u64,
    waiting: VecDeque<Waiting>,
    /// The number of threads that wait until every batch is settled.
    watched: usize,
    /// The position after the last batch that left `waiting`; `None` once it was taken.
    reached: Option<Position>,
    /// Whether the assignment accepts no more batches.
    closed: bool,
    /// Whether another process, or another assignment, owns the partition.
    lost: bool,
}

#[derive(Debug)]
struct Waiting {
    behind: Position,
    settled: bool,
}

impl Assignment {
    /// An assignment without batches, the `number`-th of its pipeline, assigned in an epoch (zero if the
    /// position store has no epochs).
    pub(super) fn new(partition: Partition, number: usize, epoch: u64) -> Self {
        Self { partition, number, epoch, ring: Mutex::default(), moved: Condvar::new() }
    }

    /// The partition.
    pub const fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Its number among the assignments of the pipeline, by which workers are chosen.
    pub const fn number(&self) -> usize {
        self.number
    }

    /// The epoch of the partition's ownership; zero if the position store has no epochs.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the assignment has ended.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Whether settling has no effect any more, because the partition has another owner.
    pub(crate) fn is_revoked(&self) -> bool {
        self.lock().lost
    }

    /// Numbers the next batch. `behind` is the source's position after it. `None` if the assignment has ended.
    pub(super) fn enqueue(&self, behind: Position) -> Option<u64> {
        let mut ring = self.lock();
        if ring.closed {
            return None;
        }
        let sequence = ring.first + ring.waiting.len() as u64;
        ring.waiting.push_back(Waiting { behind, settled: false });
        Some(sequence)
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

    /// The position up to which every batch is settled, if it moved since the last call.
    pub fn take_settled(&self) -> Option<Position> {
        self.lock().reached.take()
    }

    /// The number of batches that are unsettled or follow an unsettled batch.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Waits until every batch is settled. Returns whether all are.
    pub(super) fn wait_settled(&self, wait: Duration) -> bool {
        let mut ring = self.lock();
        ring.watched += 1;
        let waited = self.moved.wait_timeout_while(ring, wait, |ring| !ring.waiting.is_empty());
        let mut ring = waited.unwrap_or_else(PoisonError::into_inner).0;
        ring.watched -= 1;
        ring.waiting.is_empty()
    }

    /// Makes the assignment accept no more batches.
    pub(super) fn stop(&self) {
        self.lock().closed = true;
    }

    /// Ends the assignment: later settling has no effect. Returns the settled position, unless it was taken.
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
    use std::sync::Arc;

    use super::*;
    use crate::flow::{Budget, Limits, Space, Ticket};

    fn assignment() -> (Arc<Assignment>, Arc<Budget>) {
        let budget = Arc::new(Budget::new(Limits::default()));
        (Arc::new(Assignment::new(Partition::new("t", 0), 0, 0)), budget)
    }

    fn claim(assignment: &Arc<Assignment>, budget: &Arc<Budget>, next: u64) -> Ticket {
        let held = Space { events: 10, bytes: 10 };
        budget.hold(held, Space::default());
        Ticket::claim(assignment, Position::at(next), held, budget).unwrap()
    }

    #[test]
    fn the_position_never_passes_an_unsettled_batch() {
        let (assignment, budget) = assignment();
        let [first, second, third] = [10, 25, 30].map(|next| claim(&assignment, &budget, next));
        second.settle();
        assert_eq!(assignment.take_settled(), None);
        first.settle();
        assert_eq!(assignment.take_settled(), Some(Position::at(25)));
        assert_eq!(assignment.take_settled(), None);
        drop(third);
        claim(&assignment, &budget, 40).settle();
        assert_eq!(assignment.take_settled(), None, "a dropped ticket leaves a permanent gap");
        assert_eq!(budget.in_flight(), Space::default(), "its memory is free nevertheless");
    }

    #[test]
    fn every_order_of_settling_reaches_the_same_end() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
            let (assignment, budget) = assignment();
            let mut tickets: Vec<_> = (1..=4).map(|next| Some(claim(&assignment, &budget, next))).collect();
            order.iter().for_each(|at| tickets[*at].take().unwrap().settle());
            assert_eq!(assignment.take_settled(), Some(Position::at(4)), "{order:?}");
            assert_eq!(assignment.waiting(), 0);
        }
    }

    #[test]
    fn a_split_batch_is_settled_when_all_of_its_parts_are() {
        let (assignment, budget) = assignment();
        let ticket = claim(&assignment, &budget, 10);
        let part = ticket.split();
        ticket.settle();
        assert_eq!((assignment.take_settled(), budget.in_flight().events), (None, 10));
        part.settle();
        assert_eq!((assignment.take_settled(), budget.in_flight().events), (Some(Position::at(10)), 0));
    }

    #[test]
    fn the_growth_of_a_batch_is_freed_with_it() {
        let (assignment, budget) = assignment();
        let ticket = claim(&assignment, &budget, 10);
        let part = ticket.split();
        part.grow(7);
        part.settle();
        assert_eq!(budget.in_flight().bytes, 17);
        ticket.settle();
        assert_eq!(budget.in_flight().bytes, 0);
    }

    #[test]
    fn settling_after_the_end_of_the_assignment_has_no_effect() {
        let (assignment, budget) = assignment();
        let [early, late] = [10, 20].map(|next| claim(&assignment, &budget, next));
        early.settle();
        assert_eq!(assignment.close(), Some(Position::at(10)));
        late.settle();
        assert_eq!(assignment.take_settled(), None);
        assert!(Ticket::claim(&assignment, Position::at(30), Space::default(), &budget).is_none());
    }
}
