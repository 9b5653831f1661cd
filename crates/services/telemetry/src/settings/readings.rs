//! Defines the section `readings`: accepted readings and their storage.

use plimsoll_service::Span;
use serde::{Deserialize, Serialize};

use super::limits::RequestLimits;
use crate::reading;
use crate::readings::{self, BucketSettings, Design, QueryLimits};

/// The section `readings`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Readings {
    /// `document`, `bucket` or `time_series`.
    pub design: Design,
    /// The longest time that the first reading of a commit waits for others; `0ms` commits at once.
    pub gather: Span,
    /// The maximum number of readings in one commit.
    pub commit_max: u32,
    /// The maximum number of commits in flight.
    pub committers: u32,
    /// The maximum number of readings that wait or are in flight. A further reading is answered 429.
    pub queue_max: u32,
    /// The timeout of a commit.
    pub commit_time: Span,
    /// `bucket`: the minutes of a bucket, a divisor of 60.
    pub bucket_minutes: u32,
    /// `bucket`: the number of readings in a full bucket.
    pub bucket_max: u32,
    /// The largest number of values in memory for one call for statistics.
    pub values_max: u32,
    /// The latest accepted timestamp, after now.
    pub future: Span,
    /// The earliest accepted timestamp, before now.
    pub past: Span,
    /// The largest number of metrics in one reading.
    pub metrics_max: u32,
}

impl Default for Readings {
    fn default() -> Self {
        let (kept, taken) = (readings::Settings::default(), reading::Limits::default());
        Self {
            design: kept.design,
            gather: Span::of(kept.gather_max),
            commit_max: narrow(kept.commit_readings_max),
            committers: narrow(kept.committers),
            queue_max: narrow(kept.queue_readings_max),
            commit_time: Span::of(kept.commit_time_max),
            bucket_minutes: kept.bucket.minutes,
            bucket_max: narrow(kept.bucket.readings_max),
            values_max: narrow(kept.query.values_max),
            future: Span::millis(taken.future_ms_max.unsigned_abs()),
            past: Span::millis(taken.past_ms_max.unsigned_abs()),
            metrics_max: narrow(taken.metrics_max),
        }
    }
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Readings {
    /// The settings of the store.
    pub(super) fn kept(&self, limits: &RequestLimits) -> readings::Settings {
        readings::Settings {
            design: self.design,
            gather_max: self.gather.duration(),
            commit_readings_max: self.commit_max as usize,
            committers: self.committers as usize,
            queue_readings_max: self.queue_max as usize,
            commit_time_max: self.commit_time.duration(),
            bucket: BucketSettings { minutes: self.bucket_minutes, readings_max: self.bucket_max as usize },
            query: QueryLimits {
                sensors_max: limits.sensors_max as usize,
                intervals_max: limits.intervals_max as usize,
                summaries_max: limits.summaries_max as usize,
                values_max: self.values_max as usize,
                page_max: limits.page_max as usize,
            },
        }
    }

    /// The limits of accepted readings.
    pub(super) fn accepted(&self) -> reading::Limits {
        reading::Limits {
            future_ms_max: self.future.as_ms(),
            past_ms_max: self.past.as_ms(),
            metrics_max: self.metrics_max as usize,
            ..reading::Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_readings() {
        let (typed, limits) = (Readings::default(), RequestLimits::default());
        let query = typed.kept(&limits).query;
        assert_eq!(typed.kept(&limits), readings::Settings { query, ..readings::Settings::default() });
        assert_eq!(typed.accepted(), reading::Limits::default());
    }
}
