//! Detects too many dead letters among the latest events.

use std::collections::VecDeque;

/// A pipeline stops when more than `most` of the last `of` events became dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetterLimit {
    /// Dead letters at most.
    pub most: u64,
    /// The number of latest events in which dead letters are counted.
    pub of: u64,
}

/// The numbers of events and of rejected events in the latest batches.
#[derive(Debug)]
pub(super) struct DeadLetterWindow {
    limit: Option<DeadLetterLimit>,
    last: VecDeque<(u64, u64)>,
    events: u64,
    rejected: u64,
}

impl DeadLetterWindow {
    pub(super) fn new(limit: Option<DeadLetterLimit>) -> Self {
        Self { limit, last: VecDeque::new(), events: 0, rejected: 0 }
    }

    /// Notes a batch. Returns whether there are too many dead letters.
    pub(super) fn note(&mut self, events: u64, rejected: u64) -> bool {
        let Some(limit) = self.limit else { return false };
        self.last.push_back((events, rejected));
        self.events += events;
        self.rejected += rejected;
        // Drop the oldest batch once the others fill the window without it.
        while let Some(&(oldest, its_rejected)) = self.last.front()
            && self.events - oldest >= limit.of
        {
            self.last.pop_front();
            self.events -= oldest;
            self.rejected -= its_rejected;
        }
        self.rejected > limit.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dead_letters_within_the_window_count() {
        let mut window = DeadLetterWindow::new(Some(DeadLetterLimit { most: 3, of: 100 }));
        assert!(!window.note(50, 3));
        assert!(!window.note(100, 0), "the first batch is out of the window");
        assert!(!window.note(50, 3));
        assert!(window.note(10, 1));
        let mut unlimited = DeadLetterWindow::new(None);
        assert!(!unlimited.note(10, 10));
    }
}
