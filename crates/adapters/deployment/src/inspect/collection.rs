//! Inspects one collection: its documents, its size, its indexes and its fields.

use bson::{RawDocument, RawDocumentBuf, doc};
use plimsoll_measure::inspection::{Collection, Counting, Index, Kind, Reported, Size};
use plimsoll_wire::Error as WireError;

use super::catalogue::Entry;
use super::query::{CursorLimits, Inspector, counted};
use super::samples::{self, Reading};
use super::{Error, SAMPLES_MAX, Wanted, forbidden, json, times};
use crate::namespace::Namespace;
use crate::read::{count, document, flag, seconds, text};

/// The largest number of indexes in a collection; MongoDB allows 64.
const INDEXES: CursorLimits = CursorLimits { documents: 1000, bytes: 16 << 20 };

/// Inspects the cheap part, and reads the first document.
pub(super) async fn brief(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    entry: &Entry,
) -> Result<Collection, Error> {
    let mut seen = outside(asker, namespace, entry).await?;
    if seen.exists && seen.kind == Kind::Collection {
        samples::keep(asker, namespace, 1, Vec::new(), &mut seen).await?;
    }
    Ok(seen)
}

/// The full inspection.
pub(super) async fn look(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    entry: &Entry,
    wanted: &Wanted,
) -> Result<Collection, Error> {
    let mut seen = outside(asker, namespace, entry).await?;
    count_all(asker, namespace, &mut seen).await?;
    let Reading { choice, fields, watch, some } =
        samples::read(asker, namespace, &wanted.forbidden, &mut seen).await?;
    samples::keep(asker, namespace, wanted.samples.min(SAMPLES_MAX), some, &mut seen).await?;
    seen.inventory = choice.map(|choice| fields.finish(choice));
    times::find(asker, namespace, &fields.dates(), &mut seen).await?;
    seen.forbidden = watch.finish(choice);
    let notes = forbidden::count(asker, namespace, &mut seen.forbidden).await?;
    seen.notes.extend(notes);
    Ok(seen)
}

/// The facts that need no reading of documents.
pub(super) async fn outside(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    entry: &Entry,
) -> Result<Collection, WireError> {
    let mut seen = Collection {
        namespace: namespace.to_string(),
        exists: true,
        kind: entry.kind,
        options: entry.options.clone(),
        ..Collection::default()
    };
    if entry.kind == Kind::View {
        return Ok(seen);
    }
    let name = namespace.collection.as_str();
    let stats = match asker.ask(&namespace.db, doc! {"collStats": name}).await? {
        Ok(stats) => stats,
        Err(refusal) => {
            seen.notes.push(format!("its size is not reported: {}", refusal.reason()));
            RawDocumentBuf::new()
        }
    };
    let said = sizes(&stats);
    seen.size = Size::of(&said);
    if let Some(documents) = estimate(asker, namespace, &said).await? {
        (seen.documents, seen.counting) = (Some(documents), Counting::Estimated);
    }
    list_indexes(asker, namespace, &stats, &mut seen).await?;
    Ok(seen)
}

/// Reads the sizes in an answer to `collStats`.
pub(crate) fn sizes(stats: &RawDocument) -> Reported {
    Reported {
        documents: count(stats, "count"),
        data_bytes: count(stats, "size"),
        storage_bytes: count(stats, "storageSize"),
        free_bytes: count(stats, "freeStorageSize"),
        index_bytes: count(stats, "totalIndexSize"),
    }
}

/// Counts documents by the metadata.
async fn estimate(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    said: &Reported,
) -> Result<Option<u64>, WireError> {
    if said.documents.is_some() {
        return Ok(said.documents);
    }
    let reply = asker.scan(&namespace.db, doc! {"count": namespace.collection.as_str()}).await?;
    Ok(reply.ok().and_then(|reply| count(&reply, "n")))
}

/// Counts each document, if the time for scans suffices.
async fn count_all(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    seen: &mut Collection,
) -> Result<(), WireError> {
    let pipeline = [doc! {"$match": {}}, doc! {"$group": {"_id": 1, "n": {"$sum": 1}}}];
    let request = doc! {
        "aggregate": namespace.collection.as_str(), "pipeline": pipeline.to_vec(), "cursor": {},
    };
    let answer = asker.scan(&namespace.db, request).await?;
    match answer.and_then(|reply| counted(&reply)) {
        Ok(documents) => (seen.documents, seen.counting) = (Some(documents), Counting::Counted),
        Err(refusal) => seen.notes.push(format!("its documents were not counted: {}", refusal.reason())),
    }
    Ok(())
}

/// The indexes, each with its size if `stats` report it.
async fn list_indexes(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    stats: &RawDocument,
    seen: &mut Collection,
) -> Result<(), WireError> {
    let answer = asker.ask(&namespace.db, doc! {"listIndexes": namespace.collection.as_str()}).await?;
    match asker.rest(&namespace.db, answer, INDEXES).await? {
        Ok(found) => {
            seen.notes.extend(found.end.note("the list of its indexes"));
            let index_sizes = document(stats, "indexSizes").filter(|_| sizes(stats).knows_disk());
            seen.indexes = Some(found.documents.iter().map(|said| index(said, index_sizes)).collect());
        }
        Err(refusal) if refusal.is_missing() => *seen = Collection::missing(&seen.namespace),
        Err(refusal) => seen.notes.push(format!("its indexes are not reported: {}", refusal.reason())),
    }
    Ok(())
}

fn index(said: &RawDocument, sizes: Option<&RawDocument>) -> Index {
    let name = text(said, "name").unwrap_or_default();
    Index {
        keys: document(said, "key").map(json::text).unwrap_or_default(),
        unique: flag(said, "unique"),
        sparse: flag(said, "sparse"),
        hidden: flag(said, "hidden"),
        expire_after_s: seconds(said, "expireAfterSeconds"),
        partial: document(said, "partialFilterExpression").map(json::text),
        bytes: sizes.and_then(|sizes| count(sizes, &name)),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn an_index_is_read_with_its_size() {
        let said = rawdoc! {
            "v": 2, "key": {"at": -1}, "name": "at_-1", "unique": true, "expireAfterSeconds": 60,
            "partialFilterExpression": {"n": {"$gt": 5}},
        };
        let read = index(&said, Some(&rawdoc! {"at_-1": 4096_i64}));
        assert_eq!((read.name.as_str(), read.keys.as_str()), ("at_-1", r#"{"at":-1}"#));
        assert_eq!((read.unique, read.sparse, read.expire_after_s), (true, false, Some(60.0)));
        assert_eq!((read.partial.as_deref(), read.bytes), (Some(r#"{"n":{"$gt":5}}"#), Some(4096)));
        assert_eq!(index(&said, None).bytes, None);
    }
}
