//! Pre-splits a collection: the admin commands that shard it, split it and move its chunks before the load.
//!
//! Not yet run on a real cluster: tests compare every command with MongoDB's reference on a scripted mongos.

use bson::{Bson, Document, doc, oid::ObjectId};
use plimsoll_deployment::Namespace;
use plimsoll_document::{IdForm, Template};
use plimsoll_wire::{Connection, Error as WireError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::operation_builder::identity;
use crate::setup::{Context, Setup, constant};

/// The largest number of chunks.
pub const CHUNKS_MAX: u64 = 8192;

/// The sharding of the collection before the load, as typed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sharding {
    /// The shard key, such as `{_id: 1}`, `{customer: 1}` or `{_id: hashed}`.
    pub key: Template,
    /// Splits the receipts of all documents into this many chunks of equal size; only for the key `{_id: 1}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
    /// Splits at these values of the key's first field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_at: Option<Template>,
    /// Moves the chunks to the shards in turn; otherwise the balancer decides.
    #[serde(default)]
    pub spread: bool,
}

/// The reason why a collection could not be sharded as requested.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server is not a mongos.
    #[error("shard: {0} is not a mongos: give the URI of a mongos, or leave out `shard`")]
    NoMongos(String),
    /// The key is invalid.
    #[error("shard.key: {0}")]
    Key(&'static str),
    /// The split is invalid.
    #[error("shard.{0}")]
    Split(String),
    /// A setting with a generator in it.
    #[error(transparent)]
    Setup(#[from] crate::setup::Error),
    /// The cluster refused a command.
    #[error("{command}: {source}")]
    Refused {
        /// The command, as text.
        command: String,
        /// The reason of the refusal.
        source: WireError,
    },
    /// The cluster has no shard.
    #[error("the cluster lists no shard: add one with sh.addShard() first")]
    NoShards,
}

/// The resolved sharding.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    namespace: Namespace,
    key: Document,
    /// Values of the key at which the collection is split, in order.
    points: Vec<Document>,
    spread: bool,
}

impl Plan {
    /// Resolves a section for a run of `documents` documents, if their number is known.
    ///
    /// # Errors
    /// The first invalid setting, with its place.
    pub fn build(
        typed: &Sharding,
        setup: &Setup,
        documents: Option<u64>,
        context: Context<'_>,
    ) -> Result<Self, Error> {
        let key = constant("shard", "key", Some(&typed.key), context)?.unwrap_or_default();
        let first = key.keys().next().ok_or(Error::Key("name at least one field, such as {_id: 1}"))?.clone();
        let points = match (typed.chunks, &typed.split_at) {
            (Some(_), Some(_)) => {
                return Err(Error::Split("chunks: there is also split_at; keep one".into()));
            }
            (Some(chunks), None) => receipts(chunks, &key, setup, documents)?,
            (None, Some(values)) => values_of(values, &first, &key, context)?,
            (None, None) => Vec::new(),
        };
        Ok(Self { namespace: setup.namespace.clone(), key, points, spread: typed.spread })
    }

    /// The commands that shard and split, in order; all go to the database `admin`.
    pub fn commands(&self) -> Vec<Document> {
        let namespace = self.namespace.to_string();
        let mut all = vec![
            doc! {"enableSharding": &self.namespace.db},
            doc! {"shardCollection": &namespace, "key": self.key.clone()},
        ];
        all.extend(self.points.iter().map(|point| doc! {"split": &namespace, "middle": point.clone()}));
        all
    }

    /// The commands that move the chunks to the shards in turn; the first chunk stays on its shard.
    pub fn moves(&self, shards: &[String]) -> Vec<Document> {
        let namespace = self.namespace.to_string();
        let to = |index: usize| shards[(index + 1) % shards.len()].clone();
        let moves = self.points.iter().enumerate().filter(|_| self.spread && !shards.is_empty());
        moves
            .map(|(index, point)| doc! {"moveChunk": &namespace, "find": point.clone(), "to": to(index)})
            .collect()
    }
}

