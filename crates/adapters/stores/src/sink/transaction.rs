//! One transaction on one connection: the position first, then documents and dead letters, then the commit.

use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_deployment::Error as DeploymentError;
use plimsoll_pipeline::{Batch, Failure, FailureClass, Partition, Position, Settled};
use plimsoll_wire::{CallReply, Connection, Error as Wire};

use super::command::{
    COMMAND_BYTES_MAX, Start, Trouble, UNKNOWN_COMMIT, insert, is_unknown_commit, lost, present, session,
    stop, trouble,
};
use super::plan::{Plan, is_written};
use super::transactional::Common;
use super::verdict::{of_site, of_topic};
use crate::document::identity::{Identity, random};
use crate::encode;
use crate::positions;

/// How often a transaction, or its commit, is tried before its batches fail.
const TRIES: u32 = 8;
/// The pause before the first further try; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(5);
const NAMESPACE_EXISTS: i32 = 48;

/// How a transaction ended.
#[derive(Debug)]
pub enum Outcome {
    /// It is committed, or had been.
    Written(Vec<Settled>),
    /// Another process holds the partition: nothing was written.
    Fenced(Vec<Batch>),
    /// It is not, or nobody knows.
    Failed(Vec<Batch>, Failure),
}

/// A connection with a session of its own.
#[derive(Debug)]
pub struct Lane {
    connection: Option<Connection>,
    session: [u8; 16],
    number: i64,
    plan: Plan,
    reply: CallReply,
}

impl Lane {
    pub fn new() -> Self {
        let (plan, reply) = (Plan::default(), CallReply::new());
        Self { connection: None, session: random(), number: 0, plan, reply }
    }

    /// Opens its connection if it has none that works.
    pub async fn open(&mut self, common: &Common) -> Result<&mut Connection, DeploymentError> {
        let kept = self.connection.take().filter(|connection| !connection.is_broken());
        let connection = match kept {
            Some(connection) => connection,
            None => common.deployment.connect().await?,
        };
        Ok(self.connection.insert(connection))
    }

    /// Makes the collections that are not there: not every server makes them in a transaction.
    pub async fn make_collections(&mut self, common: &Common) -> Result<(), DeploymentError> {
        let connection = self.open(common).await?;
        for namespace in [&common.namespace, &common.dead_letters, &common.shelf.namespace] {
            let create = rawdoc! {"create": &*namespace.collection};
            match connection.command(&namespace.db, &create).await {
                Err(Wire::Server(error)) if error.code == NAMESPACE_EXISTS => {}
                made => drop(made?),
            }
        }
        Ok(())
    }

