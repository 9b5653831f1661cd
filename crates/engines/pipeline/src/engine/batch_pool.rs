//! Recycles the memory of finished batches.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::event::Batch;

/// Pooled batches at most.
const BATCHES_MAX: usize = 64;
/// The largest memory of a pooled batch, in bytes.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Finished batches that sources fill again. Together they keep no more memory than may be in flight.
pub(super) struct BatchPool {
    put: Sender<Box<Batch>>,
    take: Receiver<Box<Batch>>,
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl BatchPool {
    /// An empty pool of at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let (put, take) = bounded(BATCHES_MAX);
        Self { put, take, bytes: AtomicUsize::new(0), bytes_max }
    }

    /// Keeps a finished batch, if there is space.
    pub(super) fn put(&self, batch: Box<Batch>) {
        let memory = batch.memory();
        if memory > BATCH_BYTES_MAX {
            return;
        }
        let all = self.bytes.fetch_add(memory, Ordering::Relaxed) + memory;
        if all > self.bytes_max || self.put.try_send(batch).is_err() {
            self.bytes.fetch_sub(memory, Ordering::Relaxed);
        }
    }

    /// Takes a pooled batch.
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
    use crate::position::Partition;

    #[test]
    fn the_pool_keeps_no_more_memory_than_allowed() {
        let batch = || {
            let mut batch = Box::new(Batch::new(Partition::new("t", 0)));
            batch.push(Record { payload: Some(&[0; 1000]), ..Record::default() });
            batch
        };
        let each = batch().memory();
        assert!(each >= 1000);
        let pool = BatchPool::new(2 * each);
        (0..5).for_each(|_| pool.put(batch()));
        assert!(pool.take().is_some() && pool.take().is_some() && pool.take().is_none());
        assert_eq!(pool.bytes.load(Ordering::Relaxed), 0);
        let none = BatchPool::new(each - 1);
        none.put(batch());
        assert!(none.take().is_none());
    }
}
