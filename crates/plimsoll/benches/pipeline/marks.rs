//! Observes how far a topic has arrived in a collection: searches some documents of each partition by their
//! `_id`.
//!
//! Counting a collection costs the server time that grows with it. Searching a few ids does not, and its cost
//! is the same for every writer that keeps the order of a partition.

use bson::{Bson, RawDocumentBuf, doc};
use plimsoll_kafka::topic::Extent;

use crate::Failure;
use crate::testbed::Store;

/// The number of marks of a partition: progress between two of them is invisible.
const MARKS: u64 = 64;

/// The id of a record's document, by its partition and offset.
pub(crate) type Name = Box<dyn Fn(u32, u64) -> Bson>;

/// The marks of a topic in a collection.
pub(crate) struct Marks {
    collection: &'static str,
    name: Name,
    partitions: Vec<Passed>,
}

/// The progress of a partition.
struct Passed {
    number: u32,
    /// The number of its records.
    records: u64,
    /// The number of found marks.
    marks: u64,
}

impl Passed {
    /// The number of records up to and including a mark.
    const fn until(&self, mark: u64) -> u64 {
        self.records * mark / MARKS
    }

    /// The offset of the record at the next mark that has a record. `None` after the last mark.
    fn next(&mut self) -> Option<u64> {
        while self.marks < MARKS && self.until(self.marks + 1) == 0 {
            self.marks += 1;
        }
        (self.marks < MARKS).then(|| self.until(self.marks + 1) - 1)
    }
}

impl Marks {
    /// The marks of a topic that begins at zero and has no gaps.
    pub(crate) fn of(extents: &[Extent], collection: &'static str, name: Name) -> Self {
        let passed = |extent: &Extent| Passed { number: extent.partition, records: extent.end, marks: 0 };
        Self { collection, name, partitions: extents.iter().map(passed).collect() }
    }

    /// The number of arrived records, as the marks show.
    pub(crate) fn look(&mut self, store: &mut Store) -> Result<u64, Failure> {
        while self.pass(store)? {}
        Ok(self.partitions.iter().map(|passed| passed.until(passed.marks)).sum())
    }

    /// Searches the next mark of each partition; returns whether one was found.
    fn pass(&mut self, store: &mut Store) -> Result<bool, Failure> {
        let next: Vec<Option<Bson>> = self
            .partitions
            .iter_mut()
            .map(|passed| passed.next().map(|offset| (self.name)(passed.number, offset)))
            .collect();
        let wanted: Vec<Bson> = next.iter().flatten().cloned().collect();
        if wanted.is_empty() {
            return Ok(false);
        }
        let find = doc! {
            "find": self.collection, "filter": {"_id": {"$in": wanted}}, "projection": {"_id": 1}, "limit": 64,
        };
        let reply = store.ask(&RawDocumentBuf::try_from(&find)?)?;
        let found = reply.get_document("cursor")?.get_array("firstBatch")?;
        let mut any = false;
        for document in found {
            let id: Bson = document?
                .as_document()
                .and_then(|document| document.get("_id").ok().flatten())
                .ok_or("a document without _id")?
                .try_into()?;
            let at = next.iter().position(|next| next.as_ref() == Some(&id)).ok_or("another document")?;
            self.partitions[at].marks += 1;
            any = true;
        }
        Ok(any)
    }
}
