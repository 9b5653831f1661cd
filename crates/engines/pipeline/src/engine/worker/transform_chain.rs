//! Applies the transforms of a worker to a batch, and times each.

use std::sync::Arc;

use plimsoll_measure::clock;

use crate::engine::dead_letters::admitted;
use crate::engine::parts::Factories;
use crate::engine::shared::{Error, Shared};
use crate::event::{Batch, CauseClass, Rejected};
use crate::meter::{Count, Slot};
use crate::port::transform::Transform;

/// The number of the stage in which a batch waits for a worker. The numbers of the transforms follow, then
/// the sink's and delivery's.
const STAGE_QUEUE: usize = 0;

/// The transforms of one worker.
pub(super) struct TransformChain<'env> {
    stages: Vec<Stage>,
    shared: &'env Shared,
    slot: Arc<Slot>,
}

struct Stage {
    transform: Box<dyn Transform>,
    is_security: bool,
}

impl<'env> TransformChain<'env> {
    pub(super) fn build(
        worker: usize,
        factories: &Factories,
        shared: &'env Shared,
        slot: Arc<Slot>,
    ) -> Result<Self, Error> {
        let stages = factories.transforms.iter().map(|factory| {
            let transform = factory.build(worker)?;
            Ok(Stage { transform, is_security: factory.name() == crate::SECURITY })
        });
        let stages = stages.collect::<Result<_, Error>>()?;
        Ok(Self { stages, shared, slot })
    }

    /// The number of the sink's stage. The next number is delivery's.
    pub(super) fn stage_sink(&self) -> usize {
        STAGE_QUEUE + 1 + self.stages.len()
    }

    /// Applies all transforms to a batch. The bytes that they add count as in flight.
    pub(super) fn apply(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let (begun, bytes) = (clock::now(), batch.bytes());
        self.slot.record(STAGE_QUEUE, begun.since(batch.read_at()), batch.events().len() as u64);
        let mut at = begun;
        for (number, stage) in self.stages.iter_mut().enumerate() {
            let (before, rejected) = (batch.events().len() as u64, batch.rejected().len());
            stage.transform.apply(batch)?;
            let now = clock::now();
            self.slot.record(STAGE_QUEUE + 1 + number, now.since(at), before);
            at = now;
            if stage.is_security {
                note_decisions(self.shared, before, &batch.rejected()[rejected..]);
            }
        }
        batch.note_growth(bytes);
        self.shared.meter.add(Count::Admitted, admitted(batch));
        self.shared.meter.add(Count::Processed, batch.events().len() as u64);
        self.shared.meter.add(Count::BusyNs, at.since(begun));
        Ok(())
    }
}

fn note_decisions(shared: &Shared, decided: u64, rejected: &[Rejected]) {
    let denied = rejected.iter().filter(|one| one.cause.class == CauseClass::Denied).count() as u64;
    shared.meter.add(Count::Decided, decided);
    shared.meter.add(Count::Denied, denied);
    shared.meter.add(Count::Undecidable, rejected.len() as u64 - denied);
}
