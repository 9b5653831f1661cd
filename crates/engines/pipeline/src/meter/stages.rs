//! Records the time of events at each stage.

use std::sync::{Mutex, PoisonError};

use plimsoll_measure::histogram::Histogram;

/// Times of each stage, by the stage's number, weighted by events.
#[derive(Clone, Debug)]
pub struct Stages(Vec<Histogram>);

impl Stages {
    /// Empty times of `count` stages.
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| Histogram::default()).collect())
    }

    /// The times of a stage.
    pub fn of(&self, stage: usize) -> &Histogram {
        &self.0[stage]
    }

    /// Adds other times.
    pub fn merge(&mut self, others: &Self) {
        self.0.iter_mut().zip(&others.0).for_each(|(mine, other)| mine.merge(other));
    }
}

/// The times of one thread.
#[derive(Debug)]
pub struct Slot(Mutex<Stages>);

impl Slot {
    pub(super) fn new(count: usize) -> Self {
        Self(Mutex::new(Stages::new(count)))
    }

    /// Records that `events` events took `ns` nanoseconds each at a stage.
    pub fn record(&self, stage: usize, ns: u64, events: u64) {
        if events > 0 {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).0[stage].record_many(ns, events);
        }
    }

    /// Records several times at once, each with its number of events.
    pub fn record_all(&self, stage: usize, times: impl Iterator<Item = (u64, u64)>) {
        let mut stages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.for_each(|(ns, events)| stages.0[stage].record_many(ns, events));
    }

    pub(super) fn take_into(&self, all: &mut Stages) {
        let mut mine = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.merge(&mine);
        mine.0.iter_mut().for_each(Histogram::reset);
    }
}
