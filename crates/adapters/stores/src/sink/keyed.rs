//! Keeps a copy of a collection: replaces the document of each `_id` by its newest payload, and deletes the
//! document for an event without a payload.
//!
//! One batch is in flight at a time, by one worker per partition, so the events of an `_id` are written in their order. A
//! batch writes only the last of several events of one `_id`. Deletions come before replacements, because a new document may take
//! over a unique value of a deleted one. A replay after a crash writes the same events again in the same order, so the collection
//! ends in the same state.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_deployment::{Deployment, Error as DeploymentError, Namespace, retry, runtime};
use plimsoll_element::{Element, append, kind};
use plimsoll_pipeline::{
    Batch, Event, FailureClass, Promise, Settled, Sink, SinkError, SinkFactory, Verdict,
};
use plimsoll_wire::{WriteConcern, WriteKind};

use super::connection::WriteConnection;
use super::in_flight::InFlight;
use super::insert::refused;
use super::verdict::{BatchVerdict, Existing, of_deployment};
use crate::document::form::checked_id;
use crate::document::name::name;

/// The settings that all workers share.
#[derive(Debug)]
pub(crate) struct KeyedSettings {
    pub deployment: Deployment,
    pub namespace: Namespace,
    pub concern: Option<WriteConcern>,
    pub promise: Promise,
}

/// Makes keyed sinks.
#[derive(Clone, Debug)]
pub struct Keyed(Arc<KeyedSettings>);

/// The keyed sink of one worker.
#[derive(Debug)]
struct KeyedSink {
    settings: Arc<KeyedSettings>,
    idle: Option<Connections>,
    in_flight: InFlight<(Connections, BatchVerdict)>,
    batch: Option<Arc<Batch>>,
}

/// A connection for each kind of command.
#[derive(Debug, Default)]
struct Connections {
    replace: WriteConnection,
    delete: WriteConnection,
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
        let verdict = split_if_deferred(&names(&batch), verdict.verdict());
        Some(Settled { batch, verdict })
    }
}

impl Connections {
    async fn open(&mut self, settings: &KeyedSettings) -> Result<(), DeploymentError> {
        let place = (&settings.deployment, &settings.namespace);
        self.replace.open(WriteKind::Update, place, settings.concern.as_ref()).await?;
        self.delete.open(WriteKind::Delete, place, settings.concern.as_ref()).await
    }
}

/// The document that has an event's `_id`, and that element: the payload, or the key if the document was deleted.
fn id<'a>(batch: &'a Batch, event: &Event) -> Option<(&'a [u8], Element<'a>)> {
    let document = batch.payload(event).or_else(|| batch.key(event))?;
    Some((document, checked_id(document).ok()??))
}

/// The name of each event's `_id`; `None` without a valid `_id`.
fn names(batch: &Batch) -> Vec<Option<Cow<'_, [u8]>>> {
    let named = |event| id(batch, event).map(|(document, id)| name(&id, document));
    batch.events().iter().map(named).collect()
}

/// The verdict on a batch in which only the last event of each `_id` was written. If the server refused an event, its document may
/// need a unique value that an earlier event of another document gives up. So the batch is split until every event is written.
fn split_if_deferred(names: &[Option<Cow<'_, [u8]>>], verdict: Verdict) -> Verdict {
    let Verdict::Written { refused, .. } = &verdict else { return verdict };
    let mut seen = HashSet::new();
    let is_deferred = names.iter().flatten().any(|name| !seen.insert(name));
    if is_deferred && refused.iter().any(|one| names[one.index as usize].is_some()) {
        return Verdict::failed(
            FailureClass::RefusedEvent,
            "the server refused an event of a batch in which a later event had replaced an earlier one",
        );
    }
    verdict
}

async fn write(
    mut connections: Connections,
    batch: Arc<Batch>,
    settings: Arc<KeyedSettings>,
) -> (Connections, BatchVerdict) {
    let mut verdict = BatchVerdict::default();
    match connections.open(&settings).await {
        Ok(()) => write_batch(&mut connections, &batch, &mut verdict).await,
        Err(error) => verdict.fail(of_deployment(&error), error.to_string()),
    }
    (connections, verdict)
}

/// Sends the deletions and then the replacements.
async fn write_batch(connections: &mut Connections, batch: &Batch, verdict: &mut BatchVerdict) {
    let Connections { replace, delete } = connections;
    for held in [&mut *replace, &mut *delete] {
        held.indexes.clear();
        if let Some((_, command)) = &mut held.open {
            command.clear();
        }
    }
    let names = names(batch);
    let last: HashMap<_, _> =
        (0_u32..).zip(&names).filter_map(|(index, name)| Some((name.as_ref()?, index))).collect();
    for ((index, event), name) in (0_u32..).zip(batch.events()).zip(&names) {
        match name {
            None => verdict.refuse(index, "neither its payload nor its key is a BSON document with an `_id`"),
            Some(name) if last.get(name) == Some(&index) => {
                let held = if batch.payload(event).is_some() { &mut *replace } else { &mut *delete };
                if let Err(reason) = push(held, batch, event) {
                    verdict.refuse(index, reason);
                } else {
                    held.indexes.push(index);
                }
            }
            // A later event of the same document in the batch replaces it.
            Some(_) => {}
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
