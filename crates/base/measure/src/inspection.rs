//! Describes the content of a deployment (databases, collections, indexes, fields) and the changes between two
//! inspections.

use crate::environment::ServerFacts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use serde_json::Value;

mod difference;
mod fields;
mod size;

pub use difference::{Change, Difference, difference, differences};
pub use fields::{
    Choice, Field, Forbidden, Inventory, Presence, Sample, SamplePosition, Source, Spread, Times,
};
pub use size::{Reported, Size};

/// The version of the form. It grows when a key changes its meaning or goes away; new keys do not change it.
pub const FORMAT: u32 = 1;

/// An inspection of a deployment. Values that a server does not report are absent, never zero.
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
    /// The inspected collections.
    pub collections: Vec<Collection>,
    /// The inspected Kafka topics: those of a suite's pipelines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<Topic>,
    /// Omissions and their reasons.
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

/// The kind of a namespace.
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

/// The method of counting documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// Not counted.
    #[default]
    None,
    /// By the server's metadata: after a crash and on a sharded cluster the number may be wrong.
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
    /// The kind of the namespace.
    #[serde(default)]
    pub kind: Kind,
    /// Its creation options.
    #[serde(default)]
    pub options: Options,
    /// Documents in it.
    pub documents: Option<u64>,
    /// The method of counting.
    #[serde(default)]
    pub counting: Counting,
    /// Its size.
    #[serde(default)]
    pub size: Size,
    /// Its indexes; absent where this user may not list them.
    pub indexes: Option<Vec<Index>>,
    /// Sample documents.
    #[serde(default)]
    pub samples: Vec<Sample>,
    /// The fields of its documents; absent if they were not inspected.
    pub inventory: Option<Inventory>,
    /// The time ranges of its documents, by `_id` and by every date field.
    #[serde(default)]
    pub times: Vec<Times>,
    /// The forbidden fields.
    #[serde(default)]
    pub forbidden: Vec<Forbidden>,
    /// Omissions and their reasons.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The creation options of a collection.
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
    /// The source collection of a view.
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
    /// The expected distance between measurements: `seconds`, `minutes` or `hours`.
    pub granularity: Option<String>,
}

impl Inspection {
    /// Whether every forbidden field is absent. An unchecked field counts as present.
    pub fn holds(&self) -> bool {
        let mut presences = self.collections.iter().flat_map(|collection| &collection.forbidden);
        presences
            .all(|forbidden| matches!(forbidden.presence, Presence::Absent | Presence::AbsentInInventory))
    }
}

impl Collection {
    /// A missing collection: without documents, indexes and fields.
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
    /// The filter for its documents, as JSON; absent if it holds all documents.
    pub partial: Option<String>,
    /// Bytes on disk.
    pub bytes: Option<u64>,
}

impl Index {
    /// Name, keys and properties: `at_1 {"at":1}, unique`.
    pub fn in_words(&self) -> String {
        let words = [format!("{} {}", self.name, self.keys)];
        words.into_iter().chain(self.properties()).collect::<Vec<_>>().join(", ")
    }

    /// Its properties, in words.
    pub fn properties(&self) -> Vec<String> {
        let flags = [(self.unique, "unique"), (self.sparse, "sparse"), (self.hidden, "hidden")];
        let flags = flags.into_iter().filter(|(is, _)| *is).map(|(_, name)| name.to_owned());
        let expiry = self.expire_after_s.map(|seconds| format!("expires after {seconds} s"));
        let partial = self.partial.as_ref().map(|filter| format!("only {filter}"));
        flags.chain(expiry).chain(partial).collect()
    }
}

/// A topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Whether the topic exists. A missing topic has no partitions.
    pub exists: bool,
    /// Its partitions in order.
    pub partitions: Vec<Extent>,
}

/// The range of offsets of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extent {
    /// Its number.
    pub partition: u32,
    /// The first existing offset.
    pub begin: u64,
    /// The offset after the last one. Transaction markers take offsets too.
    pub end: u64,
}

impl Topic {
    /// Existing offsets over all partitions: records, and transaction markers.
    pub fn offsets(&self) -> u64 {
        self.partitions.iter().map(|extent| extent.end.saturating_sub(extent.begin)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_field_that_could_not_be_searched_does_not_hold() {
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
