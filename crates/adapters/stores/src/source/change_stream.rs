//! Reads the changes of a collection, a database or a deployment.
//!
//! The offset of an event is the number of changes before it. The resume token is stored with the position. Both depend only on
//! the stream, so repeated changes have the same offsets. Therefore the start of the stream is stored before any change is handed
//! over. The number of an event's partition distinguishes its stream from others of the same collection, which also count from
//! zero. The driver follows the primary; streams that it gives up are reopened after the last event. While idle, the position
//! follows the server's history: an old resume token would expire.

use std::sync::Arc;
use std::time::Duration;

use bson::{Document, RawDocument, RawDocumentBuf};
use futures_util::{FutureExt, StreamExt};
use mongodb::Client;
use mongodb::change_stream::ChangeStream as Stream;
use mongodb::error::Error;
use mongodb::options::{ChangeStreamOptions, FullDocumentType};
use plimsoll_measure::clock::{self, Instant, SECOND_NS};
use plimsoll_pipeline::{
    Assignment, Assignments, Batch, Clock, Intake, Last, Partition, Position, Read, Record, Replay, Source,
    SourceError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::change::Change;
use super::server_wait::ServerWait;
use super::{driver_errors, resume_token};

/// The idle time after which a stream's position advances without an event. A new stream returns a current resume token; a
/// waiting driver stream does not.
const IDLE_NS: u64 = 30 * SECOND_NS;

/// The part of a change that becomes the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// The document after the change, looked up for updates; none for a delete. Changes of collections (drop, rename) are
    /// skipped.
    #[default]
    Document,
    /// The whole change event of the server.
    Event,
}

/// The start of a stream without a stored position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Refuse to start: changes since the lost position would be missing.
    #[default]
    Refuse,
    /// Start with the next change.
    Now,
}

/// The watched namespace, and the options.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub uri: String,
    /// `None` for the whole deployment.
    pub db: Option<String>,
    /// `None` for the whole database.
    pub collection: Option<String>,
    pub payload: Payload,
    pub start: Start,
    /// Pipeline stages after the stream.
    pub stages: Vec<Document>,
}

/// Reads changes.
pub struct ChangeStream {
    watched: Watched,
    runtime: Runtime,
    servers: ServerWait,
    client: Option<Client>,
    stream: Option<Stream<RawDocumentBuf>>,
    assignment: Option<Arc<Assignment>>,
    events: Partition,
    /// The position of the stream.
    at: Position,
    /// Whether a position without an event is waiting to be handed over.
    fresh: bool,
    /// The note that the stream began without a stored position, until it is passed on.
    beginning: Option<String>,
    /// The time of the position's last move.
    moved_at: Instant,
}

/// The partition number of a stream's events, from a position of the stream.
pub fn number(position: &Position) -> u32 {
    position.token.as_deref().map_or(0, resume_token::stream)
}

impl Watched {
    /// The partition of its positions.
    fn partition(&self) -> Partition {
        let words: Vec<_> = [&self.db, &self.collection].into_iter().flatten().cloned().collect();
        Partition::new(if words.is_empty() { "*".to_owned() } else { words.join(".") }, 0)
    }
}

impl ChangeStream {
    pub(crate) fn new(watched: Watched, runtime: Runtime) -> Self {
        let (client, stream, assignment, at) = (None, None, None, Position::default());
        let (events, servers) = (watched.partition(), ServerWait::of(&watched.uri));
        Self {
            watched,
            runtime,
            servers,
            client,
            stream,
            assignment,
            events,
            at,
            fresh: false,
            beginning: None,
            moved_at: clock::now(),
        }
    }

    /// Opens the stream at its position.
    fn watch(&mut self) -> Result<(), Error> {
        let known = self.at.token.clone();
        let Self { runtime, client, watched, servers, .. } = self;
        let stream = runtime.block_on(async {
            let client = match client {
                Some(client) => client,
                None => client.insert(servers.connect().await?),
            };
            watch(client, watched, known.as_deref()).await
        })?;
        let token = stream.resume_token().and_then(|token| match &known {
            Some(known) => resume_token::of_driver(&token, resume_token::stream(known)),
            None => resume_token::begin(&token),
        });
        if token.is_some() && token != known {
            // A restart now resumes here, even without a further event.
            self.at.token = token;
            self.fresh = true;
        }
        self.moved_at = clock::now();
        self.stream = Some(stream);
        Ok(())
    }

