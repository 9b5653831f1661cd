//! Upserts with vectors: replaces the document of a key by the newest event of that key.
//!
//! One batch is in flight at a time. Its keys are spread over the connections by hash, so a key is never in two commands at
//! once. Of several events of one key in a batch only the last is written. A document stores the source of its event, and an
//! event that is not newer changes nothing, so a replay cannot roll back. With `by: payload` a repeated event is written
//! again: its source may renumber it, and a changed document needs a new vector. The command is `update` with pipeline
//! statements, which servers below 8.0 support too.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_deployment::{Error as DeploymentError, retry, runtime};
use plimsoll_pipeline::{Batch, Promise, Refused, Settled, Sink, SinkError, SinkFactory};
use plimsoll_wire::WriteKind;

use super::connection::WriteConnection;
use super::in_flight::InFlight;
use super::insert::refused;
use super::upsert::push;
use super::vector_settings::VectorSettings;
use super::verdict::{BatchVerdict, Existing, of_deployment, of_topic, split_if};
use crate::document::identity::Identity;

/// The number of events per connection: a larger batch is divided among more connections.
const EVENTS_MIN: usize = 32;

pub use super::vector_settings::{By, Stored};

/// Makes vector sinks.
#[derive(Clone, Debug)]
pub struct Vectors(Arc<VectorSettings>);

/// The vector sink of one worker.
#[derive(Debug)]
pub struct Vector {
    settings: Arc<VectorSettings>,
    idle: Vec<WriteConnection>,
    in_flight: InFlight<(WriteConnection, BatchVerdict)>,
    current: Option<Current>,
    hash: RandomState,
}

/// The batch in flight.
#[derive(Debug)]
struct Current {
    batch: Arc<Batch>,
    verdict: BatchVerdict,
    /// The number of commands in flight.
    left: usize,
}

impl Vectors {
    pub(crate) fn new(settings: VectorSettings) -> Self {
        Self(Arc::new(settings))
    }
}

impl SinkFactory for Vectors {
    fn promise(&self) -> Promise {
        self.0.promise
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        let settings = Arc::clone(&self.0);
        let in_flight = InFlight::new(runtime().map_err(|error| SinkError::Refused(error.to_string()))?);
        let mut idle: Vec<WriteConnection> =
            std::iter::repeat_with(WriteConnection::default).take(settings.connections).collect();
        for connection in &mut idle {
            in_flight
                .wait_for(retry(async || open(connection, &settings).await))
                .map_err(|error| refused(&error))?;
        }
        Ok(Box::new(Vector { settings, idle, in_flight, current: None, hash: RandomState::new() }))
    }
}

impl Sink for Vector {
    fn capacity(&self) -> usize {
        1
    }

    fn submit(&mut self, batch: Batch) {
        let mut verdict = BatchVerdict::default();
        let parts = self.deal(&batch, &mut verdict);
        let batch = Arc::new(batch);
        self.current = Some(Current { batch: Arc::clone(&batch), verdict, left: parts.len() });
        for part in parts {
            let connection = self.idle.pop().unwrap_or_default();
            self.in_flight.spawn(write(connection, Arc::clone(&batch), part, Arc::clone(&self.settings)));
        }
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        while self.current.as_ref()?.left > 0 {
            let (connection, part) = self.in_flight.next(wait)?;
            self.idle.push(connection);
            if let Some(current) = &mut self.current {
                current.verdict.merge(part);
                current.left -= 1;
            }
        }
        let Current { batch, verdict, .. } = self.current.take()?;
        // The last command has released the batch.
        let batch = Arc::into_inner(batch)?;
        let verdict = split_if(|refused| has_replaced(&self.names(&batch), refused), verdict.verdict());
        Some(Settled { batch, verdict })
    }
}

impl Vector {
    /// Assigns events to connections: the last event of each key, and each key to one connection.
    fn deal(&self, batch: &Batch, verdict: &mut BatchVerdict) -> Vec<Vec<u32>> {
        let most = batch.events().len().div_ceil(EVENTS_MIN).clamp(1, self.settings.connections);
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
                verdict.refuse(index, "it has no vector: put an embedding before the sink");
                continue;
            }
            match (self.settings.by, name) {
                (By::Source, _) => parts[index as usize % most].push(index),
                (By::Key, None) => verdict.refuse(index, "it has no key, which `by: key` needs as the `_id`"),
                (By::Payload, None) => verdict.refuse(
                    index,
                    "its payload is not a BSON document with an `_id`, which `by: payload` needs",
                ),
                (_, Some(name)) if last.get(name) == Some(&index) => {
                    let mut hasher = self.hash.build_hasher();
                    hasher.write(name);
                    parts[hasher.finish() as usize % most].push(index);
                }
                // A later event of the same key in the batch replaces it.
                (_, Some(_)) => {}
            }
        }
        parts.retain(|part| !part.is_empty());
        parts
    }

    fn names<'a>(&self, batch: &'a Batch) -> Vec<Option<&'a [u8]>> {
        batch.events().iter().map(|event| self.settings.by.name(batch, event)).collect()
    }
}

/// Whether a refused event had replaced an earlier event of its name that is not refused itself.
fn has_replaced(names: &[Option<&[u8]>], refused: &[Refused]) -> bool {
    let is_refused = |index: usize| refused.iter().any(|one| one.index as usize == index);
    refused.iter().any(|one| {
        let last = one.index as usize;
        let mut before = names[..last].iter().enumerate();
        names[last].is_some() && before.any(|(index, name)| *name == names[last] && !is_refused(index))
    })
}

/// Writes some events of a batch with one command.
async fn write(
    mut connection: WriteConnection,
    batch: Arc<Batch>,
    part: Vec<u32>,
    settings: Arc<VectorSettings>,
) -> (WriteConnection, BatchVerdict) {
    let mut verdict = BatchVerdict::default();
    write_part(&mut connection, &batch, &part, &settings, &mut verdict).await;
    (connection, verdict)
}

async fn write_part(
    held: &mut WriteConnection,
    batch: &Batch,
    part: &[u32],
    settings: &VectorSettings,
    verdict: &mut BatchVerdict,
) {
    if let Err(error) = open(held, settings).await {
        return verdict.fail(of_deployment(&error), error.to_string());
    }
    let Some((connection, command)) = &mut held.open else { return };
    let topic = match settings.topics.number(connection, &batch.partition().topic).await {
        Ok(topic) => topic,
        Err(error) => return verdict.fail(of_topic(&error), error.to_string()),
    };
    command.clear();
    held.indexes.clear();
    for index in part {
        let event = &batch.events()[*index as usize];
        let source = Identity { topic, partition: batch.partition().index, offset: event.offset };
        match push(command, settings, (batch, event), source, &mut held.scratch) {
            Ok(()) => held.indexes.push(*index),
            Err(reason) => verdict.refuse(*index, reason),
        }
    }
    connection.write(command, &mut held.reply).await;
    verdict.take(&held.reply, &held.indexes, Existing::Refused);
    verdict.replay_unchanged(&held.reply);
    held.close_after(verdict);
}

async fn open(connection: &mut WriteConnection, settings: &VectorSettings) -> Result<(), DeploymentError> {
    let place = (&settings.deployment, &settings.namespace);
    connection.open(WriteKind::Update, place, settings.concern.as_ref()).await
}
