//! Opens and ends the assignments of partitions to this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_measure::clock;

use super::assignment::Assignment;
use crate::position::{Claim, Partition, Position, PositionError, PositionStore};

/// The partitions of this process. Sources open and close them, the engine commits their positions.
#[derive(Default)]
pub struct Assignments {
    held: Mutex<Held>,
    positions: Option<Arc<dyn PositionStore>>,
    /// The number of assignments that all sources of the pipeline opened.
    opened: Arc<AtomicUsize>,
    /// Whether the pipeline is aborted.
    over: Arc<AtomicBool>,
}

#[derive(Default)]
struct Held {
    assignments: BTreeMap<Partition, Arc<Assignment>>,
}

impl Assignments {
    /// An empty set of partitions. Positions come from `positions`, unless the source keeps its own.
    pub fn new(positions: Option<Arc<dyn PositionStore>>) -> Self {
        Self { positions, ..Self::default() }
    }

    /// The assignments of another source of the same pipeline. Both share one numbering.
    #[must_use]
    pub fn for_another_source(&self) -> Self {
        Self {
            held: Mutex::default(),
            positions: self.positions.clone(),
            opened: Arc::clone(&self.opened),
            over: Arc::clone(&self.over),
        }
    }

    /// The same set. Once `over` is true, it counts the pipeline as aborted.
    #[must_use]
    pub(crate) fn aborted_by(self, over: Arc<AtomicBool>) -> Self {
        Self { over, ..self }
    }

    /// Whether the pipeline is aborted: a source must stop waiting for an unavailable system.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Opens a partition and returns its stored position, if any. An open assignment of the same partition ends.
    ///
    /// # Errors
    ///
    /// If the position store cannot be read: the partition must not be read then.
    pub fn open(&self, partition: Partition) -> Result<(Arc<Assignment>, Option<Position>), PositionError> {
        let claim = match &self.positions {
            Some(store) => store.claim(&partition)?,
            None => Claim::default(),
        };
        let mut held = self.lock();
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let assignment = Arc::new(Assignment::new(partition.clone(), number, claim.epoch));
        if let Some(before) = held.assignments.insert(partition, Arc::clone(&assignment)) {
            before.close();
        }
        Ok((assignment, claim.position))
    }

    /// The open assignment of a partition.
    pub fn get(&self, partition: &Partition) -> Option<Arc<Assignment>> {
        self.lock().assignments.get(partition).cloned()
    }

    /// All open assignments.
    pub fn all(&self) -> Vec<Arc<Assignment>> {
        self.lock().assignments.values().cloned().collect()
    }

    /// Revokes partitions: accepts no more of their batches, waits at most `wait` for those in flight, and ends them. Returns
    /// the positions that may still be committed.
    pub fn revoke(&self, partitions: &[Partition], wait: Duration) -> Vec<(Partition, Position)> {
        let assignments: Vec<_> = partitions.iter().filter_map(|partition| self.get(partition)).collect();
        assignments.iter().for_each(|assignment| assignment.stop());
        let until = clock::now() + u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        for assignment in &assignments {
            assignment.wait_settled(Duration::from_nanos(until.since(clock::now())));
        }
        let mut held = self.lock();
        let ended = assignments.into_iter().filter_map(|assignment| {
            held.assignments.remove(assignment.partition());
            Some((assignment.partition().clone(), assignment.close()?))
        });
        ended.collect()
    }

    /// Ends partitions that other processes own: no more positions may be committed.
    pub fn lose(&self, partitions: &[Partition]) {
        let mut held = self.lock();
        for partition in partitions {
            if let Some(assignment) = held.assignments.remove(partition) {
                assignment.close();
            }
        }
    }

    /// The settled positions that moved since the last call.
    pub fn take_settled(&self) -> Vec<(Partition, Position)> {
        let assignments = self.all();
        assignments
            .iter()
            .filter_map(|assignment| Some((assignment.partition().clone(), assignment.take_settled()?)))
            .collect()
    }

    /// The store of positions, if the pipeline has one.
    pub fn positions(&self) -> Option<&Arc<dyn PositionStore>> {
        self.positions.as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Budget, Limits, Space, Ticket};

    #[test]
    fn revoking_waits_for_events_in_flight_and_returns_the_positions() {
        let (assignments, budget) = (Assignments::new(None), Arc::new(Budget::new(Limits::default())));
        let partition = Partition::new("t", 3);
        let (assignment, from) = assignments.open(partition.clone()).unwrap();
        assert_eq!(from, None);
        let ticket = Ticket::claim(&assignment, Position::at(9), Space::default(), &budget).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || ticket.settle());
            let given = assignments.revoke(std::slice::from_ref(&partition), Duration::from_secs(60));
            assert_eq!(given, [(partition.clone(), Position::at(9))]);
        });
        assert!(assignment.is_closed() && assignments.get(&partition).is_none());
    }

    #[test]
    fn lost_or_late_positions_are_not_committed() {
        let (assignments, budget) = (Assignments::new(None), Arc::new(Budget::new(Limits::default())));
        let partition = Partition::new("t", 0);
        let (assignment, _) = assignments.open(partition.clone()).unwrap();
        let late = Ticket::claim(&assignment, Position::at(9), Space::default(), &budget).unwrap();
        assert_eq!(assignments.revoke(std::slice::from_ref(&partition), Duration::ZERO), []);
        let (again, _) = assignments.open(partition.clone()).unwrap();
        late.settle();
        assert_eq!(assignments.take_settled(), []);
        Ticket::claim(&again, Position::at(4), Space::default(), &budget).unwrap().settle();
        assignments.lose(std::slice::from_ref(&partition));
        assert_eq!(assignments.take_settled(), []);
    }
}
