//! Positions of sources in a collection, with a fence against others.
//!
//! One document a partition: `{_id: {pipeline, topic, partition}, epoch, next, token}`. Taking a partition over raises its epoch;
//! every later write names the epoch it was claimed in, so one who lost the partition changes nothing any more. Positions are
//! written with `w: majority, j: true` and never go back. The transactional sink writes the same documents in the transaction
//! that writes the events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::{Binary, RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc, spec::BinarySubtype};
use plimsoll_deployment::{Admin, Error as DeploymentError, Namespace};
use plimsoll_pipeline::{Claim, Partition, Position, PositionError, PositionStore};

use crate::topics::{first, number_of};

/// DuplicateKey: somebody else made the document at the same moment.
const DUPLICATE: i32 = 11000;
/// How often a claim is tried when others claim the same partition at the same moment.
const CLAIMS_MAX: u32 = 32;
/// Positions of one command at most.
const STATEMENTS_MAX: usize = 1000;

/// Where positions are kept: a collection, and the name of the pipeline in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shelf {
    /// The collection.
    pub namespace: Namespace,
    /// The pipeline: each has positions of its own.
    pub pipeline: String,
}

/// A position store on a collection.
#[derive(Debug)]
pub struct Positions {
    admin: Admin,
    shelf: Shelf,
    /// The epochs in which this process holds its partitions.
    held: Mutex<BTreeMap<Partition, u64>>,
}

/// A position as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The epoch of whoever took the partition over last.
    pub epoch: u64,
    /// Where to go on, if that was ever kept.
    pub position: Option<Position>,
}

impl Shelf {
    /// The `_id` of a partition's document.
    pub fn id(&self, partition: &Partition) -> RawDocumentBuf {
        rawdoc! {"pipeline": &*self.pipeline, "topic": &*partition.topic, "partition": i64::from(partition.index)}
    }

    /// The command that finds a partition's document, for `w: majority` to be true of what it shows.
    pub fn find(&self, partition: &Partition) -> RawDocumentBuf {
        rawdoc! {"find": &*self.namespace.collection, "filter": {"_id": self.id(partition)}, "limit": 1}
    }

    /// The statement that moves a position on, within an epoch; `only` narrows when.
    pub fn statement(
        &self,
        partition: &Partition,
        epoch: u64,
        to: &Position,
        only: &RawDocument,
    ) -> RawDocumentBuf {
        let mut query = rawdoc! {"_id": self.id(partition), "epoch": signed(epoch)};
        for element in only.iter().flatten() {
            query.append(element.0, element.1);
        }
        let mut set = rawdoc! {"next": signed(to.next)};
        if let Some(token) = &to.token {
            set.append(
                bson::cstr!("token"),
                Binary { subtype: BinarySubtype::Generic, bytes: token.to_vec() },
            );
        }
        rawdoc! {"q": query, "u": {"$set": set}}
    }
}

/// Reads a position's document.
pub fn read(document: &RawDocument) -> Kept {
    let unsigned = |key| number_of(document, key).and_then(|number| u64::try_from(number).ok());
    let token = document.get_binary("token").ok().map(|binary| Arc::from(binary.bytes));
    Kept {
        epoch: unsigned("epoch").unwrap_or(0),
        position: unsigned("next").map(|next| Position { next, token }),
    }
}

