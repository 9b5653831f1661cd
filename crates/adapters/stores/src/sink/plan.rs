//! Builds the documents of one transaction once, and again only after a transient failure.

use std::collections::BTreeSet;
use std::ops::Range;

use plimsoll_pipeline::{Batch, Cause, CauseClass, Event, Position, Refused, Settled, Verdict};

use crate::document::fields::letter;
use crate::document::form::{Draft, Form, Id};
use crate::document::identity::Identity;

/// The state of an event in the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    Write,
    /// The event already exists.
    Present,
    /// The event becomes a dead letter, for this reason.
    Refused(String),
}

/// One event of a transaction.
#[derive(Debug)]
struct Entry {
    batch: usize,
    index: usize,
    offset: u64,
    /// The range of its document.
    bytes: Range<usize>,
    fate: Fate,
}

/// The documents of one transaction.
#[derive(Debug, Default)]
pub struct Plan {
    topic: u32,
    documents: Vec<u8>,
    entries: Vec<Entry>,
    letters: Vec<u8>,
    /// Offsets of events whose dead letters already exist.
    letters_present: BTreeSet<u64>,
}

/// Documents to insert, with the offsets of their events.
#[derive(Debug, Default)]
pub struct Writes {
    /// The range of each document in the bytes, and the offset of its event.
    pub documents: Vec<(Range<usize>, u64)>,
}

impl Plan {
    /// Builds the documents for one partition's batches. Events that cannot be stored are refused.
    pub fn make(&mut self, batches: &[Batch], topic: u32, form: Form, bytes_max: usize) {
        self.topic = topic;
        self.documents.clear();
        self.entries.clear();
        self.letters_present.clear();
        let mut scratch = Vec::new();
        for (at, batch) in batches.iter().enumerate() {
            for (index, event) in batch.events().iter().enumerate() {
                let start = self.documents.len();
                let id = Id::Source(self.identity(batch, event));
                let mut fate = match Draft::of(form, id, batch, event, &mut scratch) {
                    Ok(draft) => {
                        draft.write(&mut self.documents, |_| ());
                        Fate::Write
                    }
                    Err(unfit) => Fate::Refused(unfit.to_string()),
                };
                let bytes = self.documents.len() - start;
                if bytes > bytes_max {
                    self.documents.truncate(start);
                    fate = Fate::Refused(format!(
                        "{bytes} bytes are more than the {bytes_max} that the server takes"
                    ));
                }
                let bytes = start..self.documents.len();
                self.entries.push(Entry { batch: at, index, offset: event.offset, bytes, fate });
            }
        }
    }

    fn identity(&self, batch: &Batch, event: &Event) -> Identity {
        Identity { topic: self.topic, partition: batch.partition().index, offset: event.offset }
    }

    /// The documents to write, for events from `next` on.
    pub fn writes(&self, next: u64) -> Writes {
        let due = self.entries.iter().filter(|entry| entry.fate == Fate::Write && entry.offset >= next);
        Writes { documents: due.map(|entry| (entry.bytes.clone(), entry.offset)).collect() }
    }

    /// The bytes of [`Plan::writes`].
    pub fn bytes(&self) -> &[u8] {
        &self.documents
    }

    /// Builds the dead letters for events from `next` on: those rejected before, and those refused here.
    pub fn write_letters(&mut self, batches: &[Batch], next: u64) -> Writes {
        let mut writes = Writes::default();
        let mut bytes = std::mem::take(&mut self.letters);
        bytes.clear();
        let mut add = |batch: &Batch, event: &Event, cause: &Cause| {
            if event.offset >= next && !self.letters_present.contains(&event.offset) {
                let start = bytes.len();
                letter(&mut bytes, self.identity(batch, event), batch, event, cause);
                writes.documents.push((start..bytes.len(), event.offset));
            }
        };
        for batch in batches {
            batch.rejected().iter().for_each(|rejected| add(batch, &rejected.event, &rejected.cause));
        }
        for entry in &self.entries {
            if let Fate::Refused(reason) = &entry.fate {
                let batch = &batches[entry.batch];
                let attempts = batch.attempts() + 1;
                let cause = Cause { attempts, ..Cause::new("sink", CauseClass::Refused, reason.clone()) };
                add(batch, &batch.events()[entry.index], &cause);
            }
        }
        self.letters = bytes;
        writes
    }

    /// The bytes of [`Plan::write_letters`].
    pub fn letters(&self) -> &[u8] {
        &self.letters
    }

