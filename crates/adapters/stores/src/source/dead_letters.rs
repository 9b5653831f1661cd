//! Reads the dead letters of a collection, and removes them once their events are settled.
//!
//! A letter whose event is rejected again stays. Letters appended during the replay are left for the next replay.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use plimsoll_deployment::{Admin, Namespace};
use plimsoll_pipeline::event::header;
use plimsoll_pipeline::replay::{DeadLetter, LetterBatcher, RepeatedLetters};
use plimsoll_pipeline::{
    Assignment, Assignments, Intake, Last, Partition, Position, Read, Replay, Source, SourceError,
};

use super::id_order::{behind, until};
use crate::reply;

/// The largest number of letters per query and per removal.
const LETTERS_MAX: usize = 1000;

/// Reads the dead letters of a collection once.
pub struct DeadLetters {
    admin: Admin,
    namespace: Namespace,
    /// The number of letters that may still be read.
    left: u64,
    /// The events that became letters again under the same `_id`.
    repeated: Option<Arc<RepeatedLetters>>,
    assignment: Option<Arc<Assignment>>,
    /// The last `_id` when the source was opened.
    until: Option<Bson>,
    /// The last `_id` read.
    last: Option<Bson>,
    read: u64,
    /// Letters that were read but not settled.
    open: VecDeque<Open>,
    /// Letters that were settled but not removed.
    settled: Vec<Bson>,
}

/// A read letter.
struct Open {
    number: u64,
    id: Bson,
    event: (Partition, u64),
}

/// The reason why a command failed.
struct CommandFailure {
    words: String,
    /// Whether a retry may succeed.
    passes: bool,
}

impl CommandFailure {
    fn for_good(words: impl std::fmt::Display) -> Self {
        Self { words: words.to_string(), passes: false }
    }
}

impl DeadLetters {
    /// The first `limit` letters of a collection.
    pub(crate) fn new(
        admin: Admin,
        namespace: Namespace,
        limit: u64,
        repeated: Option<Arc<RepeatedLetters>>,
    ) -> Self {
        Self {
            admin,
            namespace,
            left: limit,
            repeated,
            assignment: None,
            until: None,
            last: None,
            read: 0,
            open: VecDeque::new(),
            settled: Vec::new(),
        }
    }

    /// Letters in ascending or descending order of `_id`.
    fn find(&self, order: i32, most: usize) -> Result<Vec<Document>, CommandFailure> {
        // Only dead letters have this header.
        let mut filters = vec![doc! {"headers.name": header::TOPIC}];
        filters.extend(self.last.as_ref().map(behind));
        filters.extend(self.until.as_ref().map(until));
        let limit = i32::try_from(most).unwrap_or(i32::MAX);
        let find = doc! {
            "find": &self.namespace.collection, "filter": {"$and": filters}, "sort": {"_id": order},
            "limit": limit, "batchSize": limit, "singleBatch": true,
        };
        let reply = self.run(&find)?;
        found(&reply).ok_or_else(|| CommandFailure::for_good("the server's reply is malformed"))
    }

    fn run(&self, command: &Document) -> Result<RawDocumentBuf, CommandFailure> {
        let command = RawDocumentBuf::try_from(command).map_err(CommandFailure::for_good)?;
        let said = self.admin.run(&self.namespace.db, &command);
        said.map_err(|error| CommandFailure { words: error.to_string(), passes: error.is_transient() })
    }

    fn failed(&self, words: impl std::fmt::Display) -> SourceError {
        SourceError::Failed(format!("{}: {words}", self.namespace))
    }

    /// Removes settled letters.
    fn remove(&mut self) -> Result<(), CommandFailure> {
        while !self.settled.is_empty() {
            let some: Vec<_> = self.settled.iter().take(LETTERS_MAX).cloned().collect();
            let count = some.len();
            let delete = doc! {
                "delete": &self.namespace.collection,
                "deletes": [{"q": {"_id": {"$in": some}}, "limit": 0}],
                "writeConcern": {"w": "majority", "j": true},
            };
            let reply = self.run(&delete)?;
            if let Some(words) = reply::failure(&reply) {
                return Err(CommandFailure::for_good(words));
            }
            self.settled.drain(..count);
        }
        Ok(())
    }
}

/// The documents of a cursor. `None` if the reply is malformed.
fn found(reply: &RawDocument) -> Option<Vec<Document>> {
    reply::documents(reply)?.map(|document| Document::try_from(document?).ok()).collect()
}

