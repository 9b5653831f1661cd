//! Holds the overdue operations of a phase, which the workers of a process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::operation_queue::Backlog;

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
    /// The backlogs of `loads` loads; `lanes` are the lanes of each worker for each load.
    pub(super) fn of_lanes(loads: usize, lanes: &[Vec<usize>]) -> Self {
        let of_load = |load: usize| lanes.iter().map(move |worker| worker[load]);
        Self {
            loads: (0..loads).map(|load| Arc::new(Backlog::of(of_load(load)))).collect(),
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
