//! How a pipeline is ended from outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Ends a pipeline: gently, or at once.
#[derive(Debug, Default)]
pub struct Control {
    draining: AtomicBool,
    aborted: Arc<AtomicBool>,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Control {
    /// Reads no more, writes what is in flight, commits it and ends.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.wake();
    }

    /// Ends at once: what is in flight is not settled, and comes again with the next run.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        self.drain();
    }

    /// Whether it reads no more.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Whether it ends at once.
    pub fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    /// What says whether it ends at once, for those who wait elsewhere.
    pub(crate) fn aborted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.aborted)
    }

    /// Sleeps, but no longer than until it is ended at once.
    pub fn pause(&self, wait: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(guard, wait, |()| !self.is_aborted()));
    }

    fn wake(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}
