//! Inserts: each connection has one unordered command in flight, made of a batch's bytes in one copy.

use std::sync::Arc;
use std::time::Duration;

use bson::rawdoc;
use plimsoll_deployment::{
    Deployment, Error as DeploymentError, Namespace, is_transient_code, retry, runtime,
};
use plimsoll_pipeline::meter::Tally;
use plimsoll_pipeline::{
    Batch, FailureClass, Identity as Promised, Order, Promise, Settled, Sink, SinkError, SinkFactory,
};
use plimsoll_wire::{Connection, Error as Wire, WriteBatch, WriteConcern, WriteKind, WriteReply, WriteSpec};

use super::flight::Flights;
use super::verdict::{Judgement, Taken, of_site, of_topic};
use super::writes::Writes;
use crate::document::form::{Draft, Form, Id, Unfit};
use crate::document::identity::{Identity, ObjectIds};
use crate::scenario::Named;
use crate::topics::{Topics, first};

/// All that the lanes of a sink's workers have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub deployment: Deployment,
    pub namespace: Namespace,
    pub topics: Topics,
    pub named: Named,
    pub form: Form,
    /// The field that keeps an event's identity besides `_id`.
    pub source_field: Option<String>,
    pub concern: WriteConcern,
    pub promise: Promise,
    /// Connections of one worker.
    pub connections: usize,
    /// What all workers wrote.
    pub writes: Arc<Writes>,
}

/// Makes insert sinks.
#[derive(Clone, Debug)]
pub struct Inserts(Arc<Common>);

/// The insert sink of one worker.
#[derive(Debug)]
pub struct Insert {
    common: Arc<Common>,
    idle: Vec<Lane>,
    flights: Flights<(Lane, Settled)>,
}

/// A connection, and the buffers of its command.
#[derive(Debug, Default)]
struct Lane {
    open: Option<(Connection, WriteBatch)>,
    reply: WriteReply,
    /// Which event each document of the command is.
    places: Vec<u32>,
    scratch: Vec<u8>,
    ids: Option<ObjectIds>,
}

impl Inserts {
    pub(crate) fn new(common: Common) -> Self {
        Self(Arc::new(common))
    }

    /// What a sink promises that names documents so and is acknowledged so.
    pub(crate) fn promised(named: Named, durable: bool) -> Promise {
        let identity = match named {
            Named::Source => Promised::Once,
            Named::ObjectId => Promised::Copies,
            Named::Payload => Promised::Named,
        };
        Promise { durable, identity, order: Order::Any, writes_dead_letters: false }
    }
}

impl SinkFactory for Inserts {
    fn promise(&self) -> Promise {
        self.0.promise
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        let common = Arc::clone(&self.0);
        let runtime = runtime().map_err(|error| SinkError::Refused(error.to_string()))?;
        let flights = Flights::new(runtime);
        let mut idle: Vec<Lane> = std::iter::repeat_with(Lane::default).take(common.connections).collect();
        for lane in &mut idle {
            flights.wait_for(retry(async || lane.open(&common).await)).map_err(|error| refused(&error))?;
        }
        if common.promise.identity != Promised::Copies {
            let asked = flights.wait_for(retry(async || is_time_series(&common).await));
            if asked.map_err(|error| refused(&error))? {
                return Err(SinkError::Refused(not_unique(&common.namespace)));
            }
        }
        Ok(Box::new(Insert { common, idle, flights }))
    }

    fn tally(&self) -> Option<Arc<dyn Tally>> {
        Some(Arc::clone(&self.0.writes) as Arc<dyn Tally>)
    }
}

