//! Carries hints to a worker.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use super::job::Hint;

/// The weight of the hints in a mailbox at most. More become one hint to scan.
const HINTS_MAX: usize = 10_000;

/// Carries hints to a worker. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Mailbox {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Debug, Default)]
struct Inside {
    hints: VecDeque<Hint>,
    /// The weight of the hints.
    weight: usize,
    waker: Option<Waker>,
    /// The partitions that the worker holds.
    held: BTreeSet<u16>,
    is_closed: bool,
    /// Whether the worker has died by a panic.
    is_dead: bool,
}

impl Mailbox {
    /// Gives the worker a hint.
    pub fn hint(&self, hint: Hint) {
        let mut inside = self.lock();
        if inside.is_dead {
            return;
        }
        if inside.weight >= HINTS_MAX {
            inside.hints.clear();
            inside.hints.push_back(Hint::Work);
            inside.weight = Hint::Work.weight();
        }
        inside.weight += hint.weight();
        inside.hints.push_back(hint);
        wake(inside);
    }

    /// Ends the worker.
    pub fn close(&self) {
        let mut inside = self.lock();
        inside.is_closed = true;
        wake(inside);
    }

    /// Whether the worker has died by a panic. Requests that this process acknowledged are durable, and another process does the work.
    pub fn is_dead(&self) -> bool {
        self.lock().is_dead
    }

    /// Notes that the worker has died.
    pub(super) fn bury(&self) {
        let mut inside = self.lock();
        (inside.is_dead, inside.held) = (true, BTreeSet::new());
        inside.hints.clear();
        inside.weight = 0;
    }

    /// The next hints, and wakes the worker when there are more; none once the mailbox is closed.
    pub(super) fn poll(&self, context: &Context<'_>, max: usize) -> Option<Vec<Hint>> {
        let mut inside = self.lock();
        let count = inside.hints.len().min(max);
        inside.waker = Some(context.waker().clone());
        let is_open = !inside.is_closed;
        let hints: Option<Vec<_>> = is_open.then(|| inside.hints.drain(..count).collect());
        let taken: usize = hints.iter().flatten().map(Hint::weight).sum();
        inside.weight = inside.weight.saturating_sub(taken);
        hints
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

    /// The weight of the hints that wait.
    pub(super) fn weight(&self) -> usize {
        self.lock().weight
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
