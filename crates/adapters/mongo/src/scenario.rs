//! Reads the MongoDB section of a scenario, as typed.

pub use plimsoll_deployment::collection::Existing;
pub use plimsoll_deployment::concern::{W, WriteConcern};
pub use plimsoll_deployment::read_preference::ReadPreference;
use plimsoll_document::{IdForm, PastEnd, Template};
use plimsoll_load::retry::Retry;
use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use change::{Change, Returns, Updates};
pub use connections::{Connections, InvalidConnections};
pub use keys::{By, Keys, Limit};
pub use operation::{
    Aggregate, Count, Delete, Find, FindAndModify, Insert, ListAppend, Operation, Range, ReadModifyWrite,
    Replace, Transaction, Update,
};

mod change;
mod connections;
mod keys;
mod operation;

/// The time limit of an operation when the scenario sets none.
const TIMEOUT_DEFAULT: Span = Span::from_secs(plimsoll_deployment::COMMAND_TIMEOUT.as_secs());

/// The longest wait for members that lag, unless the scenario sets another.
const LAG_MAX: Span = Span::from_secs(100);

/// The time limit for the check of all indexes, unless the scenario sets another.
const INDEX_TIME_MAX: Span = Span::from_secs(30);

/// The client that sends the operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Client {
    /// Plimsoll's own client.
    #[default]
    Lean,
    /// The official Rust driver.
    Driver,
}

impl Client {
    /// The name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lean => "lean",
            Self::Driver => "driver",
        }
    }
}

/// Documents from a file instead of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentFile {
    /// A `.bson` file of mongodump, a `.json`, `.jsonl` or `.ndjson` file with one document a line, or a `.csv` or `.tsv`
    /// table whose first line names the fields and may fix their types (`age.int32()`).
    pub path: String,
    /// The behaviour after the last record.
    #[serde(default)]
    pub past_end: PastEnd,
}

/// The field that carries a document's stamp, so that a copy under another `_id` is recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "bool", into = "bool")]
#[schemars(with = "bool")]
pub enum Stamp {
    /// An int64 named `_p` at the document's end.
    #[default]
    On,
    /// No stamp: the document's exact bytes are kept.
    Off,
}

impl From<bool> for Stamp {
    fn from(on: bool) -> Self {
        if on { Self::On } else { Self::Off }
    }
}

impl From<Stamp> for bool {
    fn from(stamp: Stamp) -> Self {
        stamp == Stamp::On
    }
}

/// MongoDB's part of a scenario, as typed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Section {
    /// `database.collection`.
    pub collection: String,
    /// The treatment of a collection that is not empty.
    pub existing: Existing,
    /// The document to insert.
    pub document: Option<Template>,
    /// A file of documents to insert, instead of `document`.
    pub documents_from: Option<DocumentFile>,
    /// The form of `_id`; `own` keeps the `_id` of the template or file; such documents are counted, not proven.
    pub id: IdForm,
    /// Whether each document carries its stamp.
    pub stamp: Stamp,
    /// The condition for acknowledging writes, for operations without their own.
    pub write_concern: WriteConcern,
    /// Level of the read concern, for operations without their own.
    pub read_concern: Option<String>,
    /// The members that may answer reads, for operations without their own.
    pub read_preference: Option<ReadPreference>,
    /// The connections of the clients.
    pub connections: Connections,
    /// The client that sends the operations.
    pub client: Client,
    /// The time limit of an operation; afterwards its outcome is unknown.
    pub timeout: Span,
    /// Whether failed operations are sent again. Default: as the deployment supports.
    pub retry: Option<Retry>,
    /// The checks after the load.
    pub audit: Audit,
}

/// The checks of an audit beyond reading every document, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// The time limit for the check of all indexes: each takes another scan. An index whose scan would take longer is left out. 0 checks none.
    pub index_time_max: Span,
    /// The most documents of a collection whose indexes are checked; unlimited if left out. 0 checks none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_documents_max: Option<u64>,
    /// The longest wait for a member of a replica set that lags behind its primary, or restarts. 0 compares no members and reads no
    /// shards: each takes another scan.
    pub lag_max: Span,
}

impl Default for Audit {
    fn default() -> Self {
        Self { index_time_max: INDEX_TIME_MAX, index_documents_max: None, lag_max: LAG_MAX }
    }
}

impl Default for Section {
    fn default() -> Self {
        Self {
            collection: String::new(),
            existing: Existing::Refuse,
            document: None,
            documents_from: None,
            id: IdForm::ObjectId,
            stamp: Stamp::On,
            write_concern: WriteConcern::default(),
            read_concern: None,
            read_preference: None,
            connections: Connections::default(),
            client: Client::Lean,
            timeout: TIMEOUT_DEFAULT,
            retry: None,
            audit: Audit::default(),
        }
    }
}