/// Converts a document to a letter, if it has the form of a letter.
fn letter(document: &Document) -> Option<DeadLetter<'_>> {
    let headers = document.get_array("headers").ok()?.iter().map(|header| {
        let header = header.as_document()?;
        Some((header.get_str("name").ok()?, bytes(header.get("value"))?))
    });
    Some(DeadLetter {
        appended_ms: u64::try_from(document.get_datetime("ts").ok()?.timestamp_millis()).ok()?,
        key: bytes(document.get("key"))?,
        payload: bytes(document.get("payload"))?,
        headers: headers.collect::<Option<_>>()?,
    })
}

/// The value's bytes; null means no bytes.
fn bytes(value: Option<&Bson>) -> Option<Option<&[u8]>> {
    match value? {
        Bson::Binary(binary) => Some(Some(&binary.bytes)),
        Bson::Null => Some(None),
        _ => None,
    }
}

impl Source for DeadLetters {
    fn replay(&self) -> Replay {
        Replay::FromItself
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        let (assignment, _) = assignments.open(Partition::new(self.namespace.to_string(), 0))?;
        self.assignment = Some(assignment);
        let last = self.find(-1, 1).map_err(|failure| SourceError::Refused(failure.words))?;
        self.until = last.first().and_then(|letter| letter.get("_id").cloned());
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some(assignment) = self.assignment.clone() else { return Ok(Read::End) };
        if self.until.is_none() || self.left == 0 {
            return Ok(Read::End);
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = intake.space().events.min(intake.limits().batch_events_max).min(LETTERS_MAX).min(left);
        if most == 0 || intake.space().bytes == 0 {
            return Ok(Read::Idle);
        }
        let letters = match self.find(1, most) {
            Ok(letters) if letters.is_empty() => return Ok(Read::End),
            Ok(letters) => letters,
            Err(CommandFailure { passes: true, .. }) => return Ok(Read::Idle),
            Err(failure) => return Err(self.failed(failure.words)),
        };
        let mut returned = LetterBatcher::new(intake);
        for document in &letters {
            if !returned.has_room() {
                break;
            }
            let Some(id) = document.get("_id") else { break };
            let letter = letter(document)
                .ok_or_else(|| self.failed(format_args!("the document {id} is not a dead letter")))?;
            let event = returned.take(&assignment, &letter, Position::at(self.read + 1));
            let event = event.map_err(|error| self.failed(format_args!("the document {id} {error}")))?;
            self.open.push_back(Open { number: self.read, id: id.clone(), event });
            self.last = Some(id.clone());
            self.read += 1;
            self.left -= 1;
        }
        returned.finish();
        Ok(Read::Some)
    }

    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError> {
        let next = reached.last().map_or(0, |(_, position)| position.next);
        while let Some(Open { id, event, .. }) = self.open.pop_front_if(|open| open.number < next) {
            if !self.repeated.as_ref().is_some_and(|repeated| repeated.take(&event)) {
                self.settled.push(id);
            }
        }
        match self.remove() {
            Err(CommandFailure { words, passes }) if last == Last::Yes || !passes => Err(self.failed(format_args!(
                "the letters of replayed events cannot be removed ({words}): replay them again, existing events are recognised"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::fields::letter as written;
    use crate::document::identity::Identity;
    use plimsoll_pipeline::{Batch, Cause, CauseClass, Record};

    #[test]
    fn a_written_letter_is_read_as_its_event() {
        let mut batch = Batch::new(Partition::new("orders", 3));
        let record = Record { offset: 41, appended_ms: 7, key: Some(b"\xff"), payload: None };
        batch.push_with(record, [("a", Some(&b"1"[..])), ("b", None), ("a", Some(&b"2"[..]))]);
        let (mut out, event) = (Vec::new(), batch.events()[0]);
        let identity = Identity { topic: 1, partition: 3, offset: 41 };
        written(&mut out, identity, &batch, &event, &Cause::new("sink", CauseClass::Refused, "why"));
        let document = Document::from_reader(out.as_slice()).unwrap();
        let letter = letter(&document).unwrap();
        assert_eq!((letter.appended_ms, letter.key, letter.payload), (7, Some(&b"\xff"[..]), None));
        let (origin, own) = letter.open().unwrap();
        assert_eq!((origin.topic, origin.partition, origin.offset), ("orders", 3, 41));
        assert_eq!(own, [("a", Some(&b"1"[..])), ("b", None), ("a", Some(&b"2"[..]))]);
    }

    #[test]
    fn a_document_of_another_form_is_not_a_letter() {
        assert!(letter(&doc! {"_id": 1}).is_none());
        assert!(letter(&doc! {"headers": [], "ts": 5, "key": Bson::Null, "payload": Bson::Null}).is_none());
    }
}
