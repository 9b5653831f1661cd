//! Keeps the promises of the store to the clients of one worker thread: acknowledged starts and signals, and ends.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_measure::histogram::{Histogram, Latency};

/// The outcome of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was not sent.
    #[default]
    Unsent,
    /// The store acknowledged it.
    Acknowledged,
    /// It may have taken effect.
    Unknown,
    /// It was refused: nothing happened.
    Refused,
}

/// The promises about one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promise {
    /// The index of its operation in the plan.
    pub(crate) operation: u16,
    /// The outcome of its start.
    pub(crate) start: Fate,
    /// Acknowledged signals to it.
    pub(crate) signals: u16,
    /// Whether its end was seen.
    pub(crate) ended: bool,
}

/// Signals to one receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Acknowledged signals.
    pub(crate) acknowledged: u64,
    /// Signals that may be stored.
    pub(crate) unknown: u64,
}

impl Sent {
    /// Adds the signals of another thread.
    pub(crate) fn merge(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
    }
}

/// A part of an instance's life.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stretch {
    Start,
    Publish,
    SignalToCompletion,
}

/// The promises to the clients of one worker thread.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The prefix of its instances' ids: the run and the thread.
    prefix: String,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    promises: Vec<Promise>,
    receivers: BTreeMap<String, Sent>,
    stretches: [Histogram; 3],
}

impl Ledger {
    /// An empty ledger. No other ledger of the store has its prefix.
    pub(crate) fn new(run: &str, thread: u64) -> Self {
        Self { prefix: format!("{run}-{thread}-"), inside: Mutex::default() }
    }

    /// Adds an instance; returns its index.
    pub(crate) fn open(&self, operation: usize) -> usize {
        let operation = u16::try_from(operation).unwrap_or(u16::MAX);
        let promises = &mut self.inside().promises;
        promises.push(Promise { operation, ..Promise::default() });
        promises.len() - 1
    }

    /// The id of an instance.
    pub(crate) fn id(&self, index: usize) -> String {
        format!("{}{index}", self.prefix)
    }

    /// The index of an id, if it is one of this ledger.
    pub(crate) fn index(&self, id: &str) -> Option<usize> {
        id.strip_prefix(&self.prefix)?.parse().ok()
    }

    /// Records news about an instance.
    pub(crate) fn note(&self, index: usize, change: impl FnOnce(&mut Promise)) {
        if let Some(promise) = self.inside().promises.get_mut(index) {
            change(promise);
        }
    }

    /// Records the outcome of a signal to a receiver.
    pub(crate) fn note_sent(&self, receiver: &str, fate: Fate) {
        let mut inside = self.inside();
        let sent = inside.receivers.entry(receiver.to_owned()).or_default();
        match fate {
            Fate::Acknowledged => sent.acknowledged += 1,
            Fate::Unknown => sent.unknown += 1,
            Fate::Unsent | Fate::Refused => {}
        }
    }

    /// Records the length of a part of an instance's life.
    pub(crate) fn record(&self, stretch: Stretch, ns: u64) {
        self.inside().stretches[stretch as usize].record(ns);
    }

    /// All promises, by index.
    pub(crate) fn promises(&self) -> Vec<Promise> {
        self.inside().promises.clone()
    }

    /// The signals to each receiver.
    pub(crate) fn receivers(&self) -> BTreeMap<String, Sent> {
        self.inside().receivers.clone()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The times of each part of an instance's life, over all ledgers.
pub(crate) fn latencies<'a>(ledgers: impl Iterator<Item = &'a Ledger>) -> [Latency; 3] {
    let mut sums: [Histogram; 3] = Default::default();
    for ledger in ledgers {
        let inside = ledger.inside();
        sums.iter_mut().zip(&inside.stretches).for_each(|(sum, part)| sum.merge(part));
    }
    sums.map(|sum| sum.latency())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_back_to_its_promise_and_foreign_ids_do_not() {
        let ledger = Ledger::new("0a", 3);
        let first = ledger.open(7);
        let second = ledger.open(8);
        assert_eq!((ledger.index(&ledger.id(first)), ledger.index(&ledger.id(second))), (Some(0), Some(1)));
        for foreign in ["0a-4-0", "0b-3-0", "0a-3-0/2", "0a-3-"] {
            assert_eq!(ledger.index(foreign), None, "{foreign}");
        }
        ledger.note(second, |promise| promise.start = Fate::Acknowledged);
        assert_eq!(ledger.promises()[1].start, Fate::Acknowledged);
    }

    #[test]
    fn the_times_of_all_threads_add_up() {
        let ledgers = [Ledger::new("r", 0), Ledger::new("r", 1)];
        ledgers.iter().for_each(|ledger| ledger.record(Stretch::Publish, 1_000));
        let [start, publish, _] = latencies(ledgers.iter());
        assert_eq!((start.count, publish.count, publish.max), (0, 2, Some(1_000)));
    }
}
