//! Every activity once: what feeds are made of, and the truth whenever a copy is doubted.

use futures_util::{StreamExt, TryStreamExt, stream};
use mongodb::bson::{Document, doc};
use mongodb::{Database, IndexModel};

use super::activity::Activity;
use super::error::Error;
use super::position::Position;
use super::query::{Find, insert_new, is_known};

const COLLECTION: &str = "activities";
/// Authors in one query. The server merges the index ranges of so many authors in order; of many more it would read and
/// sort everything.
pub(super) const AUTHORS: usize = 100;
/// Queries of one reader at once.
const AT_ONCE: usize = 4;

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

    /// The newest `limit` activities of the authors below a place, the newest first.
    pub(super) async fn page(
        &self,
        authors: &[String],
        below: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<Activity>, Error> {
        let finds: Vec<_> =
            authors.chunks(AUTHORS).map(|authors| self.find(page(authors, below, limit))).collect();
        let several = finds.len() > 1;
        let parts: Vec<Vec<Document>> = stream::iter(finds).buffered(AT_ONCE).try_collect().await?;
        let stored = |document: &Document| Activity::stored(document, "_id");
        let mut activities = parts.iter().flatten().map(stored).collect::<Result<Vec<_>, _>>()?;
        if several {
            newest_first(&mut activities);
            activities.truncate(limit as usize);
        }
        Ok(activities)
    }

    async fn find(&self, find: Find) -> Result<Vec<Document>, Error> {
        Ok(find.all(&self.database).await?)
    }

    /// Whether nobody has done anything yet.
    pub(super) async fn is_empty(&self) -> Result<bool, Error> {
        let any = Find { limit: 1, ..Find::new(COLLECTION, Document::new()) };
        Ok(any.first(&self.database).await?.is_none())
    }
}

/// Puts activities into the order of a feed, and each in it once.
pub(super) fn newest_first(activities: &mut Vec<Activity>) {
    activities.sort_unstable_by(|one, other| (other.at_ms, &other.id).cmp(&(one.at_ms, &one.id)));
    activities.dedup_by(|one, other| one.id == other.id);
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
