//! Makes and shows attachments: images of a dataset.

use bson::{Bson, DateTime, Document, bson, doc};
use serde_json::{Map, Value};

use super::block::INHERITED;
use super::json::object;
use super::schema::Kind;
use super::stamp::later;
use super::value::typed;
use crate::Refusal;
use crate::refusal::{FAULTS_MAX, shortened};

/// The fields of a body.
const FIELDS: [(&str, Kind); 14] = [
    ("aid", Kind::Text),
    ("id", Kind::Text),
    ("thumbnail", Kind::Text),
    ("caption", Kind::Text),
    ("datasetId", Kind::Text),
    ("proposalId", Kind::Text),
    ("sampleId", Kind::Text),
    ("ownerGroup", Kind::Text),
    ("accessGroups", Kind::Texts),
    ("instrumentGroup", Kind::Text),
    ("isPublished", Kind::Flag),
    ("relationships", Kind::Objects),
    ("orcidOfOwner", Kind::Text),
    ("sharedWith", Kind::Texts),
];
/// The datasets of an attachment.
const TARGETS_MAX: usize = 20;
/// The key of an attachment, in each version.
const KEYS: [&str; 2] = ["aid", "id"];
/// The fields of a stored attachment that no body changes.
const KEPT: [&str; 5] = ["_id", "aid", "createdBy", "createdAt", "__v"];

/// Reads a body. `dataset` is the PID in the path, if any.
///
/// # Errors
/// The faults of the body, or no dataset.
pub fn read(body: &Value, dataset: Option<&str>) -> Result<Document, Refusal> {
    let (mut document, faults) = fields(body)?;
    if let Some(pid) = dataset {
        document.insert("datasetId", pid);
    }
    related(document, faults)
}

/// The parts of an attachment that a body changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The fields of the body.
    Given,
    /// All fields: those that the body leaves out are removed.
    All,
}

/// Whether a change gives an attachment the access of its first dataset: that is another one now, or the body replaced the attachment.
pub fn inherits(stored: &Document, changed: &Document, extent: Extent) -> bool {
    extent == Extent::All || targets(stored).first() != targets(changed).first()
}

/// Gives an attachment the access of a dataset, apart from the parts that the attachment states.
pub fn inherit(attachment: &mut Document, dataset: &Document) {
    for name in INHERITED {
        if let Some(value) = dataset.get(name).filter(|_| !attachment.contains_key(name)) {
            attachment.insert(name, value.clone());
        }
    }
}

