//! Carries hints to a worker.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use super::job::Hint;

/// Hints in a mailbox at most. More become one hint to scan.
const HINTS_MAX: usize = 10_000;

/// Carries hints to a worker. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Mailbox {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Debug, Default)]
struct Inside {
    hints: VecDeque<Hint>,
    waker: Option<Waker>,
    /// The partitions that the worker holds.
    held: BTreeSet<u16>,
    is_closed: bool,
}

impl Mailbox {
    /// Gives the worker a hint.
    pub fn hint(&self, hint: Hint) {
        let mut inside = self.lock();
        if inside.hints.len() >= HINTS_MAX {
            inside.hints.clear();
            inside.hints.push_back(Hint::Work);
        }
        inside.hints.push_back(hint);
        wake(inside);
    }

    /// Ends the worker.
    pub fn close(&self) {
        let mut inside = self.lock();
        inside.is_closed = true;
        wake(inside);
    }

    /// The next hints, and wakes the worker when there are more; none once the mailbox is closed.
    pub(super) fn poll(&self, context: &Context<'_>, max: usize) -> Option<Vec<Hint>> {
        let mut inside = self.lock();
        let count = inside.hints.len().min(max);
        inside.waker = Some(context.waker().clone());
        let is_open = !inside.is_closed;
        is_open.then(|| inside.hints.drain(..count).collect())
    }

    /// Names the partitions that the worker holds: senders announce work for all others.
    pub(super) fn hold(&self, partitions: &[u16]) {
        self.lock().held = partitions.iter().copied().collect();
    }

    /// The partitions that the worker does not hold.
    pub(super) fn others(&self, partitions: impl Iterator<Item = u16>) -> Vec<u16> {
        let inside = self.lock();
        let others: BTreeSet<_> = partitions.filter(|partition| !inside.held.contains(partition)).collect();
        others.into_iter().collect()
    }

    /// Hints that wait.
    pub(super) fn len(&self) -> usize {
        self.lock().hints.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(mut inside: MutexGuard<'_, Inside>) {
    let waker = inside.waker.take();
    drop(inside);
    waker.into_iter().for_each(Waker::wake);
}
