//! Defines the port of the storage designs. `contract.rs` tests its contract.

use bson::Document;
use futures_util::future::BoxFuture;

use super::range::{Page, RangeQuery};
use super::stored::Written;
use super::tally::Tally;
use super::{Error, Fault};
use crate::reading::Reading;

/// Stores readings. Sensor, time and event identify a reading. Further readings with the same identity add metrics that it lacks.
/// If a metric has several values, the first value counts.
pub(crate) trait Store: Send + Sync + 'static {
    /// Stores the readings of one commit, which may contain duplicates, and returns their outcomes in order after the write
    /// concern is met. One process has at most one commit in flight for a sensor; other processes may have more.
    ///
    /// An outer [`Fault`] leaves all outcomes unknown.
    fn write<'a>(&'a self, readings: &'a [Reading]) -> BoxFuture<'a, Result<Vec<Written>, Fault>>;

    /// Adds a sensor's readings to the tally, within its window.
    fn tally<'a>(&'a self, sensor: &'a str, tally: &'a mut Tally) -> BoxFuture<'a, Result<(), Error>>;

    /// One page of a sensor's readings.
    fn range<'a>(&'a self, query: &'a RangeQuery) -> BoxFuture<'a, Result<Page, Error>>;

    /// A sensor's last reading by time, then event; `since_ms` is a lower bound of its time, if known.
    fn latest<'a>(
        &'a self,
        sensor: &'a str,
        since_ms: Option<i64>,
    ) -> BoxFuture<'a, Result<Option<Reading>, Error>>;

    /// The commands behind the methods above, each with a name, as `explain` takes them.
    fn commands(&self, sensor: &str, from_ms: i64, to_ms: i64) -> Vec<(&'static str, Document)>;
}
