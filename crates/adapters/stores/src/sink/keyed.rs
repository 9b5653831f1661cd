//! Keeps a copy of a collection: replaces the document of each `_id` by its newest payload, and deletes the
//! document for an event without a payload.
//!
//! One batch is in flight at a time, by one worker per partition, so the events of an `_id` are written in their order. A
//! batch writes only the last of several events of one `_id`. Deletions come before replacements, because a new document may take
//! over a unique value of a deleted one. If the collection has a unique index besides that of `_id`, a document may need a value that
//! an earlier version of another document gave up. A batch then writes every version: a command ends before an event whose `_id` it
//! has already.
//!
//! A replay after a crash or a lost connection writes the same events again in the same order, so the collection ends in the same
//! state, unless two documents exchange unique values more than once in one batch. A unique index may then refuse a version,
//! because another document has its value by now. The refusal is ignored if the batch has a later version that was written. If a
//! document's last version is refused, it is written again after all others: they may have freed its value.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_deployment::{Deployment, Error as DeploymentError, Namespace, collection, retry, runtime};
use plimsoll_element::{Element, append, kind};
use plimsoll_pipeline::{Batch, Event, Promise, Refused, Settled, Sink, SinkError, SinkFactory, Verdict};
use plimsoll_wire::{Error as WireError, WriteConcern, WriteKind};

use super::connection::WriteConnection;
use super::in_flight::InFlight;
use super::insert::refused;
use super::verdict::{BatchVerdict, Existing, of_deployment, split_if};
use crate::document::form::checked_id;
use crate::document::name::name;

/// The settings that all workers share.
#[derive(Debug)]
pub(crate) struct KeyedSettings {
    pub deployment: Deployment,
    pub namespace: Namespace,
    pub concern: Option<WriteConcern>,
    pub promise: Promise,
    pub payload_id: PayloadId,
}

/// Makes keyed sinks.
#[derive(Clone, Debug)]
pub struct Keyed(Arc<KeyedSettings>);

/// The keyed sink of one worker.
#[derive(Debug)]
struct KeyedSink {
    settings: Arc<KeyedSettings>,
    idle: Option<Connections>,
    in_flight: InFlight<(Connections, Verdict)>,
    batch: Option<Arc<Batch>>,
}

/// A connection for each kind of command.
#[derive(Debug, Default)]
struct Connections {
    replace: WriteConnection,
    delete: WriteConnection,
    versions: Versions,
}

/// The versions of a document that a batch writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Versions {
    #[default]
    Last,
    /// All in their order, because the collection has a unique index besides that of `_id`.
    All,
}

/// The `_id` of a payload whose key has an `_id` too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadId {
    /// It may be another one, because the source has no deletes, or because its keys need not name documents.
    #[default]
    Any,
    /// It is that of the key, by which a delete finds the document.
    OfKey,
}

impl Keyed {
    pub(crate) fn new(settings: KeyedSettings) -> Self {
        Self(Arc::new(settings))
    }
}

impl SinkFactory for Keyed {
    fn promise(&self) -> Promise {
        self.0.promise
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        let settings = Arc::clone(&self.0);
        let in_flight = InFlight::new(runtime().map_err(|error| SinkError::Refused(error.to_string()))?);
        let mut idle = Connections::default();
        in_flight.wait_for(retry(async || idle.open(&settings).await)).map_err(|error| refused(&error))?;
        Ok(Box::new(KeyedSink { settings, idle: Some(idle), in_flight, batch: None }))
    }
}

impl Sink for KeyedSink {
    fn capacity(&self) -> usize {
        1
    }

    fn submit(&mut self, batch: Batch) {
        let batch = Arc::new(batch);
        self.batch = Some(Arc::clone(&batch));
        let connections = self.idle.take().unwrap_or_default();
        self.in_flight.spawn(write(connections, batch, Arc::clone(&self.settings)));
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        self.batch.as_ref()?;
        let (connections, verdict) = self.in_flight.next(wait)?;
        self.idle = Some(connections);
        // The write has released the batch.
        let batch = Arc::into_inner(self.batch.take()?)?;
        Some(Settled { batch, verdict })
    }
}

impl Connections {
    async fn open(&mut self, settings: &KeyedSettings) -> Result<(), DeploymentError> {
        let place = (&settings.deployment, &settings.namespace);
        if !self.replace.is_open() {
            self.replace.open(WriteKind::Update, place, settings.concern.as_ref()).await?;
            self.versions = self.needed_versions(&settings.namespace).await?;
        }
        self.delete.open(WriteKind::Delete, place, settings.concern.as_ref()).await
    }
}

