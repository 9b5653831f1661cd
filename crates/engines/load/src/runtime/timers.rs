//! Keeps wakers in a heap by their moment; both runtimes use it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use plimsoll_measure::clock::Instant;

/// Wakers by their moment; equal moments keep the order of arrival.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<Entry>>,
    arrivals: u64,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    arrival: u64,
    waker: Waker,
}

impl Timers {
    /// Adds a waker; returns whether it is now the first.
    pub fn add(&mut self, at: Instant, waker: Waker) -> bool {
        let first = self.first().is_none_or(|first| at < first);
        self.arrivals += 1;
        self.heap.push(Reverse(Entry { at, arrival: self.arrivals, waker }));
        first
    }

    /// The earliest moment that a task waits for.
    pub fn first(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.0.at)
    }

    /// Takes one waker whose moment is not after `now`.
    pub fn take(&mut self, now: Instant) -> Option<Waker> {
        self.first().filter(|first| *first <= now)?;
        self.heap.pop().map(|entry| entry.0.waker)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.arrival).cmp(&(other.at, other.arrival))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_waker_comes_first_and_none_comes_early() {
        let mut timers = Timers::default();
        let at = Instant::from_ns;
        assert!(timers.add(at(30), Waker::noop().clone()));
        assert!(timers.add(at(10), Waker::noop().clone()));
        assert!(!timers.add(at(20), Waker::noop().clone()));
        assert!(timers.take(at(9)).is_none());
        assert!(timers.take(at(20)).is_some() && timers.take(at(20)).is_some());
        assert_eq!(timers.first(), Some(at(30)));
    }
}
