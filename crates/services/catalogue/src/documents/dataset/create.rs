//! Makes a dataset from a request body.

use bson::{Bson, DateTime, Document};
use serde_json::{Map, Value};

use super::{COUNTED, KEPT, REQUIRED, Version, classification, defaults, is_email, new_lifecycle};
use crate::Refusal;
use crate::documents::schema::{self, Kind};
use crate::documents::search;
use crate::documents::value::typed;
use crate::refusal::{FAULTS_MAX, shortened};

/// The types that every catalogue accepts.
const BUILT_IN: [&str; 2] = ["raw", "derived"];
/// The longest PID, in bytes: it is part of paths.
const PID_BYTES_MAX: usize = 512;

/// The facts about a new dataset that its body does not state.
#[derive(Clone, Debug)]
pub struct Creation<'a> {
    /// The PID, unless the body has one.
    pub pid: String,
    /// The name of the creator.
    pub by: &'a str,
    /// The time.
    pub at: DateTime,
    /// The accepted types in addition to `raw` and `derived`.
    pub types: &'a [String],
    /// The redundancy of the tapes of its group.
    pub tape_redundancy: Option<&'a str>,
}

/// The stored form of a new dataset.
///
/// # Errors
/// The faults of the body, in the shape of the version.
pub fn create(body: &Value, version: Version, creation: &Creation<'_>) -> Result<Document, Refusal> {
    let mut document = read(body, version, creation.types).map_err(|faults| refusal(version, faults))?;
    let pid = document.remove("pid").and_then(|pid| pid.as_str().map(str::to_owned));
    let pid = pid.unwrap_or_else(|| creation.pid.clone());
    let mut stored = Document::new();
    stored.insert("_id", &pid);
    stored.insert("pid", pid);
    stored.extend(document);
    for (name, value) in defaults() {
        stored.entry(name).or_insert(value);
    }
    let lifecycle = stored.remove("datasetlifecycle");
    stored.insert("datasetlifecycle", with_defaults(lifecycle));
    stored.insert("classification", classification(creation.tape_redundancy));
    stored.insert("size", 0_i64);
    stored.insert("numberOfFiles", 0_i64);
    stored.insert("version", version.text());
    for (by, at) in [("createdBy", "createdAt"), ("updatedBy", "updatedAt")] {
        stored.insert(by, creation.by);
        stored.insert(at, creation.at);
    }
    if let Some(grams) = search::grams(&stored) {
        stored.insert(search::GRAMS, grams);
    }
    Ok(stored)
}

fn with_defaults(given: Option<Bson>) -> Document {
    let mut lifecycle = new_lifecycle();
    if let Some(Bson::Document(given)) = given {
        lifecycle.extend(given);
    }
    lifecycle
}

/// The faults of a body, a sentence each; none if it is valid.
pub fn faults(body: &Value, version: Version, types: &[String]) -> Vec<String> {
    read(body, version, types).err().unwrap_or_default()
}

fn refusal(version: Version, faults: Vec<String>) -> Refusal {
    match version {
        Version::V3 => Refusal::PropertiesV3(faults),
        Version::V4 => Refusal::Properties(faults),
    }
}

/// Reads the fields of a body and finds all its faults.
fn read(body: &Value, version: Version, types: &[String]) -> Result<Document, Vec<String>> {
    let body = body.as_object().ok_or_else(|| vec!["the body must be an object".to_owned()])?;
    let old = version == Version::V3 && matches!(type_of(body), "raw" | "derived");
    let (mut document, mut faults) = (Document::new(), Vec::new());
    for (given, value) in body.iter().filter(|(_, value)| !value.is_null()) {
        match field(given, value, old) {
            // A list wins over the name of version 3 for its first element.
            Ok(Some((name, value))) if given == name || !document.contains_key(name) => {
                document.insert(name, value);
            }
            Ok(_) => (),
            Err(fault) => faults.push(fault),
        }
        if faults.len() == FAULTS_MAX {
            break;
        }
    }
    complete(&mut document);
    faults.extend(missing(&document, old.then(|| type_of(body))));
    faults.extend(wrong(&document, types));
    faults.truncate(FAULTS_MAX);
    if faults.is_empty() { Ok(document) } else { Err(faults) }
}

fn type_of(body: &Map<String, Value>) -> &str {
    body.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The stored name and value of a field. `None` for a field that the catalogue counts.
fn field<'a>(name: &'a str, value: &Value, old: bool) -> Result<Option<(&'a str, Bson)>, String> {
    if COUNTED.contains(&name) {
        return Ok(None);
    }
    let list = schema::plural(name);
    if old && list != name {
        let one = typed(name, Kind::Text, value)?;
        return Ok(Some((list, Bson::Array(vec![one]))));
    }
    let kind = schema::kind(name).filter(|_| !KEPT.contains(&name));
    let kind = kind.ok_or_else(|| format!("property {} should not exist", shortened(name)))?;
    Ok(Some((name, typed(name, kind, value)?)))
}