    /// Stores the start of the stream: a pipeline that ends before its first commit would otherwise start at another point and
    /// give other changes the same offsets.
    fn keep_beginning(&mut self, assignments: &Assignments) -> Result<(), SourceError> {
        if self.at.token.is_none() {
            return Err(SourceError::Refused(
                "the server does not return the start of the stream, so the pipeline could not resume after a crash: use a server of \
                 version 4.2 or later"
                    .into(),
            ));
        }
        if let Some(store) = assignments.positions() {
            store.keep(&[(self.watched.partition(), self.at.clone())])?;
            self.fresh = false;
        }
        Ok(())
    }

    /// Returns the next change. Waits at most `wait`.
    fn next(&mut self, wait: Option<Duration>) -> Option<Result<RawDocumentBuf, Error>> {
        let stream = self.stream.as_mut()?;
        self.runtime.block_on(async {
            match wait {
                // A stream keeps its pending request: a timeout loses nothing.
                Some(wait) => tokio::time::timeout(wait, stream.next()).await.ok()?,
                None => stream.next().now_or_never()?,
            }
        })
    }

    /// Drops an idle stream. Changes that it may have received are after the position and are read again.
    fn let_go_when_idle(&mut self, now: Instant) {
        if now.since(self.moved_at) >= IDLE_NS {
            let Self { runtime, stream, .. } = self;
            let _entered = runtime.enter();
            *stream = None;
        }
    }

    /// Appends a change and advances the position.
    fn take(&mut self, batch: &mut Batch, event: &RawDocument) -> Result<(), SourceError> {
        let failed = |words: &str| SourceError::Failed(format!("a change {words}"));
        let token = event.get("_id").ok().flatten().ok_or_else(|| failed("has no resume token"))?;
        let operation = event.get_str("operationType").unwrap_or("?");
        if operation == "invalidate" {
            return Err(failed("ended the stream: the collection was dropped or renamed"));
        }
        let (offset, appended_ms) = (self.at.next, time_ms(event));
        let record = match self.watched.payload {
            Payload::Event => {
                let key = event.get_document("documentKey").ok().map(RawDocument::as_bytes);
                Some(Record { offset, appended_ms, key, payload: Some(event.as_bytes()) })
            }
            Payload::Document => Change::of(event).map_err(incomplete)?.map(|Change { key, document }| {
                Record { offset, appended_ms, key: Some(key), payload: document }
            }),
        };
        if let Some(record) = record {
            batch.set_clock(Clock::Source);
            batch.push_with(record, [("operation", Some(operation.as_bytes()))]);
            self.at.next += 1;
        }
        self.at.token = Some(resume_token::of_change(token, self.events.index));
        Ok(())
    }

    /// Handles an error: retries later, or fails.
    fn fail(&mut self, error: Error, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        driver_errors::check(&error)?;
        self.stream = None;
        let error = self.runtime.block_on(self.servers.explained(error));
        intake.note_trouble(driver_errors::unread(&error));
        std::thread::sleep(intake.wait());
        Ok(Read::Idle)
    }
}

/// The error for a change that lacks a part.
fn incomplete(part: &str) -> SourceError {
    SourceError::Failed(format!(
        "a change has no `{part}`, so a replacement cannot be distinguished from a delete: keep `operationType`, `documentKey` and \
         `fullDocument` in `stages`, or store whole changes with `payload: event`"
    ))
}

