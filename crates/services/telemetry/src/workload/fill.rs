//! Fills a database with earlier data: readings and feeds. Generates the data in bounded pieces as it is
//! stored.

use std::collections::BTreeSet;
use std::ops::Range;

use futures_util::{StreamExt, TryStreamExt, stream};
use mongodb::Client;
use serde::Deserialize;

use super::preload::{Preload, PreloadError, Progress, preload};
use super::random::between;
use super::sensors::Sensors;
use crate::feeds::{self, Activity, Design, FeedQuery, Feeds};
use crate::readings::{self, Readings};
use crate::settings::Settings;
use plimsoll_service::Clock;
use plimsoll_service::Reservation;

/// Milliseconds between two activities of a user.
const APART_MS: i64 = 60_000;
/// The largest number of activities or edges in memory, unless a single user has more.
const PIECE: u64 = 100_000;
/// The largest number of concurrent reads of feeds.
const READ_AT_ONCE: usize = 8;

/// The data to fill in: the order of `plimsoll serve telemetry --fill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// The seed of all values.
    pub seed: u64,
    /// The end of the data, in milliseconds since 1970.
    pub end_ms: i64,
    /// The number of sensors, from `sensor-0` on.
    pub sensors: u64,
    /// The number of readings of each sensor.
    pub ticks: u64,
    /// Milliseconds between two readings of a sensor.
    pub interval_ms: i64,
    /// The number of users, from `user-0` on.
    pub users: u64,
    /// The number of users that each user follows.
    pub follows: u64,
    /// The number of activities of each user.
    pub activities: u64,
    /// The number of users whose feeds are read at the end of the fill, from `user-0` on, so that designs
    /// have data for readers.
    pub readers: u64,
}

