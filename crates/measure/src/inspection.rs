//! What is in a deployment: its databases, collections, indexes and fields; and what changed between two looks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use serde_json::Value;

use crate::environment::ServerFacts;

/// The version of the form. It grows when a key changes its meaning or goes away; new keys do not change it.
pub const FORMAT: u32 = 1;

/// One look at a deployment. What a server does not report is absent and is never taken for zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inspection {
    /// Version of this form: 1.
    pub format: u32,
    /// When it was taken, in UTC (RFC 3339).
    pub taken: String,
    /// The same in milliseconds since 1970.
    pub taken_ms: u64,
    /// The server as it described itself.
    pub server: ServerFacts,
    /// Median round trip of an empty command, in nanoseconds.
    pub round_trip_ns: u64,
    /// The databases that this user may see.
    pub databases: Vec<Database>,
    /// The collections that were looked at.
    pub collections: Vec<Collection>,
    /// What was left out, and why.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The size of a database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Database {
    /// Its name.
    pub name: String,
    /// Collections in it.
    pub collections: Option<u64>,
    /// Documents in it, by the server's metadata.
    pub documents: Option<u64>,
    /// Bytes of all documents, uncompressed.
    pub data_bytes: Option<u64>,
    /// Bytes of its collections on disk, without indexes.
    pub storage_bytes: Option<u64>,
    /// Bytes of its indexes on disk.
    pub index_bytes: Option<u64>,
}

/// What a namespace stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A collection.
    #[default]
    Collection,
    /// A time series collection.
    TimeSeries,
    /// A view: a query over other collections.
    View,
}

/// How the number of documents was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// It was not.
    #[default]
    None,
    /// By the server's metadata: after a crash and on a sharded cluster it may be off.
    Estimated,
    /// The server counted every document.
    Counted,
}

/// One collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Collection {
    /// `database.collection`.
    pub namespace: String,
    /// Whether it exists; all else is empty if not.
    pub exists: bool,
    /// What the namespace stands for.
    #[serde(default)]
    pub kind: Kind,
    /// How it was made.
    #[serde(default)]
    pub options: Options,
    /// Documents in it.
    pub documents: Option<u64>,
    /// How these were counted.
    #[serde(default)]
    pub counting: Counting,
    /// What it takes.
    #[serde(default)]
    pub size: Size,
    /// Its indexes; absent where this user may not list them.
    pub indexes: Option<Vec<Index>>,
    /// Some of its documents.
    #[serde(default)]
    pub samples: Vec<Sample>,
    /// The fields of its documents; absent where they were not looked at.
    pub inventory: Option<Inventory>,
    /// From when to when its documents are, by `_id` and by every field with dates.
    #[serde(default)]
    pub times: Vec<Times>,
    /// The fields that must not be there.
    #[serde(default)]
    pub forbidden: Vec<Forbidden>,
    /// What was left out, and why.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// How a collection was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Options {
    /// The limits of a capped collection: the server removes its oldest documents.
    pub capped: Option<Capped>,
    /// The fields of a time series.
    pub time_series: Option<TimeSeries>,
    /// Whether documents are checked before they are written.
    #[serde(default)]
    pub validator: bool,
    /// Whether documents are stored in the order of their `_id`.
    #[serde(default)]
    pub clustered: bool,
    /// Seconds after which documents of a time series or a clustered collection expire.
    pub expire_after_s: Option<f64>,
    /// The collection that a view looks at.
    pub view_on: Option<String>,
}

/// The limits of a capped collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capped {
    /// Bytes at most.
    pub bytes_max: Option<u64>,
    /// Documents at most.
    pub documents_max: Option<u64>,
}

/// The fields of a time series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSeries {
    /// The field with the moment of a measurement.
    pub time_field: String,
    /// The field that names the series.
    pub meta_field: Option<String>,
    /// How far apart measurements are expected: `seconds`, `minutes` or `hours`.
    pub granularity: Option<String>,
}

/// What a collection takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Size {
    /// Bytes of all documents, uncompressed.
    pub data_bytes: Option<u64>,
    /// Average bytes of a document, uncompressed.
    pub document_bytes: Option<f64>,
    /// Bytes on disk without indexes, compressed. What was written since the storage engine's last checkpoint may be
    /// missing.
    pub storage_bytes: Option<u64>,
    /// Bytes of those that are free to be used again.
    pub free_bytes: Option<u64>,
    /// Bytes of all indexes on disk.
    pub index_bytes: Option<u64>,
    /// `data_bytes` ÷ `storage_bytes`.
    pub compression: Option<f64>,
}

