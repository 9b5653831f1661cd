//! Finds the shard that owns a document, by the shard key and the chunks of its collection.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bson::{Bson, Document, RawDocument};
use plimsoll_measure::random::{FNV_BASIS, fnv1a, mix};

/// The sharded collections, by namespace. All routers of a cluster share them.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    pub collections: BTreeMap<String, Sharded>,
}

/// A sharded collection.
#[derive(Debug)]
pub(super) struct Sharded {
    /// The fields of the shard key.
    fields: Vec<String>,
    is_hashed: bool,
    /// The chunks in order; the first begins below all values. A hashed key has no chunks: the hash selects
    /// the shard.
    chunks: Vec<Chunk>,
    /// The keys of single documents that moved, with their shards.
    moved: Vec<(Vec<Bson>, usize)>,
}

#[derive(Debug)]
struct Chunk {
    /// The lowest value of the key; none for the first chunk.
    from: Option<Vec<Bson>>,
    shard: usize,
}

impl Sharded {
    /// A collection with a key such as `{_id: 1}` or `{_id: "hashed"}`. With a ranged key, all documents are
    /// on the first shard.
    pub fn new(key: &Document) -> Self {
        let is_hashed = key.values().any(|value| value.as_str() == Some("hashed"));
        Self {
            fields: key.keys().cloned().collect(),
            is_hashed,
            chunks: vec![Chunk { from: None, shard: 0 }],
            moved: Vec::new(),
        }
    }

    /// The shard of a document among `shards`.
    pub fn owner(&self, document: &RawDocument, shards: usize) -> usize {
        self.owner_of(&self.key_in(document), shards)
    }

    /// The values of the shard key. Missing fields count as null.
    fn key_in(&self, document: &RawDocument) -> Vec<Bson> {
        let value = |field: &String| {
            let value = document.get(field).ok().flatten().and_then(|value| Bson::try_from(value).ok());
            value.unwrap_or(Bson::Null)
        };
        self.fields.iter().map(value).collect()
    }

    /// Assigns all documents with the key of `document` to a shard.
    pub fn move_document(&mut self, document: &RawDocument, shard: usize) {
        let key = self.key_in(document);
        self.moved.retain(|(moved, _)| *moved != key);
        self.moved.push((key, shard));
    }

    /// Whether a document has every field of the shard key.
    pub fn has_key(&self, document: &RawDocument) -> bool {
        self.fields.iter().all(|field| matches!(document.get(field), Ok(Some(_))))
    }

    fn owner_of(&self, key: &[Bson], shards: usize) -> usize {
        if let Some((_, shard)) = self.moved.iter().find(|(moved, _)| moved == key) {
            return *shard;
        }
        if self.is_hashed {
            return (hash(key) % shards as u64) as usize;
        }
        self.chunks[self.chunk_of(key)].shard
    }

    fn chunk_of(&self, key: &[Bson]) -> usize {
        let begins_above =
            |chunk: &Chunk| chunk.from.as_ref().is_some_and(|from| compare(from, key) == Ordering::Greater);
        self.chunks.partition_point(|chunk| !begins_above(chunk)) - 1
    }

    /// The shards that may hold documents of a filter: one shard for a whole key, the shards of a range over
    /// a single field, else all.
    pub fn targets(&self, filter: &RawDocument, shards: usize) -> Vec<usize> {
        let given: Option<Vec<Bson>> = self.fields.iter().map(|field| equality(filter, field)).collect();
        if let Some(key) = given {
            return vec![self.owner_of(&key, shards)];
        }
        match (self.is_hashed, self.fields.as_slice()) {
            (false, [field]) => self.in_range(filter.get_document(field).ok()),
            (false, _) => self.in_range(None),
            (true, _) => (0..shards).collect(),
        }
    }

