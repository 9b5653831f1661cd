//! Makes blocks of files from request bodies, splits long blocks, and shows them.
//!
//! A block is one document as SciCat stores it, if it fits. A longer one is a head with the first files, and parts with the others. The
//! head alone makes a block visible, so a block appears whole or not at all.

use bson::{Bson, Document, doc};
use serde_json::{Map, Value};

use super::json::object;
use super::schema::Kind;
use super::value::typed;
use crate::Refusal;
use crate::refusal::shortened;

/// The maximum size of the files in one document, in bytes. MongoDB accepts 16 MiB; smaller documents need less memory at a time.
pub const PART_BYTES_MAX: usize = 4 << 20;
/// The longest path, in bytes.
const PATH_BYTES_MAX: usize = 4_096;
/// The maximum number of faults in an answer.
const FAULTS_MAX: usize = 20;
/// The largest size of a file and of a block, in bytes: clients read sizes as doubles.
pub const SIZE_MAX: i64 = 1 << 53;
/// The largest stored form of a file, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// The fields of a file, and whether each is required.
const FILE: [(&str, Kind, bool); 9] = [
    ("path", Kind::Text, true),
    ("size", Kind::Number, true),
    ("time", Kind::Date, true),
    ("chk", Kind::Text, false),
    ("uid", Kind::Text, false),
    ("gid", Kind::Text, false),
    ("perm", Kind::Text, false),
    ("type", Kind::Text, false),
    ("metadata", Kind::Free, false),
];
/// The fields of a body.
const BLOCK: [&str; 7] =
    ["datasetId", "size", "chkAlg", "dataFileList", "ownerGroup", "accessGroups", "instrumentGroup"];
/// The fields that a block has from its dataset.
pub const INHERITED: [&str; 4] = ["ownerGroup", "accessGroups", "instrumentGroup", "isPublished"];

/// A block without its files.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The PID of the dataset.
    pub dataset: String,
    /// The bytes of all files, as stated.
    pub size: i64,
    /// The algorithm of the checksums.
    pub checksum: Option<String>,
}

/// Reads a body: the head and its files. `dataset` is the PID in the path, if any.
///
/// # Errors
/// The faults of the body.
pub fn read(body: &Value, dataset: Option<&str>) -> Result<(Head, Vec<Document>), Refusal> {
    let empty = Map::new();
    let fields = body.as_object().unwrap_or(&empty);
    let mut faults = unknown(fields);
    let head = head(fields, dataset, &mut faults);
    let files = files(fields.get("dataFileList"), &mut faults);
    if faults.is_empty() { Ok((head, files)) } else { Err(Refusal::Properties(faults)) }
}

/// A change of a block: the parts that a body names.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// The bytes of all files.
    pub size: Option<i64>,
    /// The algorithm of the checksums.
    pub checksum: Option<String>,
    /// All files.
    pub files: Option<Vec<Document>>,
}

/// Reads the body of a change of a block of a dataset. `null` changes nothing.
///
/// # Errors
/// The faults of the body.
pub fn patch(body: &Value, dataset: &str) -> Result<Patch, Refusal> {
    let fields = body.as_object().ok_or_else(|| Refusal::bad("the body must be an object"))?;
    let mut faults = unknown(fields);
    let given = |name: &str| fields.get(name).filter(|value| !value.is_null());
    if given("datasetId").is_some_and(|pid| pid.as_str() != Some(dataset)) {
        faults.push("datasetId must be that of the block".into());
    }
    let size = given("size").and_then(|value| size(Some(value), &mut faults));
    let checksum = given("chkAlg").and_then(|value| checksum(Some(value), &mut faults));
    let files = given("dataFileList").map(|value| files(Some(value), &mut faults));
    if faults.is_empty() { Ok(Patch { size, checksum, files }) } else { Err(Refusal::Properties(faults)) }
}

fn unknown(fields: &Map<String, Value>) -> Vec<String> {
    let others = fields.keys().filter(|name| !BLOCK.contains(&name.as_str()));
    others.take(FAULTS_MAX).map(|name| format!("property {} should not exist", shortened(name))).collect()
}

