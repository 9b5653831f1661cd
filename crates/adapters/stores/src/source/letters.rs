//! The dead letters of a collection, which are removed when their events are where they belong.
//!
//! A letter that became one again stays. What is appended while letters are read is for another time.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use plimsoll_deployment::{Admin, Namespace};
use plimsoll_pipeline::event::header;
use plimsoll_pipeline::replay::{DeadLetter, LetterBatcher, RepeatedLetters};
use plimsoll_pipeline::{
    Assignment, Assignments, Intake, Last, Partition, Position, Read, Replay, Source, SourceError,
};

use super::order::{behind, until};

/// Letters of one query, and of one removal, at most.
const LETTERS_MAX: usize = 1000;

/// Reads the dead letters of a collection once.
pub struct Letters {
    admin: Admin,
    namespace: Namespace,
    /// Letters that may still be read.
    left: u64,
    /// The events that become letters again under the names that their letters have.
    again: Option<Arc<RepeatedLetters>>,
    assignment: Option<Arc<Assignment>>,
    /// The last `_id` when it was opened.
    until: Option<Bson>,
    /// The last `_id` that was read.
    last: Option<Bson>,
    read: u64,
    /// Letters that were read and are not settled.
    open: VecDeque<Open>,
    /// Letters that are settled and not removed.
    settled: Vec<Bson>,
}

/// A letter that was read.
struct Open {
    number: u64,
    id: Bson,
    event: (Partition, u64),
}

/// Why a command was not done.
struct Undone {
    words: String,
    /// Whether it may be done later.
    passes: bool,
}

impl Undone {
    fn for_good(words: impl std::fmt::Display) -> Self {
        Self { words: words.to_string(), passes: false }
    }
}

impl Letters {
    /// The letters of a collection, so many at most.
    pub(crate) fn new(
        admin: Admin,
        namespace: Namespace,
        limit: u64,
        again: Option<Arc<RepeatedLetters>>,
    ) -> Self {
        Self {
            admin,
            namespace,
            left: limit,
            again,
            assignment: None,
            until: None,
            last: None,
            read: 0,
            open: VecDeque::new(),
            settled: Vec::new(),
        }
    }

    /// Letters in the order of their `_id`s, or against it.
    fn find(&self, order: i32, most: usize) -> Result<Vec<Document>, Undone> {
        // Nothing but a dead letter has this header.
        let mut filters = vec![doc! {"headers.name": header::TOPIC}];
        filters.extend(self.last.as_ref().map(behind));
        filters.extend(self.until.as_ref().map(until));
        let limit = i32::try_from(most).unwrap_or(i32::MAX);
        let find = doc! {
            "find": &self.namespace.collection, "filter": {"$and": filters}, "sort": {"_id": order},
            "limit": limit, "batchSize": limit, "singleBatch": true,
        };
        let reply = self.run(&find)?;
        found(&reply).ok_or_else(|| Undone::for_good("the server's answer cannot be read"))
    }

    fn run(&self, command: &Document) -> Result<RawDocumentBuf, Undone> {
        let command = RawDocumentBuf::try_from(command).map_err(Undone::for_good)?;
        let said = self.admin.run(&self.namespace.db, &command);
        said.map_err(|error| Undone { words: error.to_string(), passes: error.is_transient() })
    }

    fn failed(&self, words: impl std::fmt::Display) -> SourceError {
        SourceError::Failed(format!("{}: {words}", self.namespace))
    }

    /// Removes what is settled.
    fn remove(&mut self) -> Result<(), Undone> {
        while !self.settled.is_empty() {
            let some: Vec<_> = self.settled.iter().take(LETTERS_MAX).cloned().collect();
            let count = some.len();
            let delete = doc! {
                "delete": &self.namespace.collection,
                "deletes": [{"q": {"_id": {"$in": some}}, "limit": 0}],
                "writeConcern": {"w": "majority", "j": true},
            };
            let reply = self.run(&delete)?;
            if let Some(words) = refusal(&reply) {
                return Err(Undone::for_good(words));
            }
            self.settled.drain(..count);
        }
        Ok(())
    }
}

/// The documents of a find's reply.
fn found(reply: &RawDocument) -> Option<Vec<Document>> {
    let batch = reply.get_document("cursor").ok()?.get_array("firstBatch").ok()?;
    batch.into_iter().map(|one| Document::try_from(one.ok()?.as_document()?).ok()).collect()
}

/// Why a removal was not done, or is not durable.
fn refusal(reply: &RawDocument) -> Option<String> {
    let words = |error: &RawDocument| error.get_str("errmsg").unwrap_or("no reason given").to_owned();
    let first =
        reply.get_array("writeErrors").ok().and_then(|errors| errors.into_iter().next()?.ok()?.as_document());
    first.or_else(|| reply.get_document("writeConcernError").ok()).map(words)
}

/// A document's letter; none if it does not look like one.
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

/// Binary, or null for none.
fn bytes(value: Option<&Bson>) -> Option<Option<&[u8]>> {
    match value? {
        Bson::Binary(binary) => Some(Some(&binary.bytes)),
        Bson::Null => Some(None),
        _ => None,
    }
}

impl Source for Letters {
    fn replay(&self) -> Replay {
        Replay::FromItself
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        let (assignment, _) = assignments.open(Partition::new(self.namespace.to_string(), 0))?;
        self.assignment = Some(assignment);
        let last = self.find(-1, 1).map_err(|undone| SourceError::Refused(undone.words))?;
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
            Err(Undone { passes: true, .. }) => return Ok(Read::Idle),
            Err(undone) => return Err(self.failed(undone.words)),
        };
        let mut returned = LetterBatcher::new(intake);
        for document in &letters {
            if !returned.has_room() {
                break;
            }
            let Some(id) = document.get("_id") else { break };
            let letter = letter(document)
                .ok_or_else(|| self.failed(format_args!("the document {id} is no dead letter")))?;
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
            if !self.again.as_ref().is_some_and(|again| again.take(&event)) {
                self.settled.push(id);
            }
        }
        match self.remove() {
            Err(Undone { words, passes }) if last == Last::Yes || !passes => Err(self.failed(format_args!(
                "the letters of events that are replayed cannot be removed ({words}): replay them again, what is there is known"
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
    fn what_was_written_as_a_letter_is_read_as_the_event() {
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
    fn what_is_no_letter_is_none() {
        assert!(letter(&doc! {"_id": 1}).is_none());
        assert!(letter(&doc! {"headers": [], "ts": 5, "key": Bson::Null, "payload": Bson::Null}).is_none());
    }
}
