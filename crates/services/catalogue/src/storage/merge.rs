//! Lists the datasets of a user in the order of an index.
//!
//! The access of a user is a choice (`$or`) of several conditions, for which a server sorts all documents that any of them admits. Here each
//! condition lists its keys in the order of its index, and the lists are merged. Only the documents of the page are read.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

use bson::{Bson, DateTime, Document, doc};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::newest::names;
use super::{Error, Room, Store, room};
use crate::documents::search::shown;
use crate::query::under;

/// The maximum number of conditions of an access that is merged. The server sorts the list of an access with more.
const BRANCHES_MAX: usize = 64;
/// The lists that a request reads at once.
const LISTS_MAX: usize = 8;
/// The lists that all requests read at once. The pool of connections is larger.
pub(super) const ALL_LISTS_MAX: usize = 32;
/// The maximum number of keys of each list.
const KEYS_MAX: u64 = 1_000;

/// The place of a dataset in a list by date, newest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// `None`, the oldest, for a dataset without the date.
    at: Option<DateTime>,
    id: String,
}

/// A page of a list by date.
#[derive(Clone, Debug)]
pub(super) struct Merge<'a> {
    pub(super) access: &'a Document,
    pub(super) client: &'a Document,
    /// The field of the date.
    pub(super) field: &'a str,
    pub(super) skip: u64,
    pub(super) limit: u64,
    pub(super) max_time: Duration,
}

/// A page before its documents are complete.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) documents: Vec<Document>,
    /// The place of its last key, if the page is full.
    pub(super) last: Option<Document>,
}

impl Merge<'_> {
    /// The conditions of the access, of which each dataset meets one or more. `None` if the server should sort the list. `asked` is the
    /// client's part without the condition of a cursor.
    pub(super) fn branches(&self, asked: &Document) -> Option<Vec<Document>> {
        if self.skip + self.limit > KEYS_MAX || names(asked, "_id") {
            return None;
        }
        let choices = self.access.get_array("$or").ok().filter(|_| self.access.len() == 1)?;
        let branches: Vec<Document> = choices.iter().filter_map(Bson::as_document).flat_map(split).collect();
        (2..=BRANCHES_MAX).contains(&branches.len()).then_some(branches)
    }

    /// Reads the page.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub(super) async fn read(
        &self,
        store: &Store,
        branches: &[Document],
        projection: Option<&Document>,
        room: Room<'_>,
    ) -> Result<Merged, Error> {
        let lists: Vec<_> = branches.iter().map(|branch| self.keys(store, branch, room)).collect();
        let keys: Vec<Vec<Key>> = stream::iter(lists).buffered(LISTS_MAX).try_collect().await?;
        let page = page(keys.into_iter().flatten().collect(), self.skip, self.limit);
        let last = page.last().filter(|_| page.len() as u64 == self.limit);
        let last = last.map(|key| doc! {"_id": &key.id, self.field: key.at});
        let ids: Vec<&str> = page.iter().map(|key| key.id.as_str()).collect();
        // The access is checked again: it may have changed since the keys were read.
        let filter = doc! {"$and": [{"_id": {"$in": &ids}}, under(self.access, self.client)]};
        let request = store.datasets.find(filter).projection(shown(projection)).max_time(self.max_time);
        let mut documents = room::read(request.await?, room).await?;
        let place =
            |document: &Document| ids.iter().position(|id| document.get_str("_id").is_ok_and(|it| it == *id));
        documents.sort_by_cached_key(place);
        Ok(Merged { documents, last })
    }

    /// The first keys of one condition, in the order of its index.
    async fn keys(&self, store: &Store, branch: &Document, room: Room<'_>) -> Result<Vec<Key>, Error> {
        // The semaphore is never closed.
        let _permit = store.lists.acquire().await;
        let found = store.datasets.find(under(branch, self.client)).sort(doc! {self.field: -1, "_id": -1});
        // The bound of the keys fits into 63 bits.
        let found = found.limit((self.skip + self.limit) as i64).projection(doc! {"_id": 1, self.field: 1});
        let found = room::read(found.max_time(self.max_time).await?, room).await?;
        let key = |document: &Document| {
            let at = document.get_datetime(self.field).ok().copied();
            Some(Key { at, id: document.get_str("_id").ok()?.to_owned() })
        };
        Ok(found.iter().filter_map(key).collect())
    }
}

