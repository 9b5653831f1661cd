//! Finds the time range of a collection's documents, by the seconds in their ObjectIds and by every field with dates.

use bson::oid::ObjectId;
use bson::raw::RawBsonRef;
use bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, doc};
use plimsoll_measure::inspection::{Choice, Collection, Kind, Source, Times};
use plimsoll_wire::Error as WireError;

use super::inventory::Dates;
use super::query::{Inspector, first};
use crate::namespace::Namespace;
use crate::read::document;

/// The largest number of queried date fields; for further fields, only the inventory reports dates.
const FIELDS_MAX: usize = 16;
/// The field with the ObjectIds.
const ID: &str = "_id";

/// Finds the earliest and the latest date of the ids, and of every field in `dates`, which the inventory
/// found.
pub(super) async fn find(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    dates: &[Dates],
    seen: &mut Collection,
) -> Result<(), WireError> {
    let Some(inventory) = &seen.inventory else { return Ok(()) };
    let is_whole = inventory.choice == Choice::All;
    let has_ids =
        inventory.fields.iter().any(|field| field.path == ID && field.types.contains_key("objectId"));
    let mut times = Vec::new();
    if has_ids && seen.kind == Kind::Collection {
        times.extend(by_ids(asker, namespace).await?);
    }
    let asked = if is_whole { 0 } else { FIELDS_MAX };
    let asked: Vec<_> = dates.iter().filter(|dates| is_plain(&dates.path)).take(asked).collect();
    let (indexed, others): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|dates| has_index(seen, &dates.path));
    let mut found = Vec::new();
    for dates in indexed {
        found.extend(by_index(asker, namespace, &dates.path).await?);
    }
    found.extend(by_scan(asker, namespace, &others, seen).await?);
    let known = if is_whole { Source::Scan } else { Source::Inventory };
    times.extend(dates.iter().map(|dates| {
        let better = found.iter().find(|times: &&Times| times.path == dates.path).cloned();
        better.unwrap_or_else(|| self::times(&dates.path, (dates.first_ms, dates.last_ms), known))
    }));
    seen.times = times;
    Ok(())
}

/// Whether an aggregation can address the field: no array encloses it, and no part of its name is an operator.
fn is_plain(path: &str) -> bool {
    !path.contains("[]") && path.split('.').all(|name| !name.is_empty() && !name.starts_with('$'))
}

/// Whether an index holds all documents in the order of the field.
fn has_index(seen: &Collection, path: &str) -> bool {
    let quoted = Bson::from(path).into_relaxed_extjson().to_string();
    let [up, down] = ["1", "-1"].map(|order| format!("{{{quoted}:{order}"));
    let leads = |keys: &str| {
        [&up, &down].iter().any(|start| {
            keys.strip_prefix(start.as_str()).is_some_and(|rest| rest.starts_with([',', '}', '.']))
        })
    };
    let indexes = seen.indexes.iter().flatten();
    let mut whole = indexes.filter(|index| index.partial.is_none() && !index.sparse && !index.hidden);
    whole.any(|index| leads(&index.keys))
}

/// The time range by the first and the last ObjectId.
async fn by_ids(asker: &mut Inspector<'_>, namespace: &Namespace) -> Result<Option<Times>, WireError> {
    let moment = |document: &RawDocument| {
        let id: Option<ObjectId> = document.get_object_id(ID).ok();
        id.map(|id| id.timestamp().timestamp_millis())
    };
    let ends = ends(asker, namespace, ID, "objectId").await?;
    let ends = ends.and_then(|[first, last]| Some((moment(&first)?, moment(&last)?)));
    Ok(ends.map(|ends| times(ID, ends, Source::Index)))
}

async fn by_index(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    path: &str,
) -> Result<Option<Times>, WireError> {
    let moment = |document: &RawDocument| match inside(document, path)? {
        RawBsonRef::DateTime(at) => Some(at.timestamp_millis()),
        _ => None,
    };
    let ends = ends(asker, namespace, path, "date").await?;
    let ends = ends.and_then(|[first, last]| Some((moment(&first)?, moment(&last)?)));
    Ok(ends.map(|ends| times(path, ends, Source::Index)))
}

/// The first and the last document in the order of a field, among documents with this type in the field.
async fn ends(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    path: &str,
    of_type: &str,
) -> Result<Option<[RawDocumentBuf; 2]>, WireError> {
    let mut ends = [None, None];
    for (end, order) in ends.iter_mut().zip([1, -1]) {
        let find = doc! {
            "find": namespace.collection.as_str(), "filter": one(path, doc! {"$type": of_type}),
            "sort": one(path, order), "projection": one(path, 1), "limit": 1, "singleBatch": true,
        };
        *end = asker.ask(&namespace.db, find).await?.ok().and_then(|reply| first(&reply));
    }
    let [first, last] = ends;
    Ok(first.zip(last).map(|(first, last)| [first, last]))
}