/// Normalises the folder, and names a dataset after the last two parts of it.
fn complete(document: &mut Document) {
    let Ok(folder) = document.get_str("sourceFolder") else { return };
    let folder = folder.trim_end_matches('/').to_owned();
    if !document.contains_key("datasetName") {
        let mut parts: Vec<&str> = folder.rsplit('/').filter(|part| !part.is_empty()).take(2).collect();
        parts.reverse();
        document.insert("datasetName", parts.join("/"));
    }
    document.insert("sourceFolder", folder);
}

/// The sentences about missing fields. The old forms of `raw` and `derived` require more.
fn missing(document: &Document, old_type: Option<&str>) -> Vec<String> {
    let more: &[&str] = match old_type {
        Some("raw") => &["principalInvestigators", "creationLocation"],
        Some(_) => &["principalInvestigators", "inputDatasets", "usedSoftware"],
        None => &[],
    };
    let required = REQUIRED.iter().chain(more);
    let is_missing = |name: &&&str| match document.get(**name) {
        None => true,
        Some(Bson::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    let named = |name: &&str| match (*name, old_type) {
        ("principalInvestigators", Some("raw")) => "principalInvestigator".to_owned(),
        ("principalInvestigators", Some(_)) => "investigator".to_owned(),
        (name, _) => name.to_owned(),
    };
    required.filter(is_missing).map(|name| format!("{} should not be empty", named(name))).collect()
}

fn wrong(document: &Document, types: &[String]) -> Vec<String> {
    let text = |name: &str| document.get_str(name).ok();
    let mut faults = Vec::new();
    for name in ["contactEmail", "ownerEmail"] {
        if text(name).is_some_and(|address| !address.is_empty() && !is_email(address)) {
            faults.push(format!("{name} must be an email"));
        }
    }
    if text("type").is_some_and(|name| !name.is_empty() && !is_type(name, types)) {
        let known = BUILT_IN.into_iter().chain(types.iter().map(String::as_str));
        faults.push(format!("type must be one of: {}", known.collect::<Vec<_>>().join(", ")));
    }
    if text("pid").is_some_and(|pid| !is_pid(pid)) {
        faults.push("pid must have 1 to 512 bytes without control characters".to_owned());
    }
    faults
}

fn is_type(name: &str, types: &[String]) -> bool {
    BUILT_IN.contains(&name) || types.iter().any(|known| known == name)
}

fn is_pid(pid: &str) -> bool {
    (1..=PID_BYTES_MAX).contains(&pid.len()) && !pid.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use serde_json::json;

    use super::*;

    fn creation() -> Creation<'static> {
        let at = DateTime::from_millis(1_000);
        Creation { pid: "20.500/new".into(), by: "ann", at, types: &[], tape_redundancy: None }
    }

    fn raw() -> Value {
        json!({
            "pid": "predefined_12345", "owner": "bench", "ownerGroup": "group1", "accessGroups": ["group1"],
            "contactEmail": "a@b.cc", "principalInvestigator": "bench", "creationLocation": "/bench",
            "sourceFolder": "/data/x/", "creationTime": "2025-01-01T00:00:00.000Z", "type": "raw",
            "scientificMetadata": {"field_0": {"value": "Sample data 0", "unit": "unit"}},
        })
    }

    fn without(mut body: Value, name: &str) -> Value {
        body.as_object_mut().unwrap().remove(name);
        body
    }

    fn with(mut body: Value, name: &str, value: Value) -> Value {
        body[name] = value;
        body
    }

    #[test]
    fn a_raw_dataset_of_version_3_is_stored_with_its_defaults() {
        let stored = create(&raw(), Version::V3, &creation()).unwrap();
        let text = |name: &str| stored.get_str(name).unwrap().to_owned();
        assert_eq!((text("_id"), text("pid")), ("predefined_12345".into(), "predefined_12345".into()));
        assert_eq!(text("sourceFolder"), "/data/x");
        assert_eq!(text("datasetName"), "data/x");
        assert_eq!(text("classification"), "IN=medium,AV=low,CO=low");
        assert_eq!(
            (text("version"), text("createdBy"), text("updatedBy")),
            ("3".into(), "ann".into(), "ann".into())
        );
        assert_eq!(stored.get_array("principalInvestigators").unwrap(), &[Bson::from("bench")]);
        assert!(!stored.contains_key("principalInvestigator"));
        assert_eq!(stored.get_datetime("creationTime").unwrap().timestamp_millis(), 1_735_689_600_000);
        assert_eq!(stored.get_datetime("createdAt").unwrap().timestamp_millis(), 1_000);
        assert_eq!(stored.get_document("datasetlifecycle").unwrap(), &new_lifecycle());
        assert_eq!((stored.get_i64("size").unwrap(), stored.get_i64("numberOfFiles").unwrap()), (0, 0));
        assert!(!stored.get_bool("isPublished").unwrap());
    }

    #[test]
    fn a_dataset_without_a_pid_gets_one() {
        let stored = create(&without(raw(), "pid"), Version::V3, &creation()).unwrap();
        assert_eq!(stored.get_str("_id").unwrap(), "20.500/new");
    }

    #[test]
    fn a_stated_size_is_not_counted_twice() {
        let stored = create(&with(raw(), "size", json!(99)), Version::V3, &creation()).unwrap();
        assert_eq!(stored.get_i64("size").unwrap(), 0);
    }

    #[test]
    fn a_derived_dataset_of_version_3_has_its_own_form() {
        let body = with(
            without(without(raw(), "principalInvestigator"), "creationLocation"),
            "type",
            json!("derived"),
        );
        let missing = faults(&body, Version::V3, &[]);
        assert_eq!(
            missing,
            [
                "investigator should not be empty",
                "inputDatasets should not be empty",
                "usedSoftware should not be empty",
            ]
        );
        let body = with(with(body, "inputDatasets", json!(["a"])), "usedSoftware", json!(["b"]));
        let stored = create(&with(body, "investigator", json!("eve")), Version::V3, &creation()).unwrap();
        assert_eq!(stored.get_array("principalInvestigators").unwrap(), &[Bson::from("eve")]);
    }

    #[test]
    fn version_4_requires_its_fields_and_knows_no_single_names() {
        let body = with(without(raw(), "principalInvestigator"), "datasetName", json!("x"));
        let stored = create(&body, Version::V4, &creation()).unwrap();
        assert_eq!(stored.get_str("version").unwrap(), "4");
        assert!(stored.get_array("principalInvestigators").unwrap().is_empty());
        let refused = create(&with(body.clone(), "proposalId", json!("p")), Version::V4, &creation());
        assert_eq!(refused, Err(Refusal::Properties(vec!["property proposalId should not exist".into()])));
        for name in ["contactEmail", "sourceFolder", "creationTime", "ownerGroup", "type", "owner"] {
            assert_eq!(faults(&without(body.clone(), name), Version::V4, &[]).len(), 1, "{name}");
        }
    }

    #[test]
    fn a_list_wins_over_its_single_name() {
        for (first, second) in [("proposalId", "proposalIds"), ("proposalIds", "proposalId")] {
            let value = |name: &str| if name == "proposalId" { json!("one") } else { json!(["many"]) };
            let body = with(with(raw(), first, value(first)), second, value(second));
            let stored = create(&body, Version::V3, &creation()).unwrap();
            assert_eq!(stored.get_array("proposalIds").unwrap(), &[Bson::from("many")]);
        }
    }

    #[test]
    fn another_type_must_be_configured() {
        let body = with(with(raw(), "type", json!("image")), "datasetName", json!("x"));
        let body = without(body, "principalInvestigator");
        assert_eq!(faults(&body, Version::V3, &[]), ["type must be one of: raw, derived"]);
        assert_eq!(faults(&body, Version::V3, &["image".into()]), [""; 0]);
    }

    #[test]
    fn hostile_bodies_are_refused_in_the_shape_of_the_version() {
        for (name, value) in [
            ("$set", json!(1)),
            ("_id", json!("x")),
            ("createdBy", json!("admin")),
            ("version", json!("9")),
            ("ownerGroup", json!({"$ne": ""})),
            ("ownerGroup", json!("")),
            ("accessGroups", json!("admin")),
            ("contactEmail", json!("nobody")),
            ("pid", json!("a\nb")),
            ("pid", json!("x".repeat(600))),
            ("isPublished", json!("true")),
            ("datasetlifecycle", json!({"$set": 1})),
            ("creationTime", json!("tomorrow")),
        ] {
            let body = with(raw(), name, value);
            let refused = create(&body, Version::V3, &creation()).unwrap_err();
            assert!(matches!(refused, Refusal::PropertiesV3(_)), "{name}");
            assert!(matches!(refused.body()["message"], Value::String(_)));
        }
        assert!(create(&json!([]), Version::V4, &creation()).is_err());
        let many: Map<String, Value> = (0..1_000).map(|n| (format!("x{n}"), json!(1))).collect();
        assert_eq!(faults(&many.into(), Version::V4, &[]).len(), FAULTS_MAX);
    }

    #[test]
    fn a_given_life_cycle_is_completed() {
        let stored =
            create(&with(raw(), "datasetlifecycle", json!({"archivable": false})), Version::V3, &creation());
        let mut expected = new_lifecycle();
        expected.extend(doc! {"archivable": false});
        assert_eq!(stored.unwrap().get_document("datasetlifecycle").unwrap(), &expected);
    }
}