/// Sizes as a server says them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Documents.
    pub documents: Option<u64>,
    /// Bytes of all documents.
    pub data_bytes: Option<u64>,
    /// Bytes on disk.
    pub storage_bytes: Option<u64>,
    /// Bytes of those that are free.
    pub free_bytes: Option<u64>,
    /// Bytes of all indexes.
    pub index_bytes: Option<u64>,
}

impl Said {
    /// Whether its sizes on disk are measured. A server that says of its documents that they take on disk exactly what
    /// they are long has made the sizes on disk up, those of its indexes too.
    pub fn knows_disk(&self) -> bool {
        self.storage_bytes.is_some() && self.storage_bytes != self.data_bytes
    }
}

impl Size {
    /// What can be believed of it.
    pub fn of(said: &Said) -> Self {
        let on_disk = |bytes: Option<u64>| bytes.filter(|_| said.knows_disk());
        let storage_bytes = on_disk(said.storage_bytes);
        Self {
            data_bytes: said.data_bytes,
            document_bytes: ratio(said.data_bytes, said.documents),
            storage_bytes,
            free_bytes: on_disk(said.free_bytes),
            index_bytes: on_disk(said.index_bytes),
            compression: ratio(said.data_bytes, storage_bytes).filter(|ratio| *ratio > 0.0),
        }
    }
}

fn ratio(above: Option<u64>, below: Option<u64>) -> Option<f64> {
    below.filter(|below| *below > 0).and_then(|below| Some(above? as f64 / below as f64))
}

/// One index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its keys and their order as JSON, such as `{"at":-1}`.
    pub keys: String,
    /// Whether no two documents may share a key.
    #[serde(default)]
    pub unique: bool,
    /// Whether documents without the keys are left out.
    #[serde(default)]
    pub sparse: bool,
    /// Whether queries do not see it.
    #[serde(default)]
    pub hidden: bool,
    /// Seconds after which documents expire.
    pub expire_after_s: Option<f64>,
    /// Which documents it holds, as JSON; all if absent.
    pub partial: Option<String>,
    /// Bytes on disk.
    pub bytes: Option<u64>,
}

/// One document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Which it is.
    pub place: Place,
    /// Its size in bytes, uncompressed.
    pub bytes: u64,
    /// The document as relaxed Extended JSON; without what had to be left out.
    pub document: Value,
    /// Fields that were left out because the document is too large to be shown whole.
    #[serde(default)]
    pub left_out: u64,
}

/// Which document a sample is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The one with the least `_id`.
    #[default]
    First,
    /// Any other.
    Between,
    /// The one with the greatest `_id`.
    Last,
}

/// The fields of some documents, or of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inventory {
    /// Documents that were looked at.
    pub documents: u64,
    /// How they were chosen.
    pub choice: Choice,
    /// Their sizes in bytes, uncompressed.
    pub document_bytes: Spread,
    /// The fields in the order in which the documents hold them.
    pub fields: Vec<Field>,
    /// Whether there are more fields than are listed, or some too deep or too long to be named.
    #[serde(default)]
    pub cut: bool,
}

/// How documents were chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// All were looked at.
    #[default]
    All,
    /// The server chose them at random.
    Random,
    /// The first that the server gave.
    Foremost,
}

/// The spread of sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The smallest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: u64,
}

/// One field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Field {
    /// Its dotted path; `tags[]` stands for every element of the array `tags`.
    pub path: String,
    /// Documents that have it.
    pub documents: u64,
    /// Their share of the documents looked at, 0 to 1.
    pub share: f64,
    /// How often it was seen: more than once in a document within arrays.
    pub values: u64,
    /// How often it was of which BSON type, by the names of MongoDB's `$type`; binary data by subtype as well.
    pub types: BTreeMap<String, u64>,
    /// Encoded bytes of its values, without the field's name.
    pub bytes: Spread,
}

/// From when to when the documents of a collection are, by one field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// The field: `_id`, whose ObjectIds hold a second each, or a field with dates.
    pub path: String,
    /// The earliest, in UTC (RFC 3339).
    pub first: String,
    /// The latest, in UTC (RFC 3339).
    pub last: String,
    /// From the earliest to the latest, in seconds.
    pub span_s: f64,
    /// How it was found.
    pub source: Source,
}

