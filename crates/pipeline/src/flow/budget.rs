//! The ceiling of what is in flight: events and bytes, reserved before they are read.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How much may be in flight in a pipeline: read, and not yet settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events in flight at most.
    pub events_max: usize,
    /// Bytes in flight at most, of keys, headers and payloads as they were read. One event larger than what is left is
    /// let in alone.
    pub bytes_max: usize,
    /// Events of one batch at most.
    pub batch_events_max: usize,
    /// Bytes of one event at most: a larger one is condemned.
    pub event_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { events_max: 20_000, bytes_max: 64 << 20, batch_events_max: 1000, event_bytes_max: 1 << 20 }
    }
}

/// Room for events that are not read yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// So many events.
    pub events: usize,
    /// So many bytes.
    pub bytes: usize,
}

/// What is in flight, exactly.
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    used: Mutex<Used>,
    freed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    events: usize,
    bytes: usize,
    events_most: usize,
    bytes_most: usize,
}

impl Budget {
    /// Nothing in flight yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, used: Mutex::new(Used::default()), freed: Condvar::new() }
    }

    /// The limits it holds.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes up to `wish` of what is free, `None` if nothing is free within `wait`.
    ///
    /// There is room as soon as one event and one byte are free: a source that cannot put an event back may then go
    /// over the bytes by one event ([`Budget::charge`]).
    pub fn reserve(&self, wish: Space, wait: Duration) -> Option<Space> {
        let mut used = self.lock();
        if !self.has_room(&used) {
            let waited = self.freed.wait_timeout_while(used, wait, |used| !self.has_room(used));
            used = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if !self.has_room(&used) {
            return None;
        }
        let events = wish.events.min(self.limits.events_max - used.events);
        let bytes = wish.bytes.min(self.limits.bytes_max - used.bytes);
        used.add(Space { events, bytes });
        Some(Space { events, bytes })
    }

    /// Takes what was read beyond a reservation.
    pub fn charge(&self, over: Space) {
        self.lock().add(over);
    }

    /// Gives back what is settled, or was reserved and not read.
    pub fn release(&self, space: Space) {
        let mut used = self.lock();
        assert!(
            used.events >= space.events && used.bytes >= space.bytes,
            "only what was taken is given back"
        );
        used.events -= space.events;
        used.bytes -= space.bytes;
        drop(used);
        self.freed.notify_all();
    }

    /// What is in flight or reserved at this moment.
    pub fn in_flight(&self) -> Space {
        let used = self.lock();
        Space { events: used.events, bytes: used.bytes }
    }

    /// The most that was in flight or reserved at any moment.
    pub fn most(&self) -> Space {
        let used = self.lock();
        Space { events: used.events_most, bytes: used.bytes_most }
    }

    fn has_room(&self, used: &Used) -> bool {
        used.events < self.limits.events_max && used.bytes < self.limits.bytes_max
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    fn add(&mut self, space: Space) {
        self.events += space.events;
        self.bytes += space.bytes;
        self.events_most = self.events_most.max(self.events);
        self.bytes_most = self.bytes_most.max(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    fn budget(events_max: usize, bytes_max: usize) -> Budget {
        Budget::new(Limits { events_max, bytes_max, ..Limits::default() })
    }

    #[test]
    fn no_more_is_given_than_there_is() {
        let budget = budget(10, 100);
        let wish = Space { events: 6, bytes: 30 };
        assert_eq!(budget.reserve(wish, NONE), Some(wish));
        assert_eq!(budget.reserve(wish, NONE), Some(Space { events: 4, bytes: 30 }));
        assert_eq!(budget.reserve(wish, NONE), None);
        budget.release(Space { events: 1, bytes: 0 });
        assert_eq!(budget.reserve(wish, NONE), Some(Space { events: 1, bytes: 30 }));
        assert_eq!(budget.most(), Space { events: 10, bytes: 90 });
    }

    #[test]
    fn bytes_hold_as_events_do() {
        let budget = budget(10, 100);
        assert!(budget.reserve(Space { events: 1, bytes: 90 }, NONE).is_some());
        budget.charge(Space { events: 0, bytes: 20 });
        assert_eq!(budget.reserve(Space { events: 1, bytes: 1 }, NONE), None);
        budget.release(Space { events: 1, bytes: 110 });
        assert_eq!(budget.in_flight(), Space::default());
    }

    #[test]
    fn who_waits_is_woken_by_what_is_given_back() {
        let budget = budget(1, 100);
        let wish = Space { events: 1, bytes: 1 };
        assert!(budget.reserve(wish, NONE).is_some());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| budget.reserve(wish, Duration::from_secs(60)));
            budget.release(wish);
            assert_eq!(waiter.join().ok(), Some(Some(wish)));
        });
    }
}