/// Makes one condition for each value of an `$in`: the index is in order for each value alone.
fn split(condition: &Document) -> Vec<Document> {
    let values = condition.iter().next().and_then(|(name, test)| {
        Some((name, test.as_document()?.get_array("$in").ok()?)).filter(|_| condition.len() == 1)
    });
    match values {
        Some((name, values)) => values.iter().map(|value| doc! {name: value}).collect(),
        None => vec![condition.clone()],
    }
}

/// The keys of a page: each once, the newest first.
fn page(mut keys: Vec<Key>, skip: u64, limit: u64) -> Vec<Key> {
    let mut seen = HashSet::new();
    keys.retain(|key| seen.insert(key.id.clone()));
    keys.sort_by(|one, other| Reverse(one).cmp(&Reverse(other)));
    keys.into_iter().skip(skip as usize).take(limit as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge<'a>(access: &'a Document, client: &'a Document, skip: u64) -> Merge<'a> {
        Merge { access, client, field: "createdAt", skip, limit: 25, max_time: Duration::MAX }
    }

    #[test]
    fn an_access_is_split_into_conditions_on_one_value() {
        let access =
            doc! {"$or": [{"isPublished": true}, {"ownerGroup": {"$in": ["a", "b"]}}, {"sharedWith": "x"}]};
        let branches = merge(&access, &doc! {}, 0).branches(&doc! {}).unwrap();
        let expected = [
            doc! {"isPublished": true},
            doc! {"ownerGroup": "a"},
            doc! {"ownerGroup": "b"},
            doc! {"sharedWith": "x"},
        ];
        assert_eq!(branches, expected);
    }

    #[test]
    fn other_lists_are_left_to_the_server() {
        let user = doc! {"$or": [{"isPublished": true}, {"ownerGroup": {"$in": ["a"]}}]};
        assert!(merge(&user, &doc! {}, 0).branches(&doc! {"type": "raw"}).is_some());
        for client in [doc! {"_id": "p"}, doc! {"$and": [{"type": "raw"}, {"$or": [{"_id": "p"}]}]}] {
            assert_eq!(merge(&user, &client, 0).branches(&client), None, "a key is found at once");
        }
        assert_eq!(merge(&user, &doc! {}, KEYS_MAX).branches(&doc! {}), None);
        for access in [doc! {}, doc! {"isPublished": true}, doc! {"$or": [{"isPublished": true}]}] {
            assert_eq!(merge(&access, &doc! {}, 0).branches(&doc! {}), None);
        }
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        assert_eq!(
            merge(&doc! {"$or": [{"ownerGroup": {"$in": many}}]}, &doc! {}, 0).branches(&doc! {}),
            None
        );
    }

    #[test]
    fn a_page_has_each_key_once_and_the_newest_first() {
        let key = |ms: i64, id: &str| Key { at: (ms > 0).then(|| DateTime::from_millis(ms)), id: id.into() };
        let keys = vec![key(1, "a"), key(3, "c"), key(2, "b"), key(3, "c"), key(3, "d")];
        assert_eq!(page(keys.clone(), 0, 3), [key(3, "d"), key(3, "c"), key(2, "b")]);
        assert_eq!(page(keys.clone(), 3, 3), [key(1, "a")]);
        let dateless = page([keys, vec![key(0, "z")]].concat(), 3, 3);
        assert_eq!(dateless, [key(1, "a"), key(0, "z")]);
    }
}
