//! Stores every activity once: the source of all feeds and copies.

use std::future::ready;

use futures_util::{StreamExt, TryStreamExt, stream};
use mongodb::bson::{Document, doc};
use mongodb::{Database, IndexModel};

use super::activity::Activity;
use super::error::Error;
use super::position::Position;
use super::query::{Find, insert_new, is_known};
use plimsoll_service::Reservation;

const COLLECTION: &str = "activities";
/// The largest number of authors in one query. The server merges this many index ranges in order; with many
/// more it would read and sort all activities.
pub(super) const AUTHORS: usize = 100;
/// The largest number of concurrent queries of one read.
const AT_ONCE: usize = 4;
/// The number of copies of an activity in memory: the driver's document, the struct, the JSON tree and the
/// text.
const COPIES: usize = 4;

/// The timeline.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    database: Database,
}

impl Timeline {
    pub(super) async fn open(database: &Database) -> Result<Self, Error> {
        let index = IndexModel::builder().keys(doc! {"a": 1, "t": -1, "_id": -1}).build();
        database.collection::<Document>(COLLECTION).create_index(index).await?;
        Ok(Self { database: database.clone() })
    }

    /// Stores an activity, or returns the existing one with its id.
    pub(super) async fn add(&self, activity: &Activity) -> Result<Option<Activity>, Error> {
        let collection = self.database.collection::<Document>(COLLECTION);
        match collection.insert_one(activity.document("_id")).await {
            Ok(_) => return Ok(None),
            Err(error) if is_known(&error) => (),
            Err(error) => return Err(error.into()),
        }
        let known = one(&activity.id).first(&self.database).await?;
        let known = known.ok_or_else(|| Error::Foreign("an existing activity was not found".into()))?;
        let known = Activity::stored(&known, "_id")?;
        if known.user == activity.user { Ok(Some(known)) } else { Err(Error::IdTaken) }
    }

    /// Stores activities with new ids in bulk.
    pub(super) async fn add_all(&self, activities: &[Activity]) -> Result<(), Error> {
        let documents = activities.iter().map(|activity| activity.document("_id")).collect();
        Ok(insert_new(&self.database, COLLECTION, documents).await?)
    }

    /// The newest `limit` activities of the authors below a position, newest first. At most a few times
    /// `limit` activities are in memory at a time, for any number of authors.
    pub(super) async fn page(
        &self,
        authors: &[String],
        below: Option<&Position>,
        limit: u32,
        memory: &Reservation,
    ) -> Result<Vec<Activity>, Error> {
        let finds: Vec<_> =
            authors.chunks(AUTHORS).map(|authors| self.find(page(authors, below, limit), memory)).collect();
        let newest = |newest: Vec<Activity>, part: Vec<Activity>| {
            let (newest, rest) = merged(newest, part, limit as usize);
            memory.shrink(rest.iter().map(taken).sum());
            ready(Ok::<_, Error>(newest))
        };
        stream::iter(finds).buffered(AT_ONCE).try_fold(Vec::new(), newest).await
    }

    async fn find(&self, find: Find, memory: &Reservation) -> Result<Vec<Activity>, Error> {
        found(&find, &self.database, "_id", memory).await
    }

    /// Whether the timeline is empty.
    pub(super) async fn is_empty(&self) -> Result<bool, Error> {
        Ok(any().first(&self.database).await?.is_none())
    }
}

/// Collects the results, with the id in the field `id`, and reserves memory for each.
pub(super) async fn found(
    find: &Find,
    database: &Database,
    id: &str,
    memory: &Reservation,
) -> Result<Vec<Activity>, Error> {
    let mut cursor = find.cursor(database).await?;
    let mut activities = Vec::new();
    while let Some(document) = cursor.try_next().await? {
        let activity = Activity::stored(&document, id)?;
        memory.grow(taken(&activity))?;
        activities.push(activity);
    }
    Ok(activities)
}

/// The memory of an activity, from the database to the text of the answer.
pub(super) fn taken(activity: &Activity) -> usize {
    COPIES * activity.bytes()
}

/// The newest of two sorted parts of a feed, and the rest.
fn merged(newest: Vec<Activity>, part: Vec<Activity>, limit: usize) -> (Vec<Activity>, Vec<Activity>) {
    let (mut all, more) = if newest.is_empty() { (part, newest) } else { (newest, part) };
    if !more.is_empty() {
        all.extend(more);
        newest_first(&mut all);
    }
    let rest = all.split_off(limit.min(all.len()));
    (all, rest)
}

/// Sorts activities in feed order and removes duplicates.
pub(super) fn newest_first(activities: &mut Vec<Activity>) {
    activities.sort_unstable_by(|one, other| (other.at_ms, &other.id).cmp(&(one.at_ms, &one.id)));
    activities.dedup_by(|one, other| one.id == other.id);
}

/// Finds any document: the server reads only one.
pub(super) fn any() -> Find {
    Find { limit: 1, ..Find::new(COLLECTION, Document::new()) }
}

pub(super) fn one(id: &str) -> Find {
    Find { limit: 1, ..Find::new(COLLECTION, doc! {"_id": id}) }
}

pub(super) fn page(authors: &[String], below: Option<&Position>, limit: u32) -> Find {
    let mut filter = match authors {
        [author] => doc! {"a": author},
        authors => doc! {"a": {"$in": authors}},
    };
    if let Some(below) = below {
        filter.extend(below.below("_id"));
    }
    Find { limit, sort: doc! {"t": -1, "_id": -1}, ..Find::new(COLLECTION, filter) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(times: &[i64]) -> Vec<Activity> {
        let activity = |at_ms: &i64| Activity {
            id: format!("{at_ms:03}"),
            user: "ann".into(),
            at_ms: *at_ms,
            kind: "post".into(),
            text: None,
            object: None,
        };
        times.iter().map(activity).collect()
    }

    #[test]
    fn merging_parts_keeps_the_newest_and_drops_the_rest_at_once() {
        let check = |newest: &[i64], other: &[i64], kept: &[i64], left: &[i64]| {
            assert_eq!(merged(part(newest), part(other), 3), (part(kept), part(left)));
        };
        check(&[], &[9, 5], &[9, 5], &[]);
        check(&[9, 5], &[], &[9, 5], &[]);
        check(&[9, 5, 1], &[8, 6, 0], &[9, 8, 6], &[5, 1, 0]);
        check(&[9, 8, 7], &[3], &[9, 8, 7], &[3]);
        check(&[9], &[9, 2], &[9, 2], &[]);
    }
}
