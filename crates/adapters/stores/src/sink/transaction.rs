//! Writes one transaction on one connection: first the position, then documents and dead letters, then the commit.

use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_deployment::{Deployment, Error as DeploymentError, Namespace};
use plimsoll_element::append;
use plimsoll_pipeline::{Batch, Failure, FailureClass, Partition, Position, Settled};
use plimsoll_wire::{CallReply, Connection, Error as Wire, WriteConcern};

use super::plan::{Plan, Writes, is_written};
use super::transaction_buffer::BufferLimits;
use super::transaction_command::{
    COMMAND_BYTES_MAX, Refused, Start, TransactionError, UNKNOWN_COMMIT, classify, insert, is_unknown_commit,
    lost, present, session, stop,
};
use super::verdict::{of_deployment, of_topic};
use crate::document::form::Form;
use crate::document::identity::{Identity, random};
use crate::positions::{self, PositionCollection};
use crate::topics::Topics;

/// The limit of attempts of a transaction, or of its commit; its batches then fail.
const TRIES: u32 = 8;
/// The pause before the first retry. It doubles with each retry.
const PAUSE: Duration = Duration::from_millis(5);
const NAMESPACE_EXISTS: i32 = 48;

/// The settings that all transactions of a sink share.
#[derive(Debug)]
pub(crate) struct TransactionSettings {
    pub deployment: Deployment,
    pub namespace: Namespace,
    pub dead_letters: Namespace,
    pub position_collection: PositionCollection,
    pub topics: Topics,
    pub form: Form,
    pub buffer: BufferLimits,
    /// Connections of one worker.
    pub connections: usize,
    /// The largest number of batches that one worker holds.
    pub batches: usize,
}

impl TransactionSettings {
    /// The write concern of commits.
    pub fn concern(&self) -> WriteConcern {
        let timeout_ms =
            self.deployment.timeout().and_then(|timeout| u32::try_from(timeout.as_millis()).ok());
        WriteConcern { w: plimsoll_wire::W::Majority, j: Some(true), timeout_ms }
    }
}

/// The outcome of a transaction.
#[derive(Debug)]
pub enum Outcome {
    /// The transaction is committed, now or before.
    Written(Vec<Settled>),
    /// Another process holds the partition. Nothing was written.
    Fenced(Vec<Batch>),
    /// The transaction failed, or its result is unknown.
    Failed(Vec<Batch>, Failure),
}

/// The result of inserting documents in a transaction. Only the first variant lets the transaction continue.
enum Inserted {
    All,
    /// The events at these offsets already exist.
    Present(Vec<u64>),
    Refused(Refused),
}

/// A connection with its own session.
#[derive(Debug)]
pub struct Session {
    connection: Option<Connection>,
    session: [u8; 16],
    number: i64,
    plan: Plan,
    reply: CallReply,
}

impl Session {
    pub fn new() -> Self {
        let (plan, reply) = (Plan::default(), CallReply::new());
        Self { connection: None, session: random(), number: 0, plan, reply }
    }

    /// Opens a connection unless a working connection exists.
    pub async fn open(&mut self, settings: &TransactionSettings) -> Result<&mut Connection, DeploymentError> {
        let kept = self.connection.take().filter(|connection| !connection.is_broken());
        let connection = match kept {
            Some(connection) => connection,
            None => settings.deployment.connect().await?,
        };
        Ok(self.connection.insert(connection))
    }

    /// Creates missing collections: not every server creates them within a transaction.
    pub async fn make_collections(&mut self, settings: &TransactionSettings) -> Result<(), DeploymentError> {
        let connection = self.open(settings).await?;
        for namespace in
            [&settings.namespace, &settings.dead_letters, &settings.position_collection.namespace]
        {
            let create = rawdoc! {"create": &*namespace.collection};
            match connection.command(&namespace.db, &create).await {
                Err(Wire::Server(error)) if error.code == NAMESPACE_EXISTS => {}
                made => drop(made?),
            }
        }
        Ok(())
    }

