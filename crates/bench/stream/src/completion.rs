//! Records when events moved, and decides whether the pipeline has reached its end condition.

use plimsoll_measure::duration::Span;
use plimsoll_measure::stream::{Count, Counts, Moved};

/// The limits that end a pipeline before its source does; the first one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The time limit.
    pub after: Option<Span>,
    /// The number of settled events.
    pub events: Option<u64>,
}

impl End {
    /// Whether a limit is reached.
    pub fn is_reached(&self, elapsed_ns: u64, counts: &Counts) -> bool {
        self.after.is_some_and(|after| elapsed_ns >= after.as_ns())
            || self.events.is_some_and(|events| counts.settled() >= events)
    }
}

/// The time range in which events moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The time of the last sample before the first event, in nanoseconds since the start.
    from_ns: u64,
    /// The time of the latest sample with more settled events than the one before, in nanoseconds since the
    /// start.
    to_ns: u64,
    settled: u64,
    moves: bool,
}

impl Activity {
    /// Adds a sample.
    pub fn record(&mut self, elapsed_ns: u64, counts: &Counts) {
        if !self.moves && counts.get(Count::Read) == 0 {
            self.from_ns = elapsed_ns;
            return;
        }
        self.moves = true;
        if counts.settled() > self.settled {
            (self.settled, self.to_ns) = (counts.settled(), elapsed_ns);
        }
    }

    /// The time range in which events moved, if any was settled.
    pub fn moved(&self) -> Option<Moved> {
        (self.settled > 0).then_some(Moved { from_ns: self.from_ns, to_ns: self.to_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(read: u64, written: u64) -> Counts {
        let value = |count| match count {
            Count::Read => read,
            Count::Written => written,
            _ => 0,
        };
        Counts::new(Count::ALL.map(value))
    }

    #[test]
    fn the_time_before_the_first_event_and_after_the_last_does_not_count() {
        let mut activity = Activity::default();
        for (at, read, written) in [(10, 0, 0), (20, 0, 0), (30, 5, 0), (40, 9, 5), (50, 9, 9), (60, 9, 9)] {
            activity.record(at, &counts(read, written));
        }
        let moved = activity.moved().unwrap();
        assert_eq!((moved.from_ns, moved.to_ns, moved.span_ns()), (20, 50, 30));
        let mut idle = Activity::default();
        idle.record(10, &counts(0, 0));
        assert_eq!(idle.moved(), None);
    }

    #[test]
    fn it_ends_at_the_time_limit_or_when_all_events_are_settled() {
        let end = End { after: Some(Span::from_ns(100)), events: Some(7) };
        for (elapsed_ns, written, reached) in [(99, 6, false), (100, 0, true), (1, 7, true), (1, 8, true)] {
            assert_eq!(end.is_reached(elapsed_ns, &counts(9, written)), reached, "{elapsed_ns} {written}");
        }
        assert!(!End::default().is_reached(u64::MAX, &counts(9, 9)));
    }
}
