//! Readings kept in MongoDB: taken in by group commit, counted once however often they are sent, and read back as
//! statistics, ranges and the latest.
//!
//! * [`Readings`]: what the service calls; [`Settings`], [`Design`] say how it works.
//! * `gather`, `committer`, `queue`: many callers, few commits, bounded memory.
//! * `store`: the port; `document`, `bucket`, `time_series`: the designs behind it.
//! * [`statistics`], [`range`]: what can be asked.

pub use counters::{Counters, Histogram};
pub use error::{Error, Fault, IngestError};
pub use handle::{Readings, Stored};
pub use range::{Cursor, Page, RangeQuery};
pub use settings::{BucketSettings, Design, QueryLimits, Settings};
pub use statistics::{
    Detail, IntervalStatistics, MetricStatistics, Percentiles, SensorStatistics, StatisticsQuery,
};

mod error;
mod handle;
mod settings;

mod committer;
mod counters;
mod gather;
mod queue;

mod bucket;
mod document;
mod store;
mod time_series;

pub mod range;
pub mod statistics;

mod allowance;
mod key;
mod lookup;
mod newest;
mod record;
mod tally;

#[cfg(test)]
mod contract;
#[cfg(test)]
mod gathered;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod model;
#[cfg(test)]
mod testing;
