//! Collects the keys of metadata in batches, apart from writes: a create with 3,000 fields writes one document.
//!
//! The job follows the time of the last change, so it may be repeated and continues after a crash. A key that no dataset has any more
//! stays until the collection is dropped; then the job collects all keys anew. Readers that this process has written are not written again:
//! most datasets of an instrument have the same keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};

use bson::{Bson, DateTime, Document, doc};
use futures_util::TryStreamExt;

use super::{Error, READ_MAX, Store, updates};
use crate::access::Owned;
use crate::documents::metadata::key;

/// The longest key, in bytes: an index refuses longer ones. A longer key is left out.
const KEY_BYTES_MAX: usize = 512;
/// The maximum number of groups that a dataset adds to a key, and the maximum bytes of each. Other groups are left out.
const GROUPS_MAX: usize = 100;
const GROUP_BYTES_MAX: usize = 512;
/// The maximum bytes of the readers in memory.
const WRITTEN_BYTES_MAX: usize = 16 << 20;
/// The key of the place of this job.
pub(super) const JOB: &str = "Dataset";

/// The result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The datasets that were read.
    pub datasets: usize,
    /// The keys that were written.
    pub keys: usize,
}

/// The readers of a key.
#[derive(Clone, Debug, Default, PartialEq)]
struct Readers {
    groups: BTreeSet<String>,
    is_published: bool,
}

impl Readers {
    fn includes(&self, other: &Self) -> bool {
        (self.is_published || !other.is_published) && self.groups.is_superset(&other.groups)
    }

    fn add(&mut self, other: &Self) {
        self.is_published |= other.is_published;
        self.groups.extend(other.groups.iter().cloned());
    }
}

/// The readers that this process has written, by key, in a bounded memory.
#[derive(Debug, Default)]
pub(super) struct Written {
    readers: BTreeMap<String, Readers>,
    /// The bytes of keys and groups.
    bytes: usize,
}

impl Written {
    /// Leaves out the keys whose readers are written.
    fn retain_new(&self, readers: &mut BTreeMap<String, Readers>) {
        readers.retain(|name, new| !self.readers.get(name).is_some_and(|known| known.includes(new)));
    }

    fn add(&mut self, readers: BTreeMap<String, Readers>) {
        for (name, new) in readers {
            self.bytes += name.len() + new.groups.iter().map(String::len).sum::<usize>();
            self.readers.entry(name).or_default().add(&new);
        }
        if self.bytes > WRITTEN_BYTES_MAX {
            *self = Self::default();
        }
    }
}

impl Store {
    /// Collects the keys of the next datasets that changed up to five seconds ago. An empty batch means that the job has caught up.
    ///
    /// # Errors
    /// The server failed.
    pub async fn collect_keys(&self, now: DateTime) -> Result<Batch, Error> {
        let fields = doc! {"scientificMetadata": 1, "ownerGroup": 1, "accessGroups": 1, "isPublished": 1};
        if !self.has_followed(JOB).await? {
            *self.written() = Written::default();
        }
        let datasets = self.changed(JOB, fields, now).await?;
        let mut readers = readers(&datasets);
        self.written().retain_new(&mut readers);
        let keys: Vec<Document> = readers.iter().map(|(name, readers)| update(name, readers)).collect();
        if let Some(reason) = updates::send(&self.client, &self.keys, &keys).await? {
            return Err(
                mongodb::error::Error::custom(format!("a key of metadata was refused: {reason}")).into()
            );
        }
        self.followed(JOB, &datasets).await?;
        self.written().add(readers);
        Ok(Batch { datasets: datasets.len(), keys: keys.len() })
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_that_are_written_are_left_out_and_the_memory_is_bounded() {
        let dataset = |group: &str| doc! {"ownerGroup": group, "scientificMetadata": {"x": 1, "y": 1}};
        let mut written = Written::default();
        written.add(readers(&[dataset("a")]));
        let left = |written: &Written, datasets: &[Document]| {
            let mut readers = readers(datasets);
            written.retain_new(&mut readers);
            readers.len()
        };
        assert_eq!(left(&written, &[dataset("a")]), 0);
        assert_eq!(left(&written, &[dataset("a"), dataset("b")]), 2);
        let published = doc! {"ownerGroup": "a", "isPublished": true, "scientificMetadata": {"x": 1}};
        assert_eq!(left(&written, std::slice::from_ref(&published)), 1);
        written.add(readers(std::slice::from_ref(&published)));
        assert_eq!(left(&written, &[published]), 0);
        let long = "g".repeat(GROUP_BYTES_MAX - 8);
        for n in 0..WRITTEN_BYTES_MAX / GROUP_BYTES_MAX {
            written.add(readers(&[dataset(&format!("{long}{n:08}"))]));
        }
        assert!(written.bytes <= WRITTEN_BYTES_MAX && left(&written, &[dataset("a")]) == 2);
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
