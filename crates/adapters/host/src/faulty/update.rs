//! Executes `update` by `_id`: a replacement, or operators on integers, lists and whole fields.

use bson::{Bson, Document, RawDocument, RawDocumentBuf, rawdoc};

use super::filter::Filter;
use super::store::Store;
use crate::serve::{Request, reply};

/// MongoDB's error code for a write concern that is not fulfilled.
pub(super) const WRITE_CONCERN_FAILED: i32 = 64;

/// Why an update is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused(&'static str);

pub(crate) fn update(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let namespace = request.namespace().to_string();
    let (mut count, mut in_doubt) = (0, false);
    for statement in request.documents("updates") {
        match update_one(store, (&namespace, request.connection), statement) {
            Ok(matched) => {
                count += usize::from(matched);
                in_doubt |= matched && store.doubts_last_update();
            }
            Err(refused) => return refuse(refused, out),
        }
    }
    if in_doubt { modified_in_doubt(out, count) } else { reply::modified(out, count) }
}

/// Answers that an update is refused.
pub(super) fn refuse(Refused(what): Refused, out: &mut Vec<u8>) {
    let message = format!("the faulty server does not support {what}: it updates one document by _id");
    reply::error(out, 238, "NotImplemented", &message);
}

/// The number of documents that a statement would update.
pub(super) fn matched(store: &Store, namespace: &str, statement: &RawDocument) -> Result<usize, Refused> {
    let filter = statement.get_document("q").ok().and_then(|filter| Filter::parse(filter).ok());
    let Some(Filter::Key(key)) = filter else { return Err(Refused("this filter in a transaction")) };
    let Some(stored) = store.document(namespace, &key) else { return Ok(0) };
    let update = statement.get_document("u").map_err(|_| Refused("this form of update"))?;
    changed(stored, update).map(|_| 1)
}

/// Executes a statement that [`matched`] accepted. A document that is gone is not updated.
pub(super) fn execute(store: &mut Store, place: (&str, u64), statement: &[u8]) {
    if let Ok(statement) = RawDocument::from_bytes(statement) {
        update_one(store, place, statement).unwrap_or_default();
    }
}

/// Answers that the updates were applied, and that their write concern failed.
fn modified_in_doubt(out: &mut Vec<u8>, count: usize) {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let error = rawdoc! {"code": WRITE_CONCERN_FAILED, "errmsg": "waiting for replication timed out"};
    reply::append(out, &rawdoc! {"n": count, "nModified": count, "writeConcernError": error, "ok": 1.0});
}

/// Executes one statement; true if a document matched.
fn update_one(
    store: &mut Store,
    (namespace, connection): (&str, u64),
    statement: &RawDocument,
) -> Result<bool, Refused> {
    let filter = statement.get_document("q").ok().and_then(|filter| Filter::parse(filter).ok());
    let Some(Filter::Key(key)) = filter else {
        let stored = store.collections.get(namespace);
        let matches = |filter: &Filter| stored.is_some_and(|stored| filter.count_in(stored) > 0);
        let is_empty = stored.is_none() || filter.as_ref().is_some_and(|filter| !matches(filter));
        return if is_empty { Ok(false) } else { Err(Refused("this filter")) };
    };
    if statement.get_bool("upsert").unwrap_or(false) {
        return Err(Refused("upsert"));
    }
    let update = statement.get_document("u").map_err(|_| Refused("this form of update"))?;
    let Some(stored) = store.document(namespace, &key) else { return Ok(false) };
    let changed = changed(stored, update)?;
    let twice = self::changed(&changed, update)?;
    let part = self::changed(stored, &without_last_step(update))?;
    store.remember(namespace, &key, connection);
    store.update(namespace, &key, [changed, twice, part]);
    Ok(true)
}

/// An update without the last of its several increments.
fn without_last_step(update: &RawDocument) -> RawDocumentBuf {
    let mut update = Document::try_from(update).unwrap_or_default();
    if let Ok(steps) = update.get_document_mut("$inc")
        && let Some(last) = steps.keys().skip(1).last().cloned()
    {
        steps.remove(&last);
    }
    RawDocumentBuf::try_from(update).unwrap_or_default()
}

/// The document after an update.
fn changed(stored: &[u8], update: &RawDocument) -> Result<Box<[u8]>, Refused> {
    let damaged = |_| Refused("this document");
    let update = Document::try_from(update).map_err(|_| Refused("this form of update"))?;
    let mut document = Document::from_reader(stored).map_err(|_| Refused("this document"))?;
    match update.keys().next().map(String::as_str) {
        Some(operator) if operator.starts_with('$') => {
            for (operator, fields) in &update {
                let fields = fields.as_document().ok_or(Refused("this form of update"))?;
                fields.iter().try_for_each(|(field, value)| apply(&mut document, operator, field, value))?;
            }
        }
        _ => {
            let id = document.remove("_id").unwrap_or(Bson::Null);
            document = Document::from_iter([("_id".to_owned(), id)]);
            document.extend(update);
        }
    }
    Ok(document.to_vec().map_err(damaged)?.into_boxed_slice())
}

