//! Makes the writers of one dataset in this process take turns, so that they do not conflict on the server.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

/// The number of locks. If two datasets share a lock, their writers take turns too, which does no harm.
const LOCKS: usize = 256;

/// Locks by PID.
#[derive(Debug)]
pub(super) struct Locks {
    locks: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl Default for Locks {
    fn default() -> Self {
        Self { locks: (0..LOCKS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }
}

impl Locks {
    /// Waits for the lock of a dataset. A writer holds one lock at a time, so there is no deadlock.
    pub(super) async fn lock(&self, pid: &str) -> MutexGuard<'_, ()> {
        let index = self.hasher.hash_one(pid) as usize % LOCKS;
        self.locks[index].lock().await
    }
}
