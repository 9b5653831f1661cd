//! Determines when events moved, and whether the pipeline reached its end condition.

use plimsoll_measure::duration::Span;
use plimsoll_measure::stream::{Count, Counts, Moved};

/// When a pipeline ends though its source goes on: whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// After so long.
    pub after: Option<Span>,
    /// When so many events are settled.
    pub events: Option<u64>,
}

impl End {
    /// Whether it is time.
    pub fn is_reached(&self, elapsed_ns: u64, counts: &Counts) -> bool {
        self.after.is_some_and(|after| elapsed_ns >= after.as_ns())
            || self.events.is_some_and(|events| counts.settled() >= events)
    }
}

/// What was seen of the events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Motion {
    /// The last look before one was read.
    from_ns: u64,
    /// The first look with the last ones settled.
    to_ns: u64,
    settled: u64,
    moves: bool,
}

impl Motion {
    /// Takes in a look.
    pub fn see(&mut self, elapsed_ns: u64, counts: &Counts) {
        if !self.moves && counts.get(Count::Read) == 0 {
            self.from_ns = elapsed_ns;
            return;
        }
        self.moves = true;
        if counts.settled() > self.settled {
            (self.settled, self.to_ns) = (counts.settled(), elapsed_ns);
        }
    }

    /// From when to when they moved, if any was settled.
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
        let mut motion = Motion::default();
        for (at, read, written) in [(10, 0, 0), (20, 0, 0), (30, 5, 0), (40, 9, 5), (50, 9, 9), (60, 9, 9)] {
            motion.see(at, &counts(read, written));
        }
        let moved = motion.moved().unwrap();
        assert_eq!((moved.from_ns, moved.to_ns, moved.span_ns()), (20, 50, 30));
        let mut idle = Motion::default();
        idle.see(10, &counts(0, 0));
        assert_eq!(idle.moved(), None);
    }

    #[test]
    fn it_ends_when_its_time_is_over_or_everything_is_settled() {
        let end = End { after: Some(Span::from_ns(100)), events: Some(7) };
        for (elapsed_ns, written, reached) in [(99, 6, false), (100, 0, true), (1, 7, true), (1, 8, true)] {
            assert_eq!(end.is_reached(elapsed_ns, &counts(9, written)), reached, "{elapsed_ns} {written}");
        }
        assert!(!End::default().is_reached(u64::MAX, &counts(9, 9)));
    }
}
