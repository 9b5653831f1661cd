//! Bounds what waits: a caller that finds no room is told when to come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::IngestError;

/// What a caller is told at most.
const RETRY_AFTER_S_MAX: u64 = 60;

/// Room for readings that wait or are in flight.
#[derive(Debug)]
pub(crate) struct Queue {
    room: Arc<Semaphore>,
    readings_max: u32,
    closing: AtomicBool,
    /// What one reading takes at the present rate; 0 when nothing is known yet.
    reading_ns: AtomicU64,
}

/// Room for some readings, until it is dropped.
pub(crate) type Room = OwnedSemaphorePermit;

impl Queue {
    pub(crate) fn new(readings_max: usize) -> Self {
        let readings_max = u32::try_from(readings_max).unwrap_or(u32::MAX);
        let room = Arc::new(Semaphore::new(readings_max as usize));
        Queue { room, readings_max, closing: AtomicBool::new(false), reading_ns: AtomicU64::new(0) }
    }

    /// Room at once, or none.
    pub(crate) fn try_enter(&self, readings: u32) -> Result<Room, IngestError> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(IngestError::Closing);
        }
        Arc::clone(&self.room).try_acquire_many_owned(readings).map_err(|_| self.refusal())
    }

    /// Waits for room, for the further parts of a batch that was let in: it lies in memory anyway.
    pub(crate) async fn enter(&self, readings: u32) -> Result<Room, IngestError> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(IngestError::Closing);
        }
        Arc::clone(&self.room).acquire_many_owned(readings).await.map_err(|_| IngestError::Closing)
    }

    fn refusal(&self) -> IngestError {
        // The queue may have begun to close since it was asked for.
        if self.closing.load(Ordering::SeqCst) {
            return IngestError::Closing;
        }
        let wait_ns = self.reading_ns.load(Ordering::Relaxed).saturating_mul(self.len() as u64);
        IngestError::Busy { retry_after_s: wait_ns.div_ceil(1_000_000_000).clamp(1, RETRY_AFTER_S_MAX) }
    }

    /// Lets nobody in any more and waits until all have left.
    pub(crate) async fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        // An error means that somebody else has closed it.
        let all = self.room.acquire_many(self.readings_max).await;
        self.room.close();
        drop(all);
    }

    /// Readings that wait or are in flight.
    pub(crate) fn len(&self) -> usize {
        (self.readings_max as usize).saturating_sub(self.room.available_permits())
    }

    /// A commit of so many readings took so long, beside others at the same time.
    pub(crate) fn learn(&self, readings: usize, took_ns: u64, committers: usize) {
        let each_ns = took_ns / (readings.max(1) as u64 * committers.max(1) as u64);
        let old_ns = self.reading_ns.load(Ordering::Relaxed);
        // An eighth of the news: steady over some commits, and a race between two committers costs nothing.
        let new_ns = if old_ns == 0 { each_ns } else { old_ns - old_ns / 8 + each_ns / 8 };
        self.reading_ns.store(new_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_its_bound_callers_are_told_when_to_come_back() {
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
    async fn closing_waits_for_those_inside_and_lets_nobody_in() {
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
