//! Remembers the visits of an instance for readers. No decision depends on it.

use std::collections::VecDeque;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Visits that an instance remembers; older ones are only counted.
pub const VISITS_MAX: usize = 256;

/// Numbers that one visit takes in the encoding.
const WIDTH: usize = 5;

/// The last visits of an instance, in the order in which they began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Visits that are only counted.
    pub forgotten: u64,
    /// The remembered visits.
    pub visits: VecDeque<Visit>,
}

/// One stay of a token at a node. Each attempt of a call is a visit with the number of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The number.
    pub number: u64,
    /// The node; none if a migration led to a version without it.
    pub node: Option<usize>,
    /// From the start of the instance to the beginning of the visit, in milliseconds; negative if the clock was set back.
    pub entered_ms: i64,
    /// The length, in milliseconds; negative if the clock was set back.
    pub stayed_ms: i64,
    /// The end.
    pub how: How,
}

/// The end of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Completed.
    Done,
    /// The last attempt failed, or the sub-workflow did.
    Failed,
    /// The timeout passed.
    TimedOut,
    /// Another branch, a failure or a cancellation ended the wait.
    Cancelled,
    /// The attempt failed, and another one follows.
    Retried,
    /// Not ended yet.
    Open,
}

impl How {
    const ALL: [Self; 6] =
        [Self::Done, Self::Failed, Self::TimedOut, Self::Cancelled, Self::Retried, Self::Open];

    /// The name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::Cancelled => "cancelled",
            Self::Retried => "retried",
            Self::Open => "open",
        }
    }
}

impl History {
    /// Whether nothing was ever visited.
    pub fn is_empty(&self) -> bool {
        self.forgotten == 0 && self.visits.is_empty()
    }

    /// Begins a visit, and forgets the oldest above the limit.
    pub fn open(&mut self, number: u64, node: usize, entered_ms: i64) {
        self.visits.push_back(Visit { number, node: Some(node), entered_ms, stayed_ms: 0, how: How::Open });
        if self.visits.len() > VISITS_MAX {
            self.visits.pop_front();
            self.forgotten += 1;
        }
    }

    /// Ends the open visit of a number, unless it has ended or is forgotten.
    pub fn close(&mut self, number: u64, left_ms: i64, how: How) {
        let is_it = |visit: &&mut Visit| visit.number == number && visit.how == How::Open;
        if let Some(visit) = self.visits.iter_mut().rev().find(is_it) {
            visit.stayed_ms = left_ms.saturating_sub(visit.entered_ms);
            visit.how = how;
        }
    }

    /// Renames the nodes.
    pub fn rename(&mut self, renamed: impl Fn(usize) -> Option<usize>) {
        self.visits.iter_mut().for_each(|visit| visit.node = visit.node.and_then(&renamed));
    }
}

/// A flat list of small numbers: the count of forgotten visits, then five for each visit. Numbers and moments are differences to the visit
/// before.
impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut before = (0, 0);
        let visits = self.visits.iter().flat_map(|visit| {
            let number = visit.number.cast_signed();
            let node = visit.node.and_then(|node| i64::try_from(node).ok()).unwrap_or(-1);
            let steps = (number.wrapping_sub(before.0), visit.entered_ms.wrapping_sub(before.1));
            before = (number, visit.entered_ms);
            [steps.0, node, steps.1, visit.stayed_ms, visit.how as i64]
        });
        serializer.collect_seq([self.forgotten.cast_signed()].into_iter().chain(visits))
    }
}

impl<'de> Deserialize<'de> for History {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let numbers = Vec::<i64>::deserialize(deserializer)?;
        let (forgotten, rest) = numbers.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
        let (visits, leftover) = rest.as_chunks::<WIDTH>();
        if !leftover.is_empty() {
            return Err(D::Error::custom("the history is cut off"));
        }
        let mut before = (0_i64, 0_i64);
        let visit = |[number, node, entered_ms, stayed_ms, how]: &[i64; WIDTH]| {
            before = (before.0.wrapping_add(*number), before.1.wrapping_add(*entered_ms));
            let how = usize::try_from(*how).ok().and_then(|how| How::ALL.get(how)).copied();
            let how = how.ok_or_else(|| D::Error::custom("the history has an unknown end"))?;
            let (number, node) = (before.0.cast_unsigned(), usize::try_from(*node).ok());
            Ok(Visit { number, node, entered_ms: before.1, stayed_ms: *stayed_ms, how })
        };
        let visits = visits.iter().map(visit).collect::<Result<_, _>>()?;
        Ok(Self { forgotten: forgotten.cast_unsigned(), visits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_survives_its_encoding_and_a_visit_takes_few_bytes() {
        let mut history = History::default();
        for number in 2..9 {
            history.open(number, 3, i64::try_from(number).unwrap() * 10 - 25);
            history.close(number, 40, How::ALL[number as usize % 6]);
        }
        history.rename(|node| (node != 3).then_some(node));
        history.open(8, 1, 5);
        let json = serde_json::to_string(&history).unwrap();
        assert_eq!(serde_json::from_str::<History>(&json).unwrap(), history);
        assert!(json.len() < 8 * 16, "{json}");
    }

    #[test]
    fn the_oldest_visits_are_counted_and_forgotten() {
        let mut history = History::default();
        (0..VISITS_MAX as u64 + 3).for_each(|number| history.open(number, 0, 0));
        history.close(0, 9, How::Done);
        assert_eq!((history.visits.len(), history.forgotten, history.visits[0].number), (VISITS_MAX, 3, 3));
        assert!(
            history.visits.iter().all(|visit| visit.how == How::Open),
            "a forgotten visit stays forgotten"
        );
    }

    #[test]
    fn a_damaged_history_is_refused() {
        for json in ["[0, 1]", "[0, 1, 2, 3, 4, 9]", "{}", "[0, 1, 2, 3, 4, -1]"] {
            assert!(serde_json::from_str::<History>(json).is_err(), "{json}");
        }
        assert!(serde_json::from_str::<History>("[]").unwrap().is_empty());
    }
}
