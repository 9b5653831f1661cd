//! What is in a deployment: its databases, collections, indexes and fields; and what changed between two looks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use serde_json::Value;

use crate::environment::ServerFacts;

mod difference;
mod fields;
mod index;
mod size;
mod topic;

pub use difference::{Change, Difference, difference, differences};
pub use fields::{Choice, Field, Forbidden, Inventory, Place, Presence, Sample, Source, Spread, Times};
pub use index::Index;
pub use size::{Said, Size};
pub use topic::{Extent, Topic};

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
    /// The topics of Kafka that were looked at: those of a suite's pipelines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<Topic>,
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

impl Inspection {
    /// Whether no forbidden field is there, as far as was looked. What could not be looked at does not hold.
    pub fn holds(&self) -> bool {
        let mut presences = self.collections.iter().flat_map(|collection| &collection.forbidden);
        presences
            .all(|forbidden| matches!(forbidden.presence, Presence::Absent | Presence::AbsentInInventory))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