/// How the earliest and the latest moment were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// At the ends of an index.
    Index,
    /// In all documents.
    Scan,
    /// In the documents of the inventory only: others may be earlier or later.
    #[default]
    Inventory,
}

/// A field that must not be there, and whether it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forbidden {
    /// The field as asked for; `*` stands for any characters, dots included.
    pub pattern: String,
    /// Whether it is there.
    pub presence: Presence,
    /// Documents of the collection that have it; absent where they were not all counted.
    pub documents: Option<u64>,
    /// Documents of the inventory that have it.
    pub sampled: u64,
    /// The paths that were found, a few of them.
    #[serde(default)]
    pub paths: Vec<String>,
    /// The `_id` of a few documents that have it, as relaxed Extended JSON.
    #[serde(default)]
    pub examples: Vec<Value>,
}

/// Whether a forbidden field is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// The documents could not be looked at: it may be there.
    #[default]
    NotChecked,
    /// It is there.
    Found,
    /// No document has it.
    Absent,
    /// No document of the inventory has it; others may.
    AbsentInInventory,
}

impl Inspection {
    /// Whether no forbidden field is there, as far as was looked. What could not be looked at does not hold.
    pub fn holds(&self) -> bool {
        let mut presences = self.collections.iter().flat_map(|collection| &collection.forbidden);
        presences
            .all(|forbidden| matches!(forbidden.presence, Presence::Absent | Presence::AbsentInInventory))
    }
}

/// A value before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change<T> {
    /// Before.
    pub before: Option<T>,
    /// After.
    pub after: Option<T>,
}

impl Change<u64> {
    /// By how much it grew; negative where it shrank. Absent where one of the two is.
    pub fn growth(&self) -> Option<i64> {
        let [before, after] = [self.before?, self.after?].map(|value| i64::try_from(value).ok());
        after?.checked_sub(before?)
    }
}

/// What changed in a collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// `database.collection`.
    pub namespace: String,
    /// Whether it exists.
    pub exists: Change<bool>,
    /// Documents in it.
    pub documents: Change<u64>,
    /// Whether both numbers of documents were counted, not taken from the server's metadata.
    pub counted: bool,
    /// Bytes of all documents, uncompressed.
    pub data_bytes: Change<u64>,
    /// Average bytes of a document, uncompressed.
    pub document_bytes: Change<f64>,
    /// Bytes on disk without indexes, compressed.
    pub storage_bytes: Change<u64>,
    /// Bytes of those that are free.
    pub free_bytes: Change<u64>,
    /// Bytes of all indexes on disk.
    pub index_bytes: Change<u64>,
    /// Bytes of the documents ÷ bytes on disk.
    pub compression: Change<f64>,
    /// Indexes that are new, or of another kind than before: name and keys.
    pub indexes_added: Vec<String>,
    /// Indexes that are gone, or of another kind now: name and keys.
    pub indexes_removed: Vec<String>,
    /// Fields that were not seen before; empty where the fields of one of the two were not looked at.
    pub fields_added: Vec<String>,
    /// Fields that are not seen any more.
    pub fields_removed: Vec<String>,
    /// Whether both times the fields of all documents were looked at: else a rare field may come and go by chance.
    pub fields_of_all: bool,
}

/// What changed in a collection.
pub fn difference(before: &Collection, after: &Collection) -> Difference {
    let change =
        |get: fn(&Size) -> Option<u64>| Change { before: get(&before.size), after: get(&after.size) };
    let ratio = |get: fn(&Size) -> Option<f64>| Change { before: get(&before.size), after: get(&after.size) };
    let (indexes_added, indexes_removed) = apart(indexes(before), indexes(after));
    let (fields_added, fields_removed) = apart(fields(before), fields(after));
    Difference {
        namespace: after.namespace.clone(),
        exists: Change { before: Some(before.exists), after: Some(after.exists) },
        documents: Change { before: before.documents, after: after.documents },
        counted: before.counting == Counting::Counted && after.counting == Counting::Counted,
        data_bytes: change(|size| size.data_bytes),
        document_bytes: ratio(|size| size.document_bytes),
        storage_bytes: change(|size| size.storage_bytes),
        free_bytes: change(|size| size.free_bytes),
        index_bytes: change(|size| size.index_bytes),
        compression: ratio(|size| size.compression),
        indexes_added,
        indexes_removed,
        fields_added,
        fields_removed,
        fields_of_all: [before, after].iter().all(|collection| {
            collection.inventory.as_ref().is_some_and(|inventory| inventory.choice == Choice::All)
        }),
    }
}

