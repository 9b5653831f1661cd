//! Inserts events. Each connection has one unordered command in flight, built from a batch in one copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_deployment::collection;
use plimsoll_deployment::{
    Deployment, Error as DeploymentError, Namespace, is_transient_code, retry, runtime,
};
use plimsoll_pipeline::meter::{Count, Tally};
use plimsoll_pipeline::{Batch, Identity as Promised, Order, Promise, Settled, Sink, SinkError, SinkFactory};
use plimsoll_wire::{Error as Wire, WriteBatch, WriteConcern, WriteKind, WriteReply};

use super::connection::WriteConnection;
use super::in_flight::InFlight;
use super::verdict::{BatchVerdict, Existing, of_deployment, of_topic};
use crate::document::form::{Draft, Form, Id, Unfit};
use crate::document::identity::{IdKind, Identity, ObjectIds};
use crate::topics::Topics;

/// The settings that all connections of all workers share.
#[derive(Debug)]
pub(crate) struct InsertSettings {
    pub deployment: Deployment,
    pub namespace: Namespace,
    pub topics: Topics,
    pub id_kind: IdKind,
    pub form: Form,
    /// The field that stores an event's identity besides `_id`; `None` for no such field.
    pub source_field: Option<String>,
    pub concern: Option<WriteConcern>,
    pub promise: Promise,
    /// Connections per worker.
    pub connections: usize,
    /// The counters of all workers.
    pub writes: Arc<WriteCounts>,
}

/// Makes insert sinks.
#[derive(Clone, Debug)]
pub struct Inserts(Arc<InsertSettings>);

/// The insert sink of one worker.
#[derive(Debug)]
pub struct Insert {
    settings: Arc<InsertSettings>,
    idle: Vec<Writer>,
    in_flight: InFlight<(Writer, Settled)>,
}

/// A connection with its generator of random ids.
#[derive(Debug, Default)]
struct Writer {
    connection: WriteConnection,
    ids: Option<ObjectIds>,
}

impl Inserts {
    pub(crate) fn new(settings: InsertSettings) -> Self {
        Self(Arc::new(settings))
    }

    /// The promises of a sink with this kind of `_id` and this durability.
    pub(crate) fn promised(id_kind: IdKind, durable: bool) -> Promise {
        let identity = match id_kind {
            IdKind::Source => Promised::Once,
            IdKind::ObjectId => Promised::Copies,
            IdKind::Payload => Promised::Named,
        };
        Promise { durable, identity, order: Order::Any, writes_dead_letters: false }
    }
}

impl SinkFactory for Inserts {
    fn promise(&self) -> Promise {
        self.0.promise
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        let settings = Arc::clone(&self.0);
        let runtime = runtime().map_err(|error| SinkError::Refused(error.to_string()))?;
        let in_flight = InFlight::new(runtime);
        let mut idle: Vec<Writer> =
            std::iter::repeat_with(Writer::default).take(settings.connections).collect();
        for writer in &mut idle {
            in_flight
                .wait_for(retry(async || writer.open(&settings).await))
                .map_err(|error| refused(&error))?;
        }
        if settings.promise.identity != Promised::Copies {
            let asked = in_flight.wait_for(retry(async || is_time_series(&settings).await));
            if asked.map_err(|error| refused(&error))? {
                return Err(SinkError::Refused(not_unique(&settings.namespace)));
            }
        }
        Ok(Box::new(Insert { settings, idle, in_flight }))
    }

    fn tally(&self) -> Option<Arc<dyn Tally>> {
        Some(Arc::clone(&self.0.writes) as Arc<dyn Tally>)
    }
}

/// Whether the collection is a time series, as far as the user may query it.
async fn is_time_series(settings: &InsertSettings) -> Result<bool, DeploymentError> {
    let mut connection = settings.deployment.connect().await?;
    match collection::entry(&mut connection, &settings.namespace).await {
        Ok(found) => {
            Ok(found.is_some_and(|found| found.get_str("type").is_ok_and(|kind| kind == "timeseries")))
        }
        // A user with write access only may not query it; such a user is not refused.
        Err(collection::Error::Wire(Wire::Server(error))) if !is_transient_code(error.code) => Ok(false),
        Err(collection::Error::Wire(error)) => Err(error.into()),
        Err(collection::Error::NotEmpty { .. } | collection::Error::Answer(_)) => Ok(false),
    }
}

fn not_unique(namespace: &Namespace) -> String {
    format!(
        "{namespace} is a time series collection, where two documents may have the same `_id`, so a repeated event would \
         be stored twice: choose another collection, or use `identity: object_id` and `guarantee: at-least-once`"
    )
}

/// The error of a sink that cannot be built.
pub(crate) fn refused(error: &DeploymentError) -> SinkError {
    if error.is_final() {
        SinkError::Refused(error.to_string())
    } else {
        SinkError::Unreachable(error.to_string())
    }
}

impl Sink for Insert {
    fn capacity(&self) -> usize {
        self.settings.connections
    }

