//! Describes one worker's part of a phase.

use std::sync::Arc;

use plimsoll_measure::clock::Instant;

use super::{Backlogs, Supply};
use crate::arrivals::Share;
use crate::operation_queue::narrowed;
use crate::phase::{Documents, Phase};

/// One worker's part of a phase.
#[derive(Clone, Debug)]
pub struct Order {
    /// The phase.
    pub phase: Arc<Phase>,
    /// Number of operations in the plan, over all phases.
    pub operations: usize,
    /// The share of this worker among all workers of all shards.
    pub share: Share,
    /// The start of the phase.
    pub start: Instant,
    /// The count of the workers of the process that still have documents to send.
    pub supply: Arc<Supply>,
    /// The overdue operations of the phase, shared by all workers of the process.
    pub backlogs: Arc<Backlogs>,
}

/// Whether a worker has a connection whose operations make documents.
pub fn is_supplier(phase: &Phase, share: Share) -> bool {
    let lanes = lanes_needed(phase, share);
    phase.loads.iter().zip(lanes).any(|(load, lanes)| load.documents == Documents::Made && lanes > 0)
}

impl Supply {
    /// Counts the suppliers among the workers of one process. If only other processes have connections that
    /// send documents, the documents count as sent from the start.
    pub fn shared(phase: &Phase, shares: impl Iterator<Item = Share>) -> Self {
        let suppliers = shares.filter(|share| is_supplier(phase, *share)).count();
        let elsewhere = suppliers == 0 && phase.stop.documents.is_some();
        if elsewhere { Self::none() } else { Self::of(suppliers) }
    }
}

impl Backlogs {
    /// The backlogs of the workers of a process with these shares, which follow one another.
    pub fn shared(phase: &Phase, shares: impl Iterator<Item = Share>) -> Self {
        let mut shares = shares.peekable();
        let first = shares.peek().map_or(0, |share| share.index);
        let lanes: Vec<_> = shares.map(|share| lanes_needed(phase, share)).collect();
        Self::of_lanes(phase.loads.len(), first, &lanes)
    }
}

/// The number of lanes that a worker needs for each load of a phase.
pub fn lanes_needed(phase: &Phase, share: Share) -> Vec<usize> {
    phase.loads.iter().map(|load| share.part(u64::from(load.arrivals.connections())) as usize).collect()
}

impl Order {
    /// The share among the workers with a connection for documents.
    pub(super) fn documents_share(&self) -> Share {
        let makers = self.phase.loads.iter().filter(|load| load.documents == Documents::Made);
        let connections = makers.map(|load| load.arrivals.connections()).max();
        narrowed(self.share, u64::from(connections.unwrap_or(1)))
    }
}
