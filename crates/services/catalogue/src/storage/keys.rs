//! Collects the keys of metadata in batches, apart from writes: a create with 3,000 fields writes one document.
//!
//! The job follows the time of the last change, so it may be repeated and continues after a crash. A key that no dataset has any more
//! stays until the collection is dropped; then the job collects all keys anew.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, DateTime, Document, doc};
use futures_util::TryStreamExt;

use super::{Error, READ_MAX, Store};
use crate::access::Owned;
use crate::documents::metadata::key;

/// The maximum number of datasets in a batch.
const DATASETS_MAX: i64 = 100;
/// The maximum size of a batch as stored, in bytes. A single dataset may be larger.
const DATASETS_BYTES_MAX: usize = 32 << 20;
/// The maximum number of keys in one command, and its maximum size in bytes.
const KEYS_MAX: usize = 1_000;
const COMMAND_BYTES_MAX: usize = 4 << 20;
/// The longest key, in bytes: an index refuses longer ones. A longer key is left out.
const KEY_BYTES_MAX: usize = 512;
/// The maximum number of groups that a dataset adds to a key, and the maximum bytes of each. Other groups are left out.
const GROUPS_MAX: usize = 100;
const GROUP_BYTES_MAX: usize = 512;
/// The minimum age of a change that the job reads: before that, a transaction that began earlier may still become visible.
const LAG_MS: i64 = 5_000;
/// The key of the progress.
const PROGRESS: &str = "Dataset";

/// The result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The datasets that were read.
    pub datasets: usize,
    /// The keys that were written.
    pub keys: usize,
}

/// The readers of a key.
#[derive(Debug, Default, PartialEq)]
struct Readers {
    groups: BTreeSet<String>,
    is_published: bool,
}

impl Store {
    /// Collects the keys of the next datasets that changed up to five seconds ago. An empty batch means that the job has caught up.
    ///
    /// # Errors
    /// The server failed.
    pub async fn collect_keys(&self, now: DateTime) -> Result<Batch, Error> {
        let datasets = self.changed(now).await?;
        let readers = readers(&datasets);
        let updates: Vec<Document> = readers.iter().map(|(name, readers)| update(name, readers)).collect();
        for updates in commands(&updates) {
            let command = doc! {"update": self.keys.name(), "updates": updates, "ordered": false};
            let database = self.client.database(&self.keys.namespace().db);
            refused(&database.run_command(command).await?)?;
        }
        if let Some(last) = datasets.last() {
            let place =
                doc! {"$set": {"at": last.get("updatedAt").cloned(), "after": last.get("_id").cloned()}};
            self.progress.update_one(doc! {"_id": PROGRESS}, place).upsert(true).await?;
        }
        Ok(Batch { datasets: datasets.len(), keys: readers.len() })
    }

    async fn changed(&self, now: DateTime) -> Result<Vec<Document>, Error> {
        let before = DateTime::from_millis(now.timestamp_millis().saturating_sub(LAG_MS));
        let progress = self.progress.find_one(doc! {"_id": PROGRESS}).max_time(READ_MAX).await?;
        let mut filter = doc! {"updatedAt": {"$lte": before}};
        if let Some((at, after)) = progress.as_ref().and_then(|it| Some((it.get("at")?, it.get("after")?))) {
            filter = doc! {
                "updatedAt": {"$gte": at, "$lte": before},
                "$or": [{"updatedAt": {"$gt": at}}, {"_id": {"$gt": after}}],
            };
        }
        let fields = doc! {"scientificMetadata": 1, "updatedAt": 1, "ownerGroup": 1, "accessGroups": 1, "isPublished": 1};
        let found = self.datasets.find(filter).sort(doc! {"updatedAt": 1, "_id": 1}).limit(DATASETS_MAX);
        let mut found = found.projection(fields).max_time(READ_MAX).await?;
        let (mut datasets, mut bytes) = (Vec::new(), 0);
        while bytes < DATASETS_BYTES_MAX && found.advance().await? {
            bytes += found.current().as_bytes().len();
            datasets.push(found.deserialize_current()?);
        }
        Ok(datasets)
    }

