//! Pages the files of a dataset: a page reads the documents that hold its files, however many files there are.

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;
use mongodb::Collection;

use super::blocks::{BLOCKS_MAX, of_block};
use super::lists::whole;
use super::{Error, READ_MAX, Room, Store, room};
use crate::documents::block::{self, PART_STARTS};

/// A page of files.
#[derive(Clone, Debug, PartialEq)]
pub struct Files {
    /// The head of the block of each file, and the file.
    pub files: Vec<(Document, Bson)>,
    /// The number of all files.
    pub total: u64,
}

/// Consecutive files of one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    /// The block, by its place in the list of heads.
    block: usize,
    /// The part of the block; 0 is its head.
    part: i32,
    skip: u64,
    limit: u64,
}

impl Store {
    /// The files of a dataset after `skip` others, in the order of their blocks.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn files(&self, pid: &str, skip: u64, limit: u64, room: Room<'_>) -> Result<Files, Error> {
        let listed = doc! {"$ifNull": ["$dataFileList", []]};
        let stages = [
            doc! {"$match": {"datasetId": pid}},
            doc! {"$sort": {"_id": 1}},
            doc! {"$limit": BLOCKS_MAX},
            doc! {"$addFields": {"fileCount": {"$ifNull": ["$fileCount", {"$size": listed}]}}},
            doc! {"$project": {"dataFileList": 0}},
        ];
        let mut heads = room::read(self.blocks.aggregate(stages).max_time(READ_MAX).await?, room).await?;
        for head in heads.iter_mut().filter(|head| block::is_long(head) && !head.contains_key(PART_STARTS)) {
            self.find_starts(head).await?;
        }
        let mut files = Vec::new();
        for slice in slices(&heads, skip, limit) {
            let head = &heads[slice.block];
            files.extend(self.slice(head, slice, room).await?.into_iter().map(|file| (head.clone(), file)));
        }
        let total = heads.iter().map(|head| whole(head, "fileCount")).sum();
        Ok(Files { files, total })
    }

    /// Finds the first file of each part of a block whose head does not name them, and keeps them in the head.
    async fn find_starts(&self, head: &mut Document) -> Result<(), Error> {
        let id = head.get_str("_id").unwrap_or_default().to_owned();
        let own = lengths(&self.blocks, doc! {"_id": &id}).await?;
        let (mut starts, mut next) = (Vec::new(), own.iter().sum::<i64>());
        for files in lengths(&self.parts, of_block(&id)).await? {
            starts.push(next);
            next += files;
        }
        self.blocks.update_one(doc! {"_id": id}, doc! {"$set": {PART_STARTS: &starts}}).await?;
        head.insert(PART_STARTS, starts);
        Ok(())
    }

    async fn slice(&self, head: &Document, slice: Slice, room: Room<'_>) -> Result<Vec<Bson>, Error> {
        let id = head.get("_id").cloned();
        let (collection, filter) = match slice.part {
            0 => (&self.blocks, doc! {"_id": id}),
            part => (&self.parts, doc! {"_id": {"block": id, "part": part}}),
        };
        // The bounds of a page fit into 31 bits, and the files of a document do.
        let some = doc! {"$slice": [slice.skip as i32, slice.limit as i32]};
        let found = collection.find(filter).projection(doc! {"dataFileList": some}).max_time(READ_MAX);
        let mut found = room::read(found.await?, room).await?;
        let list = found.pop().and_then(|mut document| document.remove("dataFileList"));
        Ok(match list {
            Some(Bson::Array(files)) => files,
            _ => Vec::new(),
        })
    }
}

/// The number of files in each document, in the order of their keys.
async fn lengths(collection: &Collection<Document>, filter: Document) -> Result<Vec<i64>, Error> {
    let files = doc! {"$size": {"$ifNull": ["$dataFileList", []]}};
    let stages = [doc! {"$match": filter}, doc! {"$sort": {"_id": 1}}, doc! {"$project": {"files": files}}];
    let found: Vec<Document> = collection.aggregate(stages).max_time(READ_MAX).await?.try_collect().await?;
    Ok(found.iter().map(|document| whole(document, "files") as i64).collect())
}

/// The documents that hold a page of files, and the place of the page in each.
fn slices(heads: &[Document], skip: u64, limit: u64) -> Vec<Slice> {
    let (mut found, mut from, end) = (Vec::new(), 0, skip.saturating_add(limit));
    for (block, head) in heads.iter().enumerate() {
        let files = whole(head, "fileCount");
        let inner = head.get_array(PART_STARTS).into_iter().flatten().filter_map(Bson::as_i64);
        let starts: Vec<u64> = [0].into_iter().chain(inner.map(|start| start.max(0) as u64)).collect();
        let ends = starts.iter().skip(1).copied().chain([files]);
        for (part, (first, last)) in (0..).zip(starts.iter().copied().zip(ends)) {
            let (low, high) = (skip.max(from + first), end.min(from + last));
            if low < high {
                found.push(Slice { block, part, skip: low - from - first, limit: high - low });
            }
        }
        from += files;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_any_length_have_each_file_once_and_in_order() {
        let heads = [
            doc! {"fileCount": 3_i64},
            doc! {"fileCount": 0_i64},
            doc! {"fileCount": 10_i64, PART_STARTS: [4_i64, 9_i64]},
            doc! {"fileCount": 1_i64},
        ];
        let lengths = [vec![3], vec![0], vec![4, 5, 1], vec![1]];
        let mut all = Vec::new();
        for (block, parts) in lengths.iter().enumerate() {
            for (part, files) in (0..).zip(parts) {
                all.extend((0..*files).map(|file: u64| (block, part, file)));
            }
        }
        for limit in 1..=15 {
            for skip in 0..=15 {
                let slices = slices(&heads, skip, limit);
                let files = |it: &Slice| {
                    let (block, part) = (it.block, it.part);
                    (it.skip..it.skip + it.limit).map(move |file| (block, part, file)).collect::<Vec<_>>()
                };
                let page: Vec<_> = slices.iter().flat_map(files).collect();
                let expected: Vec<_> = all.iter().copied().skip(skip as usize).take(limit as usize).collect();
                assert_eq!(page, expected, "{skip} {limit}");
            }
        }
    }
}