/// The receipts that split the documents of the run into equal chunks: the first receipt of every chunk but the first. Receipts of one run sort like their numbers.
fn receipts(
    chunks: u64,
    key: &Document,
    setup: &Setup,
    documents: Option<u64>,
) -> Result<Vec<Document>, Error> {
    if !(2..=CHUNKS_MAX).contains(&chunks) {
        return Err(Error::Split(format!("chunks: {chunks}; give a number from 2 to {CHUNKS_MAX}")));
    }
    let by_id = key.len() == 1 && matches!(key.get("_id"), Some(Bson::Int32(1) | Bson::Int64(1)));
    if !by_id || setup.id != IdForm::ObjectId {
        return Err(Error::Split(
            "chunks: only receipts can be split evenly; use the key {_id: 1} with ids of object_id, or split_at".into(),
        ));
    }
    let total = documents.filter(|total| *total >= chunks).ok_or_else(|| {
        Error::Split("chunks: set stop.documents to the number of documents, at least one per chunk".into())
    })?;
    let first = |chunk: u64| (u128::from(total) * u128::from(chunk) / u128::from(chunks)) as u64;
    let point = |chunk| doc! {"_id": ObjectId::from_bytes(identity(setup.run, first(chunk)).id)};
    Ok((1..chunks).map(point).collect())
}

fn values_of(
    typed: &Template,
    field: &str,
    key: &Document,
    context: Context<'_>,
) -> Result<Vec<Document>, Error> {
    if key.len() != 1 {
        return Err(Error::Split("split_at: give a key of one field".into()));
    }
    let listed = constant("shard", "split_at", Some(typed), context)?.unwrap_or_default();
    let values =
        listed.get_array("at").map_err(|_| Error::Split("split_at: write {at: [value, value]}".into()))?;
    if values.is_empty() || values.len() as u64 >= CHUNKS_MAX {
        return Err(Error::Split(format!("split_at: give from 1 to {} values", CHUNKS_MAX - 1)));
    }
    Ok(values.iter().map(|value| doc! {field: value.clone()}).collect())
}

/// Shards, splits and moves. Calls `tell` with each command before it is sent.
///
/// # Errors
/// When the server is not a mongos, or the cluster refuses a command.
pub async fn apply(
    connection: &mut Connection,
    plan: &Plan,
    mut tell: impl FnMut(String),
) -> Result<(), Error> {
    if !connection.hello().is_mongos {
        return Err(Error::NoMongos(connection.address().to_string()));
    }
    for command in plan.commands() {
        send(connection, &command, &mut tell).await?;
    }
    if plan.spread {
        let shards = shards(connection).await?;
        for command in plan.moves(&shards) {
            send(connection, &command, &mut tell).await?;
        }
    }
    Ok(())
}

async fn send(
    connection: &mut Connection,
    command: &Document,
    tell: &mut impl FnMut(String),
) -> Result<(), Error> {
    let text = text(command);
    tell(format!("admin: {text}"));
    let raw = bson::RawDocumentBuf::try_from(command).unwrap_or_default();
    let sent = connection.command("admin", &raw).await;
    sent.map(drop).map_err(|source| Error::Refused { command: text, source })
}

async fn shards(connection: &mut Connection) -> Result<Vec<String>, Error> {
    let list = doc! {"listShards": 1};
    let raw = bson::RawDocumentBuf::try_from(&list).unwrap_or_default();
    let refused = |source| Error::Refused { command: text(&list), source };
    let reply = connection.command("admin", &raw).await.map_err(refused)?;
    let reply = Document::try_from(reply.as_ref()).unwrap_or_default();
    let listed = reply.get_array("shards").map(Vec::as_slice).unwrap_or_default();
    let names = listed.iter().filter_map(|shard| shard.as_document()?.get_str("_id").ok().map(str::to_owned));
    let names: Vec<_> = names.collect();
    if names.is_empty() { Err(Error::NoShards) } else { Ok(names) }
}

fn text(command: &Document) -> String {
    Bson::Document(command.clone()).into_relaxed_extjson().to_string()
}
