//! Verifies the size and the number of files of a dataset against its blocks.

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;

use super::blocks::REMOVAL;
use super::lists::{signed, whole};
use super::{Error, READ_MAX, Store};
use crate::Refusal;

/// The attempts while blocks are added.
const ATTEMPTS_MAX: u32 = 20;

/// The counts of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// The bytes of all files.
    pub size: u64,
    /// The number of files.
    pub files: u64,
}

/// A verified dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The counts that the dataset had.
    pub stated: Counts,
    /// The counts of its blocks, which the dataset has now.
    pub counted: Counts,
}

impl Sizes {
    /// Whether the dataset was right.
    pub fn is_right(&self) -> bool {
        self.stated == self.counted
    }
}

impl Store {
    /// Counts the blocks of a dataset and corrects the dataset.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] if it does not exist; [`Error::Changed`] if blocks are added all the time.
    pub async fn verify(&self, pid: &str) -> Result<Sizes, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let dataset = self.dataset(pid).await?.ok_or_else(|| Refusal::no_dataset(pid))?;
            let stated = Counts { size: whole(&dataset, "size"), files: whole(&dataset, "numberOfFiles") };
            let counted = self.counted(pid, dataset.get("uncountedBlocks")).await?;
            if stated == counted || self.correct(&dataset, counted).await? {
                return Ok(Sizes { stated, counted });
            }
        }
        Err(Error::Changed)
    }

    /// Counts the blocks. A block whose addition is not finished counts only if the dataset remembers it, and one whose removal is not finished
    /// until the dataset remembers its removal. A block whose change is not finished counts as before it until the dataset remembers the change.
    async fn counted(&self, pid: &str, remembered: Option<&Bson>) -> Result<Counts, Error> {
        let remembered = remembered.and_then(Bson::as_array).cloned().unwrap_or_default();
        let removals: Vec<&str> =
            remembered.iter().filter_map(|it| it.as_str()?.strip_suffix(REMOVAL)).collect();
        let is_counted = doc! {"$or": [
            {"uncounted": {"$ne": true}},
            {"removed": {"$ne": true}, "_id": {"$in": &remembered}},
            {"removed": true, "_id": {"$nin": removals}},
            {"removed": {"$ne": true}, "change": {"$exists": true}},
        ]};
        let files = doc! {"$ifNull": ["$fileCount", {"$size": {"$ifNull": ["$dataFileList", []]}}]};
        let stages = [
            doc! {"$match": {"$and": [{"datasetId": pid}, is_counted]}},
            doc! {"$project": {"size": 1, "files": files, "change": 1}},
            doc! {"$group": {
                "_id": "$change.mark", "size": {"$sum": "$size"}, "files": {"$sum": "$files"},
                "changedSize": {"$sum": "$change.size"}, "changedFiles": {"$sum": "$change.files"},
            }},
        ];
        let groups: Vec<Document> =
            self.blocks.aggregate(stages).max_time(READ_MAX).await?.try_collect().await?;
        let is_finished = |group: &Document| {
            group.get("_id").is_none_or(|mark| *mark == Bson::Null || remembered.contains(mark))
        };
        let sum = |name: &str, change: &str| {
            let of = |group: &Document| {
                let before = if is_finished(group) { 0 } else { signed(group, change) };
                signed(group, name) - before
            };
            u64::try_from(groups.iter().map(of).sum::<i64>()).unwrap_or_default()
        };
        Ok(Counts { size: sum("size", "changedSize"), files: sum("files", "changedFiles") })
    }

    /// Corrects the counts unless they have changed since they were read.
    async fn correct(&self, dataset: &Document, counted: Counts) -> Result<bool, Error> {
        let field = |name: &str| dataset.get(name).cloned();
        let unchanged = doc! {
            "_id": field("_id"), "size": field("size"), "numberOfFiles": field("numberOfFiles"),
            "uncountedBlocks": field("uncountedBlocks"),
        };
        let right = doc! {"$set": {"size": counted.size as i64, "numberOfFiles": counted.files as i64}};
        Ok(self.datasets.update_one(unchanged, right).await?.matched_count == 1)
    }
}
