//! Holds the overdue operations of a phase, which the workers of a process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arrivals::Share;
use crate::operation_queue::Backlog;

/// The overdue operations of each load of a phase, shared by all workers of a process.
#[derive(Debug)]
pub struct Backlogs {
    loads: Vec<Arc<Backlog>>,
    /// The index of the first worker among all workers of all shards.
    first: u64,
    /// The number of lanes, of all workers, that have not left the phase.
    lanes: AtomicUsize,
}

impl Backlogs {
    /// The backlogs of `loads` loads; `lanes` are the lanes of each worker for each load, and `first` is the first worker's index.
    pub(super) fn of_lanes(loads: usize, first: u64, lanes: &[Vec<usize>]) -> Self {
        let of_load = |load: usize| lanes.iter().map(move |worker| worker[load]);
        Self {
            loads: (0..loads).map(|load| Arc::new(Backlog::of(of_load(load)))).collect(),
            first,
            lanes: AtomicUsize::new(lanes.iter().flatten().sum()),
        }
    }

    /// The index in this process of the worker with this share.
    pub(super) const fn index_of(&self, share: Share) -> usize {
        share.index.saturating_sub(self.first) as usize
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_finds_its_lanes_in_whatever_order_the_threads_start() {
        let backlogs = Backlogs::of_lanes(1, 4, &[vec![1], vec![0], vec![1]]);
        let index = |share| backlogs.index_of(Share { index: share, of: 8 });
        assert_eq!([6, 4, 5].map(index), [2, 0, 1]);
    }
}
