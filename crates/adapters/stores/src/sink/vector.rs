//! Upserts with vectors: the document of a key is replaced by the newest event of that key.
//!
//! One batch is under way at a time, its keys spread over the connections by their hash: a key is never in two commands at once.
//! Of several events of one key in a batch the last counts. A document keeps where its event was read, and an event that is not
//! newer changes nothing, so a replay cannot roll back. Where documents are named by what they say themselves, an event that comes
//! again is written again: its source may number it anew, and a changed document must get a new vector. It is the `update` command with an array of statements, which servers
//! below 8.0 know too.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_deployment::{Deployment, Error as DeploymentError, Namespace, retry, runtime};
use plimsoll_pipeline::{
    Batch, Event, FailureClass, Identity as Promised, Promise, Settled, Sink, SinkError, SinkFactory, Verdict,
};
use plimsoll_wire::{Connection, WriteBatch, WriteConcern, WriteKind, WriteReply, WriteSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flight::Flights;
use super::insert::refused;
use super::upsert::{SourceField, push};
use super::verdict::{Judgement, Taken, of_site, of_topic};
use crate::document::form::Form;
use crate::document::identity::Identity;
use crate::topics::Topics;
use crate::walk;

/// A command of fewer events is not worth a connection of its own.
const EVENTS_MIN: usize = 32;

/// Which events replace each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Those of one key, which is the document's `_id`, as text if it is one.
    #[default]
    Key,
    /// None but copies of itself: the `_id` is topic, partition and offset.
    Source,
    /// Those of one document: the `_id` is the payload's own, which a payload of BSON has. What is read last stays, also what a
    /// `scan` read again.
    Payload,
}

/// How a vector is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stored {
    /// As an array of doubles, which every tool reads.
    #[default]
    Array,
    /// As a BSON vector of 32-bit floats (binary subtype 9): less than half the bytes.
    Float32,
}

/// All that the lanes of a sink's workers have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub deployment: Deployment,
    pub namespace: Namespace,
    pub topics: Topics,
    pub by: By,
    pub form: Form,
    /// The field of the vector.
    pub field: String,
    pub source: SourceField,
    pub stored: Stored,
    pub concern: WriteConcern,
    pub promise: Promise,
    pub connections: usize,
}

/// Makes vector sinks.
#[derive(Clone, Debug)]
pub struct Vectors(Arc<Common>);

/// The vector sink of one worker.
#[derive(Debug)]
pub struct Vector {
    common: Arc<Common>,
    idle: Vec<Lane>,
    flights: Flights<(Lane, Judgement)>,
    current: Option<Current>,
    hash: RandomState,
}

/// The batch that is under way.
#[derive(Debug)]
struct Current {
    batch: Arc<Batch>,
    judgement: Judgement,
    /// Commands that have not come back.
    left: usize,
}

/// A connection, and the buffers of its command.
#[derive(Debug, Default)]
struct Lane {
    open: Option<(Connection, WriteBatch)>,
    reply: WriteReply,
    /// Which event each statement is of.
    places: Vec<u32>,
    scratch: Vec<u8>,
}

impl By {
    /// What names the document of an event, if events can share one.
    fn name<'a>(self, batch: &'a Batch, event: &Event) -> Option<&'a [u8]> {
        match self {
            Self::Key => batch.key(event),
            Self::Source => None,
            Self::Payload => {
                let payload = batch.payload(event)?;
                payload.get(walk::check(payload).ok()??)
            }
        }
    }

    /// What writing an event twice does.
    pub(crate) const fn identity(self) -> Promised {
        match self {
            Self::Key | Self::Source => Promised::Once,
            Self::Payload => Promised::Named,
        }
    }
}

impl Vectors {
    pub(crate) fn new(common: Common) -> Self {
        Self(Arc::new(common))
    }
}

impl SinkFactory for Vectors {
    fn promise(&self) -> Promise {
        self.0.promise
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        let common = Arc::clone(&self.0);
        let flights = Flights::new(runtime().map_err(|error| SinkError::Refused(error.to_string()))?);
        let mut idle: Vec<Lane> = std::iter::repeat_with(Lane::default).take(common.connections).collect();
        for lane in &mut idle {
            flights.wait_for(retry(async || lane.open(&common).await)).map_err(|error| refused(&error))?;
        }
        Ok(Box::new(Vector { common, idle, flights, current: None, hash: RandomState::new() }))
    }
}

impl Sink for Vector {
    fn capacity(&self) -> usize {
        1
    }

