//! Stores readings in MongoDB with group commit, each once even if it is sent again. Reads them back as statistics, ranges and
//! the latest.
//!
//! * [`Readings`]: the interface; [`Settings`] and [`Design`] configure it.
//! * `group_commit`, `committer`, `queue`: many callers, few commits, bounded memory.
//! * `store`: the port; `document`, `bucket`, `time_series`: the designs behind it.
//! * [`statistics`], [`range`]: the queries.

pub use counters::{Counters, Histogram};
pub use error::{Error, Fault, IngestError};
pub use handle::Readings;
pub use range::{Cursor, Page, RangeQuery};
pub use settings::{BucketSettings, Design, QueryLimits, Settings};
pub use statistics::{
    Detail, IntervalStatistics, MetricStatistics, Percentiles, SensorStatistics, StatisticsQuery,
};
pub use stored::Stored;

mod error;
mod handle;
mod settings;

mod committer;
mod counters;
mod group_commit;
mod queue;

mod bucket;
mod document;
mod store;
mod stored;
mod time_series;

pub mod range;
pub mod statistics;

mod allowance;
mod key;
mod lookup;
mod newest;
mod partial;
mod record;
mod tally;

#[cfg(test)]
mod contract;
#[cfg(test)]
mod group_commit_tests;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod model;
#[cfg(test)]
mod testing;