/// The stored files of a list.
fn files(list: Option<&Value>, faults: &mut Vec<String>) -> Vec<Document> {
    let list = list.and_then(Value::as_array).filter(|list| !list.is_empty());
    if list.is_none() {
        faults.push("dataFileList should not be empty".into());
    }
    let mut files = Vec::with_capacity(list.map_or(0, Vec::len));
    for (index, value) in list.into_iter().flatten().enumerate() {
        match file(value) {
            Ok(file) => files.push(file),
            Err(fault) => faults.push(format!("dataFileList.{index}.{fault}")),
        }
        if faults.len() >= FAULTS_MAX {
            break;
        }
    }
    files
}

fn head(fields: &Map<String, Value>, dataset: Option<&str>, faults: &mut Vec<String>) -> Head {
    let stated = fields.get("datasetId").and_then(Value::as_str);
    if dataset.is_some() && stated.is_some() && stated != dataset {
        faults.push("datasetId must be that of the path".into());
    }
    let dataset = dataset.or(stated).unwrap_or_default().to_owned();
    if dataset.is_empty() {
        faults.push("datasetId should not be empty".into());
    }
    let size = size(fields.get("size"), faults).unwrap_or_default();
    Head { dataset, size, checksum: checksum(fields.get("chkAlg"), faults) }
}

fn size(value: Option<&Value>, faults: &mut Vec<String>) -> Option<i64> {
    let size = value.and_then(Value::as_i64).filter(|size| *size >= 0);
    match size {
        None => faults.push("size must be an integer number and not less than 0".into()),
        Some(size) if size > SIZE_MAX => faults.push(too_much()),
        Some(_) => (),
    }
    size
}

fn checksum(value: Option<&Value>, faults: &mut Vec<String>) -> Option<String> {
    match value {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) if !name.is_empty() => Some(name.clone()),
        Some(_) => {
            faults.push("chkAlg must be a string and not empty".into());
            None
        }
    }
}

/// The stored form of a file.
///
/// # Errors
/// The fault: the name of the field, and a sentence about it.
pub fn file(value: &Value) -> Result<Document, String> {
    let fields = value.as_object().ok_or("a file must be an object")?;
    let other = fields.keys().find(|name| !FILE.iter().any(|(known, ..)| known == name));
    if let Some(name) = other {
        return Err(format!("property {} should not exist", shortened(name)));
    }
    let mut file = Document::new();
    for (name, kind, required) in FILE {
        match fields.get(name).filter(|value| !value.is_null()) {
            Some(value) => drop(file.insert(name, typed(name, kind, value)?)),
            None if required => return Err(format!("{name} should not be empty")),
            None => (),
        }
    }
    if is_too_large(&file) {
        return Err(too_much());
    }
    let path = file.get_str("path").unwrap_or_default();
    let valid = (1..=PATH_BYTES_MAX).contains(&path.len());
    if valid { Ok(file) } else { Err(format!("path must have 1 to {PATH_BYTES_MAX} bytes")) }
}

/// Whether a file is larger than the largest size.
fn is_too_large(file: &Document) -> bool {
    match file.get("size") {
        Some(Bson::Int64(size)) => *size > SIZE_MAX,
        Some(Bson::Double(size)) => *size > SIZE_MAX as f64,
        _ => false,
    }
}

/// The fault of a size above the largest one.
pub fn too_much() -> String {
    format!("size must not be more than {SIZE_MAX}")
}

/// Splits files into lists that fit into documents, one list in memory at a time.
#[derive(Debug, Default)]
pub struct Splitter {
    files: Vec<Document>,
    bytes: usize,
}

impl Splitter {
    /// Adds a file. Returns the list of the files before it once that list is full.
    pub fn push(&mut self, file: Document) -> Option<Vec<Document>> {
        let bytes = encoded_bytes(&file);
        let full = self.bytes + bytes > PART_BYTES_MAX && !self.files.is_empty();
        let before = full.then(|| {
            self.bytes = 0;
            std::mem::take(&mut self.files)
        });
        self.bytes += bytes;
        self.files.push(file);
        before
    }