    /// Writes batches of one partition in one transaction.
    pub async fn write(mut self, batches: Vec<Batch>, settings: &TransactionSettings) -> (Self, Outcome) {
        let mut pause = PAUSE;
        let (mut tries, mut planned) = (0, false);
        loop {
            match self.attempt(&batches, settings, &mut planned).await {
                Ok(next) => {
                    let settled = self.plan.settle(batches, next);
                    return (self, Outcome::Written(settled));
                }
                Err(TransactionError::Excluded) => {}
                Err(TransactionError::Fenced) => {
                    self.end(settings, "abortTransaction").await.unwrap_or_default();
                    return (self, Outcome::Fenced(batches));
                }
                Err(TransactionError::Stop(failure)) => {
                    if failure.class == FailureClass::Final {
                        // Releases the transaction's locks.
                        self.end(settings, "abortTransaction").await.unwrap_or_default();
                    }
                    return (self, Outcome::Failed(batches, failure));
                }
                Err(TransactionError::Retry(reason)) => {
                    tries += 1;
                    // After a failover, existing documents may be gone.
                    planned = false;
                    if tries >= TRIES {
                        let failure = Failure { class: FailureClass::Transient, reason };
                        return (self, Outcome::Failed(batches, failure));
                    }
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
            }
        }
    }

    /// Tries the transaction once. Returns the partition's earlier position.
    async fn attempt(
        &mut self,
        batches: &[Batch],
        settings: &TransactionSettings,
        planned: &mut bool,
    ) -> Result<u64, TransactionError> {
        let (Some(first), Some(last)) = (batches.first(), batches.last()) else { return Ok(0) };
        if first.epoch() == 0 {
            let words = "the partition was not claimed: use the `positions` of this sink for the pipeline";
            return Err(stop(FailureClass::Final, words));
        }
        let connection =
            self.open(settings).await.map_err(|error| stop(of_deployment(&error), error.to_string()))?;
        let topic = settings.topics.number(connection, &first.partition().topic).await;
        let topic = topic.map_err(|error| stop(of_topic(&error), error.to_string()))?;
        if !std::mem::replace(planned, true) {
            let bytes_max = (connection.limits().max_bson_object_bytes as usize).min(COMMAND_BYTES_MAX);
            self.plan.make(batches, topic, settings.form, bytes_max);
        }
        self.number += 1;
        let next = self.advance(settings, first.position_partition(), first.epoch(), last.position()).await?;
        if is_written(next, batches, last.position()) {
            self.end(settings, "abortTransaction").await.unwrap_or_default();
            return Ok(next);
        }
        let like = Identity { topic, partition: first.partition().index, offset: 0 };
        self.insert_documents(settings, like, next).await?;
        self.insert_letters(settings, batches, like, next).await?;
        self.commit(settings).await?;
        Ok(next)
    }

    /// Advances the position within the epoch of the claim. Returns the earlier position.
    async fn advance(
        &mut self,
        settings: &TransactionSettings,
        partition: &Partition,
        epoch: u64,
        to: &Position,
    ) -> Result<u64, TransactionError> {
        let statement = settings.position_collection.statement(partition, epoch, to, &RawDocumentBuf::new());
        let part = |key| statement.get_document(key).map(RawDocument::to_owned).unwrap_or_default();
        let command = rawdoc! {
            "findAndModify": &*settings.position_collection.namespace.collection,
            "query": part("q"),
            "update": part("u"),
            "new": false,
        };
        let reply = self.command(&settings.position_collection.namespace.db, &command, Start::Yes).await?;
        // No document has the epoch of the claim, so another process raised it.
        let before = reply.get_document("value").map_err(|_| TransactionError::Fenced)?;
        Ok(positions::read(before).position.map_or(0, |position| position.next))
    }

    async fn insert_documents(
        &mut self,
        settings: &TransactionSettings,
        like: Identity,
        next: u64,
    ) -> Result<(), TransactionError> {
        let writes = self.plan.writes(next);
        match self.insert(&settings.namespace, like, &writes, Plan::bytes).await? {
            Inserted::All => return Ok(()),
            Inserted::Present(offsets) => self.plan.note_present(&offsets),
            Inserted::Refused(refused) => self.plan.note_refused(refused.offset, refused.words),
        }
        Err(TransactionError::Excluded)
    }

    async fn insert_letters(
        &mut self,
        settings: &TransactionSettings,
        batches: &[Batch],
        like: Identity,
        next: u64,
    ) -> Result<(), TransactionError> {
        let writes = self.plan.write_letters(batches, next);
        match self.insert(&settings.dead_letters, like, &writes, Plan::letters).await? {
            Inserted::All => Ok(()),
            Inserted::Present(offsets) => {
                self.plan.note_letters_present(&offsets);
                Err(TransactionError::Excluded)
            }
            Inserted::Refused(Refused { words, .. }) => {
                let words = format!("the dead letters in {} are refused: {words}", settings.dead_letters);
                Err(stop(FailureClass::Final, words))
            }
        }
    }

    /// Inserts documents of the plan.
    async fn insert(
        &mut self,
        namespace: &Namespace,
        like: Identity,
        writes: &Writes,
        bytes: fn(&Plan) -> &[u8],
    ) -> Result<Inserted, TransactionError> {
        let link = (&mut self.connection, &mut self.reply);
        let refused = insert(link, (self.session, self.number), namespace, bytes(&self.plan), writes).await?;
        match refused {
            None => Ok(Inserted::All),
            Some(refused) if refused.of_id => {
                let mut offsets = present(&mut self.connection, namespace, like, writes).await?;
                offsets.push(refused.offset);
                Ok(Inserted::Present(offsets))
            }
            Some(refused) => Ok(Inserted::Refused(refused)),
        }
    }

    /// Commits. Retries a commit with an unknown result, on a new connection if necessary.
    async fn commit(&mut self, settings: &TransactionSettings) -> Result<(), TransactionError> {
        let (mut pause, mut reason) = (PAUSE, String::new());
        for _ in 0..TRIES {
            match self.end(settings, "commitTransaction").await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    if !is_unknown_commit(&error) {
                        return Err(classify(&error));
                    }
                    reason = error.to_string();
                }
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            if let Err(error) = self.open(settings).await {
                reason = error.to_string();
            }
        }
        // The retry reads the stored position, so it is right for either result.
        Err(stop(FailureClass::Transient, format!("the result of a commit is unknown: {reason}")))
    }