fn one(key: &str, value: impl Into<Bson>) -> Document {
    let mut document = Document::new();
    document.insert(key, value);
    document
}

/// The value at a dotted path through documents.
fn inside<'a>(within: &'a RawDocument, path: &str) -> Option<RawBsonRef<'a>> {
    let mut names = path.split('.');
    let last = names.next_back()?;
    let inner = names.try_fold(within, document)?;
    inner.get(last).ok()?
}

/// The time range of all fields, in one scan of the collection, without values inside arrays.
async fn by_scan(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    dates: &[&Dates],
    seen: &mut Collection,
) -> Result<Vec<Times>, WireError> {
    if dates.is_empty() {
        return Ok(Vec::new());
    }
    let mut group = doc! {"_id": 1};
    for (index, dates) in dates.iter().enumerate() {
        let path = format!("${}", dates.path);
        let is_date = doc! {"$eq": [{"$type": &path}, "date"]};
        let date = doc! {"$cond": [is_date, &path, Bson::Null]};
        group.insert(format!("first{index}"), doc! {"$min": date.clone()});
        group.insert(format!("last{index}"), doc! {"$max": date});
    }
    let request =
        doc! {"aggregate": namespace.collection.as_str(), "pipeline": [{"$group": group}], "cursor": {}};
    match asker.scan(&namespace.db, request).await? {
        Ok(reply) => Ok(first(&reply).map(|group| scanned(&group, dates)).unwrap_or_default()),
        Err(refusal) => {
            let reason = refusal.reason();
            seen.notes.push(format!("dates without an index come from the sample: {reason}"));
            Ok(Vec::new())
        }
    }
}

fn scanned(group: &RawDocument, dates: &[&Dates]) -> Vec<Times> {
    let moment = |key: String| group.get_datetime(key).ok().map(DateTime::timestamp_millis);
    let field = |(index, dates): (usize, &&Dates)| {
        let ends = (moment(format!("first{index}"))?, moment(format!("last{index}"))?);
        Some(times(&dates.path, ends, Source::Scan))
    };
    dates.iter().enumerate().filter_map(field).collect()
}

fn times(path: &str, (first_ms, last_ms): (i64, i64), source: Source) -> Times {
    Times {
        path: path.to_owned(),
        first: utc(first_ms),
        last: utc(last_ms),
        span_s: (last_ms as f64 - first_ms as f64) / 1e3,
        source,
    }
}

/// A time in UTC, or in milliseconds if UTC cannot express it.
fn utc(ms: i64) -> String {
    DateTime::from_millis(ms).try_to_rfc3339_string().unwrap_or_else(|_| format!("{ms} ms after 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;
    use plimsoll_measure::inspection::Index;

    #[test]
    fn an_index_that_starts_with_the_field_and_holds_all_documents_gives_the_ends() {
        let has = |keys: &str, sparse| {
            let index = Index { keys: keys.into(), sparse, ..Index::default() };
            has_index(&Collection { indexes: Some(vec![index]), ..Collection::default() }, "at")
        };
        assert!(has(r#"{"at":1}"#, false) && has(r#"{"at":-1,"n":1}"#, false) && has(r#"{"at":1.0}"#, false));
        assert!(
            !has(r#"{"n":1,"at":1}"#, false) && !has(r#"{"attic":1}"#, false) && !has(r#"{"at":1}"#, true)
        );
        assert!(!has(r#"{"at":"hashed"}"#, false));
    }

    #[test]
    fn times_are_written_in_utc_and_the_span_in_seconds() {
        let found = times("at", (1_774_197_360_000, 1_774_197_960_500), Source::Scan);
        assert_eq!(found.first, "2026-03-22T16:36:00Z");
        assert_eq!((found.last.as_str(), found.span_s), ("2026-03-22T16:46:00.5Z", 600.5));
        assert!(times("at", (i64::MIN, i64::MAX), Source::Scan).first.ends_with("ms after 1970"));
    }

    #[test]
    fn a_value_is_found_at_its_path() {
        let document = rawdoc! {"a": {"b": 5}, "c": [1]};
        assert_eq!(inside(&document, "a.b"), Some(RawBsonRef::Int32(5)));
        assert_eq!((inside(&document, "c.b"), inside(&document, "x")), (None, None));
        assert!(is_plain("a.b") && !is_plain("a[].b") && !is_plain("a..b") && !is_plain("a.$b"));
    }
}
