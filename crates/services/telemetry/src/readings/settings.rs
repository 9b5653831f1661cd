//! Defines the settings of readings.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Error;

/// The design of readings in the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// One document per reading. Its `_id` follows from sensor, time and event, and is the only index.
    #[default]
    Document,
    /// One document for each sensor and hour (or part of it), with the values, and count, sum, minimum and maximum of each
    /// metric. Further readings go to documents for minutes, seconds, milliseconds.
    Bucket,
    /// A time-series collection, and a collection of keys, because time-series collections have no unique index.
    TimeSeries,
}

impl Design {
    /// The name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Bucket => "bucket",
            Self::TimeSeries => "time_series",
        }
    }
}

/// The settings of readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The design.
    pub design: Design,
    /// The longest time that the first reading of a commit waits for others.
    pub gather_max: Duration,
    /// The number of readings in a full commit, which does not wait. At most 2,000.
    pub commit_readings_max: usize,
    /// The number of committers, each with one commit in flight. Each sensor belongs to one committer, so
    /// that the commits of a process do not conflict in a bucket. Two committers keep the server busy: one
    /// commit is in flight while the next collects readings. Further committers help only with a long round
    /// trip, because larger commits cost less for each reading.
    pub committers: usize,
    /// The largest number of readings waiting or in flight. Further callers get a retry time.
    pub queue_readings_max: usize,
    /// The longest time for one commit, after which it counts as failed.
    pub commit_time_max: Duration,
    /// The size of the buckets of [`Design::Bucket`].
    pub bucket: BucketSettings,
    /// The limits of queries.
    pub query: QueryLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            design: Design::default(),
            gather_max: Duration::from_millis(2),
            commit_readings_max: 1000,
            committers: 2,
            queue_readings_max: 20_000,
            commit_time_max: Duration::from_secs(20),
            bucket: BucketSettings::default(),
            query: QueryLimits::default(),
        }
    }
}

/// The size of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketSettings {
    /// The length of a bucket in minutes: a divisor of 60. The database records the length, and another value
    /// is refused: a retried reading would be looked up in the wrong bucket.
    pub minutes: u32,
    /// The number of readings in a full bucket, 1 to 1,000. On a database with readings this number may be
    /// lowered, but not raised: full buckets must stay full.
    pub readings_max: usize,
}

impl Default for BucketSettings {
    fn default() -> Self {
        BucketSettings { minutes: 60, readings_max: 500 }
    }
}

/// The limits of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    /// The largest number of sensors in one statistics query.
    pub sensors_max: usize,
    /// The largest number of intervals in one statistics query, for each sensor.
    pub intervals_max: usize,
    /// The largest number of summaries in one statistics query: one for each metric of a sensor in an
    /// interval.
    pub summaries_max: usize,
    /// The largest number of values that one statistics query may hold in memory for its percentiles.
    pub values_max: usize,
    /// The largest number of readings in one page.
    pub page_max: usize,
}

impl Default for QueryLimits {
    fn default() -> Self {
        QueryLimits {
            sensors_max: 1000,
            intervals_max: 10_000,
            summaries_max: 50_000,
            values_max: 4_000_000,
            page_max: 10_000,
        }
    }
}

impl Settings {
    /// Refuses invalid settings.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let within = |name, value: usize, least: usize, most: usize| match value {
            _ if (least..=most).contains(&value) => Ok(()),
            _ => Err(Error::Setting(format!("{name} is {value}: it must be {least} to {most}"))),
        };
        within("readings.commit_max", self.commit_readings_max, 1, 2000)?;
        within("readings.committers", self.committers, 1, 64)?;
        within("readings.queue_max", self.queue_readings_max, 1, 10_000_000)?;
        within("readings.bucket_max", self.bucket.readings_max, 1, 1000)?;
        within("limits.sensors_max", self.query.sensors_max, 1, 100_000)?;
        within("limits.intervals_max", self.query.intervals_max, 1, 1_000_000)?;
        within("limits.summaries_max", self.query.summaries_max, 1, 100_000_000)?;
        within("limits.page_max", self.query.page_max, 1, 100_000)?;
        if self.bucket.minutes == 0 || 60 % self.bucket.minutes != 0 {
            let minutes = self.bucket.minutes;
            return Err(Error::Setting(format!("readings.bucket_minutes is {minutes}: it must divide 60")));
        }
        if self.gather_max > Duration::from_secs(1) {
            return Err(Error::Setting(
                "readings.gather is over a second: give it a few milliseconds".into(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused() {
        let check = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.check().is_ok()
        };
        assert!(check(|_| ()));
        assert!(!check(|settings| settings.commit_readings_max = 2001));
        assert!(!check(|settings| settings.committers = 0));
        assert!(!check(|settings| settings.bucket.minutes = 7));
        assert!(!check(|settings| settings.bucket.readings_max = 0));
        assert!(!check(|settings| settings.gather_max = Duration::from_secs(2)));
    }
}
