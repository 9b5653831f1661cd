//! Tracks one batch: its number in its assignment, and the space it holds until it is settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::assignment::Assignment;
use super::budget::{Budget, Limits, Space};
use crate::position::Position;

/// A batch's number in its assignment, and its share of the space in flight.
///
/// Only [`Ticket::settle`] lets the position move on. A dropped ticket frees its memory and leaves its batch permanently
/// unsettled, so no position after the batch is ever committed.
#[derive(Debug)]
pub struct Ticket {
    claim: Arc<Claim>,
}

#[derive(Debug)]
struct Claim {
    assignment: Arc<Assignment>,
    sequence: u64,
    held: Space,
    /// Bytes added after the claim.
    grown: AtomicUsize,
    budget: Arc<Budget>,
    /// The number of unsettled parts of the batch.
    open: AtomicU32,
}

impl Ticket {
    /// A ticket for the next batch of an assignment, with `held` of the budget. `behind` is the source's position after the
    /// batch. `None` if the assignment has ended.
    pub(crate) fn claim(
        assignment: &Arc<Assignment>,
        behind: Position,
        held: Space,
        budget: &Arc<Budget>,
    ) -> Option<Self> {
        let sequence = assignment.enqueue(behind)?;
        let (assignment, budget) = (Arc::clone(assignment), Arc::clone(budget));
        let (grown, open) = (AtomicUsize::new(0), AtomicU32::new(1));
        Some(Self { claim: Arc::new(Claim { assignment, sequence, held, grown, budget, open }) })
    }

    /// A further ticket for a part of the same batch. The batch is settled when all its tickets are.
    pub fn split(&self) -> Self {
        self.claim.open.fetch_add(1, Ordering::Relaxed);
        Self { claim: Arc::clone(&self.claim) }
    }

    /// Holds more bytes until the batch is done.
    pub fn grow(&self, bytes: usize) {
        if bytes > 0 {
            self.claim.grown.fetch_add(bytes, Ordering::Relaxed);
            self.claim.budget.grow(bytes);
        }
    }

    /// Settles this part: every event is durable, durably a dead letter, or dropped on purpose.
    pub fn settle(self) {
        if self.claim.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.claim.assignment.settle(self.claim.sequence);
        }
    }

    /// Lets the position move past this batch before it is settled. Its space stays held until the ticket is dropped.
    pub fn settle_early(&self) {
        self.claim.assignment.settle(self.claim.sequence);
    }

    /// The limits of the pipeline.
    pub fn limits(&self) -> Limits {
        self.claim.budget.limits()
    }

    /// The number of the batch in its assignment.
    pub fn sequence(&self) -> u64 {
        self.claim.sequence
    }

    /// The epoch of the batch's assignment.
    pub fn epoch(&self) -> u64 {
        self.claim.assignment.epoch()
    }

    /// The assignment of the batch.
    pub fn assignment(&self) -> &Arc<Assignment> {
        &self.claim.assignment
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Space { events, bytes } = self.held;
        self.budget.release(Space { events, bytes: bytes + *self.grown.get_mut() });
    }
}
