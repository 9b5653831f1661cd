//! Keeps positions of sources in a collection, fenced against other processes.
//!
//! Each partition has one document: `{_id: {pipeline, topic, partition}, epoch, next, token}`. A takeover raises its epoch.
//! Every later write names the epoch of its claim, so a process that lost the partition changes nothing. Positions are
//! written with `w: majority, j: true` and never move back. The transactional sink writes the same documents in the
//! transaction that writes the events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::{Binary, RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc, spec::BinarySubtype};
use plimsoll_deployment::{Admin, Error as DeploymentError, Namespace};
use plimsoll_pipeline::{Claim, Partition, Position, PositionError, PositionStore};

use crate::reply::{self, DUPLICATE_KEY};

/// The limit of attempts of a claim when other processes claim the same partition at the same time.
const CLAIMS_MAX: u32 = 32;
/// The largest number of positions per command.
const STATEMENTS_MAX: usize = 1000;

/// The place of positions: a collection, and the pipeline's name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionCollection {
    /// The collection.
    pub namespace: Namespace,
    /// The pipeline's name. Each pipeline has separate positions.
    pub pipeline: String,
}

/// A position store in a collection.
#[derive(Debug)]
pub struct Positions {
    admin: Admin,
    position_collection: PositionCollection,
    /// The epochs in which this process holds its partitions.
    held: Mutex<BTreeMap<Partition, u64>>,
}

/// A stored position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The epoch of the last takeover.
    pub epoch: u64,
    /// The position to resume from, if any.
    pub position: Option<Position>,
}

impl PositionCollection {
    /// The `_id` of a partition's document.
    pub fn id(&self, partition: &Partition) -> RawDocumentBuf {
        rawdoc! {"pipeline": &*self.pipeline, "topic": &*partition.topic, "partition": i64::from(partition.index)}
    }

    /// The command that finds a partition's document.
    pub fn find(&self, partition: &Partition) -> RawDocumentBuf {
        rawdoc! {"find": &*self.namespace.collection, "filter": {"_id": self.id(partition)}, "limit": 1}
    }

    /// The statement that advances a position within an epoch. `only` is an additional condition.
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
    let unsigned = |key| reply::number(document, key).and_then(|number| u64::try_from(number).ok());
    let token = document.get_binary("token").ok().map(|binary| Arc::from(binary.bytes));
    Kept {
        epoch: unsigned("epoch").unwrap_or(0),
        position: unsigned("next").map(|next| Position { next, token }),
    }
}

/// Converts a count, which never reaches the sign bit.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Positions {
    /// The positions in a collection of the deployment at `uri`. Nothing is sent before the first claim.
    ///
    /// # Errors
    /// If the URI cannot be used.
    pub fn new(
        uri: &str,
        position_collection: PositionCollection,
        timeout: Duration,
    ) -> Result<Self, DeploymentError> {
        Ok(Self { admin: Admin::new(uri, timeout)?, position_collection, held: Mutex::default() })
    }

    /// The stored position of a partition.
    ///
    /// # Errors
    /// If the position cannot be read.
    pub fn look(&self, partition: &Partition) -> Result<Kept, PositionError> {
        let reply =
            self.admin.run(&self.position_collection.namespace.db, &self.position_collection.find(partition));
        let reply = reply.map_err(|error| unavailable("read", &error))?;
        Ok(reply::first(&reply).map(read).unwrap_or_default())
    }

    /// Raises the epoch from `known`. Matches nothing if another process changed it meanwhile.
    ///
    /// A command that timed out may still run later, after a retry succeeded. If it incremented any existing epoch, it would
    /// fence off its own process.
    fn raise_epoch(&self, partition: &Partition, known: u64) -> Result<RawDocumentBuf, DeploymentError> {
        let command = rawdoc! {
            "findAndModify": &*self.position_collection.namespace.collection,
            "query": {"_id": self.position_collection.id(partition), "epoch": signed(known)},
            "update": {"$set": {"epoch": signed(known + 1)}},
            "upsert": known == 0,
            "new": true,
            "writeConcern": {"w": "majority", "j": true},
        };
        self.admin.run(&self.position_collection.namespace.db, &command)
    }

    /// Takes a partition over, unless another process did so meanwhile.
    fn try_claim(&self, partition: &Partition) -> Result<Option<Kept>, PositionError> {
        let known = self.look(partition)?.epoch;
        let reply = match self.raise_epoch(partition, known) {
            Err(DeploymentError::Wire(plimsoll_wire::Error::Server(error)))
                if error.code == DUPLICATE_KEY =>
            {
                return Ok(None);
            }
            raised => raised.map_err(|error| unavailable("read", &error))?,
        };
        if let Some(reason) = reply::failure(&reply) {
            return Err(PositionError::Unavailable { verb: "read", reason });
        }
        let kept = reply.get_document("value").map(read).ok();
        Ok(kept.filter(|kept| kept.epoch == known + 1))
    }

    /// Advances positions. Returns whether all were advanced: a stored position of another epoch, or one that is already further, is not.
    fn write(
        &self,
        positions: &[(Partition, Position)],
        held: &BTreeMap<Partition, u64>,
    ) -> Result<bool, PositionError> {
        let mut updates = RawArrayBuf::new();
        for (partition, to) in positions {
            let epoch = held.get(partition).copied().ok_or_else(|| unclaimed(partition))?;
            let older = rawdoc! {"$or": [{"next": {"$exists": false}}, {"next": {"$lte": signed(to.next)}}]};
            updates.push(self.position_collection.statement(partition, epoch, to, &older));
        }
        let command = rawdoc! {
            "update": &*self.position_collection.namespace.collection,
            "updates": updates,
            "ordered": false,
            "writeConcern": {"w": "majority", "j": true},
        };
        let reply = self.admin.run(&self.position_collection.namespace.db, &command);
        let reply = reply.map_err(|error| unavailable("written", &error))?;
        if let Some(reason) = reply::failure(&reply) {
            return Err(PositionError::Unavailable { verb: "written", reason });
        }
        Ok(reply::number(&reply, "n") == i64::try_from(positions.len()).ok())
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
                    let reason = format!(
                        "{} does not return its own writes: read from the primary",
                        self.position_collection.namespace
                    );
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
            // At least one position was not advanced: it is already further, or another process holds its
            // partition.
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
