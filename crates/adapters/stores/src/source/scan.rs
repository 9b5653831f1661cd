//! Reads a collection from its first `_id` to its last, in ranges that are its partitions.
//!
//! Every read is a new query for the documents after the last `_id`, so no cursor can expire. A position is the last `_id`
//! and the number of documents before it. The settings define the ranges, so that they are the same after a restart.

use std::sync::Arc;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use plimsoll_deployment::{Deployment, Error as DeploymentError, Namespace};
use plimsoll_pipeline::{
    Assignment, Assignments, Batch, Intake, Last, Partition, Position, Read, Record, Replay, Source,
    SourceError,
};
use plimsoll_wire::{Connection, FindReply, FindRequest, FindSpec};
use tokio::runtime::Runtime;

use super::id_order::{behind, until};

/// The largest number of documents per query.
const DOCUMENTS_MAX: usize = 10_000;

/// Reads a collection once.
pub struct Scan {
    deployment: Deployment,
    namespace: Namespace,
    filter: Document,
    splits: Vec<Bson>,
    runtime: Runtime,
    connection: Option<Connection>,
    reply: FindReply,
    ranges: Vec<Range>,
    turn: usize,
}

/// A part of the collection.
struct Range {
    assignment: Arc<Assignment>,
    /// The filters of the range.
    bounds: Vec<Document>,
    next: u64,
    /// The last `_id` read.
    last: Option<Bson>,
    done: bool,
}

impl Scan {
    /// A scan of the documents that match `filter`, split at the ascending `splits`.
    pub(crate) fn new(
        deployment: Deployment,
        namespace: Namespace,
        filter: Document,
        splits: Vec<Bson>,
        runtime: Runtime,
    ) -> Self {
        let (connection, reply, ranges) = (None, FindReply::new(), Vec::new());
        Self { deployment, namespace, filter, splits, runtime, connection, reply, ranges, turn: 0 }
    }

    fn bounds(&self, index: usize) -> Vec<Document> {
        let lower = index.checked_sub(1).and_then(|before| self.splits.get(before)).map(behind);
        let upper = self.splits.get(index).map(until);
        [(!self.filter.is_empty()).then(|| self.filter.clone()), lower, upper].into_iter().flatten().collect()
    }

    /// Queries the next documents of a range, at most `most`.
    fn query(&mut self, index: usize, most: usize) -> Result<(), DeploymentError> {
        let range = &self.ranges[index];
        let mut parts = range.bounds.clone();
        parts.extend(range.last.as_ref().map(behind));
        let filter = if parts.is_empty() {
            Document::new()
        } else {
            doc! {"$and": parts}
        };
        let mut spec = FindSpec::new(&self.namespace.db, &self.namespace.collection);
        let limit = u32::try_from(most).unwrap_or(u32::MAX);
        (spec.sort, spec.limit, spec.batch_size) = (Some(doc! {"_id": 1}), Some(limit), Some(limit));
        spec.single_batch = true;
        let Self { runtime, connection, deployment, reply, .. } = self;
        runtime.block_on(async {
            let opened = match connection.take().filter(|connection| !connection.is_broken()) {
                Some(opened) => opened,
                None => deployment.connect_to_read().await?,
            };
            let opened = connection.insert(opened);
            let wanted = deployment.concerns();
            // By default skips writes that a failover may roll back.
            let safe = || opened.hello().is_replicated().then(|| "majority".into());
            spec.read_concern = wanted.read.clone().or_else(safe);
            if let Some(preference) = &wanted.preference {
                spec.read_preference = deployment.sent_preference(opened.hello(), preference);
            }
            let mut request = FindRequest::new(&spec, &opened.limits())?;
            let filter = filter.to_vec().map_err(plimsoll_wire::Error::from)?;
            request.filter(|out| out.extend_from_slice(&filter)).map_err(plimsoll_wire::Error::from)?;
            Ok(opened.find(&mut request, reply).await?)
        })
    }

