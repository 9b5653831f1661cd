//! Returns a collection batch by batch.

use super::collection::{self, Collection};
use super::filter::Filter;
use crate::serve::reply::Batch;

/// The limit of document bytes in one batch, as in MongoDB.
const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The state of an open cursor.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    pub(crate) namespace: String,
    pub(crate) filter: Filter,
    /// The number of documents that may still be returned.
    pub(crate) left: u64,
    next: usize,
    /// The index of the scan, if the client chose one.
    pub(crate) hint: Option<String>,
    /// Whether only `_id` is returned.
    pub(crate) only_id: bool,
}

impl Cursor {
    pub(crate) fn new(namespace: String, filter: Filter, left: u64) -> Self {
        Cursor { namespace, filter, left, next: 0, hint: None, only_id: false }
    }

    /// Adds at most `count_max` documents to a batch; true if more remain.
    pub(crate) fn fill(&mut self, collection: &Collection, count_max: u64, batch: &mut Batch<'_>) -> bool {
        let mut room = count_max.min(self.left);
        if let Filter::Key(key) = &self.filter {
            self.next = self.next.max(collection.position(key).unwrap_or(collection.len()));
        }
        while let Some(document) = collection.get(self.next) {
            let is_indexed = self.hint.as_deref().is_none_or(|name| collection.is_indexed(name, self.next));
            if is_indexed && self.filter.matches(document) {
                let full = batch.count() > 0 && batch.len_bytes() + document.len() > BATCH_BYTES_MAX;
                if room == 0 || full {
                    return self.left > 0;
                }
                match self.only_id {
                    true => batch.push(&collection::only_id(document)),
                    false => batch.push(document),
                }
                room -= 1;
                self.left -= 1;
            }
            self.next += 1;
            if matches!(self.filter, Filter::Key(_)) {
                self.next = collection.len();
            }
        }
        false
    }
}