/// Applies one operator to one field.
fn apply(document: &mut Document, operator: &str, field: &str, value: &Bson) -> Result<(), Refused> {
    match operator {
        "$inc" => return increment(document, field, value),
        "$set" => {
            document.insert(field, value.clone());
        }
        "$max" => {
            let before = document.get(field).map(wide).transpose()?;
            if before.is_none_or(|before| wide(value).is_ok_and(|value| value > before)) {
                document.insert(field, value.clone());
            }
        }
        "$push" | "$addToSet" => {
            let list = document.entry(field.to_owned()).or_insert_with(|| Bson::Array(Vec::new()));
            let list = list.as_array_mut().ok_or(Refused("a list in another field"))?;
            if operator == "$push" || !list.contains(value) {
                list.push(value.clone());
            }
        }
        _ => return Err(Refused("this operator")),
    }
    Ok(())
}

/// Adds `step` to an integer field, or inserts the field. A sum that does not fit into 32 bits is stored in
/// 64 bits.
fn increment(document: &mut Document, field: &str, step: &Bson) -> Result<(), Refused> {
    let value = document.get(field).cloned().unwrap_or(Bson::Int32(0));
    let sum = match (&value, step) {
        (Bson::Int32(value), Bson::Int32(step)) => match value.checked_add(*step) {
            Some(sum) => Bson::Int32(sum),
            None => Bson::Int64(i64::from(*value) + i64::from(*step)),
        },
        _ => Bson::Int64(wide(&value)?.checked_add(wide(step)?).ok_or(Refused("sums over 64 bits"))?),
    };
    document.insert(field, sum);
    Ok(())
}

fn wide(value: &Bson) -> Result<i64, Refused> {
    match value {
        Bson::Int32(value) => Ok(i64::from(*value)),
        Bson::Int64(value) => Ok(*value),
        _ => Err(Refused("arithmetic on other than integers")),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn check(stored: Document, update: Document, expected: Result<Document, Refused>) {
        let update = RawDocumentBuf::try_from(update).unwrap();
        let changed = changed(&stored.to_vec().unwrap(), &update);
        assert_eq!(changed.map(|bytes| Document::from_reader(&*bytes).unwrap()), expected);
    }

    #[test]
    fn an_update_increments_integers_in_their_place_or_replaces_the_document() {
        let stored = || doc! {"_id": 1, "n": 5, "t": "x"};
        check(stored(), doc! {"$inc": {"n": 2}}, Ok(doc! {"_id": 1, "n": 7, "t": "x"}));
        check(stored(), doc! {"$inc": {"n": 2_i64}}, Ok(doc! {"_id": 1, "n": 7_i64, "t": "x"}));
        check(stored(), doc! {"$inc": {"m": -1}}, Ok(doc! {"_id": 1, "n": 5, "t": "x", "m": -1}));
        check(
            stored(),
            doc! {"$inc": {"n": i32::MAX}},
            Ok(doc! {"_id": 1, "n": i64::from(i32::MAX) + 5, "t": "x"}),
        );
        check(stored(), doc! {"_id": 1, "a": 1}, Ok(doc! {"_id": 1, "a": 1}));
        let set = doc! {"$set": {"t": "y", "u": true}, "$inc": {"n": 1}};
        check(stored(), set, Ok(doc! {"_id": 1, "n": 6, "t": "y", "u": true}));
    }

    #[test]
    fn an_update_raises_integers_and_appends_to_lists() {
        let stored = || doc! {"_id": 1, "n": 5, "l": [1]};
        check(stored(), doc! {"$max": {"n": 7, "m": 2}}, Ok(doc! {"_id": 1, "n": 7, "l": [1], "m": 2}));
        check(stored(), doc! {"$max": {"n": 4}}, Ok(stored()));
        check(stored(), doc! {"$push": {"l": 1}}, Ok(doc! {"_id": 1, "n": 5, "l": [1, 1]}));
        check(stored(), doc! {"$addToSet": {"l": 1}}, Ok(stored()));
        check(stored(), doc! {"$addToSet": {"l": 2}}, Ok(doc! {"_id": 1, "n": 5, "l": [1, 2]}));
        check(stored(), doc! {"$push": {"n": 2}}, Err(Refused("a list in another field")));
    }

    #[test]
    fn an_update_in_part_lacks_the_last_of_several_increments() {
        let check = |update: Document, expected: Document| {
            let part = without_last_step(&RawDocumentBuf::try_from(update).unwrap());
            assert_eq!(Document::try_from(part).unwrap(), expected);
        };
        check(doc! {"$inc": {"a": 1, "b": 2}, "$set": {"c": 3}}, doc! {"$inc": {"a": 1}, "$set": {"c": 3}});
        check(doc! {"$inc": {"a": 1}}, doc! {"$inc": {"a": 1}});
    }

    #[test]
    fn other_updates_are_refused() {
        let stored = || doc! {"_id": 1, "t": "x"};
        check(stored(), doc! {"$mul": {"n": 2}}, Err(Refused("this operator")));
        check(stored(), doc! {"$inc": {"n": 2}, "$mul": {"n": 2}}, Err(Refused("this operator")));
        check(stored(), doc! {"$inc": {"t": 1}}, Err(Refused("arithmetic on other than integers")));
        let half = doc! {"$inc": {"n": 0.5}};
        check(stored(), half, Err(Refused("arithmetic on other than integers")));
    }
}