    fn submit(&mut self, batch: Batch) {
        let mut judgement = Judgement::default();
        let parts = self.deal(&batch, &mut judgement);
        let batch = Arc::new(batch);
        self.current = Some(Current { batch: Arc::clone(&batch), judgement, left: parts.len() });
        for part in parts {
            let lane = self.idle.pop().unwrap_or_default();
            self.flights.launch(lane.write(Arc::clone(&batch), part, Arc::clone(&self.common)));
        }
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        while self.current.as_ref()?.left > 0 {
            let (lane, part) = self.flights.land(wait)?;
            self.idle.push(lane);
            if let Some(current) = &mut self.current {
                current.judgement.merge(part);
                current.left -= 1;
            }
        }
        let Current { batch, judgement, .. } = self.current.take()?;
        // The last command has let go of it.
        let batch = Arc::into_inner(batch)?;
        let verdict = self.judged(&batch, judgement.verdict());
        Some(Settled { batch, verdict })
    }
}

impl Vector {
    /// A refused event that had taken the place of an earlier one of its key takes nothing with it: the batch comes again in
    /// halves, until the earlier one is the last of its key.
    fn judged(&self, batch: &Batch, verdict: Verdict) -> Verdict {
        let Verdict::Written { refused, .. } = &verdict else { return verdict };
        if refused.is_empty() {
            return verdict;
        }
        let names = self.names(batch);
        let is_refused = |index: usize| refused.iter().any(|one| one.index as usize == index);
        let taken = refused.iter().any(|one| {
            let last = one.index as usize;
            let mut before = names[..last].iter().enumerate();
            names[last].is_some() && before.any(|(index, name)| *name == names[last] && !is_refused(index))
        });
        if taken {
            return Verdict::failed(
                FailureClass::Poisoned,
                "the last event of a key was refused, and stood for an earlier one",
            );
        }
        verdict
    }

    /// Which events each connection writes: of each name the last, and all of a name on one connection.
    fn deal(&self, batch: &Batch, judgement: &mut Judgement) -> Vec<Vec<u32>> {
        let most = batch.events().len().div_ceil(EVENTS_MIN).clamp(1, self.common.connections);
        let mut parts = vec![Vec::new(); most];
        let names = self.names(batch);
        let last: HashMap<_, _> = (0_u32..)
            .zip(batch.events())
            .zip(&names)
            .filter(|((_, event), _)| batch.vector(event).is_some())
            .filter_map(|((index, _), name)| Some(((*name)?, index)))
            .collect();
        for ((index, event), name) in (0_u32..).zip(batch.events()).zip(&names) {
            if batch.vector(event).is_none() {
                judgement.refuse(index, "it has no vector: put an embedding before the sink");
                continue;
            }
            match (self.common.by, name) {
                (By::Source, _) => parts[index as usize % most].push(index),
                (By::Key, None) => {
                    judgement.refuse(index, "it has no key, and `by: key` names documents by it")
                }
                (By::Payload, None) => judgement.refuse(
                    index,
                    "its payload is no BSON document with an `_id`, and `by: payload` names documents by that",
                ),
                (_, Some(name)) if last.get(name) == Some(&index) => {
                    let mut hasher = self.hash.build_hasher();
                    hasher.write(name);
                    parts[hasher.finish() as usize % most].push(index);
                }
                // A later event of the same name is in the same batch, and takes its place.
                (_, Some(_)) => {}
            }
        }
        parts.retain(|part| !part.is_empty());
        parts
    }

    fn names<'a>(&self, batch: &'a Batch) -> Vec<Option<&'a [u8]>> {
        batch.events().iter().map(|event| self.common.by.name(batch, event)).collect()
    }
}

impl Lane {
    async fn write(mut self, batch: Arc<Batch>, part: Vec<u32>, common: Arc<Common>) -> (Self, Judgement) {
        let mut judgement = Judgement::default();
        self.write_part(&batch, &part, &common, &mut judgement).await;
        (self, judgement)
    }

    async fn write_part(&mut self, batch: &Batch, part: &[u32], common: &Common, judgement: &mut Judgement) {
        if let Err(error) = self.open(common).await {
            return judgement.fail(of_site(&error), error.to_string());
        }
        let Some((connection, command)) = &mut self.open else { return };
        let topic = match common.topics.number(connection, &batch.partition().topic).await {
            Ok(topic) => topic,
            Err(error) => return judgement.fail(of_topic(&error), error.to_string()),
        };
        command.clear();
        self.places.clear();
        for index in part {
            let event = &batch.events()[*index as usize];
            let source = Identity { topic, partition: batch.partition().index, offset: event.offset };
            let pushed = push(command, common, (batch, event), source, &mut self.scratch);
            match pushed {
                Ok(()) => self.places.push(*index),
                Err(reason) => judgement.refuse(*index, reason),
            }
        }
        connection.write(command, &mut self.reply).await;
        judgement.take(&self.reply, &self.places, Taken::Refused);
        judgement.replay_unchanged(&self.reply);
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
        let mut spec = WriteSpec::new(WriteKind::Update, &common.namespace.db, &common.namespace.collection);
        (spec.ordered, spec.write_concern) = (false, Some(common.concern.clone()));
        let command = WriteBatch::new(&spec, &connection.limits())?;
        self.open = Some((connection, command));
        Ok(())
    }
}