    /// The encoded bytes of the current list.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The last list.
    pub fn finish(self) -> Vec<Document> {
        self.files
    }
}

/// The bytes of a file in an array: itself, and a key of up to ten digits.
pub fn encoded_bytes(file: &Document) -> usize {
    const KEY_BYTES: usize = 12;
    // Names have no zero byte, so encoding does not fail.
    file.to_vec().map_or(0, |bytes| bytes.len()) + KEY_BYTES
}

/// The facts about a new block that its body does not state.
#[derive(Clone, Debug)]
pub struct Creation<'a> {
    /// The key of the block.
    pub id: &'a str,
    /// The stored dataset.
    pub dataset: &'a Document,
    /// The name of the creator.
    pub by: &'a str,
    /// The time.
    pub at: bson::DateTime,
}

/// The list of the number of the first file in each part of a block, in its head: a page of files reads only its parts.
pub const PART_STARTS: &str = "partStarts";

/// The stored head with the first files. `files_count` counts all files, and `starts` names the first file of each part: none for a block in
/// one document.
pub fn store(
    head: &Head,
    creation: &Creation<'_>,
    files: Vec<Document>,
    file_count: i64,
    starts: &[i64],
) -> Document {
    let mut document = doc! {
        "_id": creation.id, "datasetId": &head.dataset, "size": head.size, "fileCount": file_count,
        "createdBy": creation.by, "updatedBy": creation.by, "createdAt": creation.at, "updatedAt": creation.at,
    };
    if let Some(checksum) = &head.checksum {
        document.insert("chkAlg", checksum);
    }
    inherit(&mut document, creation.dataset);
    document.insert("dataFileList", files);
    if !starts.is_empty() {
        document.insert("parts", starts.len() as i32);
        document.insert(PART_STARTS, starts);
    }
    document
}

/// Gives a block the access of its dataset.
pub fn inherit(block: &mut Document, dataset: &Document) {
    for name in INHERITED {
        match dataset.get(name) {
            Some(value) => drop(block.insert(name, value.clone())),
            None => drop(block.remove(name)),
        }
    }
}

/// A stored part of a block.
pub fn part(block: &str, number: i32, files: Vec<Document>) -> Document {
    doc! {"_id": {"block": block, "part": number}, "dataFileList": files}
}

/// The files of a stored block.
pub fn file_count(block: &Document) -> i64 {
    let listed = || block.get_array("dataFileList").map_or(0, |list| list.len() as i64);
    block.get_i64("fileCount").unwrap_or_else(|_| listed())
}

/// Whether a block has more documents than its head.
pub fn is_long(block: &Document) -> bool {
    block.get_i32("parts").unwrap_or(0) > 0
}

/// The body of a head. A head of several documents is shown without its files, which are not all of them.
pub fn show_head(block: &Document) -> Value {
    let mut body = show(block);
    if is_long(block)
        && let Some(fields) = body.as_object_mut()
    {
        fields.remove("dataFileList");
        fields.insert("numberOfFiles".into(), file_count(block).into());
    }
    body
}

/// The body of a stored block.
pub fn show(block: &Document) -> Value {
    let mut body = object(block);
    for internal in ["fileCount", "parts", PART_STARTS, "uncounted", "removed", "change", "claimedAt", "__v"]
    {
        body.remove(internal);
    }
    if let Some(id) = block.get("_id").and_then(Bson::as_str) {
        body.insert("id".into(), id.into());
    }
    body.into()
}

#[cfg(test)]
mod tests {
    use bson::DateTime;
    use serde_json::json;

    use super::*;

    fn body() -> Value {
        json!({
            "datasetId": "a/b", "size": 41_780_189_i64, "chkAlg": "sha256",
            "dataFileList": [{"path": "a.dat", "size": 1, "time": "2017-07-24T13:56:30.000Z", "chk": "c",
                "uid": "u", "gid": "g", "perm": "-rw-r--r--"}],
        })
    }

