//! How far a topic has come into a collection, seen from outside: some documents of each partition are looked for by their `_id`.
//!
//! To count a collection costs a server time that grows with it. A look at a few names does not, and it is the same for every
//! writer that takes a partition in order.

use bson::{Bson, RawDocumentBuf, doc};
use plimsoll_kafka::topic::Extent;

use crate::Failure;
use crate::place::Store;

/// Marks of a partition: what is between two of them is not seen.
const MARKS: u64 = 64;

/// What a record's document is called, by its partition and offset.
pub(crate) type Name = Box<dyn Fn(u32, u64) -> Bson>;

/// The marks of a topic in a collection.
pub(crate) struct Marks {
    collection: &'static str,
    name: Name,
    partitions: Vec<Passed>,
}

/// How far a partition has come.
struct Passed {
    number: u32,
    /// Records of it.
    records: u64,
    /// Marks that were seen.
    marks: u64,
}

impl Passed {
    /// Records up to a mark, that one included.
    const fn until(&self, mark: u64) -> u64 {
        self.records * mark / MARKS
    }

    /// The record at the next mark that holds any.
    fn next(&mut self) -> Option<u64> {
        while self.marks < MARKS && self.until(self.marks + 1) == 0 {
            self.marks += 1;
        }
        (self.marks < MARKS).then(|| self.until(self.marks + 1) - 1)
    }
}

impl Marks {
    /// Those of a topic that begins at zero and has no holes.
    pub(crate) fn of(extents: &[Extent], collection: &'static str, name: Name) -> Self {
        let passed = |extent: &Extent| Passed { number: extent.partition, records: extent.end, marks: 0 };
        Self { collection, name, partitions: extents.iter().map(passed).collect() }
    }

    /// How many records have come, as far as the marks tell.
    pub(crate) fn look(&mut self, store: &mut Store) -> Result<u64, Failure> {
        while self.pass(store)? {}
        Ok(self.partitions.iter().map(|passed| passed.until(passed.marks)).sum())
    }

    /// Asks for the next mark of each partition; says whether one was there.
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
