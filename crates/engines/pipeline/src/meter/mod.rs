//! What a pipeline counts and times while it runs.

mod stages;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use plimsoll_measure::stream::{Count, Counts};
pub use stages::{Slot, Stages};

/// What may be in trouble, each by itself: that one is well again says nothing of the others.
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

/// What is wrong with a part at this moment, and whether anything is.
#[derive(Debug, Default)]
struct Trouble {
    reason: Mutex<Option<String>>,
    is_some: AtomicBool,
}

/// What a part of a pipeline counts by itself.
pub trait Tally: fmt::Debug + Send + Sync {
    /// What it counted of a kind so far; zero of every kind that is not its own.
    fn of(&self, count: Count) -> u64;
}

/// The counters and clocks of a pipeline: its threads write, readers look.
#[derive(Debug)]
pub struct Meter {
    counts: [AtomicU64; Count::ALL.len()],
    tallies: Vec<Arc<dyn Tally>>,
    names: Arc<[String]>,
    slots: Mutex<Vec<Arc<Slot>>>,
    troubles: [Trouble; 3],
}

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
        }
    }

    /// The same with what parts count by themselves.
    #[must_use]
    pub fn with(mut self, tallies: Vec<Arc<dyn Tally>>) -> Self {
        self.tallies = tallies;
        self
    }

    /// Adds to a counter.
    pub fn add(&self, count: Count, by: u64) {
        if by > 0 {
            self.counts[count as usize].fetch_add(by, Ordering::Relaxed);
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let own = |count: Count| self.counts[count as usize].load(Ordering::Relaxed);
        let beside = |count| self.tallies.iter().map(|tally| tally.of(count)).sum::<u64>();
        Counts::new(Count::ALL.map(|count| own(count) + beside(count)))
    }

    /// The names of the stages that are timed, in the order of their events' way: `queue`, each transform, `sink`,
    /// `delivery`.
    pub fn stages(&self) -> &[String] {
        &self.names
    }

    /// Says what is wrong with a part now and may pass, or that nothing is.
    pub fn set_trouble(&self, part: Part, reason: Option<&str>) {
        let trouble = &self.troubles[part as usize];
        // It is said once a batch, and there is hardly ever anything to change.
        if trouble.is_some.load(Ordering::Relaxed) || reason.is_some() {
            trouble.is_some.store(reason.is_some(), Ordering::Relaxed);
            *trouble.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason.map(str::to_owned);
        }
    }

    /// What is wrong at this moment: why the sink, the store of positions or the source cannot be used.
    pub fn trouble(&self) -> Option<String> {
        let reason =
            |trouble: &Trouble| trouble.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.troubles.iter().find_map(reason)
    }

    /// A slot for a thread to write its times to.
    pub fn slot(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot::new(self.names.len()));
        self.lock().push(Arc::clone(&slot));
        slot
    }

    /// Takes the times since this was last called. One reader calls it, once a second or so, and adds up.
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
    fn what_is_counted_is_added_up_and_times_are_handed_over_once() {
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
    fn what_a_part_counts_by_itself_is_counted_too() {
        #[derive(Debug)]
        struct Three;
        impl Tally for Three {
            fn of(&self, count: Count) -> u64 {
                if count == Count::Tokens { 3 } else { 0 }
            }
        }
        let meter = Meter::new(&[]).with(vec![Arc::new(Three), Arc::new(Three)]);
        meter.add(Count::Read, 2);
        let counts = meter.counts();
        assert_eq!([Count::Tokens, Count::Texts, Count::Read].map(|count| counts.get(count)), [6, 0, 2]);
    }

    #[test]
    fn a_part_that_is_well_again_says_nothing_of_the_other() {
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