    #[test]
    fn a_block_is_stored_and_shown() {
        let (head, files) = read(&body(), None).unwrap();
        let dataset = doc! {"ownerGroup": "g", "accessGroups": ["h"], "isPublished": true, "owner": "x"};
        let creation = Creation { id: "1", dataset: &dataset, by: "ann", at: DateTime::from_millis(0) };
        let stored = store(&head, &creation, files, 1, &[]);
        assert_eq!(file_count(&stored), 1);
        let shown = show(&stored);
        let mut expected = body();
        for (name, value) in [
            ("_id", json!("1")),
            ("id", json!("1")),
            ("ownerGroup", json!("g")),
            ("accessGroups", json!(["h"])),
            ("isPublished", json!(true)),
            ("createdBy", json!("ann")),
            ("updatedBy", json!("ann")),
            ("createdAt", json!("1970-01-01T00:00:00.000Z")),
            ("updatedAt", json!("1970-01-01T00:00:00.000Z")),
        ] {
            expected[name] = value;
        }
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_malformed_block_is_refused() {
        let with = |name: &str, value: Value| {
            let mut body = body();
            body[name] = value;
            body
        };
        for body in [
            with("size", json!(-1)),
            with("size", json!(0.5)),
            with("size", json!("5")),
            with("chkAlg", json!("")),
            with("dataFileList", json!([])),
            with("dataFileList", json!({})),
            with("dataFileList", json!([{"path": "a", "size": 1}])),
            with("dataFileList", json!([{"path": "", "size": 1, "time": "2017-01-01"}])),
            with("dataFileList", json!([{"path": "a", "size": -1, "time": "2017-01-01"}])),
            with("dataFileList", json!([{"path": "a", "size": 1, "time": "2017-01-01", "$x": 1}])),
            with("dataFileList", json!([{"path": {"$gt": ""}, "size": 1, "time": "2017-01-01"}])),
            with("fileCount", json!(5)),
            with("datasetId", json!({"$ne": ""})),
            json!([]),
        ] {
            assert!(matches!(read(&body, None), Err(Refusal::Properties(_))), "{body}");
        }
        assert!(read(&body(), Some("other")).is_err());
        assert!(read(&body(), Some("a/b")).is_ok());
        let many = with("dataFileList", vec![json!({}); 100_000].into());
        let Err(Refusal::Properties(faults)) = read(&many, None) else { panic!("it is refused") };
        assert_eq!(faults.len(), FAULTS_MAX);
    }

    #[test]
    fn a_change_names_the_parts_that_it_changes() {
        let nothing = Patch { size: None, checksum: None, files: None };
        assert_eq!(patch(&json!({"datasetId": "a/b", "size": null}), "a/b"), Ok(nothing));
        let (head, files) = read(&body(), None).unwrap();
        let whole = Patch { size: Some(head.size), checksum: head.checksum, files: Some(files) };
        assert_eq!(patch(&body(), "a/b"), Ok(whole));
        for body in [
            json!({"datasetId": "c"}),
            json!({"size": -1}),
            json!({"chkAlg": ""}),
            json!({"dataFileList": []}),
            json!({"dataFileList": {"$set": 1}}),
            json!({"fileCount": 1}),
            json!([]),
        ] {
            assert_eq!(patch(&body, "a/b").unwrap_err().status(), 400, "{body}");
        }
    }

    #[test]
    fn files_are_split_into_documents_that_fit() {
        let file = |n: usize| doc! {"path": format!("{n:08}.dat"), "chk": "x".repeat(1_000)};
        let (mut splitter, mut lists) = (Splitter::default(), Vec::new());
        for n in 0..10_000 {
            lists.extend(splitter.push(file(n)));
        }
        lists.push(splitter.finish());
        assert!(lists.len() > 1);
        let files: Vec<Document> = lists.iter().flatten().cloned().collect();
        assert_eq!(files, (0..10_000).map(file).collect::<Vec<_>>(), "none is lost, and the order stays");
        for list in lists {
            let bytes = part("b", 1, list).to_vec().unwrap().len();
            assert!(bytes <= PART_BYTES_MAX + 1_024, "{bytes}");
        }
    }
}
