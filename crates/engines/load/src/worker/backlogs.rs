//! Holds the overdue operations of a phase, which the workers of a process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::lanes_needed;
use crate::arrivals::Share;
use crate::operation_queue::Backlog;
use crate::phase::Phase;

/// The overdue operations of each load of a phase, shared by all workers of a process.
#[derive(Debug)]
pub struct Backlogs {
    loads: Vec<Arc<Backlog>>,
    /// Workers that have joined.
    joined: AtomicUsize,
    /// Lanes that have not left the phase, of all workers.
    lanes: AtomicUsize,
}

impl Backlogs {
    /// The backlogs of the workers with these shares, each of which takes part once.
    pub fn shared(phase: &Phase, shares: impl Iterator<Item = Share>) -> Self {
        let lanes: Vec<_> = shares.map(|share| lanes_needed(phase, share)).collect();
        let of_load = |load: usize| lanes.iter().map(move |worker| worker[load]);
        Self {
            loads: (0..phase.loads.len()).map(|load| Arc::new(Backlog::of(of_load(load)))).collect(),
            joined: AtomicUsize::new(0),
            lanes: AtomicUsize::new(lanes.iter().flatten().sum()),
        }
    }

    /// The index of a further worker.
    pub(super) fn join(&self) -> usize {
        self.joined.fetch_add(1, Ordering::Relaxed)
    }

    /// The backlog of a load.
    pub(super) fn of(&self, load: usize) -> &Arc<Backlog> {
        &self.loads[load]
    }

    /// Records that a lane has left the phase; true for the last one.
    pub(super) fn leave(&self) -> bool {
        self.lanes.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
