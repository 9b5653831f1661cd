//! Gives a transactional sink the group generation and the partitions of its source.
//!
//! The group fences stale members: offsets in a transaction carry the generation in which they were read. The assigned partitions
//! and that generation are read together, so a reassigned partition is either noticed here or refused by the broker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_pipeline::{Batch, Claim, Partition, Position, PositionError, PositionStore};
use rdkafka::consumer::ConsumerGroupMetadata;

/// Connects a source with the sinks whose transactions store its offsets.
///
/// It also implements the pipeline's position store, only to number the assignments of a partition with
/// epochs. The epoch identifies batches of an earlier assignment. The group itself stores the offsets.
#[derive(Default)]
pub struct Membership {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    generation: Option<Arc<ConsumerGroupMetadata>>,
    held: BTreeMap<Partition, u64>,
    epochs: u64,
}

impl Membership {
    /// Records the member's generation.
    pub(crate) fn renew(&self, generation: Option<ConsumerGroupMetadata>) {
        if let Some(generation) = generation {
            self.lock().generation = Some(Arc::new(generation));
        }
    }

    /// Removes partitions that the member lost.
    pub(crate) fn release(&self, partitions: &[Partition]) {
        let mut state = self.lock();
        for partition in partitions {
            state.held.remove(partition);
        }
    }

    /// Whether the assignment of a batch is still current.
    pub(crate) fn holds(&self, batch: &Batch) -> bool {
        self.lock().held.get(batch.position_partition()) == Some(&batch.epoch())
    }

    /// The generation in which all these batches may be committed; `None` if some belong to an earlier
    /// assignment.
    pub(crate) fn generation<'a>(
        &self,
        mut batches: impl Iterator<Item = &'a Batch>,
    ) -> Option<Arc<ConsumerGroupMetadata>> {
        let state = self.lock();
        let current = |batch: &Batch| state.held.get(batch.position_partition()) == Some(&batch.epoch());
        if batches.all(current) { state.generation.clone() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PositionStore for Membership {
    fn claim(&self, partition: &Partition) -> Result<Claim, PositionError> {
        let mut state = self.lock();
        state.epochs += 1;
        let epoch = state.epochs;
        state.held.insert(partition.clone(), epoch);
        Ok(Claim { position: None, epoch })
    }

    /// Does nothing: the sink's transactions store the positions in the group.
    fn keep(&self, _: &[(Partition, Position)]) -> Result<(), PositionError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_assignment_of_a_partition_has_its_own_epoch() {
        let membership = Membership::default();
        let partition = Partition::new("t", 0);
        let epoch = || membership.claim(&partition).unwrap().epoch;
        let (first, second) = (epoch(), epoch());
        assert!(second > first);
        let stray = Batch::new(partition.clone());
        assert!(!membership.holds(&stray), "a batch without an assignment belongs to no member");
        assert!(
            membership.generation(std::iter::empty()).is_none(),
            "the group has not assigned a generation yet"
        );
        membership.release(std::slice::from_ref(&partition));
        assert!(membership.lock().held.is_empty());
    }
}