    fn submit(&mut self, batch: Batch) {
        // The engine respects the capacity; a batch above it would get a new connection.
        let writer = self.idle.pop().unwrap_or_default();
        self.in_flight.spawn(writer.write(batch, Arc::clone(&self.settings)));
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        let (writer, settled) = self.in_flight.next(wait)?;
        if self.idle.len() < self.settings.connections {
            self.idle.push(writer);
        }
        Some(settled)
    }
}

impl Writer {
    async fn write(mut self, batch: Batch, settings: Arc<InsertSettings>) -> (Self, Settled) {
        let mut verdict = BatchVerdict::default();
        if !batch.events().is_empty() {
            self.write_events(&batch, &settings, &mut verdict).await;
        }
        (self, Settled { batch, verdict: verdict.verdict() })
    }

    async fn write_events(&mut self, batch: &Batch, settings: &InsertSettings, verdict: &mut BatchVerdict) {
        if let Err(error) = self.open(settings).await {
            return verdict.fail(of_deployment(&error), error.to_string());
        }
        let held = &mut self.connection;
        let Some((connection, command)) = &mut held.open else { return };
        let topic = match settings.topics.known(&batch.partition().topic) {
            Some(number) => Ok(number),
            None if !settings.needs_topic() => Ok(0),
            None => settings.topics.number(connection, &batch.partition().topic).await,
        };
        let topic = match topic {
            Ok(topic) => topic,
            Err(error) => return verdict.fail(of_topic(&error), error.to_string()),
        };
        let ids = self.ids.get_or_insert_with(ObjectIds::random);
        let mut fill = Fill { settings, batch, topic, ids, scratch: &mut held.scratch };
        fill.command(command, &mut held.indexes, verdict);
        connection.write(command, &mut held.reply).await;
        settings.writes.add(&held.reply);
        let existing =
            if settings.id_kind == IdKind::ObjectId { Existing::NewId } else { Existing::Replayed };
        verdict.take(&held.reply, &held.indexes, existing);
        held.close_after(verdict);
    }

    async fn open(&mut self, settings: &InsertSettings) -> Result<(), DeploymentError> {
        let place = (&settings.deployment, &settings.namespace);
        self.connection.open(WriteKind::Insert, place, settings.concern.as_ref()).await
    }
}

impl InsertSettings {
    /// Whether documents contain the number of their topic.
    pub fn needs_topic(&self) -> bool {
        self.id_kind == IdKind::Source || self.source_field.is_some()
    }

    /// Omits the payload's source field; documents copied from a sink's collection have one.
    fn with_room<'d>(&self, mut draft: Draft<'d>) -> Result<Draft<'d>, Unfit> {
        if let Some(field) = &self.source_field {
            let ours = |bytes: &[u8]| Identity::from_bytes(bytes).is_some();
            draft.leave_out(field, |value| value.as_binary().is_some_and(|kept| ours(kept.bytes)))?;
        }
        Ok(draft)
    }
}

/// Writes the documents of a batch into a command.
struct Fill<'a> {
    settings: &'a InsertSettings,
    batch: &'a Batch,
    topic: u32,
    ids: &'a mut ObjectIds,
    scratch: &'a mut Vec<u8>,
}

impl Fill<'_> {
    /// Builds the command of a batch. Events that cannot be stored are refused and left out.
    fn command(&mut self, command: &mut WriteBatch, indexes: &mut Vec<u32>, verdict: &mut BatchVerdict) {
        command.clear();
        indexes.clear();
        self.ids.set_now();
        for (index, event) in (0..).zip(self.batch.events()) {
            let source =
                Identity { topic: self.topic, partition: self.batch.partition().index, offset: event.offset };
            let id = match self.settings.id_kind {
                IdKind::Source => Id::Source(source),
                IdKind::ObjectId => Id::ObjectId(self.ids.make()),
                IdKind::Payload => Id::Payload,
            };
            let draft = Draft::of(self.settings.form, id, self.batch, event, self.scratch);
            match draft.and_then(|draft| self.settings.with_room(draft)) {
                Ok(draft) => {
                    let tail = |out: &mut Vec<u8>| {
                        self.settings.source_field.iter().for_each(|field| source.append(out, field));
                    };
                    match command.push(|out| draft.write(out, tail)) {
                        Ok(()) => indexes.push(index),
                        Err(large) => verdict.refuse(index, large.to_string()),
                    }
                }
                Err(unfit) => verdict.refuse(index, unfit.to_string()),
            }
        }
    }
}

/// The inserted documents (`writes`) and the commands (`flushes`) of all workers' insert sinks together.
#[derive(Debug, Default)]
pub(crate) struct WriteCounts {
    writes: AtomicU64,
    flushes: AtomicU64,
}

impl WriteCounts {
    /// Adds the reply to a batch's commands.
    fn add(&self, reply: &WriteReply) {
        self.writes.fetch_add(reply.n, Ordering::Relaxed);
        self.flushes.fetch_add(reply.commands.into(), Ordering::Relaxed);
    }
}

impl Tally for WriteCounts {
    fn of(&self, count: Count) -> u64 {
        match count {
            Count::InsertWrites => self.writes.load(Ordering::Relaxed),
            Count::InsertFlushes => self.flushes.load(Ordering::Relaxed),
            _ => 0,
        }
    }
}