/// What changed in every collection of either inspection, those after first.
pub fn differences(before: &Inspection, after: &Inspection) -> Vec<Difference> {
    let find = |inspection: &Inspection, namespace: &str| {
        let found = inspection.collections.iter().find(|collection| collection.namespace == namespace);
        found.cloned().unwrap_or_else(|| Collection::missing(namespace))
    };
    let is_gone = |collection: &&Collection| !find(after, &collection.namespace).exists;
    let names = after.collections.iter().chain(before.collections.iter().filter(is_gone));
    names.map(|each| difference(&find(before, &each.namespace), &find(after, &each.namespace))).collect()
}

impl Collection {
    /// A collection that is not there: without documents, indexes and fields.
    pub fn missing(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            documents: Some(0),
            counting: Counting::Counted,
            size: Size { data_bytes: Some(0), ..Size::default() },
            indexes: Some(Vec::new()),
            inventory: Some(Inventory::default()),
            ..Self::default()
        }
    }
}

/// Name, keys and kind of every index.
fn indexes(collection: &Collection) -> Option<Vec<String>> {
    Some(collection.indexes.as_ref()?.iter().map(Index::in_words).collect())
}

impl Index {
    /// Name and keys, and what makes it special: `at_1 {"at":1}, unique`.
    pub fn in_words(&self) -> String {
        let words = [format!("{} {}", self.name, self.keys)];
        words.into_iter().chain(self.properties()).collect::<Vec<_>>().join(", ")
    }

    /// What makes it special, in words.
    pub fn properties(&self) -> Vec<String> {
        let flags = [(self.unique, "unique"), (self.sparse, "sparse"), (self.hidden, "hidden")];
        let flags = flags.into_iter().filter(|(is, _)| *is).map(|(_, name)| name.to_owned());
        let expiry = self.expire_after_s.map(|seconds| format!("expires after {seconds} s"));
        let partial = self.partial.as_ref().map(|filter| format!("only {filter}"));
        flags.chain(expiry).chain(partial).collect()
    }
}

fn fields(collection: &Collection) -> Option<Vec<String>> {
    Some(collection.inventory.as_ref()?.fields.iter().map(|field| field.path.clone()).collect())
}