    /// The keys that these groups may see and that begin with `prefix`, in order; all such keys without groups.
    ///
    /// # Errors
    /// The server failed.
    pub async fn metadata_keys(
        &self,
        groups: Option<&[String]>,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        let range = doc! {"$gte": prefix, "$lt": format!("{prefix}\u{10ffff}")};
        let published = doc! {"isPublished": true, "key": range.clone()};
        let filter = match groups {
            None => doc! {"key": range},
            Some([]) => published,
            Some(groups) => doc! {"$or": [published, {"userGroups": {"$in": groups}, "key": range}]},
        };
        let found = self.keys.find(filter).sort(doc! {"key": 1}).limit(i64::from(limit.max(1)));
        let found: Vec<Document> = found.max_time(READ_MAX).await?.try_collect().await?;
        Ok(found.iter().filter_map(|it| it.get_str("key").ok().map(str::to_owned)).collect())
    }
}

/// The keys of datasets, and the readers of each.
fn readers(datasets: &[Document]) -> BTreeMap<String, Readers> {
    let mut keys: BTreeMap<String, Readers> = BTreeMap::new();
    for dataset in datasets {
        let owned = Owned::of(dataset);
        for name in dataset.get_document("scientificMetadata").into_iter().flat_map(Document::keys) {
            let name = key::decode(name);
            if name.len() > KEY_BYTES_MAX {
                continue;
            }
            let readers = keys.entry(name).or_default();
            readers.is_published |= owned.is_published;
            let groups = [&owned.owner_group].into_iter().chain(&owned.access_groups);
            let groups = groups.filter(|group| group.len() <= GROUP_BYTES_MAX).take(GROUPS_MAX);
            readers.groups.extend(groups.cloned());
        }
    }
    keys
}

/// Splits updates into commands that the server accepts.
fn commands(updates: &[Document]) -> Vec<&[Document]> {
    let (mut commands, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (place, update) in updates.iter().enumerate() {
        let more = update.to_vec().map_or(COMMAND_BYTES_MAX, |update| update.len());
        if place > from && (bytes + more > COMMAND_BYTES_MAX || place - from >= KEYS_MAX) {
            commands.push(&updates[from..place]);
            (from, bytes) = (place, 0);
        }
        bytes += more;
    }
    commands.push(&updates[from..]);
    commands.retain(|command| !command.is_empty());
    commands
}

/// Adds the readers of a key. A repetition has no effect.
fn update(name: &str, readers: &Readers) -> Document {
    let groups: Vec<Bson> = readers.groups.iter().filter(|group| !group.is_empty()).map(Bson::from).collect();
    let mut change = doc! {
        "$setOnInsert": {"key": name, "sourceType": "Dataset"},
        "$addToSet": {"userGroups": {"$each": groups}},
    };
    if readers.is_published {
        change.insert("$set", doc! {"isPublished": true});
    }
    doc! {"q": {"_id": format!("Dataset_{name}")}, "u": change, "upsert": true}
}

/// The first refusal in the answer to a command with several updates.
fn refused(answer: &Document) -> Result<(), Error> {
    let Ok(errors) = answer.get_array("writeErrors") else { return Ok(()) };
    let said = errors.first().and_then(Bson::as_document).and_then(|it| it.get_str("errmsg").ok());
    match said {
        None => Ok(()),
        Some(said) => {
            Err(mongodb::error::Error::custom(format!("keys of metadata were refused: {said}")).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_bounded_in_updates_and_bytes() {
        let small = vec![doc! {"a": 1}; 2 * KEYS_MAX + 1];
        assert_eq!(commands(&small).iter().map(|it| it.len()).collect::<Vec<_>>(), [KEYS_MAX, KEYS_MAX, 1]);
        let large = vec![doc! {"a": "x".repeat(COMMAND_BYTES_MAX / 2)}; 3];
        assert_eq!(commands(&large).iter().map(|it| it.len()).collect::<Vec<_>>(), [1, 1, 1]);
        assert!(commands(&[]).is_empty());
    }

    #[test]
    fn the_readers_of_a_key_are_those_of_its_datasets() {
        let datasets = [
            doc! {"ownerGroup": "a", "accessGroups": ["b"], "scientificMetadata": {"x%2Ey": 1, "z": 1}},
            doc! {"ownerGroup": "c", "isPublished": true, "scientificMetadata": {"z": 1}},
            doc! {"ownerGroup": "d"},
        ];
        let found = readers(&datasets);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["x.y", "z"]);
        let groups = |name: &str| found[name].groups.iter().cloned().collect::<Vec<_>>();
        assert_eq!((groups("x.y"), found["x.y"].is_published), (vec!["a".into(), "b".into()], false));
        assert_eq!((groups("z"), found["z"].is_published), (vec!["a".into(), "b".into(), "c".into()], true));
    }
}
