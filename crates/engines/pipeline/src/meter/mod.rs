//! Counts events and times stages while a pipeline runs.

mod stages;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use plimsoll_measure::stream::{Count, Counts};
pub use stages::{Slot, Stages};

/// A part that can have a problem, independently of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Part {
    /// The sink.
    Sink,
    /// The store of positions.
    Positions,
    /// The source.
    Source,
}

/// The current problem of a part.
#[derive(Debug, Default)]
struct Trouble {
    reason: Mutex<Option<String>>,
    is_some: AtomicBool,
}

/// Counters that a part of a pipeline keeps itself.
pub trait Tally: fmt::Debug + Send + Sync {
    /// The value of a counter so far; zero for counters of other parts.
    fn of(&self, count: Count) -> u64;
}

/// The counters and clocks of a pipeline. Its threads write them, reports read them.
#[derive(Debug)]
pub struct Meter {
    counts: [AtomicU64; Count::ALL.len()],
    tallies: Vec<Arc<dyn Tally>>,
    names: Arc<[String]>,
    slots: Mutex<Vec<Arc<Slot>>>,
    troubles: [Trouble; 3],
    notes: Mutex<Vec<String>>,
}

/// The most notes of a run: further ones are dropped.
const NOTES_MAX: usize = 100;

impl Meter {
    /// A meter at zero, for a pipeline with these transforms.
    pub fn new(transforms: &[&str]) -> Self {
        let names = ["queue"].iter().chain(transforms).chain(&["sink", "delivery"]);
        let names = names.map(|name| (*name).to_owned()).collect();
        Self {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            tallies: Vec::new(),
            names,
            slots: Mutex::default(),
            troubles: Default::default(),
            notes: Mutex::default(),
        }
    }

    /// Notes a fact of the run for the user.
    pub fn note(&self, text: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < NOTES_MAX {
            notes.push(text);
        }
    }

    /// The notes so far.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds the counters that parts keep themselves.
    #[must_use]
    pub fn with_tallies(mut self, tallies: Vec<Arc<dyn Tally>>) -> Self {
        self.tallies = tallies;
        self
    }

    /// Adds to a counter.
    pub fn add(&self, count: Count, by: u64) {
        if by > 0 {
            self.counts[count as usize].fetch_add(by, Ordering::Relaxed);
        }
    }

    /// All counters so far.
    pub fn counts(&self) -> Counts {
        let own = |count: Count| self.counts[count as usize].load(Ordering::Relaxed);
        let others = |count| self.tallies.iter().map(|tally| tally.of(count)).sum::<u64>();
        Counts::new(Count::ALL.map(|count| own(count) + others(count)))
    }

    /// The names of the timed stages, in the order in which events pass them: `queue`, each transform, `sink`, `delivery`.
    pub fn stages(&self) -> &[String] {
        &self.names
    }

    /// Sets or clears the transient problem of a part.
    pub fn set_trouble(&self, part: Part, reason: Option<&str>) {
        let trouble = &self.troubles[part as usize];
        // This is called once per batch and rarely changes the state.
        if trouble.is_some.load(Ordering::Relaxed) || reason.is_some() {
            trouble.is_some.store(reason.is_some(), Ordering::Relaxed);
            *trouble.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason.map(str::to_owned);
        }
    }

    /// The current problem of the sink, the position store or the source.
    pub fn trouble(&self) -> Option<String> {
        let reason =
            |trouble: &Trouble| trouble.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.troubles.iter().find_map(reason)
    }

    /// A new slot for the times of one thread.
    pub fn slot(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot::new(self.names.len()));
        self.lock().push(Arc::clone(&slot));
        slot
    }

    /// Takes the times since the last call. One reader calls this about once a second.
    pub fn take_times(&self) -> Stages {
        let mut all = Stages::new(self.names.len());
        self.lock().retain(|slot| {
            slot.take_into(&mut all);
            Arc::strong_count(slot) > 1
        });
        all
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_times_are_taken_once() {
        let meter = Meter::new(&["map"]);
        meter.add(Count::Read, 3);
        meter.add(Count::Read, 4);
        assert_eq!(meter.counts().get(Count::Read), 7);
        assert_eq!(meter.stages(), ["queue", "map", "sink", "delivery"]);
        let (first, second) = (meter.slot(), meter.slot());
        first.record(1, 1000, 5);
        second.record(1, 1000, 6);
        drop(second);
        assert_eq!(meter.take_times().of(1).count(), 11);
        assert_eq!(meter.take_times().of(1).count(), 0);
        first.record(1, 10, 1);
        assert_eq!(meter.take_times().of(1).count(), 1);
    }

    #[test]
    fn tallies_of_parts_are_included() {
        #[derive(Debug)]
        struct Three;
        impl Tally for Three {
            fn of(&self, count: Count) -> u64 {
                if count == Count::Tokens { 3 } else { 0 }
            }
        }
        let meter = Meter::new(&[]).with_tallies(vec![Arc::new(Three), Arc::new(Three)]);
        meter.add(Count::Read, 2);
        let counts = meter.counts();
        assert_eq!([Count::Tokens, Count::Texts, Count::Read].map(|count| counts.get(count)), [6, 0, 2]);
    }

    #[test]
    fn recovery_of_one_part_leaves_the_problem_of_another() {
        let meter = Meter::new(&[]);
        meter.set_trouble(Part::Positions, Some("the store is away"));
        meter.set_trouble(Part::Sink, Some("the sink is away"));
        assert_eq!(meter.trouble().as_deref(), Some("the sink is away"));
        meter.set_trouble(Part::Sink, None);
        assert_eq!(meter.trouble().as_deref(), Some("the store is away"));
        meter.set_trouble(Part::Positions, None);
        assert_eq!(meter.trouble(), None);
    }
}
