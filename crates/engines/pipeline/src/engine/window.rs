//! How many dead letters are too many.

use std::collections::VecDeque;

/// A pipeline stops when more than `most` of the last `of` events became dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetterLimit {
    /// So many at most.
    pub most: u64,
    /// Among so many events.
    pub of: u64,
}

/// The fates of the last events, batch by batch.
#[derive(Debug)]
pub(super) struct Window {
    limit: Option<DeadLetterLimit>,
    last: VecDeque<(u64, u64)>,
    events: u64,
    condemned: u64,
}

impl Window {
    pub(super) fn new(limit: Option<DeadLetterLimit>) -> Self {
        Self { limit, last: VecDeque::new(), events: 0, condemned: 0 }
    }

    /// Notes a batch; `true` when there are too many.
    pub(super) fn note(&mut self, events: u64, condemned: u64) -> bool {
        let Some(limit) = self.limit else { return false };
        self.last.push_back((events, condemned));
        self.events += events;
        self.condemned += condemned;
        // The oldest batch goes when the others fill the window without it.
        while let Some(&(oldest, its_condemned)) = self.last.front()
            && self.events - oldest >= limit.of
        {
            self.last.pop_front();
            self.events -= oldest;
            self.condemned -= its_condemned;
        }
        self.condemned > limit.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_dead_letters_are_forgotten_and_many_at_once_are_too_many() {
        let mut window = Window::new(Some(DeadLetterLimit { most: 3, of: 100 }));
        assert!(!window.note(50, 3));
        assert!(!window.note(100, 0), "the first batch is out of the window");
        assert!(!window.note(50, 3));
        assert!(window.note(10, 1));
        let mut unlimited = Window::new(None);
        assert!(!unlimited.note(10, 10));
    }
}
