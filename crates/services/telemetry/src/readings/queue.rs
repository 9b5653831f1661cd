//! Bounds the queue of readings, and estimates a retry time for refused callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::IngestError;

/// The longest time, in seconds, after which a refused caller is asked to retry.
const RETRY_AFTER_S_MAX: u64 = 60;

/// The queue of readings waiting or in flight.
#[derive(Debug)]
pub(crate) struct Queue {
    room: Arc<Semaphore>,
    readings_max: u32,
    closing: AtomicBool,
    /// The current time per reading, in nanoseconds; 0 if unknown.
    reading_ns: AtomicU64,
}

/// Places in the queue, released on drop.
pub(crate) type Places = OwnedSemaphorePermit;

impl Queue {
    pub(crate) fn new(readings_max: usize) -> Self {
        let readings_max = u32::try_from(readings_max).unwrap_or(u32::MAX);
        let room = Arc::new(Semaphore::new(readings_max as usize));
        Queue { room, readings_max, closing: AtomicBool::new(false), reading_ns: AtomicU64::new(0) }
    }

    /// Takes places at once, or fails.
    pub(crate) fn try_enter(&self, readings: u32) -> Result<Places, IngestError> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(IngestError::Closing);
        }
        Arc::clone(&self.room).try_acquire_many_owned(readings).map_err(|_| self.refusal())
    }

    /// Waits for places for a further part of an accepted batch, which is in memory anyway.
    pub(crate) async fn enter(&self, readings: u32) -> Result<Places, IngestError> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(IngestError::Closing);
        }
        Arc::clone(&self.room).acquire_many_owned(readings).await.map_err(|_| IngestError::Closing)
    }

    fn refusal(&self) -> IngestError {
        // The queue may have begun to close during the wait.
        if self.closing.load(Ordering::SeqCst) {
            return IngestError::Closing;
        }
        let wait_ns = self.reading_ns.load(Ordering::Relaxed).saturating_mul(self.len() as u64);
        IngestError::Busy { retry_after_s: wait_ns.div_ceil(1_000_000_000).clamp(1, RETRY_AFTER_S_MAX) }
    }

    /// Accepts no more readings and waits until the queue is empty.
    pub(crate) async fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        // An error means that another caller has closed the queue.
        let all = self.room.acquire_many(self.readings_max).await;
        self.room.close();
        drop(all);
    }

    /// The number of readings waiting or in flight.
    pub(crate) fn len(&self) -> usize {
        (self.readings_max as usize).saturating_sub(self.room.available_permits())
    }

    /// Records the duration of a commit and the number of committers that work at the same time.
    pub(crate) fn learn(&self, readings: usize, took_ns: u64, committers: usize) {
        let each_ns = took_ns / (readings.max(1) as u64 * committers.max(1) as u64);
        let old_ns = self.reading_ns.load(Ordering::Relaxed);
        // A moving average with weight 1/8. A race between two committers is harmless.
        let new_ns = if old_ns == 0 { each_ns } else { old_ns - old_ns / 8 + each_ns / 8 };
        self.reading_ns.store(new_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_callers_with_a_retry_time() {
        let queue = Queue::new(10);
        let eight = queue.try_enter(8).unwrap();
        let busy = |retry_after_s| Err(IngestError::Busy { retry_after_s });
        assert_eq!(queue.try_enter(3).map(drop), busy(1));
        queue.learn(10, 20_000_000_000, 4);
        assert_eq!(queue.try_enter(3).map(drop), busy(4), "8 readings at half a second each");
        queue.learn(1, u64::MAX, 1);
        assert_eq!(queue.try_enter(3).map(drop), busy(RETRY_AFTER_S_MAX));
        drop(eight);
        assert!(queue.try_enter(10).is_ok());
        assert_eq!(queue.len(), 0);
    }

    #[tokio::test]
    async fn closing_waits_for_accepted_readings_and_accepts_no_more() {
        let queue = Arc::new(Queue::new(10));
        let inside = queue.try_enter(1).unwrap();
        let closing = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { tokio::join!(queue.close(), queue.close()) }
        });
        while !queue.closing.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        assert!(!closing.is_finished());
        assert_eq!(queue.try_enter(1).map(drop), Err(IngestError::Closing));
        assert_eq!(queue.enter(1).await.map(drop), Err(IngestError::Closing));
        drop(inside);
        closing.await.unwrap();
        queue.close().await;
    }
}
