//! Limits events and bytes in flight. Sources reserve space before they read.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limits of the events in flight: those read and not yet settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events in flight at most.
    pub events_max: usize,
    /// Bytes in flight at most: keys, headers and payloads. One event larger than the free space is admitted alone. Bytes
    /// that transforms add count too: reading pauses until there is space.
    pub bytes_max: usize,
    /// Events of one batch at most.
    pub batch_events_max: usize,
    /// Bytes of one event at most; a larger one is rejected.
    pub event_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { events_max: 20_000, bytes_max: 64 << 20, batch_events_max: 1000, event_bytes_max: 1 << 20 }
    }
}

/// Space for events and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Events.
    pub events: usize,
    /// Bytes.
    pub bytes: usize,
}

impl Space {
    /// The smaller of both, in events and in bytes.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        Self { events: self.events.min(other.events), bytes: self.bytes.min(other.bytes) }
    }

    /// The sum of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { events: self.events + other.events, bytes: self.bytes + other.bytes }
    }

    /// The space without `part`.
    ///
    /// # Panics
    ///
    /// If `part` is larger: a caller returns only what it took.
    #[must_use]
    pub fn without(self, part: Self) -> Self {
        assert!(
            self.events >= part.events && self.bytes >= part.bytes,
            "more space is given back than was taken"
        );
        Self { events: self.events - part.events, bytes: self.bytes - part.bytes }
    }
}

/// The exact space of the events in flight.
///
/// A source reserves space before it reads ([`Budget::reserve`]). The space is held with each batch that is handed over
/// ([`Budget::hold`]) and free again when that batch is done. Both together stay within the limits, with two exceptions: one
/// event that a source cannot put back, and growth by transforms ([`Budget::grow`]).
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    used: Mutex<Used>,
    freed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    held: Space,
    reserved: Space,
    most: Space,
    /// The number of sources that wait for space. Without any, a wake-up would be a wasted system call.
    waiting: usize,
}

impl Budget {
    /// Nothing in flight yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, used: Mutex::new(Used::default()), freed: Condvar::new() }
    }

    /// The limits.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Reserves up to `wish` of the free space. `None` if no space becomes free within `wait`.
    ///
    /// One free event and one free byte are enough: a source that cannot put an event back may then exceed the bytes by one
    /// event ([`Budget::hold`]).
    pub fn reserve(&self, wish: Space, wait: Duration) -> Option<Space> {
        let mut used = self.lock();
        if !self.has_room(&used) {
            used.waiting += 1;
            let waited = self.freed.wait_timeout_while(used, wait, |used| !self.has_room(used));
            used = waited.unwrap_or_else(PoisonError::into_inner).0;
            used.waiting -= 1;
        }
        if !self.has_room(&used) {
            return None;
        }
        let taken = used.all();
        let space = Space {
            events: wish.events.min(self.limits.events_max - taken.events),
            bytes: wish.bytes.min(self.limits.bytes_max - taken.bytes),
        };
        used.reserved = used.reserved.and(space);
        used.note_most();
        Some(space)
    }

    /// Holds the space of events that were read; `reserved` is the part that was reserved before.
    pub fn hold(&self, read: Space, reserved: Space) {
        let mut used = self.lock();
        used.reserved = used.reserved.without(reserved);
        used.held = used.held.and(read);
        used.note_most();
    }

    /// Holds more bytes for events already held.
    pub fn grow(&self, bytes: usize) {
        let mut used = self.lock();
        used.held.bytes += bytes;
        used.note_most();
    }

    /// Frees the space of settled events.
    pub fn release(&self, held: Space) {
        self.free(|used| used.held = used.held.without(held));
    }

    /// Frees reserved space that was not used.
    pub fn give_back(&self, reserved: Space) {
        self.free(|used| used.reserved = used.reserved.without(reserved));
    }

    /// The space in flight now: read, and not yet settled.
    pub fn in_flight(&self) -> Space {
        self.lock().held
    }

    /// The peak of held and reserved space.
    pub fn most(&self) -> Space {
        self.lock().most
    }

    fn free(&self, give: impl FnOnce(&mut Used)) {
        let mut used = self.lock();
        give(&mut used);
        let waiting = used.waiting > 0;
        drop(used);
        if waiting {
            self.freed.notify_all();
        }
    }

    fn has_room(&self, used: &Used) -> bool {
        let all = used.all();
        all.events < self.limits.events_max && all.bytes < self.limits.bytes_max
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    const fn all(&self) -> Space {
        self.held.and(self.reserved)
    }

    fn note_most(&mut self) {
        let all = self.all();
        self.most.events = self.most.events.max(all.events);
        self.most.bytes = self.most.bytes.max(all.bytes);
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
    fn reservations_never_exceed_the_limits() {
        let budget = budget(10, 100);
        let wish = Space { events: 6, bytes: 30 };
        assert_eq!(budget.reserve(wish, NONE), Some(wish));
        assert_eq!(budget.reserve(wish, NONE), Some(Space { events: 4, bytes: 30 }));
        assert_eq!(budget.reserve(wish, NONE), None);
        budget.give_back(Space { events: 1, bytes: 0 });
        assert_eq!(budget.reserve(wish, NONE), Some(Space { events: 1, bytes: 30 }));
        assert_eq!(budget.most(), Space { events: 10, bytes: 90 });
    }

    #[test]
    fn reserved_space_is_in_flight_only_once_read() {
        let budget = budget(10, 100);
        let reserved = budget.reserve(Space { events: 8, bytes: 80 }, NONE).unwrap();
        assert_eq!(budget.in_flight(), Space::default());
        let read = Space { events: 3, bytes: 30 };
        budget.hold(read, read);
        budget.give_back(reserved.without(read));
        assert_eq!(budget.in_flight(), read);
        budget.release(read);
        assert_eq!((budget.in_flight(), budget.most()), (Space::default(), reserved));
    }

    #[test]
    fn bytes_are_limited_like_events_and_growth_counts() {
        let budget = budget(10, 100);
        let reserved = budget.reserve(Space { events: 1, bytes: 80 }, NONE).unwrap();
        budget.hold(Space { events: 1, bytes: 85 }, reserved);
        assert_eq!(budget.reserve(Space { events: 1, bytes: 1 }, NONE), Some(Space { events: 1, bytes: 1 }));
        budget.give_back(Space { events: 1, bytes: 1 });
        budget.grow(20);
        assert_eq!(budget.reserve(Space { events: 1, bytes: 1 }, NONE), None);
        budget.release(Space { events: 1, bytes: 105 });
        assert_eq!(budget.in_flight(), Space::default());
    }

    #[test]
    fn freed_space_wakes_a_waiting_source() {
        let budget = budget(1, 100);
        let wish = Space { events: 1, bytes: 1 };
        assert!(budget.reserve(wish, NONE).is_some());
        budget.hold(wish, wish);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| budget.reserve(wish, Duration::from_secs(60)));
            budget.release(wish);
            assert_eq!(waiter.join().ok(), Some(Some(wish)));
        });
    }
}
