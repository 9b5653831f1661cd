//! Caches the feed of an active reader in one capped document.
//!
//! A cache is created in three steps: insert an empty document with a token, read the feed, add the feed to the document
//! with that token. So no concurrent push is lost. Operations that invalidate caches, such as following, delete them. A
//! creation then does not find its token and stops.

use std::collections::HashSet;
use std::time::Duration;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::IndexOptions;
use mongodb::{Database, IndexModel};

use crate::feeds::activity::Activity;
use crate::feeds::error::Error;
use crate::feeds::position::Position;
use crate::feeds::query::{Delete, Find, Update, is_known};
use crate::feeds::timeline::newest_first;

const COLLECTION: &str = "feed_caches";
/// After this time an unfinished cache counts as abandoned.
const MAKING_MS_MAX: i64 = 30_000;
/// The idle time divided by this number is the precision of a cache's last-read time.
const TOUCH_PART: i64 = 8;

/// The caches of all readers.
#[derive(Clone, Debug)]
pub struct Caches {
    database: Database,
    entries_max: u32,
    idle_ms: i64,
}

/// The state of a user's cache.
pub enum Found {
    /// Missing.
    Nothing,
    /// In creation.
    Making,
    /// Complete.
    Cache(Cache),
}

/// The content of a cache.
pub struct Cache {
    /// The newest activities, newest first, without duplicates.
    pub newest: Vec<Activity>,
    /// Whether older activities may exist outside the cache.
    pub full: bool,
    /// Authors whose activities are not pushed into it.
    pub pulled: Vec<String>,
}

impl Caches {
    /// The caches in `database`, each of at most `entries_max` activities.
    ///
    /// # Errors
    /// The index that expires idle caches cannot be created.
    pub async fn open(database: &Database, entries_max: u32, idle: Duration) -> Result<Self, Error> {
        let expire = IndexOptions::builder().expire_after(idle).build();
        let index = IndexModel::builder().keys(doc! {"read": 1}).options(expire).build();
        database.collection::<Document>(COLLECTION).create_index(index).await?;
        let idle_ms = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
        Ok(Self { database: database.clone(), entries_max, idle_ms })
    }

    /// Deletes all caches.
    pub async fn clear(database: &Database) -> Result<(), Error> {
        Ok(database.collection::<Document>(COLLECTION).drop().await?)
    }

    /// The state of a user's cache.
    pub async fn find(&self, user: &str, now_ms: i64) -> Result<Found, Error> {
        let Some(document) = find(user).first(&self.database).await? else { return Ok(Found::Nothing) };
        let read_ms = document.get_datetime("read").map_or(0, |read| read.timestamp_millis());
        if let Ok(token) = document.get_object_id("token") {
            if now_ms.saturating_sub(read_ms) > MAKING_MS_MAX {
                self.give_up(user, token).await?;
            }
            return Ok(Found::Making);
        }
        if now_ms.saturating_sub(read_ms) > self.idle_ms / TOUCH_PART {
            touch(user, now_ms).run(&self.database).await?;
        }
        Ok(Found::Cache(self.cache(&document)?))
    }

    fn cache(&self, document: &Document) -> Result<Cache, Error> {
        let entries = document.get_array("e")?;
        let stored = |entry: &Bson| {
            let entry =
                entry.as_document().ok_or_else(|| Error::Foreign("an entry is not a document".into()))?;
            Activity::stored(entry, "i")
        };
        let mut newest = entries.iter().map(stored).collect::<Result<Vec<_>, _>>()?;
        newest_first(&mut newest);
        let full = entries.len() >= self.entries_max as usize;
        let pulled = document.get_array("pull")?;
        let pulled = pulled.iter().filter_map(Bson::as_str).map(str::to_owned).collect();
        Ok(Cache { newest, full, pulled })
    }

    /// Begins a cache. `None` if another reader has begun one.
    pub async fn begin(&self, user: &str, now_ms: i64) -> Result<Option<ObjectId>, Error> {
        let token = ObjectId::new();
        let read = DateTime::from_millis(now_ms);
        let empty = doc! {"_id": user, "token": token, "read": read, "e": [], "pull": []};
        match self.database.collection::<Document>(COLLECTION).insert_one(empty).await {
            Ok(_) => Ok(Some(token)),
            Err(error) if is_known(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Merges the content with the activities pushed since the begin.
    pub async fn finish(
        &self,
        user: &str,
        token: ObjectId,
        newest: &[Activity],
        pulled: &HashSet<String>,
    ) -> Result<(), Error> {
        finish(user, token, newest, pulled, self.entries_max).run(&self.database).await?;
        Ok(())
    }

    /// Abandons a begun cache.
    pub async fn give_up(&self, user: &str, token: ObjectId) -> Result<(), Error> {
        give_up(user, token).run(&self.database).await?;
        Ok(())
    }

    /// Pushes an activity into the existing caches of these users.
    pub async fn push(&self, users: &[String], activity: &Activity) -> Result<(), Error> {
        push(users, activity, self.entries_max).run(&self.database).await?;
        Ok(())
    }

    /// Deletes the caches of these users; their next read creates new ones.
    pub async fn forget(&self, users: &[String]) -> Result<(), Error> {
        forget(users).run(&self.database).await?;
        Ok(())
    }
}

impl Cache {
    /// The lowest position down to which the cache is complete; `None` if it has all activities.
    pub fn floor(&self) -> Option<Position> {
        self.newest.last().filter(|_| self.full).map(Activity::position)
    }
}

pub(in crate::feeds) fn find(user: &str) -> Find {
    Find { limit: 1, ..Find::new(COLLECTION, doc! {"_id": user}) }
}

pub(in crate::feeds) fn touch(user: &str, now_ms: i64) -> Update {
    let update = doc! {"$max": {"read": DateTime::from_millis(now_ms)}};
    Update { collection: COLLECTION, filter: doc! {"_id": user}, update }
}

pub(in crate::feeds) fn finish(
    user: &str,
    token: ObjectId,
    newest: &[Activity],
    pulled: &HashSet<String>,
    entries_max: u32,
) -> Update {
    let entries: Vec<Bson> = newest.iter().map(|activity| activity.document("i").into()).collect();
    let pulled: Vec<&String> = pulled.iter().collect();
    let update = doc! {
        "$push": {"e": capped(entries, entries_max)},
        "$set": {"pull": pulled},
        "$unset": {"token": ""},
    };
    Update { collection: COLLECTION, filter: doc! {"_id": user, "token": token}, update }
}

pub(in crate::feeds) fn give_up(user: &str, token: ObjectId) -> Delete {
    Delete { collection: COLLECTION, filter: doc! {"_id": user, "token": token} }
}

pub(in crate::feeds) fn push(users: &[String], activity: &Activity, entries_max: u32) -> Update {
    let filter = doc! {"_id": {"$in": users}, "e.i": {"$ne": &activity.id}};
    let entry = vec![activity.document("i").into()];
    Update { collection: COLLECTION, filter, update: doc! {"$push": {"e": capped(entry, entries_max)}} }
}

pub(in crate::feeds) fn forget(users: &[String]) -> Delete {
    Delete { collection: COLLECTION, filter: doc! {"_id": {"$in": users}} }
}

/// A `$push` that keeps the newest entries in the order of a feed.
fn capped(entries: Vec<Bson>, entries_max: u32) -> Document {
    doc! {"$each": entries, "$sort": {"t": -1, "i": -1}, "$slice": i64::from(entries_max)}
}
