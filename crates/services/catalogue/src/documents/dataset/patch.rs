//! Changes a dataset by a part of a body.

use bson::{Bson, Document};
use serde_json::{Map, Value};

use super::{COUNTED, KEPT, REQUIRED, Version, defaults, is_email, new_lifecycle};
use crate::Refusal;
use crate::documents::schema::{self, Kind};
use crate::documents::{metadata, value};
use crate::refusal::{FAULTS_MAX, shortened};

/// The meaning of `null` and of objects in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Plain JSON: `null` changes nothing, and an object replaces another.
    Plain,
    /// A merge patch (RFC 7396): `null` removes, and objects merge.
    Merge,
}

/// The changes of a dataset: fields with another value only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    /// The new values.
    pub set: Document,
    /// The removed fields.
    pub unset: Vec<String>,
}

impl Patch {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.unset.is_empty()
    }
}

/// The changes that a body makes to a stored dataset.
///
/// # Errors
/// The faults of the body, in the shape of the version.
pub fn patch(stored: &Document, body: &Value, version: Version, form: Form) -> Result<Patch, Refusal> {
    let object = body.as_object().ok_or_else(|| Refusal::bad("the body must be an object"))?;
    let (mut patch, mut faults) = (Patch::default(), Vec::new());
    for (name, value) in object {
        if let Err(fault) = change(&mut patch, stored, (name, value), (version, form)) {
            faults.push(fault);
        }
        if faults.len() == FAULTS_MAX {
            break;
        }
    }
    match (faults.is_empty(), version) {
        (true, _) => Ok(patch),
        (false, Version::V3) => Err(Refusal::PropertiesV3(faults)),
        (false, Version::V4) => Err(Refusal::Properties(faults)),
    }
}

fn change(
    patch: &mut Patch,
    stored: &Document,
    (name, value): (&str, &Value),
    (version, form): (Version, Form),
) -> Result<(), String> {
    let list = if version == Version::V3 { schema::plural(name) } else { name };
    let kind = schema::kind(list).filter(|_| !KEPT.contains(&name) || COUNTED.contains(&name));
    let kind = kind.ok_or_else(|| format!("property {} should not exist", shortened(name)))?;
    let unchanged = COUNTED.contains(&name) || (value.is_null() && form == Form::Plain);
    if unchanged || is_same_pid(stored, name, value)? {
        return Ok(());
    }
    if value.is_null() {
        return reset(patch, stored, list);
    }
    let new = match kind {
        Kind::Lifecycle => lifecycle(stored, name, value, form)?,
        Kind::Free if name == "scientificMetadata" => scientific(stored, value, version, form)?,
        _ if list != name => Bson::Array(vec![value::typed(name, Kind::Text, value)?]),
        kind => value::typed(name, kind, value)?,
    };
    set(patch, stored, list, checked(name, new)?);
    Ok(())
}

/// Whether a body repeats the PID of its dataset. Clients do so if they send every field.
fn is_same_pid(stored: &Document, name: &str, value: &Value) -> Result<bool, String> {
    match name {
        "pid" if value.as_str() == stored.get_str("_id").ok() => Ok(true),
        "pid" => Err("property pid should not exist".into()),
        _ => Ok(false),
    }
}

fn checked(name: &str, new: Bson) -> Result<Bson, String> {
    let text = new.as_str();
    if REQUIRED.contains(&name) && text == Some("") {
        return Err(format!("{name} should not be empty"));
    }
    if matches!(name, "contactEmail" | "ownerEmail") && text.is_some_and(|text| !is_email(text)) {
        return Err(format!("{name} must be an email"));
    }
    match (name, text) {
        ("sourceFolder", Some(folder)) => Ok(folder.trim_end_matches('/').into()),
        _ => Ok(new),
    }
}

fn set(patch: &mut Patch, stored: &Document, name: &str, new: Bson) {
    if stored.get(name) != Some(&new) {
        patch.set.insert(name, new);
    }
}

fn reset(patch: &mut Patch, stored: &Document, name: &str) -> Result<(), String> {
    if REQUIRED.contains(&name) {
        return Err(format!("{name} should not be empty"));
    }
    let default = match name {
        "datasetlifecycle" => Some(Bson::Document(new_lifecycle())),
        _ => defaults().remove(name),
    };
    match default {
        Some(default) => set(patch, stored, name, default),
        None if stored.contains_key(name) => patch.unset.push(name.to_owned()),
        None => (),
    }
    Ok(())
}

/// A life cycle keeps the fields that the body leaves out.
fn lifecycle(stored: &Document, name: &str, value: &Value, form: Form) -> Result<Bson, String> {
    let mut lifecycle = stored.get_document("datasetlifecycle").cloned().unwrap_or_default();
    lifecycle.extend(value::typed(name, Kind::Lifecycle, value)?.as_document().cloned().unwrap_or_default());
    let nulls = value.as_object().into_iter().flatten().filter(|(_, value)| value.is_null());
    for (field, _) in nulls.filter(|_| form == Form::Merge) {
        match new_lifecycle().remove(field) {
            Some(default) => drop(lifecycle.insert(field, default)),
            None => drop(lifecycle.remove(field)),
        }
    }
    Ok(lifecycle.into())
}

