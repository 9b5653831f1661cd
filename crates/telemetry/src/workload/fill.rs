//! Fills a database with what a service would have stored before: an hour of readings, and feeds that hold something.

use mongodb::Client;

use super::preload::{Preload, PreloadError, Progress, preload};
use super::random::between;
use super::sensors::Sensors;
use crate::clock::Clock;
use crate::feeds::{self, Activity, Feeds};
use crate::readings::{self, Readings};
use crate::settings::Settings;

/// Milliseconds between two activities of a user.
const APART_MS: i64 = 60_000;

/// What to fill in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Another seed, other values.
    pub seed: u64,
    /// The moment that it reaches up to, in milliseconds since 1970.
    pub end_ms: i64,
    /// Sensors, from `sensor-0` on.
    pub sensors: u64,
    /// Readings of each sensor.
    pub ticks: u64,
    /// Milliseconds between two readings of a sensor.
    pub interval_ms: i64,
    /// Users, from `user-0` on.
    pub users: u64,
    /// Others that each user follows.
    pub follows: u64,
    /// Activities of each user.
    pub activities: u64,
}

/// It was given up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be used.
    #[error("the database cannot be used ({0}): check its address, and that the server runs")]
    Database(#[from] mongodb::error::Error),
    /// The readings cannot be opened.
    #[error("readings: {0}")]
    Readings(#[from] readings::Error),
    /// A reading was not taken.
    #[error(transparent)]
    Preload(#[from] PreloadError),
    /// A feed was not taken.
    #[error("feeds: {0}")]
    Feeds(#[from] feeds::Error),
}

impl Fill {
    fn sensors(&self) -> Sensors {
        let span_ms = self.interval_ms.saturating_mul(i64::try_from(self.ticks).unwrap_or(i64::MAX));
        Sensors {
            seed: self.seed,
            count: self.sensors,
            start_ms: self.end_ms.saturating_sub(span_ms),
            interval_ms: self.interval_ms,
        }
    }

    /// The users whom a user follows: others, spread over all by the seed.
    fn followed(&self, user: u64) -> Vec<String> {
        let others = self.users.saturating_sub(1);
        let mut authors: Vec<u64> = (0..self.follows.min(others))
            .map(|number| {
                let step = between(0.0, others as f64, &[self.seed, user, number]) as u64;
                (user + 1 + step.min(others - 1)) % self.users
            })
            .collect();
        authors.sort_unstable();
        authors.dedup();
        authors.into_iter().map(|author| format!("user-{author}")).collect()
    }

    /// An activity of a user; number 0 is the oldest.
    fn activity(&self, user: u64, number: u64) -> Activity {
        let back = i64::try_from(self.activities - number).unwrap_or(i64::MAX);
        let apart = between(0.0, APART_MS as f64, &[self.seed, user, number]) as i64;
        Activity {
            id: format!("fill-{user}-{number}"),
            user: format!("user-{user}"),
            at_ms: self.end_ms.saturating_sub(back.saturating_mul(APART_MS)) + apart.min(APART_MS - 1),
            kind: "post".to_owned(),
            text: Some(format!("number {number} of user {user}")),
            object: None,
        }
    }
}

/// Stores the readings and feeds in the designs that the settings name. Filling again changes nothing. `tell` hears how far
/// the readings are.
///
/// # Errors
/// The first [`Error`].
pub async fn fill(settings: &Settings, fill: &Fill, tell: impl FnMut(Progress)) -> Result<(), Error> {
    let options = settings.database.options(|_| ()).await?;
    let database = Client::with_options(options)?.database(&settings.database.name);
    let readings = Readings::open(&database, settings.readings.clone()).await?;
    preload(&readings, &Preload { sensors: fill.sensors(), ticks: fill.ticks }, tell).await?;
    readings.close().await;
    let feeds = Feeds::open(&database, settings.feeds, Clock::start()).await?;
    let follows: Vec<_> = (0..fill.users).map(|user| (format!("user-{user}"), fill.followed(user))).collect();
    let numbers = 0..fill.activities;
    let all = numbers.flat_map(|number| (0..fill.users).map(move |user| fill.activity(user, number)));
    Ok(feeds.fill(&follows, &all.collect::<Vec<_>>()).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILL: Fill = Fill {
        seed: 7,
        end_ms: 1_790_000_000_000,
        sensors: 3,
        ticks: 360,
        interval_ms: 10_000,
        users: 50,
        follows: 20,
        activities: 5,
    };

    #[test]
    fn nobody_follows_themself_or_somebody_twice() {
        for user in 0..FILL.users {
            let followed = FILL.followed(user);
            assert!(!followed.is_empty() && followed.len() <= 20, "{user}: {followed:?}");
            assert!(!followed.contains(&format!("user-{user}")), "{user}");
            assert_eq!(followed, FILL.followed(user), "always the same");
        }
        assert!(Fill { users: 1, ..FILL }.followed(0).is_empty());
    }

    #[test]
    fn everything_lies_before_the_end_in_its_order() {
        let sensors = FILL.sensors();
        assert_eq!(sensors.reading(0, 359).at_ms, FILL.end_ms - 10_000);
        let times: Vec<_> = (0..5).map(|number| FILL.activity(9, number).at_ms).collect();
        assert!(times.is_sorted() && *times.last().unwrap() < FILL.end_ms, "{times:?}");
    }
}