/// Whether the collection is one of a time series, as far as the server lets us know.
async fn is_time_series(common: &Common) -> Result<bool, DeploymentError> {
    let mut connection = common.deployment.connect().await?;
    let list = rawdoc! {"listCollections": 1, "filter": {"name": &*common.namespace.collection}};
    match connection.command(&common.namespace.db, &list).await {
        Ok(reply) => {
            Ok(first(&reply)
                .is_some_and(|found| found.get_str("type").is_ok_and(|kind| kind == "timeseries")))
        }
        // Who may only write may not ask, and is not to be refused for that.
        Err(Wire::Server(error)) if !is_transient_code(error.code) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn not_unique(namespace: &Namespace) -> String {
    format!(
        "{namespace} is a collection of a time series, where two documents may have the same `_id`: an event that comes again would \
         be there twice. Name another collection, or say `identity: object_id` and `guarantee: at-least-once`"
    )
}

/// Why a sink cannot be made.
pub(crate) fn refused(error: &DeploymentError) -> SinkError {
    if error.is_final() {
        SinkError::Refused(error.to_string())
    } else {
        SinkError::Unreachable(error.to_string())
    }
}

impl Sink for Insert {
    fn capacity(&self) -> usize {
        self.common.connections
    }

    fn submit(&mut self, batch: Batch) {
        // The engine keeps to the capacity; one more would be written on a connection of its own.
        let lane = self.idle.pop().unwrap_or_default();
        self.flights.launch(lane.write(batch, Arc::clone(&self.common)));
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        let (lane, settled) = self.flights.land(wait)?;
        if self.idle.len() < self.common.connections {
            self.idle.push(lane);
        }
        Some(settled)
    }
}

impl Lane {
    async fn write(mut self, batch: Batch, common: Arc<Common>) -> (Self, Settled) {
        let mut judgement = Judgement::default();
        if !batch.events().is_empty() {
            self.write_events(&batch, &common, &mut judgement).await;
        }
        (self, Settled { batch, verdict: judgement.verdict() })
    }

    async fn write_events(&mut self, batch: &Batch, common: &Common, judgement: &mut Judgement) {
        if let Err(error) = self.open(common).await {
            return judgement.fail(of_site(&error), error.to_string());
        }
        let Some((connection, command)) = &mut self.open else { return };
        let topic = match common.topics.known(&batch.partition().topic) {
            Some(number) => Ok(number),
            None if !common.needs_topic() => Ok(0),
            None => common.topics.number(connection, &batch.partition().topic).await,
        };
        let topic = match topic {
            Ok(topic) => topic,
            Err(error) => return judgement.fail(of_topic(&error), error.to_string()),
        };
        let ids = self.ids.get_or_insert_with(ObjectIds::random);
        let mut fill = Fill { common, batch, topic, ids, scratch: &mut self.scratch };
        fill.command(command, &mut self.places, judgement);
        connection.write(command, &mut self.reply).await;
        common.writes.add(&self.reply);
        let taken = if common.named == Named::ObjectId { Taken::Anew } else { Taken::Replayed };
        judgement.take(&self.reply, &self.places, taken);
        if connection.is_broken() || judgement.has_failed(FailureClass::Passing) {
            self.open = None;
        }
    }

    /// Opens its connection if it has none that works.
    async fn open(&mut self, common: &Common) -> Result<(), DeploymentError> {
        if self.open.as_ref().is_some_and(|(connection, _)| !connection.is_broken()) {
            return Ok(());
        }
        let connection = common.deployment.connect().await?;
        let mut spec = WriteSpec::new(WriteKind::Insert, &common.namespace.db, &common.namespace.collection);
        (spec.ordered, spec.write_concern) = (false, Some(common.concern.clone()));
        let command = WriteBatch::new(&spec, &connection.limits())?;
        self.open = Some((connection, command));
        Ok(())
    }
}

impl Common {
    /// Whether documents carry the number of their topic.
    pub fn needs_topic(&self) -> bool {
        self.named == Named::Source || self.source_field.is_some()
    }

    /// A document with room for the field that keeps its event's source: one that was copied from such a collection has it.
    fn with_room<'d>(&self, mut draft: Draft<'d>) -> Result<Draft<'d>, Unfit> {
        if let Some(field) = &self.source_field {
            let ours = |bytes: &[u8]| Identity::from_bytes(bytes).is_some();
            draft.leave_out(field, |value| value.as_binary().is_some_and(|kept| ours(kept.bytes)))?;
        }
        Ok(draft)
    }
}

/// What it takes to write a batch's documents into a command.
struct Fill<'a> {
    common: &'a Common,
    batch: &'a Batch,
    topic: u32,
    ids: &'a mut ObjectIds,
    scratch: &'a mut Vec<u8>,
}

impl Fill<'_> {
    /// Makes a command of the batch; an event that cannot be a document is refused and left out.
    fn command(&mut self, command: &mut WriteBatch, places: &mut Vec<u32>, judgement: &mut Judgement) {
        command.clear();
        places.clear();
        self.ids.set_now();
        for (index, event) in (0..).zip(self.batch.events()) {
            let source =
                Identity { topic: self.topic, partition: self.batch.partition().index, offset: event.offset };
            let id = match self.common.named {
                Named::Source => Id::Source(source),
                Named::ObjectId => Id::ObjectId(self.ids.make()),
                Named::Payload => Id::Payload,
            };
            let draft = Draft::of(self.common.form, id, self.batch, event, self.scratch);
            match draft.and_then(|draft| self.common.with_room(draft)) {
                Ok(draft) => {
                    let tail = |out: &mut Vec<u8>| {
                        self.common.source_field.iter().for_each(|field| source.append(out, field));
                    };
                    match command.push(|out| draft.write(out, tail)) {
                        Ok(()) => places.push(index),
                        Err(large) => judgement.refuse(index, large.to_string()),
                    }
                }
                Err(unfit) => judgement.refuse(index, unfit.to_string()),
            }
        }
    }
}
