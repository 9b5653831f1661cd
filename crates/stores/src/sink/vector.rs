//! Upserts with vectors: the document of a key is replaced by the newest event of that key.
//!
//! One batch is under way at a time, its keys spread over the connections by their hash: a key is never in two commands at once.
//! Of several events of one key in a batch the last counts. A document keeps where its event was read, and an event that is not
//! newer changes nothing, so a replay cannot roll back. It is the `update` command with an array of statements, which servers
//! below 8.0 know too.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_pipeline::{Batch, FailureClass, Promise, Settled, Sink, SinkError, SinkFactory, Verdict};
use plimsoll_wire::{Connection, WriteBatch, WriteConcern, WriteKind, WriteReply, WriteSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flight::Flights;
use super::insert::refused;
use super::upsert::push;
use super::verdict::{Judgement, Taken, of_site, of_topic};
use crate::control::{patiently, runtime};
use crate::document::form::Form;
use crate::document::identity::Identity;
use crate::namespace::Namespace;
use crate::site::{Site, SiteError};
use crate::topics::Topics;

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
    pub site: Site,
    pub namespace: Namespace,
    pub topics: Topics,
    pub by: By,
    pub form: Form,
    /// The field of the vector.
    pub field: String,
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
            flights
                .wait_for(patiently(async || lane.open(&common).await))
                .map_err(|error| refused(&error))?;
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
        if self.common.by != By::Key || refused.is_empty() {
            return verdict;
        }
        let is_refused = |index: usize| refused.iter().any(|one| one.index as usize == index);
        let taken = refused.iter().any(|one| {
            let last = one.index as usize;
            let Some(key) = batch.key(&batch.events()[last]) else { return false };
            let mut before = batch.events()[..last].iter().enumerate();
            before.any(|(index, event)| batch.key(event) == Some(key) && !is_refused(index))
        });
        if taken {
            return Verdict::failed(
                FailureClass::Poisoned,
                "the last event of a key was refused, and stood for an earlier one",
            );
        }
        verdict
    }

    /// Which events each connection writes: of each key the last, and all of a key on one connection.
    fn deal(&self, batch: &Batch, judgement: &mut Judgement) -> Vec<Vec<u32>> {
        let most = batch.events().len().div_ceil(EVENTS_MIN).clamp(1, self.common.connections);
        let mut parts = vec![Vec::new(); most];
        let last = self.last_of_keys(batch);
        for (index, event) in (0_u32..).zip(batch.events()) {
            if batch.vector(event).is_none() {
                judgement.refuse(index, "it has no vector: put an embedding before the sink");
                continue;
            }
            match (self.common.by, batch.key(event)) {
                (By::Source, _) => parts[index as usize % most].push(index),
                (By::Key, None) => {
                    judgement.refuse(index, "it has no key, and `by: key` names documents by it")
                }
                (By::Key, Some(key)) if last.get(key) == Some(&index) => {
                    let mut hasher = self.hash.build_hasher();
                    hasher.write(key);
                    parts[hasher.finish() as usize % most].push(index);
                }
                // A later event of the same key is in the same batch, and takes its place.
                (By::Key, Some(_)) => {}
            }
        }
        parts.retain(|part| !part.is_empty());
        parts
    }

    fn last_of_keys<'a>(&self, batch: &'a Batch) -> HashMap<&'a [u8], u32> {
        let with_vector = (0_u32..).zip(batch.events()).filter(|(_, event)| batch.vector(event).is_some());
        with_vector.filter_map(|(index, event)| Some((batch.key(event)?, index))).collect()
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
    async fn open(&mut self, common: &Common) -> Result<(), SiteError> {
        if self.open.as_ref().is_some_and(|(connection, _)| !connection.is_broken()) {
            return Ok(());
        }
        let connection = common.site.connect().await?;
        let mut spec = WriteSpec::new(WriteKind::Update, &common.namespace.db, &common.namespace.collection);
        (spec.ordered, spec.write_concern) = (false, Some(common.concern.clone()));
        let command = WriteBatch::new(&spec, &connection.limits())?;
        self.open = Some((connection, command));
        Ok(())
    }
}