/// The document that has an event's `_id`, and that element: the payload, or the key if the document was deleted.
fn id<'a>(batch: &'a Batch, event: &Event) -> Option<(&'a [u8], Element<'a>)> {
    let document = batch.payload(event).or_else(|| batch.key(event))?;
    Some((document, checked_id(document).ok()??))
}

/// The name of each event's `_id`, or the reason why the event is refused.
fn names(batch: &Batch, payload_id: PayloadId) -> Vec<Result<Cow<'_, [u8]>, &'static str>> {
    batch.events().iter().map(|event| named(batch, event, payload_id)).collect()
}

fn named<'a>(batch: &'a Batch, event: &Event, payload_id: PayloadId) -> Result<Cow<'a, [u8]>, &'static str> {
    let (document, id) =
        id(batch, event).ok_or("neither its payload nor its key is a BSON document with an `_id`")?;
    let named = name(&id, document);
    let of_key = || {
        let key = batch.key(event)?;
        Some(name(&checked_id(key).ok()??, key))
    };
    if payload_id == PayloadId::OfKey && of_key().is_some_and(|of_key| of_key != named) {
        return Err(
            "its payload has another `_id` than its key, so a delete would not find its document: keep `_id` in `map`, and \
             write the `_id` of the document into the key",
        );
    }
    Ok(named)
}

/// The indexes of the events of each write, in their order. No write has two events of one `_id`.
fn parts<N: Eq + Hash>(names: &[Result<N, &str>], versions: Versions) -> Vec<Vec<u32>> {
    let named = (0_u32..).zip(names).filter_map(|(index, name)| Some((index, name.as_ref().ok()?)));
    let last: HashMap<_, _> = named.clone().map(|(index, name)| (name, index)).collect();
    let (mut parts, mut part, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for (index, name) in named {
        if versions == Versions::Last && last.get(name) != Some(&index) {
            continue;
        }
        if !seen.insert(name) {
            parts.push(mem::take(&mut part));
            seen = HashSet::from([name]);
        }
        part.push(index);
    }
    parts.push(part);
    parts
}

/// Whether a refused event may concern an earlier event that was not written, because a later event of its document replaced it.
fn affects_replaced<N: Eq + Hash>(names: &[Result<N, &str>], refused: &[Refused]) -> bool {
    let mut seen = HashSet::new();
    let has_replaced = names.iter().flatten().any(|name| !seen.insert(name));
    has_replaced && refused.iter().any(|one| names[one.index as usize].is_ok())
}

/// The refusals without those of events whose document a later event of the batch has replaced.
fn of_last<N: Eq + Hash>(names: &[Result<N, &str>], refused: Vec<Refused>) -> Vec<Refused> {
    let is_refused: HashSet<_> = refused.iter().map(|one| one.index).collect();
    let indexes = (0_u32..).zip(names).map(|(index, _)| index);
    let written = last(names, indexes.filter(|index| !is_refused.contains(index)));
    let is_replaced = |one: &Refused| {
        let name = names[one.index as usize].as_ref();
        name.is_ok_and(|name| written.get(name).is_some_and(|later| *later > one.index))
    };
    refused.into_iter().filter(|one| !is_replaced(one)).collect()
}

/// The last of these events of each document. The indexes are in ascending order.
fn last<'a, N: Eq + Hash>(
    names: &'a [Result<N, &str>],
    indexes: impl Iterator<Item = u32>,
) -> HashMap<&'a N, u32> {
    indexes.filter_map(|index| Some((names[index as usize].as_ref().ok()?, index))).collect()
}

async fn write(
    mut connections: Connections,
    batch: Arc<Batch>,
    settings: Arc<KeyedSettings>,
) -> (Connections, Verdict) {
    let verdict = match connections.open(&settings).await {
        Ok(()) => write_batch(&mut connections, &batch, settings.payload_id).await,
        Err(error) => Verdict::failed(of_deployment(&error), error.to_string()),
    };
    (connections, verdict)
}