async fn watch(
    client: &Client,
    watched: &Watched,
    token: Option<&[u8]>,
) -> Result<Stream<RawDocumentBuf>, Error> {
    let mut options = ChangeStreamOptions::builder().build();
    if watched.payload == Payload::Document {
        options.full_document = Some(FullDocumentType::UpdateLookup);
    }
    match token {
        Some(token) => options.resume_after = Some(resume_token::to_driver(token)?),
        // With an empty first batch the server always returns the start of the stream.
        None => options.batch_size = Some(0),
    }
    let stages = watched.stages.clone();
    let stream = match (&watched.db, &watched.collection) {
        (Some(db), Some(collection)) => {
            let collection = client.database(db).collection::<Document>(collection);
            collection.watch().pipeline(stages).with_options(options).await?.with_type()
        }
        (Some(db), None) => {
            client.database(db).watch().pipeline(stages).with_options(options).await?.with_type()
        }
        (None, _) => client.watch().pipeline(stages).with_options(options).await?.with_type(),
    };
    Ok(stream)
}

/// The time of the change: the server's wall clock since 6.0, the cluster time before.
fn time_ms(event: &RawDocument) -> u64 {
    let wall = event.get_datetime("wallTime").ok().map(|time| time.timestamp_millis());
    let cluster = || event.get_timestamp("clusterTime").ok().map(|time| i64::from(time.time) * 1000);
    wall.or_else(cluster).and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0)
}

impl Source for ChangeStream {
    fn replay(&self) -> Replay {
        Replay::FromStore
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        let (assignment, from) = assignments.open(self.watched.partition())?;
        (self.assignment, self.at) = (Some(assignment), from.unwrap_or_default());
        let begins = self.at.token.is_none();
        if begins && self.watched.start == Start::Refuse {
            return Err(SourceError::Refused(format!(
                "there is no stored position of `{}`, so changes since an earlier run would be missing: use `start: now` for the first \
                 start, or restore the positions",
                self.watched.partition().topic
            )));
        }
        if let Err(error) = self.watch() {
            return Err(driver_errors::refused(&self.runtime.block_on(self.servers.explained(error))));
        }
        if begins {
            self.keep_beginning(assignments)?;
            let topic = self.watched.partition().topic;
            self.beginning = Some(format!("no stored position of `{topic}`: starts with the next change"));
        }
        self.events.index = number(&self.at);
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some(assignment) = self.assignment.clone().filter(|assignment| !assignment.is_closed()) else {
            return Ok(Read::End);
        };
        if let Some(beginning) = self.beginning.take() {
            intake.note(beginning);
        }
        if intake.space().events == 0 || intake.space().bytes == 0 {
            return Ok(Read::Idle);
        }
        if self.stream.is_none()
            && let Err(error) = self.watch()
        {
            return self.fail(error, intake);
        }
        let most = intake.space().events.min(intake.limits().batch_events_max);
        let mut batch = intake.batch(&self.events);
        let (mut moved, mut wait) = (std::mem::take(&mut self.fresh), Some(intake.wait()));
        let mut ended = Ok(None);
        while batch.events_read() < most && batch.bytes() < intake.space().bytes {
            // Waits only for the first change.
            match self.next(wait.take().filter(|_| !moved)) {
                Some(Ok(event)) => ended = self.take(&mut batch, &event).map(|()| None),
                Some(Err(error)) => ended = Ok(Some(error)),
                None => break,
            }
            if !matches!(ended, Ok(None)) {
                break;
            }
            moved = true;
        }
        if moved {
            self.moved_at = clock::now();
            batch.set_position(self.at.clone());
            intake.hand_over(&assignment, batch);
        } else {
            let now = clock::now();
            self.servers.line(now).into_iter().for_each(|line| intake.note_trouble(line));
            self.let_go_when_idle(now);
        }
        // Hands over changes before an error: every restart would read both again.
        match ended? {
            Some(error) => self.fail(error, intake),
            None => Ok(if moved { Read::Some } else { Read::Idle }),
        }
    }

    fn commit(&mut self, _: &[(Partition, Position)], _: Last) -> Result<(), SourceError> {
        Ok(())
    }
}

impl Drop for ChangeStream {
    fn drop(&mut self) {
        // The driver's tasks must end on their own runtime.
        let _entered = self.runtime.enter();
        self.stream = None;
        self.client = None;
    }
}
