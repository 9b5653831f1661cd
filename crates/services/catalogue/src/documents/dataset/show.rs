//! Shows a stored dataset.

use bson::{Bson, Document};
use serde_json::{Map, Value};

use super::Version;
use crate::documents::{json, metadata, schema, search};

/// The fields of a stored dataset that no answer has.
pub const INTERNAL: [&str; 5] = ["_id", "__v", "uncountedBlocks", "attachmentChanges", search::GRAMS];

/// The body of a stored dataset. In version 3, some lists also have a name for their first element.
pub fn show(document: &Document, version: Version) -> Map<String, Value> {
    let mut body = Map::new();
    if let Some(id) = document.get("_id") {
        body.insert("pid".into(), json::shown(id));
    }
    let fields = document.iter().filter(|(name, _)| !INTERNAL.contains(&name.as_str()));
    body.extend(fields.map(|(name, value)| (name.clone(), shown(name, value))));
    if version == Version::V3 {
        body.extend(singles(document));
    }
    body
}

fn shown(name: &str, value: &Bson) -> Value {
    match value {
        Bson::Document(stored) if name == "scientificMetadata" => metadata::show(stored).into(),
        other => json::shown(other),
    }
}

/// The first element of each list that has a name for it.
fn singles(document: &Document) -> impl Iterator<Item = (String, Value)> {
    schema::SINGULAR.iter().filter_map(|(one, many)| {
        let first = document.get_array(many).ok()?.first()?;
        Some(((*one).to_owned(), json::shown(first)))
    })
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, doc};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dataset_is_shown_in_both_versions() {
        let stored = doc! {
            "_id": "a/b", "pid": "a/b", "__v": 0, "uncountedBlocks": ["x"], "attachmentChanges": 1, "searchGrams": [5], "proposalIds": ["p", "q"], "sampleIds": [],
            "createdAt": DateTime::from_millis(0), "scientificMetadata": {"a%2Eb": {"value": 1}},
        };
        let v4 = json!({
            "pid": "a/b", "proposalIds": ["p", "q"], "sampleIds": [], "createdAt": "1970-01-01T00:00:00.000Z",
            "scientificMetadata": {"a.b": {"value": 1}},
        });
        assert_eq!(Value::from(show(&stored, Version::V4)), v4);
        let v3 = Value::from(show(&stored, Version::V3));
        assert_eq!(v3["proposalId"], "p");
        assert!(v3.get("sampleId").is_none());
    }
}