/// Writes the parts of a batch one after another, until one fails.
async fn write_batch(connections: &mut Connections, batch: &Batch, payload_id: PayloadId) -> Verdict {
    let (names, mut verdict) = (names(batch, payload_id), BatchVerdict::default());
    for (index, name) in (0_u32..).zip(&names) {
        if let Err(reason) = name {
            verdict.refuse(index, *reason);
        }
    }
    for part in parts(&names, connections.versions) {
        connections.write_part(batch, &part, &mut verdict).await;
        if verdict.is_failed() {
            break;
        }
    }
    match (connections.versions, verdict.verdict()) {
        (Versions::Last, verdict) => split_if(|refused| affects_replaced(&names, refused), verdict),
        (Versions::All, Verdict::Written { refused, .. }) => {
            connections.write_again(batch, &names, refused).await
        }
        (Versions::All, failed) => failed,
    }
}

impl Connections {
    /// Writes the refused last versions of documents again, as long as the server takes some of them. Returns the remaining refusals.
    async fn write_again<N: Eq + Hash>(
        &mut self,
        batch: &Batch,
        names: &[Result<N, &str>],
        refused: Vec<Refused>,
    ) -> Verdict {
        let mut refused = of_last(names, refused);
        loop {
            let mut part: Vec<_> = last(names, refused.iter().map(|one| one.index)).into_values().collect();
            part.sort_unstable();
            let mut verdict = BatchVerdict::default();
            // Each version has a separate command: a reply of several refusals has the code of the first one only.
            for &index in &part {
                self.write_part(batch, &[index], &mut verdict).await;
                if verdict.is_failed() {
                    break;
                }
            }
            let still: HashSet<_> = match verdict.verdict() {
                Verdict::Written { refused, .. } => refused.iter().map(|one| one.index).collect(),
                failed => return failed,
            };
            if still.len() == part.len() {
                return Verdict::Written { replayed: 0, refused };
            }
            refused.retain(|one| !part.contains(&one.index) || still.contains(&one.index));
            refused = of_last(names, refused);
        }
    }

    /// Sends the deletions and then the replacements of a part.
    async fn write_part(&mut self, batch: &Batch, part: &[u32], verdict: &mut BatchVerdict) {
        let Self { replace, delete, .. } = self;
        replace.clear();
        delete.clear();
        for &index in part {
            let event = &batch.events()[index as usize];
            let held = if batch.payload(event).is_some() { &mut *replace } else { &mut *delete };
            match push(held, batch, event) {
                Ok(()) => held.indexes.push(index),
                Err(reason) => verdict.refuse(index, reason),
            }
        }
        for held in [delete, replace] {
            if let Some((connection, command)) = held.open.as_mut().filter(|_| !held.indexes.is_empty()) {
                connection.write(command, &mut held.reply).await;
                verdict.take(&held.reply, &held.indexes, Existing::Refused);
                held.close_after(verdict);
            }
        }
    }

    /// The versions that a batch must write. A server that does not list the indexes may have a unique one.
    async fn needed_versions(&mut self, namespace: &Namespace) -> Result<Versions, DeploymentError> {
        let Some((connection, _)) = &mut self.replace.open else { return Ok(Versions::All) };
        match collection::has_unique_index(connection, namespace).await {
            Ok(false) => Ok(Versions::Last),
            Err(collection::Error::Wire(error)) if !matches!(error, WireError::Server(_)) => {
                Err(error.into())
            }
            Ok(true) | Err(_) => Ok(Versions::All),
        }
    }
}

/// Appends the statement of one event.
fn push(held: &mut WriteConnection, batch: &Batch, event: &Event) -> Result<(), String> {
    let (Some((_, command)), Some((document, id))) = (&mut held.open, id(batch, event)) else {
        return Ok(());
    };
    let pushed = command.push(|out| {
        append::document(out, |out| {
            append::nested(out, "q", |out| append_filter(out, document, &id));
            match batch.payload(event) {
                Some(payload) => {
                    append::embedded(out, "u", |out| out.extend_from_slice(payload));
                    append::boolean(out, "upsert", true);
                }
                None => append::int32(out, "limit", 1),
            }
        });
    });
    pushed.map_err(|large| large.to_string())
}

/// Appends the filter for an `_id`. A document or a regular expression could be an operator.
fn append_filter(out: &mut Vec<u8>, document: &[u8], id: &Element<'_>) {
    if matches!(id.kind, kind::DOCUMENT | kind::REGEX) {
        append::nested(out, "_id", |out| {
            append::key(out, id.kind, "$eq");
            out.extend_from_slice(id.value);
        });
    } else {
        out.extend_from_slice(&document[id.range_in(document)]);
    }
}