    /// The shards of the chunks between the bounds of a range.
    fn in_range(&self, range: Option<&RawDocument>) -> Vec<usize> {
        let bound = |names: [&str; 2]| {
            let value = names.iter().find_map(|name| range?.get(*name).ok().flatten())?;
            Some(vec![Bson::try_from(value).ok()?])
        };
        let first = bound(["$gte", "$gt"]).map_or(0, |key| self.chunk_of(&key));
        let last = bound(["$lte", "$lt"]).map_or(self.chunks.len() - 1, |key| self.chunk_of(&key));
        let chunks = self.chunks.get(first..=last).unwrap_or_default();
        let mut shards: Vec<usize> = chunks.iter().map(|chunk| chunk.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    /// Splits the chunk that holds a key; the new chunk begins at the key.
    pub fn split(&mut self, middle: &Document) {
        let key = self.key_of(middle);
        let chunk = self.chunk_of(&key);
        if self.chunks[chunk].from.as_ref() != Some(&key) {
            let shard = self.chunks[chunk].shard;
            self.chunks.insert(chunk + 1, Chunk { from: Some(key), shard });
        }
    }

    /// Assigns the chunk that holds a key to a shard.
    pub fn assign(&mut self, find: &Document, shard: usize) {
        let chunk = self.chunk_of(&self.key_of(find));
        self.chunks[chunk].shard = shard;
    }

    fn key_of(&self, document: &Document) -> Vec<Bson> {
        self.fields.iter().map(|field| document.get(field).cloned().unwrap_or(Bson::Null)).collect()
    }
}

/// The value that a filter demands of a field: `{field: value}` or `{field: {$eq: value}}`.
fn equality(filter: &RawDocument, field: &str) -> Option<Bson> {
    let value = Bson::try_from(filter.get(field).ok()??).ok()?;
    match &value {
        Bson::Document(inner) if inner.keys().any(|key| key.starts_with('$')) => inner.get("$eq").cloned(),
        _ => Some(value),
    }
}

/// A hash of the key's bytes. It is not MongoDB's hash, but distributes keys as evenly.
fn hash(key: &[Bson]) -> u64 {
    let bytes = bson::doc! { "key": key }.to_vec().unwrap_or_default();
    mix(fnv1a(FNV_BASIS, &bytes))
}

fn compare(first: &[Bson], second: &[Bson]) -> Ordering {
    let pairs = first.iter().zip(second).map(|(first, second)| compare_values(first, second));
    pairs.fold(Ordering::Equal, Ordering::then).then(first.len().cmp(&second.len()))
}

/// The order of MongoDB for the types of shard keys in tests: null, numbers, texts, ObjectIds; then all others, by their text.
fn compare_values(first: &Bson, second: &Bson) -> Ordering {
    let number = |value: &Bson| match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        _ => None,
    };
    let rank = |value: &Bson| match value {
        Bson::Null => 0,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) => 1,
        Bson::String(_) => 2,
        Bson::ObjectId(_) => 3,
        _ => 4,
    };
    match (first, second) {
        (Bson::String(first), Bson::String(second)) => first.cmp(second),
        (Bson::ObjectId(first), Bson::ObjectId(second)) => first.bytes().cmp(&second.bytes()),
        _ => match (number(first), number(second)) {
            (Some(first), Some(second)) => first.total_cmp(&second),
            _ => rank(first).cmp(&rank(second)).then_with(|| first.to_string().cmp(&second.to_string())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{doc, rawdoc};

    /// Texts from "g" are on shard 1, those from "p" on shard 2.
    fn by_customer() -> Sharded {
        let mut sharded = Sharded::new(&doc! {"customer": 1});
        sharded.split(&doc! {"customer": "p"});
        sharded.split(&doc! {"customer": "g"});
        sharded.assign(&doc! {"customer": "g"}, 1);
        sharded.assign(&doc! {"customer": "z"}, 2);
        sharded
    }

    #[test]
    fn a_document_belongs_to_the_chunk_that_holds_its_key() {
        let sharded = by_customer();
        for (customer, shard) in [("a", 0), ("g", 1), ("o", 1), ("p", 2), ("zz", 2)] {
            assert_eq!(sharded.owner(&rawdoc! {"_id": 1, "customer": customer}, 3), shard, "{customer}");
        }
        assert_eq!(sharded.owner(&rawdoc! {"_id": 1}, 3), 0, "a missing field is below all texts");
    }

    #[test]
    fn a_filter_selects_the_shards_of_its_keys() {
        let sharded = by_customer();
        let targets = |filter: &RawDocument| sharded.targets(filter, 3);
        assert_eq!(targets(&rawdoc! {"customer": "h", "x": 1}), [1]);
        assert_eq!(targets(&rawdoc! {"customer": {"$eq": "q"}}), [2]);
        assert_eq!(targets(&rawdoc! {"customer": {"$gte": "a", "$lt": "h"}}), [0, 1]);
        assert_eq!(targets(&rawdoc! {"customer": {"$gte": "h"}}), [1, 2]);
        assert_eq!(targets(&rawdoc! {"x": 1}), [0, 1, 2]);
    }

    #[test]
    fn a_hashed_key_spreads_documents_and_is_targeted_only_by_equality() {
        let sharded = Sharded::new(&doc! {"_id": "hashed"});
        let mut counts = [0; 2];
        (0..1000).for_each(|id| counts[sharded.owner(&rawdoc! {"_id": id}, 2)] += 1);
        assert!(counts.iter().all(|count| (400..=600).contains(count)), "{counts:?}");
        assert_eq!(sharded.targets(&rawdoc! {"_id": 7}, 2), [sharded.owner(&rawdoc! {"_id": 7}, 2)]);
        assert_eq!(sharded.targets(&rawdoc! {"_id": {"$gt": 7}}, 2), [0, 1]);
    }
}