    /// Writes batches of one partition in one transaction.
    pub async fn write(mut self, batches: Vec<Batch>, common: &Common) -> (Self, Outcome) {
        let mut pause = PAUSE;
        let (mut tries, mut planned) = (0, false);
        loop {
            match self.attempt(&batches, common, &mut planned).await {
                Ok(next) => {
                    let settled = self.plan.settle(batches, next);
                    return (self, Outcome::Written(settled));
                }
                Err(Trouble::Mended) => {}
                Err(Trouble::Fenced) => {
                    self.end(common, "abortTransaction").await.unwrap_or_default();
                    return (self, Outcome::Fenced(batches));
                }
                Err(Trouble::Stop(failure)) => {
                    if failure.class == FailureClass::Final {
                        // Others must not wait for what it holds.
                        self.end(common, "abortTransaction").await.unwrap_or_default();
                    }
                    return (self, Outcome::Failed(batches, failure));
                }
                Err(Trouble::Again(reason)) => {
                    tries += 1;
                    // After a failover, what was there may be there no more.
                    planned = false;
                    if tries >= TRIES {
                        let failure = Failure { class: FailureClass::Passing, reason };
                        return (self, Outcome::Failed(batches, failure));
                    }
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
            }
        }
    }

    /// Tries the transaction once; gives where the partition stood before.
    async fn attempt(
        &mut self,
        batches: &[Batch],
        common: &Common,
        planned: &mut bool,
    ) -> Result<u64, Trouble> {
        let (Some(first), Some(last)) = (batches.first(), batches.last()) else { return Ok(0) };
        if first.epoch() == 0 {
            let words = "nobody claimed the partition: give the pipeline the `positions` of this sink";
            return Err(stop(FailureClass::Final, words));
        }
        let connection = self.open(common).await.map_err(|error| stop(of_site(&error), error.to_string()))?;
        let topic = common.topics.number(connection, &first.partition().topic).await;
        let topic = topic.map_err(|error| stop(of_topic(&error), error.to_string()))?;
        if !std::mem::replace(planned, true) {
            let bytes_max = (connection.limits().max_bson_object_bytes as usize).min(COMMAND_BYTES_MAX);
            self.plan.make(batches, topic, common.form, bytes_max);
        }
        self.number += 1;
        let next = self.move_on(common, first.position_partition(), first.epoch(), last.position()).await?;
        if is_written(next, batches, last.position()) {
            self.end(common, "abortTransaction").await.unwrap_or_default();
            return Ok(next);
        }
        let like = Identity { topic, partition: first.partition().index, offset: 0 };
        self.insert_documents(common, like, next).await?;
        self.insert_letters(common, batches, like, next).await?;
        self.commit(common).await?;
        Ok(next)
    }

    /// Moves the position on, within the epoch of the claim; gives where it was.
    async fn move_on(
        &mut self,
        common: &Common,
        partition: &Partition,
        epoch: u64,
        to: &Position,
    ) -> Result<u64, Trouble> {
        let statement = common.shelf.statement(partition, epoch, to, &RawDocumentBuf::new());
        let part = |key| statement.get_document(key).map(RawDocument::to_owned).unwrap_or_default();
        let command = rawdoc! {
            "findAndModify": &*common.shelf.namespace.collection,
            "query": part("q"),
            "update": part("u"),
            "new": false,
        };
        let reply = self.ask(&common.shelf.namespace.db, &command, Start::Yes).await?;
        // Nothing is there under the epoch of the claim: somebody raised it.
        let before = reply.get_document("value").map_err(|_| Trouble::Fenced)?;
        Ok(positions::read(before).position.map_or(0, |position| position.next))
    }

    async fn insert_documents(&mut self, common: &Common, like: Identity, next: u64) -> Result<(), Trouble> {
        let writes = self.plan.writes(next);
        let refused = insert(
            (&mut self.connection, &mut self.reply),
            (self.session, self.number),
            &common.namespace,
            self.plan.bytes(),
            &writes,
        );
        match refused.await? {
            None => Ok(()),
            Some(refused) if refused.of_id => {
                let there = present(&mut self.connection, &common.namespace, like, &writes).await?;
                self.plan.note_present(&[refused.offset]);
                self.plan.note_present(&there);
                Err(Trouble::Mended)
            }
            Some(refused) => {
                self.plan.note_refused(refused.offset, refused.words);
                Err(Trouble::Mended)
            }
        }
    }

    async fn insert_letters(
        &mut self,
        common: &Common,
        batches: &[Batch],
        like: Identity,
        next: u64,
    ) -> Result<(), Trouble> {
        let writes = self.plan.write_letters(batches, next);
        let refused = insert(
            (&mut self.connection, &mut self.reply),
            (self.session, self.number),
            &common.dead_letters,
            self.plan.letters(),
            &writes,
        );
        match refused.await? {
            None => Ok(()),
            Some(refused) if refused.of_id => {
                let there = present(&mut self.connection, &common.dead_letters, like, &writes).await?;
                self.plan.note_buried(&[refused.offset]);
                self.plan.note_buried(&there);
                Err(Trouble::Mended)
            }
            Some(refused) => {
                let words =
                    format!("the dead letters in {} are refused: {}", common.dead_letters, refused.words);
                Err(stop(FailureClass::Final, words))
            }
        }
    }

    /// Commits; a commit of which nobody knows is asked for again, on a new connection if need be.
    async fn commit(&mut self, common: &Common) -> Result<(), Trouble> {
        let (mut pause, mut reason) = (PAUSE, String::new());
        for _ in 0..TRIES {
            match self.end(common, "commitTransaction").await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    if !is_unknown_commit(&error) {
                        return Err(trouble(&error));
                    }
                    reason = error.to_string();
                }
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            if let Err(error) = self.open(common).await {
                reason = error.to_string();
            }
        }
        // What comes again finds where the position stands, whichever way this went.
        Err(stop(
            FailureClass::Passing,
            format!("whether a transaction was committed is not known: {reason}"),
        ))
    }

    async fn end(&mut self, common: &Common, how: &str) -> Result<(), Wire> {
        let Some(connection) = &mut self.connection else { return Err(lost()) };
        let mut concern = Vec::new();
        encode::document(&mut concern, |out| common.concern().append(out));
        let mut body = Vec::new();
        encode::document(&mut body, |out| {
            encode::int32(out, how, 1);
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
    async fn ask(
        &mut self,
        db: &str,
        command: &RawDocument,
        start: Start,
    ) -> Result<RawDocumentBuf, Trouble> {
        let Some(connection) = &mut self.connection else { return Err(trouble(&lost())) };
        let elements = command.as_bytes();
        let mut body = Vec::with_capacity(elements.len() + 128);
        encode::document(&mut body, |out| {
            out.extend_from_slice(&elements[4..elements.len() - 1]);
            session(out, self.session, self.number, start);
        });
        let body = RawDocumentBuf::from_bytes(body).map_err(|error| trouble(&error.into()))?;
        connection.command(db, &body).await.map_err(|error| trouble(&error))
    }
}