/// What only the second has, and what only the first has; nothing where one of them is not known.
fn apart(before: Option<Vec<String>>, after: Option<Vec<String>>) -> (Vec<String>, Vec<String>) {
    let (Some(before), Some(after)) = (before, after) else { return Default::default() };
    let only = |some: &[String], others: &[String]| {
        some.iter().filter(|name| !others.contains(name)).cloned().collect::<Vec<_>>()
    };
    (only(&after, &before), only(&before, &after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(data: u64, storage: u64) -> Said {
        Said {
            documents: Some(10),
            data_bytes: Some(data),
            storage_bytes: Some(storage),
            free_bytes: Some(1),
            index_bytes: Some(2),
        }
    }

    #[test]
    fn the_compression_is_data_divided_by_storage() {
        let size = Size::of(&said(6450, 1000));
        assert_eq!((size.compression, size.document_bytes), (Some(6.45), Some(645.0)));
        assert_eq!((size.storage_bytes, size.free_bytes, size.index_bytes), (Some(1000), Some(1), Some(2)));
    }

    #[test]
    fn sizes_on_disk_that_repeat_the_size_of_the_data_are_not_believed() {
        let size = Size::of(&said(41_100, 41_100));
        assert_eq!((size.data_bytes, size.document_bytes), (Some(41_100), Some(4110.0)));
        assert_eq!((size.storage_bytes, size.free_bytes, size.index_bytes), (None, None, None));
        assert_eq!(size.compression, None);
    }

    #[test]
    fn an_empty_collection_has_no_compression_and_no_average() {
        let size = Size::of(&Said { documents: Some(0), ..said(0, 4096) });
        assert_eq!((size.storage_bytes, size.compression, size.document_bytes), (Some(4096), None, None));
        assert_eq!(Size::of(&Said::default()), Size::default());
    }

    fn index(name: &str, unique: bool) -> Index {
        Index { name: name.into(), keys: format!("{{\"{name}\":1}}"), unique, ..Index::default() }
    }

    fn collection(documents: u64, indexes: Vec<Index>, fields: &[&str]) -> Collection {
        let field = |path: &&str| Field { path: (*path).into(), ..Field::default() };
        let inventory = Inventory { fields: fields.iter().map(field).collect(), ..Inventory::default() };
        Collection {
            namespace: "d.c".into(),
            exists: true,
            documents: Some(documents),
            counting: Counting::Counted,
            size: Size::of(&said(documents * 100, documents * 20)),
            indexes: Some(indexes),
            inventory: Some(inventory),
            ..Collection::default()
        }
    }

    #[test]
    fn a_difference_tells_counts_sizes_indexes_and_fields() {
        let before = collection(10, vec![index("_id", false), index("a", false)], &["_id", "a"]);
        let after = collection(30, vec![index("_id", false), index("a", true)], &["_id", "b"]);
        let difference = difference(&before, &after);
        assert_eq!((difference.documents.growth(), difference.counted), (Some(20), true));
        assert_eq!(
            (difference.data_bytes.growth(), difference.storage_bytes.growth()),
            (Some(2000), Some(400))
        );
        assert_eq!(difference.compression, Change { before: Some(5.0), after: Some(5.0) });
        assert_eq!(difference.indexes_added, ["a {\"a\":1}, unique"]);
        assert_eq!(difference.indexes_removed, ["a {\"a\":1}"]);
        assert_eq!(
            (difference.fields_added, difference.fields_removed),
            (vec!["b".into()], vec!["a".into()])
        );
    }

    #[test]
    fn nothing_changes_between_a_collection_and_itself() {
        let one = collection(10, vec![index("_id", false)], &["_id"]);
        let same = difference(&one, &one);
        assert_eq!((same.documents.growth(), same.data_bytes.growth()), (Some(0), Some(0)));
        assert!(same.indexes_added.is_empty() && same.fields_removed.is_empty());
    }

    #[test]
    fn fields_that_were_not_looked_at_are_neither_new_nor_gone() {
        let before = Collection { inventory: None, indexes: None, ..collection(1, vec![], &[]) };
        let after = collection(1, vec![index("_id", false)], &["_id"]);
        for (before, after) in [(&before, &after), (&after, &before)] {
            let difference = difference(before, after);
            assert!(difference.fields_added.is_empty() && difference.fields_removed.is_empty());
            assert!(difference.indexes_added.is_empty() && difference.indexes_removed.is_empty());
        }
    }

    #[test]
    fn what_is_not_reported_has_no_growth() {
        let change = |before, after| Change { before, after }.growth();
        assert_eq!((change(None, Some(1)), change(Some(1), None)), (None, None));
        assert_eq!((change(Some(5), Some(3)), change(Some(0), Some(u64::MAX))), (Some(-2), None));
    }

    #[test]
    fn collections_that_come_and_go_are_told() {
        let named = |name: &str| Collection { namespace: name.into(), ..collection(5, vec![], &["_id"]) };
        let look = |names: &[&str]| Inspection {
            collections: names.iter().map(|name| named(name)).collect(),
            ..Inspection::default()
        };
        let changes = differences(&look(&["d.a", "d.b"]), &look(&["d.b", "d.c"]));
        let told: Vec<_> = changes
            .iter()
            .map(|change| (change.namespace.as_str(), change.exists.before, change.documents.growth()))
            .collect();
        assert_eq!(
            told,
            [("d.b", Some(true), Some(0)), ("d.c", Some(false), Some(5)), ("d.a", Some(true), Some(-5))]
        );
        assert_eq!(changes[1].fields_added, ["_id"]);
    }

    #[test]
    fn a_forbidden_field_that_could_not_be_looked_for_does_not_hold() {
        let holds = |presence| {
            let forbidden = vec![Forbidden { presence, ..Forbidden::default() }];
            let collections = vec![Collection { forbidden, ..Collection::default() }];
            Inspection { collections, ..Inspection::default() }.holds()
        };
        assert!(holds(Presence::Absent) && holds(Presence::AbsentInInventory));
        assert!(!holds(Presence::Found) && !holds(Presence::NotChecked));
        assert!(Inspection::default().holds());
    }

    #[test]
    fn an_older_file_is_read() {
        let text = r#"{"namespace": "d.c", "exists": true}"#;
        let read: Collection = serde_json::from_str(text).unwrap();
        assert_eq!((read.exists, read.documents, read.indexes), (true, None, None));
    }
}