/// Reads the body of a change of a stored attachment. Returns its new stored form. A body may name other datasets. Of the access that
/// datasets give, an attachment that [`inherits`] has only the parts that the body states.
///
/// # Errors
/// The faults of the body, another key, or no dataset.
pub fn changed(
    stored: &Document,
    body: &Value,
    extent: Extent,
    by: &str,
    at: DateTime,
) -> Result<Document, Refusal> {
    let (mut given, mut faults) = fields(body)?;
    let key = stored.get("_id");
    if KEYS.into_iter().any(|name| given.remove(name).is_some_and(|stated| Some(&stated) != key)) {
        faults.push("aid must be that of the path".into());
    }
    let is_kept = |name: &str| extent == Extent::Given || KEPT.contains(&name);
    let mut document: Document = stored
        .iter()
        .filter(|(name, _)| is_kept(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    match (given.contains_key("relationships"), given.contains_key("datasetId")) {
        (true, false) => drop(document.remove("datasetId")),
        (false, true) => drop(document.remove("relationships")),
        _ => (),
    }
    let stated: Vec<&str> = INHERITED.into_iter().filter(|name| given.contains_key(*name)).collect();
    document.extend(given);
    let before = stored.get("updatedAt").unwrap_or(&Bson::Null);
    document.extend(doc! {"updatedBy": by, "updatedAt": later(before, at)});
    let mut changed = related(document, faults)?;
    if inherits(stored, &changed, extent) {
        let of_before = INHERITED.into_iter().filter(|name| !stated.contains(name));
        of_before.for_each(|name| drop(changed.remove(name)));
    }
    Ok(changed)
}

/// The fields of a body, and its faults.
fn fields(body: &Value) -> Result<(Document, Vec<String>), Refusal> {
    let fields = body.as_object().ok_or_else(|| Refusal::bad("the body must be an object"))?;
    let (mut document, mut faults) = (Document::new(), Vec::new());
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match field(name, value) {
            Ok(value) => drop(document.insert(name, value)),
            Err(fault) => faults.push(fault),
        }
        if faults.len() == FAULTS_MAX {
            break;
        }
    }
    Ok((document, faults))
}

/// Names the datasets of an attachment in both forms, unless there is a fault.
fn related(mut document: Document, mut faults: Vec<String>) -> Result<Document, Refusal> {
    let targets = targets(&document);
    match targets.first().map(|pid| (*pid).to_owned()) {
        _ if targets.len() > TARGETS_MAX => {
            faults.push(format!("relationships should name at most {TARGETS_MAX} datasets"));
        }
        Some(pid) => relate(&mut document, pid),
        None => faults.push("relationships should name a dataset".into()),
    }
    if faults.is_empty() { Ok(document) } else { Err(Refusal::Properties(faults)) }
}

fn field(name: &str, value: &Value) -> Result<Bson, String> {
    let known = FIELDS.iter().find(|(known, _)| *known == name);
    let (_, kind) = known.ok_or_else(|| format!("property {} should not exist", shortened(name)))?;
    typed(name, *kind, value)
}

/// The datasets of an attachment, each once: that of `datasetId`, then those of its relationships.
pub fn targets(document: &Document) -> Vec<&str> {
    let stated = document.get_str("datasetId").ok().filter(|pid| !pid.is_empty());
    let to_dataset = |it: &&Document| it.get_str("targetType").is_ok_and(|kind| kind == "dataset");
    let relationships = document.get_array("relationships").into_iter().flatten();
    let related = relationships.filter_map(Bson::as_document).filter(to_dataset);
    let related = related.filter_map(|it| it.get_str("targetId").ok());
    let mut found = Vec::new();
    for pid in stated.into_iter().chain(related) {
        if !found.contains(&pid) && found.len() <= TARGETS_MAX {
            found.push(pid);
        }
    }
    found
}

fn relate(document: &mut Document, pid: String) {
    let relationship = bson!([{"targetId": &pid, "targetType": "dataset", "relationType": "is attached to"}]);
    document.entry("relationships").or_insert(relationship);
    document.insert("datasetId", pid);
}

/// The stored form: the body, its key and stamps. `dataset` gives the groups that the body leaves out.
pub fn store(mut body: Document, dataset: &Document, id: &str, by: &str, at: DateTime) -> Document {
    let stated = KEYS.into_iter().filter_map(|name| body.remove(name)).next();
    KEYS.into_iter().for_each(|name| drop(body.remove(name)));
    let id = stated.and_then(|id| id.as_str().map(str::to_owned)).unwrap_or_else(|| id.to_owned());
    let mut document = doc! {"_id": &id, "aid": id};
    document.extend(body);
    inherit(&mut document, dataset);
    document.extend(doc! {"createdBy": by, "updatedBy": by, "createdAt": at, "updatedAt": at});
    document
}

/// The body of a stored attachment.
pub fn show(document: &Document) -> Value {
    let mut body: Map<String, Value> = object(document);
    let id = body.remove("_id");
    body.remove("__v");
    if let Some(id) = id {
        body.insert("id".into(), id.clone());
        body.entry("aid").or_insert(id);
    }
    body.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_attachment_belongs_to_a_dataset_in_both_versions() {
        let v4 = json!({
            "thumbnail": "data:image/png;base64,AA==", "caption": "c", "ownerGroup": "g",
            "relationships": [{"targetId": "a/b", "targetType": "dataset", "relationType": "is attached to"}],
        });
        let v3 = json!({"thumbnail": "data:image/png;base64,AA==", "caption": "c", "ownerGroup": "g"});
        for (body, dataset) in [(v4, None), (v3, Some("a/b"))] {
            let read = read(&body, dataset).unwrap();
            let stored = store(read, &doc! {"accessGroups": ["h"]}, "1", "ann", DateTime::from_millis(0));
            assert_eq!(targets(&stored), ["a/b"]);
            let shown = show(&stored);
            assert_eq!(
                (&shown["id"], &shown["aid"], &shown["accessGroups"]),
                (&json!("1"), &json!("1"), &json!(["h"]))
            );
            assert_eq!(shown["relationships"][0]["targetId"], "a/b");
        }
    }

    #[test]
    fn a_stated_key_is_kept() {
        let read = read(&json!({"aid": "x", "datasetId": "a"}), None).unwrap();
        assert_eq!(store(read, &doc! {}, "1", "ann", DateTime::from_millis(0)).get_str("_id").unwrap(), "x");
    }

    #[test]
    fn a_change_keeps_the_key_and_a_replacement_keeps_nothing_else() {
        let at = DateTime::from_millis;
        let body = json!({"aid": "x", "caption": "c", "thumbnail": "t", "datasetId": "a"});
        let stored = store(read(&body, None).unwrap(), &doc! {"ownerGroup": "g"}, "1", "ann", at(0));
        let change = |body: Value, extent| changed(&stored, &body, extent, "bob", at(9));
        let given = change(json!({"caption": "new", "id": "x"}), Extent::Given).unwrap();
        let mut expected = stored.clone();
        expected.extend(doc! {"caption": "new", "updatedBy": "bob", "updatedAt": at(9)});
        assert_eq!(show(&given), show(&expected));
        let all = change(json!({"caption": "new", "datasetId": "b"}), Extent::All).unwrap();
        assert_eq!((targets(&all), all.get_str("createdBy").unwrap()), (vec!["b"], "ann"));
        assert!(!all.contains_key("thumbnail") && !all.contains_key("ownerGroup"));
        let moved = json!({"relationships": [{"targetId": "b", "targetType": "dataset"}]});
        assert_eq!(targets(&change(moved, Extent::Given).unwrap()), ["b"]);
        assert_eq!(targets(&change(json!({"datasetId": "b"}), Extent::Given).unwrap()), ["b"]);
        for (body, extent) in [
            (json!({"aid": "y"}), Extent::Given),
            (json!({"caption": "c"}), Extent::All),
            (json!({"relationships": []}), Extent::Given),
            (json!({"_id": "y"}), Extent::Given),
            (json!({"createdBy": "eve"}), Extent::Given),
        ] {
            assert!(change(body.clone(), extent).is_err(), "{body}");
        }
    }

    #[test]
    fn two_changes_in_one_millisecond_differ() {
        let (at, body) = (DateTime::from_millis(5), json!({"caption": "c", "datasetId": "a"}));
        let stored = store(read(&body, None).unwrap(), &doc! {}, "1", "ann", at);
        for extent in [Extent::Given, Extent::All] {
            let changed = changed(&stored, &body, extent, "bob", at).unwrap();
            assert_eq!(changed.get_datetime("updatedAt").unwrap().timestamp_millis(), 6);
        }
    }

    #[test]
    fn an_attachment_that_moves_or_is_replaced_loses_the_access_that_the_body_does_not_state() {
        let at = DateTime::from_millis(0);
        let dataset = doc! {"ownerGroup": "g", "accessGroups": ["h"], "isPublished": true};
        let read = read(&json!({"caption": "c", "datasetId": "a"}), None).unwrap();
        let stored = store(read, &dataset, "1", "ann", at);
        let check = |body: Value, extent, groups: [Option<&str>; 2], is_published: Option<bool>| {
            let mut document = changed(&stored, &body, extent, "bob", at).unwrap();
            if inherits(&stored, &document, extent) {
                inherit(&mut document, &doc! {"ownerGroup": "of b", "isPublished": false});
            }
            let access = document.get_array("accessGroups").ok().map(|groups| groups[0].as_str().unwrap());
            assert_eq!([document.get_str("ownerGroup").ok(), access], groups, "{body}");
            assert_eq!(document.get_bool("isPublished").ok(), is_published, "{body}");
        };
        check(json!({"caption": "new"}), Extent::Given, [Some("g"), Some("h")], Some(true));
        check(json!({"datasetId": "a"}), Extent::Given, [Some("g"), Some("h")], Some(true));
        check(json!({"datasetId": "b"}), Extent::Given, [Some("of b"), None], Some(false));
        let stated = json!({"datasetId": "b", "ownerGroup": "o", "isPublished": true});
        check(stated, Extent::Given, [Some("o"), None], Some(true));
        check(json!({"datasetId": "a"}), Extent::All, [Some("of b"), None], Some(false));
    }

    #[test]
    fn an_attachment_keeps_its_stated_access_while_its_first_dataset_stays() {
        let at = DateTime::from_millis(0);
        let related = |pids: &[&str]| {
            let to = |pid: &&str| json!({"targetId": pid, "targetType": "dataset"});
            json!({"relationships": pids.iter().map(to).collect::<Vec<_>>()})
        };
        let check = |pids: &[&str], body: Value, keeps: bool| {
            let mut stored = store(read(&related(pids), None).unwrap(), &doc! {}, "1", "ann", at);
            stored.extend(doc! {"ownerGroup": "o", "isPublished": false});
            let changed = changed(&stored, &body, Extent::Given, "bob", at).unwrap();
            assert_eq!(inherits(&stored, &changed, Extent::Given), !keeps, "{body}");
            for name in ["ownerGroup", "isPublished"] {
                assert_eq!(changed.get(name), stored.get(name).filter(|_| keeps), "{body}");
            }
        };
        check(&["a"], related(&["a", "b"]), true);
        check(&["a", "b", "c"], related(&["a", "c", "b"]), true);
        check(&["a", "b"], json!({"datasetId": "a"}), true);
        check(&["a", "b"], related(&["b", "a"]), false);
        check(&["a", "b"], related(&["b"]), false);
    }

    #[test]
    fn a_malformed_attachment_is_refused() {
        for body in [
            json!({}),
            json!({"datasetId": ""}),
            json!({"datasetId": {"$ne": ""}}),
            json!({"datasetId": "a", "_id": "x"}),
            json!({"datasetId": "a", "thumbnail": 5}),
            json!({"relationships": [{"targetType": "dataset", "targetId": {"$ne": 1}}]}),
            json!([]),
        ] {
            assert!(read(&body, None).is_err(), "{body}");
        }
    }
}
