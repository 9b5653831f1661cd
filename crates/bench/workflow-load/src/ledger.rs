//! Keeps the promises of the store to the clients of one worker thread: acknowledged starts and signals, and ends.

use std::collections::{BTreeMap, BTreeSet};
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

/// One thread's signals to one receiver, numbered from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// All numbers.
    pub(crate) count: u64,
    /// Refused signals.
    pub(crate) rejected: u64,
    /// Numbers of signals that may be stored.
    unknown: BTreeSet<u64>,
    /// Numbers of signals that were refused. The next signals get them: a number that never comes makes the state of its receiver larger.
    refused: BTreeSet<u64>,
}

impl Sent {
    /// The outcome of a signal.
    pub(crate) fn fate(&self, number: u64) -> Fate {
        match number {
            number if number >= self.count => Fate::Unsent,
            number if self.unknown.contains(&number) => Fate::Unknown,
            number if self.refused.contains(&number) => Fate::Refused,
            _ => Fate::Acknowledged,
        }
    }

    /// The number of acknowledged signals.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.count - self.unknown.len() as u64 - self.refused.len() as u64
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
    /// Ids of acknowledged signals to instances whose end was not seen, by index.
    signals: BTreeMap<usize, BTreeSet<String>>,
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

    /// The prefix of its instances' ids.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
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

    /// Records an acknowledged signal to an instance.
    pub(crate) fn note_signal(&self, index: usize, id: &str) {
        let mut inside = self.inside();
        inside.signals.entry(index).or_default().insert(id.to_owned());
        if let Some(promise) = inside.promises.get_mut(index) {
            promise.signals = promise.signals.saturating_add(1);
        }
    }

    /// Records that the end of an instance was seen.
    pub(crate) fn note_end(&self, index: usize) {
        self.note(index, |promise| promise.ended = true);
        self.inside().signals.remove(&index);
    }

    /// The ids of acknowledged signals to an instance whose end was not seen.
    pub(crate) fn signals(&self, index: usize) -> BTreeSet<String> {
        self.inside().signals.get(&index).cloned().unwrap_or_default()
    }

    /// Adds a signal to a receiver; returns its number.
    pub(crate) fn number(&self, receiver: &str) -> u64 {
        let mut inside = self.inside();
        let sent = inside.receivers.entry(receiver.to_owned()).or_default();
        sent.refused.pop_first().unwrap_or_else(|| {
            sent.count += 1;
            sent.count - 1
        })
    }

    /// Records the outcome of a signal to a receiver.
    pub(crate) fn note_sent(&self, receiver: &str, number: u64, fate: Fate) {
        let mut inside = self.inside();
        let Some(sent) = inside.receivers.get_mut(receiver) else { return };
        match fate {
            Fate::Acknowledged => {}
            Fate::Unknown => drop(sent.unknown.insert(number)),
            Fate::Unsent | Fate::Refused => {
                sent.rejected += 1;
                sent.refused.insert(number);
            }
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
    fn a_refused_number_is_used_again() {
        let ledger = Ledger::new("r", 0);
        let [first, second] = [ledger.number("a"), ledger.number("a")];
        ledger.note_sent("a", second, Fate::Acknowledged);
        ledger.note_sent("a", first, Fate::Refused);
        for _ in 0..10_000 {
            assert_eq!(ledger.number("a"), first);
            ledger.note_sent("a", first, Fate::Refused);
        }
        ledger.note_sent("a", ledger.number("a"), Fate::Acknowledged);
        assert_eq!(ledger.number("a"), 2);
        let sent = ledger.receivers().remove("a").unwrap();
        assert_eq!((sent.fate(first), sent.count, sent.rejected), (Fate::Acknowledged, 3, 10_001));
    }

    #[test]
    fn the_times_of_all_threads_add_up() {
        let ledgers = [Ledger::new("r", 0), Ledger::new("r", 1)];
        ledgers.iter().for_each(|ledger| ledger.record(Stretch::Publish, 1_000));
        let [start, publish, _] = latencies(ledgers.iter());
        assert_eq!((start.count, publish.count, publish.max), (0, 2, Some(1_000)));
    }
}