fn scientific(stored: &Document, value: &Value, version: Version, form: Form) -> Result<Bson, String> {
    let given = value.as_object().ok_or("scientificMetadata must be an object")?;
    let merged = match form {
        Form::Plain => given.clone(),
        Form::Merge => {
            let mut merged =
                stored.get_document("scientificMetadata").map(metadata::show).unwrap_or_default();
            merge(&mut merged, given);
            merged
        }
    };
    let half = metadata::incomplete(&merged);
    if let Some(name) = half.first().filter(|name| version == Version::V4 && given.contains_key(**name)) {
        return Err(format!("scientificMetadata.{} needs value and unit together", shortened(name)));
    }
    metadata::store(&merged).map(Bson::Document)
}

/// Merges as RFC 7396 does. The depth of `from` is bounded by the parser of its text.
fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (name, value) in from {
        match value {
            Value::Null => drop(into.remove(name)),
            Value::Object(fields) => {
                let inner = into.entry(name.clone()).or_insert_with(|| Map::new().into());
                if !inner.is_object() {
                    *inner = Map::new().into();
                }
                if let Value::Object(inner) = inner {
                    merge(inner, fields);
                }
            }
            other => drop(into.insert(name.clone(), other.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use serde_json::json;

    use super::*;

    fn stored() -> Document {
        doc! {
            "_id": "a", "owner": "ann", "description": "old", "keywords": ["k"], "size": 5_i64,
            "datasetlifecycle": {"archivable": true, "retrievable": true, "exportedTo": "x"},
            "scientificMetadata": {"a": {"value": 1_i64, "unit": "m", "valueSI": 1.0, "unitSI": "m"}, "b%2Ec": 2_i64},
        }
    }

    #[track_caller]
    fn check(body: Value, form: Form, set: Document, unset: &[&str]) {
        let unset = unset.iter().map(|&name| name.into()).collect();
        assert_eq!(patch(&stored(), &body, Version::V4, form), Ok(Patch { set, unset }), "{body}");
    }

    #[test]
    fn only_changed_fields_are_set() {
        check(json!({"owner": "ann", "description": "new"}), Form::Plain, doc! {"description": "new"}, &[]);
        check(json!({"pid": "a", "size": 99}), Form::Plain, doc! {}, &[]);
    }

    #[test]
    fn null_removes_in_a_merge_patch_only() {
        let body = json!({"description": null, "keywords": null, "comment": null});
        check(body.clone(), Form::Plain, doc! {}, &[]);
        check(body, Form::Merge, doc! {"keywords": []}, &["description"]);
        let refused = patch(&stored(), &json!({"owner": null}), Version::V4, Form::Merge);
        assert_eq!(refused, Err(Refusal::Properties(vec!["owner should not be empty".into()])));
    }

    #[test]
    fn metadata_merges_or_is_replaced() {
        let body = json!({"scientificMetadata": {"a": {"value": 2, "unit": "mm"}, "b.c": null}});
        let a = doc! {"value": 2_i64, "unit": "mm", "valueSI": 0.002, "unitSI": "m"};
        check(body, Form::Merge, doc! {"scientificMetadata": {"a": a}}, &[]);
        let body = json!({"scientificMetadata": {"d": 1}});
        check(body.clone(), Form::Plain, doc! {"scientificMetadata": {"d": 1_i64}}, &[]);
        let merged = patch(&stored(), &body, Version::V4, Form::Merge).unwrap();
        assert_eq!(merged.set.get_document("scientificMetadata").unwrap().len(), 3);
    }

    #[test]
    fn version_4_demands_value_and_unit_together() {
        let body = json!({"scientificMetadata": {"n": {"value": 1}}});
        assert!(patch(&stored(), &body, Version::V4, Form::Plain).is_err());
        assert!(patch(&stored(), &body, Version::V3, Form::Plain).is_ok());
        let half = json!({"scientificMetadata": {"a": {"value": 7}}});
        assert!(patch(&stored(), &half, Version::V4, Form::Merge).is_ok(), "the unit is there already");
    }

    #[test]
    fn a_life_cycle_keeps_its_other_fields() {
        let body =
            json!({"datasetlifecycle": {"archivable": false, "exportedTo": null, "retrievable": null}});
        let plain = doc! {"archivable": false, "retrievable": true, "exportedTo": "x"};
        check(body.clone(), Form::Plain, doc! {"datasetlifecycle": plain}, &[]);
        let merged = doc! {"archivable": false, "retrievable": false};
        check(body, Form::Merge, doc! {"datasetlifecycle": merged}, &[]);
    }

    #[test]
    fn fields_of_the_catalogue_are_refused() {
        for body in [
            json!({"pid": "b"}),
            json!({"createdBy": "eve"}),
            json!({"updatedAt": "2024-01-01"}),
            json!({"_id": "b"}),
            json!({"uncountedBlocks": []}),
            json!({"$set": {}}),
            json!({"ownerGroup": {"$ne": 1}}),
            json!({"contactEmail": "x"}),
            json!([]),
        ] {
            for form in [Form::Plain, Form::Merge] {
                assert!(patch(&stored(), &body, Version::V4, form).is_err(), "{body}");
            }
        }
    }

    #[test]
    fn a_single_name_of_version_3_sets_the_list() {
        let patched = patch(&stored(), &json!({"proposalId": "p"}), Version::V3, Form::Plain).unwrap();
        assert_eq!(patched.set, doc! {"proposalIds": ["p"]});
    }
}
