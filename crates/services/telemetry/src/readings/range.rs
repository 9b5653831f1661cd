//! Pages through readings in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;

use super::partial::{add, missing};
use super::{Error, QueryLimits};
use crate::reading::Reading;

/// Readings of one sensor in a window of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeQuery {
    /// The sensor.
    pub sensor: String,
    /// The start of the window, in milliseconds since 1970.
    pub from_ms: i64,
    /// The end of the window, exclusive.
    pub to_ms: i64,
    /// The position after the previous page: [`Page::next`].
    pub after: Option<Cursor>,
    /// The largest number of readings in the page, at least 1.
    pub limit: usize,
}

/// Readings in order of time, then event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The readings, at most `limit`.
    pub readings: Vec<Reading>,
    /// The start of the next page, if there is one.
    pub next: Option<Cursor>,
}

/// A position between two readings of a sensor. Its text is `milliseconds` or `milliseconds:event`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The time of the previous reading.
    pub at_ms: i64,
    /// The event of the previous reading.
    pub event: Option<String>,
}

/// The error of an invalid cursor text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid cursor: send `next` of the previous page, unchanged")]
pub struct NoCursor;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.event {
            None => write!(f, "{}", self.at_ms),
            Some(event) => write!(f, "{}:{event}", self.at_ms),
        }
    }
}

impl FromStr for Cursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let (at, event) = match text.split_once(':') {
            None => (text, None),
            Some((at, event)) => (at, Some(event.to_owned())),
        };
        Ok(Cursor { at_ms: at.parse().map_err(|_| NoCursor)?, event })
    }
}

impl RangeQuery {
    /// Refuses an invalid or too large query.
    pub(crate) fn check(&self, limits: &QueryLimits) -> Result<(), Error> {
        if self.limit == 0 || self.limit > limits.page_max {
            return Err(Error::Query(format!("a page has 1 to {} readings", limits.page_max)));
        }
        if self.to_ms <= self.from_ms {
            return Err(Error::Query("the window is empty: `to` must be later than `from`".into()));
        }
        Ok(())
    }

    /// The earliest time that the answer may contain.
    pub(crate) fn start_ms(&self) -> i64 {
        self.after.as_ref().map_or(self.from_ms, |after| after.at_ms.max(self.from_ms))
    }
}

/// The sort key of a sensor's readings.
fn place(reading: &Reading) -> Cursor {
    Cursor { at_ms: reading.at_ms, event: reading.event.clone() }
}

/// Sorts readings that arrive roughly in order, merges those of one time and event, and stops at a full page.
#[derive(Debug)]
pub(crate) struct Merge<'q> {
    query: &'q RangeQuery,
    pending: BinaryHeap<Reverse<Pending>>,
    page: Page,
}

#[derive(Debug)]
struct Pending(Cursor, Reading);

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl Eq for Pending {}
impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Pending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// Whether the page needs more readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    More,
    Nothing,
}

impl<'q> Merge<'q> {
    pub(crate) fn new(query: &'q RangeQuery) -> Self {
        Merge { query, pending: BinaryHeap::new(), page: Page::default() }
    }

    /// Adds a reading, not earlier than the settled time. Readings outside the window or before the cursor are ignored.
    pub(crate) fn push(&mut self, reading: Reading) {
        let place = place(&reading);
        let within = (self.query.from_ms..self.query.to_ms).contains(&reading.at_ms);
        if within && self.query.after.as_ref().is_none_or(|after| place > *after) {
            self.pending.push(Reverse(Pending(place, reading)));
        }
    }

    /// Moves the readings before `before_ms` to the page. No further reading before that time will arrive.
    pub(crate) fn settle(&mut self, before_ms: i64) -> Want {
        while self.page.next.is_none() {
            match self.pending.peek() {
                Some(Reverse(least)) if least.0.at_ms < before_ms => self.emit(),
                _ => return Want::More,
            }
        }
        Want::Nothing
    }

    fn emit(&mut self) {
        let Some(Reverse(Pending(found, reading))) = self.pending.pop() else { return };
        let last = self.page.readings.last().map(place);
        if let Some(same) = self.page.readings.last_mut().filter(|_| last.as_ref() == Some(&found)) {
            let more = missing(&reading.metrics, &same.metrics);
            return add(&mut same.metrics, more);
        }
        if self.page.readings.len() == self.query.limit {
            self.page.next = last;
        } else {
            self.page.readings.push(reading);
        }
    }

    /// Finishes the page.
    pub(crate) fn finish(mut self) -> Page {
        self.settle(i64::MAX);
        self.page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_ms: i64, event: Option<&str>) -> Reading {
        Reading {
            sensor: "s".into(),
            at_ms,
            event: event.map(str::to_owned),
            metrics: vec![("m".into(), at_ms as f64)],
        }
    }

    fn query(after: Option<&str>, limit: usize) -> RangeQuery {
        let after = after.map(|text| text.parse().unwrap());
        RangeQuery { sensor: "s".into(), from_ms: 0, to_ms: 100, after, limit }
    }

    #[test]
    fn a_cursor_survives_its_text_form() {
        for text in ["-5", "0", "12:e", "12:a:b", "12:"] {
            assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
        }
        assert_eq!("x:e".parse::<Cursor>(), Err(NoCursor));
        assert_eq!("".parse::<Cursor>(), Err(NoCursor));
    }

    #[test]
    fn readings_are_paged_in_order_without_duplicates() {
        let all = [(7, None), (3, Some("b")), (3, None), (7, None), (3, Some("a")), (-1, None), (100, None)];
        let page = |query: &RangeQuery| {
            let mut merge = Merge::new(query);
            all.iter().for_each(|(at_ms, event)| merge.push(reading(*at_ms, *event)));
            merge.finish()
        };
        let first = page(&query(None, 2));
        assert_eq!(first.readings, [reading(3, None), reading(3, Some("a"))]);
        assert_eq!(first.next.as_ref().unwrap().to_string(), "3:a");
        let second = page(&query(Some("3:a"), 2));
        assert_eq!(second.readings, [reading(3, Some("b")), reading(7, None)]);
        assert_eq!(second.next, None, "only a repetition follows");
    }

    #[test]
    fn the_parts_of_a_reading_are_merged_also_at_the_end_of_a_page() {
        let query = query(None, 1);
        let mut merge = Merge::new(&query);
        let part = |name: &str| Reading { metrics: vec![(name.into(), 1.0)], ..reading(5, None) };
        [part("b"), part("a"), reading(6, None), part("b")].into_iter().for_each(|one| merge.push(one));
        let page = merge.finish();
        let names: Vec<_> = page.readings[0].metrics.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, page.readings.len()), (vec!["a", "b"], 1));
        assert_eq!(page.next.unwrap().to_string(), "5");
    }

    #[test]
    fn settled_readings_are_returned_at_once() {
        let query = query(None, 1);
        let mut merge = Merge::new(&query);
        merge.push(reading(5, None));
        assert_eq!(merge.settle(5), Want::More);
        merge.push(reading(9, None));
        assert_eq!(merge.settle(6), Want::More);
        assert_eq!(merge.settle(10), Want::Nothing);
        assert_eq!(merge.finish().readings, [reading(5, None)]);
    }
}