/// Numbers that count from zero and never reach the sign.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Positions {
    /// The positions on a shelf of the deployment that `uri` names. Nothing is sent before the first claim.
    ///
    /// # Errors
    /// If the URI cannot be used.
    pub fn new(uri: &str, shelf: Shelf, timeout: Duration) -> Result<Self, DeploymentError> {
        Ok(Self { admin: Admin::new(uri, timeout)?, shelf, held: Mutex::default() })
    }

    /// A partition's position as it is stored.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn look(&self, partition: &Partition) -> Result<Kept, PositionError> {
        let reply = self.admin.run(&self.shelf.namespace.db, &self.shelf.find(partition));
        let reply = reply.map_err(|error| unavailable("read", &error))?;
        Ok(first(&reply).map(read).unwrap_or_default())
    }

    /// Raises the epoch from what it is known to be; nothing is found if it is something else by now.
    ///
    /// A command that is not answered in time may be done later, when the next try has long been answered: one that counted on
    /// from whatever is there would then fence the very process that sent it.
    fn raise_epoch(&self, partition: &Partition, known: u64) -> Result<RawDocumentBuf, DeploymentError> {
        let command = rawdoc! {
            "findAndModify": &*self.shelf.namespace.collection,
            "query": {"_id": self.shelf.id(partition), "epoch": signed(known)},
            "update": {"$set": {"epoch": signed(known + 1)}},
            "upsert": known == 0,
            "new": true,
            "writeConcern": {"w": "majority", "j": true},
        };
        self.admin.run(&self.shelf.namespace.db, &command)
    }

    /// Takes a partition over, if nobody else did since it was looked at.
    fn try_claim(&self, partition: &Partition) -> Result<Option<Kept>, PositionError> {
        let known = self.look(partition)?.epoch;
        let reply = match self.raise_epoch(partition, known) {
            Err(DeploymentError::Wire(plimsoll_wire::Error::Server(error))) if error.code == DUPLICATE => {
                return Ok(None);
            }
            raised => raised.map_err(|error| unavailable("read", &error))?,
        };
        if let Some(reason) = failed(&reply) {
            return Err(PositionError::Unavailable { verb: "read", reason });
        }
        let kept = reply.get_document("value").map(read).ok();
        Ok(kept.filter(|kept| kept.epoch == known + 1))
    }

    /// Moves some positions on; says whether each was found where it may be moved from.
    fn write(
        &self,
        positions: &[(Partition, Position)],
        held: &BTreeMap<Partition, u64>,
    ) -> Result<bool, PositionError> {
        let mut updates = RawArrayBuf::new();
        for (partition, to) in positions {
            let epoch = held.get(partition).copied().ok_or_else(|| unclaimed(partition))?;
            let older = rawdoc! {"$or": [{"next": {"$exists": false}}, {"next": {"$lte": signed(to.next)}}]};
            updates.push(self.shelf.statement(partition, epoch, to, &older));
        }
        let command = rawdoc! {
            "update": &*self.shelf.namespace.collection,
            "updates": updates,
            "ordered": false,
            "writeConcern": {"w": "majority", "j": true},
        };
        let reply = self.admin.run(&self.shelf.namespace.db, &command);
        let reply = reply.map_err(|error| unavailable("written", &error))?;
        if let Some(reason) = failed(&reply) {
            return Err(PositionError::Unavailable { verb: "written", reason });
        }
        Ok(number_of(&reply, "n") == i64::try_from(positions.len()).ok())
    }
}

impl PositionStore for Positions {
    fn claim(&self, partition: &Partition) -> Result<Claim, PositionError> {
        let mut tries = 0;
        let kept = loop {
            tries += 1;
            match self.try_claim(partition)? {
                Some(kept) => break kept,
                None if tries < CLAIMS_MAX => {}
                None => {
                    let reason = format!("{} does not show what was written to it", self.shelf.namespace);
                    return Err(PositionError::Unavailable { verb: "read", reason });
                }
            }
        };
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(partition.clone(), kept.epoch);
        Ok(Claim { position: kept.position, epoch: kept.epoch })
    }

    fn keep(&self, positions: &[(Partition, Position)]) -> Result<(), PositionError> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for part in positions.chunks(STATEMENTS_MAX) {
            if self.write(part, &held)? {
                continue;
            }
            // One was not where it may be moved from: it stands further on, or is another's.
            for (partition, _) in part {
                if Some(&self.look(partition)?.epoch) != held.get(partition) {
                    return Err(PositionError::Fenced { partition: partition.clone() });
                }
            }
        }
        Ok(())
    }
}

fn unavailable(verb: &'static str, error: &DeploymentError) -> PositionError {
    PositionError::Unavailable { verb, reason: error.to_string() }
}

fn unclaimed(partition: &Partition) -> PositionError {
    PositionError::Unavailable { verb: "written", reason: format!("{partition} was never claimed") }
}

/// What a reply that is ok says nevertheless did not work.
fn failed(reply: &RawDocument) -> Option<String> {
    let words = |error: &RawDocument| error.get_str("errmsg").unwrap_or("no reason was given").to_owned();
    if let Ok(error) = reply.get_document("writeConcernError") {
        return Some(words(error));
    }
    let errors = reply.get_array("writeErrors").ok()?;
    errors.into_iter().next()?.ok()?.as_document().map(words)
}
