//! Replaces a dataset by a whole body.

use bson::Document;
use serde_json::Value;

use super::create::{Creation, create};
use super::patch::Patch;
use super::show::INTERNAL;
use super::{KEPT, Version};
use crate::Refusal;

/// The changes that make a stored dataset equal to a body. The PID and the fields that the catalogue keeps stay.
///
/// # Errors
/// The faults of the body, or another PID.
pub fn replace(
    stored: &Document,
    body: &Value,
    version: Version,
    creation: &Creation<'_>,
) -> Result<Patch, Refusal> {
    let new = create(body, version, creation)?;
    if new.get("_id") != stored.get("_id") {
        return Err(Refusal::bad("pid must be that of the path"));
    }
    let is_kept = |name: &str| KEPT.contains(&name) || INTERNAL.contains(&name) || name == "pid";
    let changed = new.iter().filter(|(name, value)| !is_kept(name) && stored.get(*name) != Some(value));
    let removed = stored.keys().filter(|name| !is_kept(name) && !new.contains_key(*name));
    Ok(Patch {
        set: changed.map(|(name, value)| (name.clone(), value.clone())).collect(),
        unset: removed.cloned().collect(),
    })
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, doc};
    use serde_json::json;

    use super::*;

    fn creation() -> Creation<'static> {
        Creation {
            pid: "a".into(),
            by: "ann",
            at: DateTime::from_millis(9),
            types: &[],
            tape_redundancy: None,
        }
    }

    fn body() -> Value {
        json!({
            "owner": "ann", "ownerGroup": "g", "contactEmail": "a@b.cc", "sourceFolder": "/x", "datasetName": "n",
            "creationTime": "2025-01-01", "type": "raw", "description": "d",
        })
    }

    #[test]
    fn a_dataset_becomes_the_body_and_keeps_its_counts_and_its_creation() {
        let mut stored =
            create(&body(), Version::V4, &Creation { at: DateTime::from_millis(1), ..creation() }).unwrap();
        stored
            .extend(doc! {"size": 5_i64, "numberOfFiles": 1_i64, "comment": "old", "uncountedBlocks": ["x"]});
        let mut body = body();
        body["description"] = "new".into();
        let patch = replace(&stored, &body, Version::V4, &creation()).unwrap();
        assert_eq!(patch, Patch { set: doc! {"description": "new"}, unset: vec!["comment".into()] });
    }

    #[test]
    fn another_pid_or_an_incomplete_body_is_refused() {
        let stored = create(&body(), Version::V4, &creation()).unwrap();
        let mut other = body();
        other["pid"] = "b".into();
        assert!(replace(&stored, &other, Version::V4, &creation()).is_err());
        assert!(replace(&stored, &json!({"description": "d"}), Version::V4, &creation()).is_err());
    }
}
