//! Empty batches that are kept for their memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::event::Batch;

/// Batches that are kept at most.
const SPARES_MAX: usize = 64;
/// A batch with more memory than this is not kept, in bytes.
const SPARE_BYTES_MAX: usize = 8 << 20;

/// Batches that are done, for sources to fill again. Together they keep no more memory than may be in flight.
pub(super) struct Spares {
    put: Sender<Box<Batch>>,
    take: Receiver<Box<Batch>>,
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Spares {
    /// None yet, and never more than so many bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let (put, take) = bounded(SPARES_MAX);
        Self { put, take, bytes: AtomicUsize::new(0), bytes_max }
    }

    /// Keeps a batch that is done, if there is room for it.
    pub(super) fn put(&self, batch: Box<Batch>) {
        let memory = batch.memory();
        if memory > SPARE_BYTES_MAX {
            return;
        }
        let all = self.bytes.fetch_add(memory, Ordering::Relaxed) + memory;
        if all > self.bytes_max || self.put.try_send(batch).is_err() {
            self.bytes.fetch_sub(memory, Ordering::Relaxed);
        }
    }

    /// A batch that was done, if one is kept.
    pub(super) fn take(&self) -> Option<Box<Batch>> {
        let batch = self.take.try_recv().ok()?;
        self.bytes.fetch_sub(batch.memory(), Ordering::Relaxed);
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::place::Partition;

    #[test]
    fn no_more_memory_is_kept_than_was_allowed() {
        let batch = || {
            let mut batch = Box::new(Batch::new(Partition::new("t", 0)));
            batch.push(Record { payload: Some(&[0; 1000]), ..Record::default() });
            batch
        };
        let each = batch().memory();
        assert!(each >= 1000);
        let spares = Spares::new(2 * each);
        (0..5).for_each(|_| spares.put(batch()));
        assert!(spares.take().is_some() && spares.take().is_some() && spares.take().is_none());
        assert_eq!(spares.bytes.load(Ordering::Relaxed), 0);
        let none = Spares::new(each - 1);
        none.put(batch());
        assert!(none.take().is_none());
    }
}
