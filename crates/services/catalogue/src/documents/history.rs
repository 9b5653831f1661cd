//! Makes and shows entries of the history.

use bson::{Bson, DateTime, Document, doc};
use serde_json::{Map, Value, json};

use super::dataset::{self, Patch, Version};
use super::json::{object, shown};

/// The bytes of both sides of an entry: the server accepts 16 MiB with the other fields.
const SIDES_BYTES_MAX: usize = 15 << 20;
/// The bytes of a value in an entry that would be larger.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// The fields that change with every update.
const STAMPS: [&str; 2] = ["updatedBy", "updatedAt"];

/// The entry for an update of a dataset: the changed fields before and after.
pub fn update(stored: &Document, patch: &Patch, user: &str, at: DateTime) -> Document {
    let changed = patch.set.keys().chain(&patch.unset);
    let before: Document =
        changed.filter_map(|name| Some((name.clone(), stored.get(name)?.clone()))).collect();
    entry(stored, "update", (before, patch.set.clone()), user, at)
}

/// The entry for a removal: the whole dataset before.
pub fn delete(stored: &Document, user: &str, at: DateTime) -> Document {
    entry(stored, "delete", (stored.clone(), Document::new()), user, at)
}

/// Whether an entry is about a removal.
pub fn is_removal(entry: &Document) -> bool {
    entry.get_str("operation").is_ok_and(|operation| operation == "delete")
}

fn entry(
    stored: &Document,
    operation: &str,
    (before, after): (Document, Document),
    user: &str,
    at: DateTime,
) -> Document {
    let id = stored.get("_id").cloned();
    let (before, after) = match bytes(&before) + bytes(&after) > SIDES_BYTES_MAX {
        true => (shortened(before), shortened(after)),
        false => (before, after),
    };
    doc! {
        "subsystem": "Dataset", "documentId": id, "operation": operation, "user": user, "timestamp": at,
        "before": before, "after": after,
    }
}

/// Leaves out large values, so that a large dataset can be changed and removed.
fn shortened(side: Document) -> Document {
    let short = |(name, value): (String, Bson)| match bytes(&doc! {"": &value}) {
        bytes if bytes > VALUE_BYTES_MAX => {
            (name, format!("{bytes} bytes: too large for the history").into())
        }
        _ => (name, value),
    };
    side.into_iter().map(short).collect()
}

fn bytes(document: &Document) -> usize {
    document.to_vec().map_or(usize::MAX / 2, |bytes| bytes.len())
}

/// An entry in the form of version 3: `{updatedBy, updatedAt, field: {previousValue, currentValue}}`.
pub fn show(entry: &Document) -> Value {
    let (before, after) = (side(entry, "before"), side(entry, "after"));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let change = |name: &String| {
        let value = |side: &Map<String, Value>| side.get(name).cloned().unwrap_or(Value::Null);
        (name.clone(), json!({"previousValue": value(&before), "currentValue": value(&after)}))
    };
    let mut body: Map<String, Value> =
        names.into_iter().filter(|name| !STAMPS.contains(&name.as_str())).map(change).collect();
    for (name, stored) in STAMPS.into_iter().zip(["user", "timestamp"]) {
        body.insert(name.into(), entry.get(stored).map_or(Value::Null, shown));
    }
    body.into()
}

/// The fields of a dataset on one side of an entry.
fn side(entry: &Document, name: &str) -> Map<String, Value> {
    entry.get_document(name).map(|side| dataset::show(side, Version::V4)).unwrap_or_default()
}

/// An entry as the history lists it.
pub fn record(entry: &Document) -> Value {
    let mut body = object(entry);
    body.remove("__v");
    for name in ["before", "after"] {
        body.insert(name.into(), side(entry, name).into());
    }
    body.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_kept_as_a_delta() {
        let stored = doc! {"_id": "a", "owner": "ann", "comment": "c", "keywords": ["k"]};
        let patch = Patch { set: doc! {"owner": "eve", "license": "l"}, unset: vec!["comment".into()] };
        let entry = update(&stored, &patch, "bob", DateTime::from_millis(0));
        assert_eq!(entry.get_document("before").unwrap(), &doc! {"owner": "ann", "comment": "c"});
        assert_eq!(entry.get_document("after").unwrap(), &patch.set);
        assert_eq!(
            show(&entry),
            json!({
                "comment": {"previousValue": "c", "currentValue": null},
                "license": {"previousValue": null, "currentValue": "l"},
                "owner": {"previousValue": "ann", "currentValue": "eve"},
                "updatedAt": "1970-01-01T00:00:00.000Z", "updatedBy": "bob",
            })
        );
    }

    #[test]
    fn an_entry_shows_a_dataset_as_an_answer_does() {
        let stored = doc! {"_id": "a", "uncountedBlocks": ["x"], "scientificMetadata": {"a%2Eb": 1}};
        let shown = record(&delete(&stored, "bob", DateTime::from_millis(0)));
        assert_eq!(shown["before"], json!({"pid": "a", "scientificMetadata": {"a.b": 1}}));
        let patch = Patch { set: doc! {"scientificMetadata": {"a%2Eb": 2}}, unset: vec![] };
        let change = show(&update(&stored, &patch, "bob", DateTime::from_millis(0)));
        assert_eq!(change["scientificMetadata"]["currentValue"], json!({"a.b": 2}));
    }

    #[test]
    fn a_removal_keeps_the_whole_dataset() {
        let stored = doc! {"_id": "a", "owner": "ann"};
        let entry = delete(&stored, "bob", DateTime::from_millis(0));
        assert_eq!(entry.get_document("before").unwrap(), &stored);
        assert!(is_removal(&entry));
    }
}