    /// Hands over the found documents.
    fn hand_over(
        &mut self,
        index: usize,
        asked: usize,
        intake: &mut Intake<'_>,
    ) -> Result<Read, SourceError> {
        let Self { reply, ranges, .. } = self;
        let range = &mut ranges[index];
        let (space, mut taken) = (intake.space(), 0);
        let mut batch = intake.batch(range.assignment.partition());
        for document in reply.documents() {
            if taken > 0 && batch.bytes() + document.as_bytes().len() > space.bytes {
                break;
            }
            range.take(&mut batch, document)?;
            taken += 1;
        }
        // A reply with fewer documents may have reached 16 MB; only an empty reply marks the end.
        range.done = taken == 0 && asked > 0;
        if taken == 0 {
            return Ok(Read::Idle);
        }
        batch.set_position(range.position()?);
        intake.hand_over(&range.assignment, batch);
        Ok(Read::Some)
    }
}

impl Range {
    /// Appends a document as an event: its key is its `_id` as a document, `{_id: …}`.
    fn take(&mut self, batch: &mut Batch, document: &RawDocument) -> Result<(), SourceError> {
        let failed = |words: String| SourceError::Failed(format!("a document {words}"));
        // The sink checks the rest of the document.
        let id = document.get("_id").map_err(|error| failed(error.to_string()))?;
        let id = id.ok_or_else(|| failed("has no _id: scan a collection, not a view without it".into()))?;
        let mut key = RawDocumentBuf::new();
        key.append(bson::cstr!("_id"), id);
        let key = key.as_bytes();
        self.last = Some(read_id(key).ok_or_else(|| failed("has an _id that cannot be read".into()))?);
        let appended_ms = plimsoll_measure::clock::wall_ms();
        let payload = Some(document.as_bytes());
        batch.push(Record { offset: self.next, appended_ms, key: Some(key), payload });
        self.next += 1;
        Ok(())
    }

    fn position(&self) -> Result<Position, SourceError> {
        let token = match &self.last {
            Some(last) => {
                let bytes = doc! {"_id": last}.to_vec();
                Some(Arc::from(bytes.map_err(|error| SourceError::Failed(error.to_string()))?))
            }
            None => None,
        };
        Ok(Position { next: self.next, token })
    }
}

/// The `_id` of a document that contains only that.
fn read_id(key: &[u8]) -> Option<Bson> {
    Document::from_reader(key).ok()?.remove("_id")
}

impl Source for Scan {
    fn replay(&self) -> Replay {
        Replay::FromStore
    }

    /// An offset is the number of earlier documents: a removed or added document shifts the offsets of all
    /// later documents.
    fn stable(&self) -> bool {
        false
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        for index in 0..=self.splits.len() {
            let number =
                u32::try_from(index).map_err(|_| SourceError::Refused("there are too many splits".into()))?;
            let (assignment, from) = assignments.open(Partition::new(self.namespace.to_string(), number))?;
            let last = match from.as_ref().and_then(|from| from.token.as_deref()) {
                Some(token) => Some(read_id(token).ok_or_else(|| {
                    SourceError::Refused(format!("the position of {} is not that of a scan", self.namespace))
                })?),
                None => None,
            };
            let next = from.map_or(0, |from| from.next);
            self.ranges.push(Range { assignment, bounds: self.bounds(index), next, last, done: false });
        }
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        if self.ranges.iter().all(|range| range.done || range.assignment.is_closed()) {
            return Ok(Read::End);
        }
        let most = intake.space().events.min(intake.limits().batch_events_max).min(DOCUMENTS_MAX);
        if most == 0 || intake.space().bytes == 0 {
            return Ok(Read::Idle);
        }
        let count = self.ranges.len();
        let turn = (0..count).map(|step| (self.turn + step) % count).find(|index| !self.ranges[*index].done);
        let Some(index) = turn else { return Ok(Read::End) };
        self.turn = index + 1;
        match self.query(index, most) {
            Ok(()) => self.hand_over(index, most, intake),
            Err(error) if error.is_transient() => {
                intake.note_trouble(format!("{} cannot be read: {error}", self.namespace));
                std::thread::sleep(intake.wait());
                Ok(Read::Idle)
            }
            Err(error) => Err(SourceError::Failed(error.to_string())),
        }
    }

    fn commit(&mut self, _: &[(Partition, Position)], _: Last) -> Result<(), SourceError> {
        Ok(())
    }
}
