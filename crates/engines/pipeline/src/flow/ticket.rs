//! A batch's claim: what settles it, and what it holds until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::budget::{Budget, Limits, Space};
use super::lane::Lane;

/// A batch's place in its lane and its share of what is in flight.
///
/// Only [`Ticket::settle`] lets the lane go on: a ticket that is dropped gives its memory back and leaves its batch
/// unsettled for good, so nothing behind it is ever committed.
#[derive(Debug)]
pub struct Ticket {
    claim: Arc<Claim>,
}

#[derive(Debug)]
struct Claim {
    lane: Arc<Lane>,
    sequence: u64,
    held: Space,
    /// Bytes that it came to hold since.
    grown: AtomicUsize,
    budget: Arc<Budget>,
    /// Parts of the batch that are not settled yet.
    open: AtomicU32,
}

impl Ticket {
    /// The claim number `sequence` of a lane, which holds so much of the budget.
    pub(super) fn new(lane: Arc<Lane>, sequence: u64, held: Space, budget: Arc<Budget>) -> Self {
        let (grown, open) = (AtomicUsize::new(0), AtomicU32::new(1));
        Self { claim: Arc::new(Claim { lane, sequence, held, grown, budget, open }) }
    }

    /// A second ticket for a part of the same batch: the batch is settled when all of them are.
    pub fn split(&self) -> Self {
        self.claim.open.fetch_add(1, Ordering::Relaxed);
        Self { claim: Arc::clone(&self.claim) }
    }

    /// Holds more bytes, until the batch is done.
    pub fn grow(&self, bytes: usize) {
        if bytes > 0 {
            self.claim.grown.fetch_add(bytes, Ordering::Relaxed);
            self.claim.budget.grow(bytes);
        }
    }

    /// Says that every event of this part is durable, durably a dead letter, or left out as was meant.
    pub fn settle(self) {
        if self.claim.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.claim.lane.settle(self.claim.sequence);
        }
    }

    /// Lets the lane go on although nothing is settled; what it holds stays held until the ticket goes.
    pub fn forgo(&self) {
        self.claim.lane.settle(self.claim.sequence);
    }

    /// The limits of its pipeline.
    pub fn limits(&self) -> Limits {
        self.claim.budget.limits()
    }

    /// The number of the batch in its lane.
    pub fn sequence(&self) -> u64 {
        self.claim.sequence
    }

    /// The epoch of the lane's assignment.
    pub fn epoch(&self) -> u64 {
        self.claim.lane.epoch()
    }

    /// The lane of the batch.
    pub fn lane(&self) -> &Arc<Lane> {
        &self.claim.lane
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Space { events, bytes } = self.held;
        self.budget.release(Space { events, bytes: bytes + *self.grown.get_mut() });
    }
}
