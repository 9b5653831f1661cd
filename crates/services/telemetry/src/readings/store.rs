//! The port that every storage design implements. Its contract is the test in `contract.rs`.

use bson::Document;
use futures_util::future::BoxFuture;

use super::handle::Stored;
use super::range::{Page, RangeQuery};
use super::tally::Tally;
use super::{Error, Fault};
use crate::reading::Reading;

/// What became of one reading of a commit.
pub(crate) type Written = Result<Stored, Fault>;

/// Keeps readings. A reading is known by its sensor, time and event; of several that are known as one, the first counts.
pub(crate) trait Store: Send + Sync + 'static {
    /// Stores the readings of one commit, among which the same may come twice. Answers, in their order, when they are
    /// acknowledged at the database's write concern. No two commits with the same sensor are in flight in one process;
    /// those of other processes may be.
    ///
    /// An outer [`Fault`] means that nothing is known about any of them.
    fn write<'a>(&'a self, readings: &'a [Reading]) -> BoxFuture<'a, Result<Vec<Written>, Fault>>;

    /// Adds a sensor's readings in the tally's window to it.
    fn tally<'a>(&'a self, sensor: &'a str, tally: &'a mut Tally) -> BoxFuture<'a, Result<(), Error>>;

    /// One page of a sensor's readings.
    fn range<'a>(&'a self, query: &'a RangeQuery) -> BoxFuture<'a, Result<Page, Error>>;

    /// A sensor's last reading by time, then event. It is not earlier than `since_ms`, if that is given.
    fn latest<'a>(
        &'a self,
        sensor: &'a str,
        since_ms: Option<i64>,
    ) -> BoxFuture<'a, Result<Option<Reading>, Error>>;

    /// The commands behind the methods above, each with a name, as `explain` takes them.
    fn commands(&self, sensor: &str, from_ms: i64, to_ms: i64) -> Vec<(&'static str, Document)>;
}

/// The places of readings that come first, and for each of the others the place of the one it repeats.
pub(crate) fn repetitions(keys: &[String]) -> Vec<Option<usize>> {
    let mut first = std::collections::HashMap::with_capacity(keys.len());
    let of = |(index, key)| Some(*first.entry(key).or_insert(index)).filter(|first| *first != index);
    keys.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_names_the_first() {
        let keys = ["a", "b", "a", "a", "c", "b"].map(str::to_owned);
        assert_eq!(repetitions(&keys), [None, None, Some(0), Some(0), None, Some(1)]);
    }
}