    /// Notes that the events at these offsets already exist.
    pub fn note_present(&mut self, offsets: &[u64]) {
        let there: BTreeSet<_> = offsets.iter().copied().collect();
        let due = self.entries.iter_mut().filter(|entry| entry.fate == Fate::Write);
        due.filter(|entry| there.contains(&entry.offset)).for_each(|entry| entry.fate = Fate::Present);
    }

    /// Notes that the event at an offset becomes a dead letter.
    pub fn note_refused(&mut self, offset: u64, reason: String) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.offset == offset) {
            entry.fate = Fate::Refused(reason);
        }
    }

    /// Notes that the dead letters of these offsets already exist.
    pub fn note_letters_present(&mut self, offsets: &[u64]) {
        self.letters_present.extend(offsets);
    }

    /// The batches' verdicts once events from `next` on are committed. Earlier events count as replayed.
    pub fn settle(&self, batches: Vec<Batch>, next: u64) -> Vec<Settled> {
        let mut verdicts = vec![(0, Vec::new()); batches.len()];
        for entry in &self.entries {
            let (replayed, refused) = &mut verdicts[entry.batch];
            match &entry.fate {
                Fate::Refused(reason) => {
                    let index = u32::try_from(entry.index).unwrap_or(u32::MAX);
                    refused.push(Refused { index, reason: reason.clone() });
                }
                Fate::Present => *replayed += 1,
                Fate::Write => *replayed += u32::from(entry.offset < next),
            }
        }
        let settled =
            |(batch, (replayed, refused))| Settled { batch, verdict: Verdict::Written { replayed, refused } };
        batches.into_iter().zip(verdicts).map(settled).collect()
    }
}

/// Whether a partition at `next` already has all events of these batches. Batches without events may still advance the token at
/// the same offset.
pub fn is_written(next: u64, batches: &[Batch], behind: &Position) -> bool {
    let nothing = batches.iter().all(|batch| batch.events_read() == 0);
    behind.next > 0 && (next > behind.next || (next == behind.next && !nothing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_pipeline::{Fate as Sifted, Partition, Record};

    #[test]
    fn written_batches_are_recognised_by_position_but_a_new_token_is_new() {
        let (some, none) = (batch(6..7), batch(6..6));
        let check = |next, batch: &Batch| is_written(next, std::slice::from_ref(batch), &Position::at(7));
        assert_eq!([6, 7, 8].map(|next| check(next, &some)), [false, true, true]);
        assert_eq!([6, 7, 8].map(|next| check(next, &none)), [false, false, true]);
        assert!(!is_written(0, std::slice::from_ref(&none), &Position::at(0)));
    }

    fn batch(offsets: Range<u64>) -> Batch {
        let mut batch = Batch::new(Partition::new("t", 1));
        for offset in offsets {
            let payload: &[u8] = if offset == 3 { b"no" } else { &[5, 0, 0, 0, 0] };
            batch.push(Record { offset, appended_ms: 0, key: None, payload: Some(payload) });
        }
        batch
    }

    fn offsets(writes: &Writes) -> Vec<u64> {
        writes.documents.iter().map(|(_, offset)| *offset).collect()
    }

    #[test]
    fn every_event_is_written_dead_lettered_or_existed() {
        let mut batches = vec![batch(0..3), batch(3..6)];
        batches[0].sift(|_, index| match index {
            1 => Sifted::Reject(Cause::new("x", CauseClass::Invalid, "why")),
            _ => Sifted::Keep,
        });
        let mut plan = Plan::default();
        plan.make(&batches, 9, Form::Bson, 1000);
        assert_eq!(offsets(&plan.writes(0)), [0, 2, 4, 5]);
        plan.note_refused(4, "taken".into());
        plan.note_present(&[5]);
        assert_eq!(offsets(&plan.writes(1)), [2]);
        assert_eq!(offsets(&plan.write_letters(&batches, 1)), [1, 3, 4]);
        plan.note_letters_present(&[3]);
        assert_eq!(offsets(&plan.write_letters(&batches, 2)), [4]);
        let settled = plan.settle(batches, 1);
        let Verdict::Written { replayed, refused } = &settled[0].verdict else { panic!() };
        assert_eq!((*replayed, refused.len()), (1, 0));
        let Verdict::Written { replayed, refused } = &settled[1].verdict else { panic!() };
        assert_eq!((*replayed, refused.iter().map(|one| one.index).collect::<Vec<_>>()), (1, vec![0, 1]));
    }

    #[test]
    fn an_oversized_document_is_refused() {
        let mut plan = Plan::default();
        plan.make(&[batch(0..1)], 9, Form::Bson, 20);
        assert!(offsets(&plan.writes(0)).is_empty());
        assert!(plan.bytes().is_empty());
    }
}
