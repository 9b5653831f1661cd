//! The partitions that this process holds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_measure::clock;

use super::lane::Lane;
use crate::place::{Partition, Position};
use crate::port::positions::{Claim, PositionError, PositionStore};

/// The partitions that this process holds: sources open and close them, the engine commits them.
#[derive(Default)]
pub struct Lanes {
    held: Mutex<Held>,
    positions: Option<Arc<dyn PositionStore>>,
    /// How many lanes the pipeline's sources opened together.
    opened: Arc<AtomicUsize>,
    /// Whether the pipeline is ended at once.
    over: Arc<AtomicBool>,
}

#[derive(Default)]
struct Held {
    lanes: BTreeMap<Partition, Arc<Lane>>,
}

impl Lanes {
    /// No partitions yet; positions come from a store where the source keeps none itself.
    pub fn new(positions: Option<Arc<dyn PositionStore>>) -> Self {
        Self { positions, ..Self::default() }
    }

    /// Those of another source of the same pipeline: their lanes are numbered on.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self {
            held: Mutex::default(),
            positions: self.positions.clone(),
            opened: Arc::clone(&self.opened),
            over: Arc::clone(&self.over),
        }
    }

    /// The same, in a pipeline that `over` ends at once.
    #[must_use]
    pub(crate) fn ended_by(self, over: Arc<AtomicBool>) -> Self {
        Self { over, ..self }
    }

    /// Whether the pipeline is ended at once: who waits for a system that is away waits no longer.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Opens a partition, and says where to go on if a store knows. A lane that was open for it ends.
    ///
    /// # Errors
    ///
    /// If the position store cannot be read: the partition must not be read then.
    pub fn open(&self, partition: Partition) -> Result<(Arc<Lane>, Option<Position>), PositionError> {
        let claim = match &self.positions {
            Some(store) => store.claim(&partition)?,
            None => Claim::default(),
        };
        let mut held = self.lock();
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let lane = Arc::new(Lane::new(partition.clone(), number, claim.epoch));
        if let Some(before) = held.lanes.insert(partition, Arc::clone(&lane)) {
            before.close();
        }
        Ok((lane, claim.position))
    }

    /// The lane of a partition that is open.
    pub fn get(&self, partition: &Partition) -> Option<Arc<Lane>> {
        self.lock().lanes.get(partition).cloned()
    }

    /// Every lane that is open.
    pub fn all(&self) -> Vec<Arc<Lane>> {
        self.lock().lanes.values().cloned().collect()
    }

    /// Gives partitions up: takes in no more of them, waits at most `wait` for what is in flight, and ends them. Gives the
    /// positions that may still be committed.
    pub fn give_up(&self, partitions: &[Partition], wait: Duration) -> Vec<(Partition, Position)> {
        let lanes: Vec<_> = partitions.iter().filter_map(|partition| self.get(partition)).collect();
        lanes.iter().for_each(|lane| lane.stop());
        let until = clock::now() + u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        for lane in &lanes {
            lane.wait_settled(Duration::from_nanos(until.since(clock::now())));
        }
        let mut held = self.lock();
        let ended = lanes.into_iter().filter_map(|lane| {
            held.lanes.remove(lane.partition());
            Some((lane.partition().clone(), lane.close()?))
        });
        ended.collect()
    }

    /// Loses partitions: others hold them already, so nothing may be committed.
    pub fn lose(&self, partitions: &[Partition]) {
        let mut held = self.lock();
        for partition in partitions {
            if let Some(lane) = held.lanes.remove(partition) {
                lane.close();
            }
        }
    }

    /// The positions that moved since they were last asked for.
    pub fn take_reached(&self) -> Vec<(Partition, Position)> {
        let lanes = self.all();
        lanes.iter().filter_map(|lane| Some((lane.partition().clone(), lane.take_reached()?))).collect()
    }

    /// The store of positions, where the source keeps none itself.
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
    use crate::flow::{Budget, Limits, Space};

    #[test]
    fn giving_up_waits_for_what_is_in_flight_and_says_how_far_it_came() {
        let (lanes, budget) = (Lanes::new(None), Arc::new(Budget::new(Limits::default())));
        let partition = Partition::new("t", 3);
        let (lane, from) = lanes.open(partition.clone()).unwrap();
        assert_eq!(from, None);
        let ticket = lane.claim(Position::at(9), Space::default(), &budget).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || ticket.settle());
            let given = lanes.give_up(std::slice::from_ref(&partition), Duration::from_secs(60));
            assert_eq!(given, [(partition.clone(), Position::at(9))]);
        });
        assert!(lane.is_closed() && lanes.get(&partition).is_none());
    }

    #[test]
    fn what_is_lost_or_late_is_not_committed() {
        let (lanes, budget) = (Lanes::new(None), Arc::new(Budget::new(Limits::default())));
        let partition = Partition::new("t", 0);
        let (lane, _) = lanes.open(partition.clone()).unwrap();
        let late = lane.claim(Position::at(9), Space::default(), &budget).unwrap();
        assert_eq!(lanes.give_up(std::slice::from_ref(&partition), Duration::ZERO), []);
        let (again, _) = lanes.open(partition.clone()).unwrap();
        late.settle();
        assert_eq!(lanes.take_reached(), []);
        again.claim(Position::at(4), Space::default(), &budget).unwrap().settle();
        lanes.lose(std::slice::from_ref(&partition));
        assert_eq!(lanes.take_reached(), []);
    }
}
