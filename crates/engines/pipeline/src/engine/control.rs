//! Ends a pipeline from outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Drains or aborts a pipeline.
#[derive(Debug, Default)]
pub struct Control {
    draining: AtomicBool,
    aborted: Arc<AtomicBool>,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Control {
    /// Drains: stops reading, writes and commits the events in flight, and ends.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.wake();
    }

    /// Aborts: events in flight stay unsettled, and the next run reads them again.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        self.drain();
    }

    /// Whether the pipeline drains.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Whether the pipeline is aborted.
    pub fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    /// The flag of an abort, for code that waits elsewhere.
    pub(crate) fn aborted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.aborted)
    }

    /// Sleeps for `wait`, or until an abort.
    pub fn pause(&self, wait: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(guard, wait, |()| !self.is_aborted()));
    }

    fn wake(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}