    async fn end(&mut self, settings: &TransactionSettings, how: &str) -> Result<(), Wire> {
        let Some(connection) = &mut self.connection else { return Err(lost()) };
        let mut concern = Vec::new();
        append::document(&mut concern, |out| settings.concern().append(out));
        let mut body = Vec::new();
        append::document(&mut body, |out| {
            append::int32(out, how, 1);
            session(out, self.session, self.number, Start::No);
            out.extend_from_slice(&concern[4..concern.len() - 1]);
        });
        let body = RawDocumentBuf::from_bytes(body)?;
        let reply = connection.command("admin", &body).await?;
        match reply.get_document("writeConcernError") {
            Ok(error) => Err(Wire::Server(plimsoll_wire::ServerError {
                code: 0,
                name: "WriteConcernError".into(),
                message: error.get_str("errmsg").unwrap_or_default().into(),
                labels: vec![UNKNOWN_COMMIT.into()],
            })),
            Err(_) => Ok(()),
        }
    }

    /// Runs a command of the transaction.
    async fn command(
        &mut self,
        db: &str,
        command: &RawDocument,
        start: Start,
    ) -> Result<RawDocumentBuf, TransactionError> {
        let Some(connection) = &mut self.connection else { return Err(classify(&lost())) };
        let elements = command.as_bytes();
        let mut body = Vec::with_capacity(elements.len() + 128);
        append::document(&mut body, |out| {
            out.extend_from_slice(&elements[4..elements.len() - 1]);
            session(out, self.session, self.number, start);
        });
        let body = RawDocumentBuf::from_bytes(body).map_err(|error| classify(&error.into()))?;
        connection.command(db, &body).await.map_err(|error| classify(&error))
    }
}