/// The reason why a fill stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be used.
    #[error("the database cannot be used ({0}): check its address, and that the server runs")]
    Database(#[from] mongodb::error::Error),
    /// The readings cannot be opened.
    #[error("readings: {0}")]
    Readings(#[from] readings::Error),
    /// A reading was not stored.
    #[error(transparent)]
    Preload(#[from] PreloadError),
    /// A feed was not stored.
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

    /// The users that a user follows, distributed by the seed.
    fn followed(&self, user: u64) -> Vec<u64> {
        let others = self.users.saturating_sub(1);
        let mut authors: Vec<u64> = (0..self.follows.min(others))
            .map(|number| {
                let step = between(0.0, others as f64, &[self.seed, user, number]) as u64;
                (user + 1 + step.min(others - 1)) % self.users
            })
            .collect();
        authors.sort_unstable();
        authors.dedup();
        authors
    }

    /// The edges of these users.
    fn follows(&self, users: Range<u64>) -> Vec<(String, Vec<String>)> {
        users.map(|user| (name(user), self.followed(user).into_iter().map(name).collect())).collect()
    }

    /// These users and all users they follow.
    fn seen_by(&self, users: Range<u64>) -> Vec<u64> {
        let seen: BTreeSet<u64> =
            users.flat_map(|user| self.followed(user).into_iter().chain([user])).collect();
        seen.into_iter().collect()
    }

    /// Splits users into pieces that fit into memory with their edges and `each` activities per followed user.
    fn users_by_piece(&self, each: u64) -> impl Iterator<Item = Range<u64>> {
        let edges = self.follows.min(self.users).saturating_add(1);
        pieces(self.users, PIECE / edges.saturating_mul(each.max(1)))
    }

    /// Splits the activity numbers of this many users into pieces.
    fn numbers_by_piece(&self, users: usize) -> impl Iterator<Item = Range<u64>> {
        pieces(self.activities, PIECE / (users as u64).max(1))
    }

    /// The activities of these users with these numbers, oldest first.
    fn activities(&self, users: &[u64], numbers: Range<u64>) -> Vec<Activity> {
        numbers.flat_map(|number| users.iter().map(move |user| self.activity(*user, number))).collect()
    }

    /// An activity of a user; number 0 is the oldest.
    fn activity(&self, user: u64, number: u64) -> Activity {
        let back = i64::try_from(self.activities - number).unwrap_or(i64::MAX);
        let apart = between(0.0, APART_MS as f64, &[self.seed, user, number]) as i64;
        Activity {
            id: format!("fill-{user}-{number}"),
            user: name(user),
            at_ms: self.end_ms.saturating_sub(back.saturating_mul(APART_MS)) + apart.min(APART_MS - 1),
            kind: "post".to_owned(),
            text: Some(format!("number {number} of user {user}")),
            object: None,
        }
    }
}

/// Stores the readings and feeds in the designs of the settings. Filling again changes no data. `tell` gets the progress of the
/// readings.
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
    match settings.feeds.design {
        Design::OnWrite => copied(&feeds, fill).await?,
        Design::OnRead | Design::Hybrid => kept_once(&feeds, fill).await?,
    }
    Ok(read(&feeds, fill).await?)
}

/// Reads the first page of each reader's feed.
async fn read(feeds: &Feeds, fill: &Fill) -> Result<(), feeds::Error> {
    let page = |user| async move {
        let query = FeedQuery { user: name(user), cursor: None, limit: 1 };
        feeds.read(&query, &Reservation::unlimited()).await.map(drop)
    };
    let readers = stream::iter(0..fill.readers.min(fill.users)).map(page);
    readers.buffer_unordered(READ_AT_ONCE).try_collect().await
}

/// Fills feeds of a design with copies: each piece has the edges of some users and the activities of their feeds. An activity
/// in several pieces is stored once.
async fn copied(feeds: &Feeds, fill: &Fill) -> Result<(), feeds::Error> {
    let is_small = fill.users.saturating_mul(fill.activities) <= PIECE;
    for users in fill.users_by_piece(if is_small { 1 } else { fill.activities }) {
        let (follows, seen) = (fill.follows(users.clone()), fill.seen_by(users));
        for numbers in fill.numbers_by_piece(seen.len()) {
            feeds.fill(&follows, &fill.activities(&seen, numbers)).await?;
        }
    }
    Ok(())
}

/// Fills feeds of a design that makes no copies before the first read.
async fn kept_once(feeds: &Feeds, fill: &Fill) -> Result<(), feeds::Error> {
    for users in pieces(fill.users, PIECE) {
        let users: Vec<u64> = users.collect();
        for numbers in fill.numbers_by_piece(users.len()) {
            feeds.fill(&[], &fill.activities(&users, numbers)).await?;
        }
    }
    for users in fill.users_by_piece(1) {
        feeds.fill(&fill.follows(users), &[]).await?;
    }
    Ok(())
}

/// Splits `0..count` into pieces of `size`, at least 1; an empty range gives one empty piece.
fn pieces(count: u64, size: u64) -> impl Iterator<Item = Range<u64>> {
    let size = size.clamp(1, PIECE);
    (0..count.max(1)).step_by(size as usize).map(move |start| start..count.min(start + size))
}

fn name(user: u64) -> String {
    format!("user-{user}")
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
        readers: 0,
    };

    #[test]
    fn users_follow_others_and_each_only_once() {
        for user in 0..FILL.users {
            let followed = FILL.followed(user);
            assert!(!followed.is_empty() && followed.len() <= 20, "{user}: {followed:?}");
            assert!(!followed.contains(&user), "{user}");
            assert_eq!(followed, FILL.followed(user), "always the same");
        }
        assert!(Fill { users: 1, ..FILL }.followed(0).is_empty());
    }

    #[test]
    fn all_data_is_before_the_end_and_in_order() {
        let sensors = FILL.sensors();
        assert_eq!(sensors.reading(0, 359).at_ms, FILL.end_ms - 10_000);
        let times: Vec<_> = (0..5).map(|number| FILL.activity(9, number).at_ms).collect();
        assert!(times.is_sorted() && *times.last().unwrap() < FILL.end_ms, "{times:?}");
    }

    /// The largest fill within the limits.
    const LARGE: Fill = Fill { users: 1_000_000, follows: 100, activities: 100, ..FILL };

    #[test]
    fn data_is_generated_only_when_needed() {
        for fill in [LARGE, Fill { users: 100_000, follows: 1_000, activities: 1_000, ..FILL }] {
            for each in [1, fill.activities] {
                let users = fill.users_by_piece(each).next().unwrap();
                let edges: usize = fill.follows(users.clone()).iter().map(|(_, authors)| authors.len()).sum();
                assert!(edges as u64 <= PIECE, "{edges} edges");
                let seen = fill.seen_by(users);
                let numbers = fill.numbers_by_piece(seen.len()).next().unwrap();
                let activities = fill.activities(&seen, numbers).len();
                assert!(activities as u64 <= PIECE, "{activities} activities");
            }
        }
    }

    #[test]
    fn pieces_cover_the_whole_range_and_none_is_too_large() {
        for (count, size, expected) in [
            (0, 5, vec![(0, 0)]),
            (5, 5, vec![(0, 5)]),
            (11, 5, vec![(0, 5), (5, 10), (10, 11)]),
            (2, 0, vec![(0, 1), (1, 2)]),
        ] {
            let found: Vec<_> = pieces(count, size).map(|piece| (piece.start, piece.end)).collect();
            assert_eq!(found, expected, "{count} by {size}");
        }
    }

    #[test]
    fn every_feed_has_the_user_and_the_followed_users() {
        let seen = FILL.seen_by(7..9);
        for user in 7..9 {
            assert!(seen.contains(&user) && FILL.followed(user).iter().all(|author| seen.contains(author)));
        }
        let names: Vec<_> = FILL.follows(7..9).into_iter().map(|(user, _)| user).collect();
        assert_eq!(names, ["user-7", "user-8"]);
    }
}
