//! Every activity once: what feeds are made of, and the truth whenever a copy is doubted.

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
/// Authors in one query. The server merges the index ranges of so many authors in order; of many more it would read and
/// sort everything.
pub(super) const AUTHORS: usize = 100;
/// Queries of one reader at once.
const AT_ONCE: usize = 4;
/// An activity is in memory as the driver read it, as itself, as a tree of JSON and as its text.
const COPIES: usize = 4;

/// Every activity once.
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

    /// Stores an activity. If there is one of its id, gives that instead.
    pub(super) async fn add(&self, activity: &Activity) -> Result<Option<Activity>, Error> {
        let collection = self.database.collection::<Document>(COLLECTION);
        match collection.insert_one(activity.document("_id")).await {
            Ok(_) => return Ok(None),
            Err(error) if is_known(&error) => (),
            Err(error) => return Err(error.into()),
        }
        let known = one(&activity.id).first(&self.database).await?;
        let known = known.ok_or_else(|| Error::Foreign("it is there and cannot be found".into()))?;
        let known = Activity::stored(&known, "_id")?;
        if known.user == activity.user { Ok(Some(known)) } else { Err(Error::Taken) }
    }

    /// Stores those activities whose ids are not there, in bulk.
    pub(super) async fn add_all(&self, activities: &[Activity]) -> Result<(), Error> {
        let documents = activities.iter().map(|activity| activity.document("_id")).collect();
        Ok(insert_new(&self.database, COLLECTION, documents).await?)
    }

    /// The newest `limit` activities of the authors below a place, the newest first. However many authors there are, no more
    /// than some times the limit is in memory at once.
    pub(super) async fn page(
        &self,
        authors: &[String],
        below: Option<&Position>,
        limit: u32,
        hold: &Reservation,
    ) -> Result<Vec<Activity>, Error> {
        let finds: Vec<_> =
            authors.chunks(AUTHORS).map(|authors| self.find(page(authors, below, limit), hold)).collect();
        let newest = |newest: Vec<Activity>, part: Vec<Activity>| {
            let (newest, rest) = merged(newest, part, limit as usize);
            hold.shrink(rest.iter().map(taken).sum());
            ready(Ok::<_, Error>(newest))
        };
        stream::iter(finds).buffered(AT_ONCE).try_fold(Vec::new(), newest).await
    }

    async fn find(&self, find: Find, hold: &Reservation) -> Result<Vec<Activity>, Error> {
        found(&find, &self.database, "_id", hold).await
    }

    /// Whether nobody has done anything yet.
    pub(super) async fn is_empty(&self) -> Result<bool, Error> {
        Ok(any().first(&self.database).await?.is_none())
    }
}

/// What is found, with the id in the field `id`, each counted as it comes.
pub(super) async fn found(
    find: &Find,
    database: &Database,
    id: &str,
    hold: &Reservation,
) -> Result<Vec<Activity>, Error> {
    let mut cursor = find.cursor(database).await?;
    let mut activities = Vec::new();
    while let Some(document) = cursor.try_next().await? {
        let activity = Activity::stored(&document, id)?;
        hold.grow(taken(&activity))?;
        activities.push(activity);
    }
    Ok(activities)
}

/// What an activity takes of the memory from the database to the answer's text.
pub(super) fn taken(activity: &Activity) -> usize {
    COPIES * activity.bytes()
}

/// The newest of two parts of a feed, each in its order, and what is left over.
fn merged(newest: Vec<Activity>, part: Vec<Activity>, limit: usize) -> (Vec<Activity>, Vec<Activity>) {
    let (mut all, more) = if newest.is_empty() { (part, newest) } else { (newest, part) };
    if !more.is_empty() {
        all.extend(more);
        newest_first(&mut all);
    }
    let rest = all.split_off(limit.min(all.len()));
    (all, rest)
}

/// Puts activities into the order of a feed, and each in it once.
pub(super) fn newest_first(activities: &mut Vec<Activity>) {
    activities.sort_unstable_by(|one, other| (other.at_ms, &other.id).cmp(&(one.at_ms, &one.id)));
    activities.dedup_by(|one, other| one.id == other.id);
}

/// Whatever comes first: one document is read, however many there are.
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
    fn of_several_parts_the_newest_stay_and_the_others_go_at_once() {
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
