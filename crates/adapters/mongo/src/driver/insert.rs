//! Sends inserts over the official driver.

use std::ops::Range;

use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;
use mongodb::error::{Error, ErrorKind};
use plimsoll_measure::first_error::FirstError;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_wire::Outcome as Wire;

use super::outcome::of_error;
use super::raw;
use crate::operation_builder::{OperationBuilder, Work};
use crate::outcome::{add, outcome, state};

/// A prepared insert.
#[derive(Debug)]
pub(super) struct Ready {
    documents: Vec<RawDocumentBuf>,
    numbers: Range<u64>,
    ordered: bool,
}

impl Ready {
    pub fn new(builder: &OperationBuilder, batch: u32, ordered: bool) -> Option<Self> {
        let numbers = builder.take(batch)?;
        let document = |number| raw(|out| builder.write_document(out, number));
        Some(Self { documents: numbers.clone().map(document).collect(), numbers, ordered })
    }

    pub fn documents(&self) -> u64 {
        self.documents.len() as u64
    }

    pub fn discard(&self, builder: &OperationBuilder) {
        builder.ledger().give_back(self.numbers.clone());
    }

    pub async fn send(&self, work: Work<'_>, collection: &Collection<RawDocumentBuf>) -> Reply {
        let Self { documents, numbers, ordered } = self;
        let sent: Result<(), Error> = match documents.as_slice() {
            [one] => collection.insert_one(one).await.map(drop),
            many => collection.insert_many(many).ordered(*ordered).await.map(drop),
        };
        let mut reply = Reply { bytes_sent: bytes(documents), ..Reply::acknowledged(0) };
        let split = Split::of(documents.len(), reply.bytes_sent);
        if let Err(error) = &sent {
            note(work, error, split);
        }
        let mut ledger = work.builder.ledger();
        let acknowledged = work.builder.setup.is_acknowledged();
        for (span, outcome) in outcomes(&sent, documents.len(), *ordered, acknowledged, split) {
            let first = numbers.start + span.start as u64;
            ledger.settle(first..first + span.len() as u64, state(outcome));
            add(&mut reply, outcome, span.len() as u64);
        }
        reply
    }
}

/// Notes the errors of single documents, of the write concern, and of the whole command.
fn note(work: Work<'_>, error: &Error, split: Split) {
    let ErrorKind::InsertMany(many) = error.kind.as_ref() else {
        work.noted(of_insert_error(error, split), error);
        return;
    };
    for refused in many.write_errors.iter().flatten() {
        let name = refused.code_name.as_deref().unwrap_or_default();
        let error = || FirstError::new(refused.code, name, &refused.message);
        work.note(outcome(Wire::of_write_error(refused.code)), error);
    }
    if let Some(concern) = &many.write_concern_error {
        let error = || FirstError::new(concern.code, &concern.code_name, &concern.message);
        work.note(Outcome::Unknown(Doubt::WriteConcern), error);
    }
}

fn bytes(documents: &[RawDocumentBuf]) -> u64 {
    documents.iter().map(|document| document.as_bytes().len() as u64).sum()
}

/// The outcomes of an insert's documents, in spans.
fn outcomes(
    sent: &Result<(), Error>,
    count: usize,
    ordered: bool,
    acknowledged: bool,
    split: Split,
) -> Vec<(Range<usize>, Outcome)> {
    let whole = |outcome| vec![(0..count, outcome)];
    let error = match sent {
        Ok(()) if acknowledged => return whole(Outcome::Acknowledged),
        Ok(()) => return whole(Outcome::Unknown(Doubt::Unacknowledged)),
        Err(error) => error,
    };
    let ErrorKind::InsertMany(many) = error.kind.as_ref() else {
        return whole(of_insert_error(error, split));
    };
    let others = match &many.write_concern_error {
        Some(_) => Outcome::Unknown(Doubt::WriteConcern),
        None => Outcome::Acknowledged,
    };
    let refused = many.write_errors.iter().flatten();
    let refused = refused.map(|error| (error.index, outcome(Wire::of_write_error(error.code))));
    spread(refused, count, ordered, others)
}

/// Spans around refused documents; after the first refusal of an ordered insert, the server did not try the rest.
fn spread(
    refused: impl Iterator<Item = (usize, Outcome)>,
    count: usize,
    ordered: bool,
    others: Outcome,
) -> Vec<(Range<usize>, Outcome)> {
    let mut spans = Vec::new();
    let mut next = 0;
    for (index, outcome) in refused.filter(|(index, _)| *index < count) {
        spans.push((next..index, others));
        spans.push((index..index + 1, outcome));
        next = index + 1;
    }
    let rest = if ordered && next > 0 { Outcome::Rejected(Rejection::NotTried) } else { others };
    spans.push((next..count, rest));
    spans.retain(|(span, _)| !span.is_empty());
    spans
}

/// Whether the driver may have sent an insert as several commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    Possible,
    No,
}

impl Split {
    /// Compares an insert with the size that every server accepts in one command.
    const fn of(documents: usize, bytes: u64) -> Self {
        if documents > 100_000 || bytes > 48_000_000 { Self::Possible } else { Self::No }
    }
}

/// A refused command reveals nothing about the commands before it.
fn of_insert_error(error: &Error, split: Split) -> Outcome {
    match split {
        Split::No => of_error(error),
        Split::Possible => Outcome::Unknown(Doubt::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Outcome = Outcome::Rejected(Rejection::DuplicateKey);

    #[test]
    fn a_refusal_reveals_nothing_about_an_insert_that_may_have_been_split() {
        let error = super::super::outcome::command_error(10107);
        assert_eq!(of_insert_error(&error, Split::of(200_000, 0)), Outcome::Unknown(Doubt::Interrupted));
        assert_eq!(of_insert_error(&error, Split::No), Outcome::Rejected(Rejection::NotPrimary));
    }

    #[test]
    fn refused_documents_get_spans_of_their_own_in_an_unordered_insert() {
        let spans = spread([(1, REFUSED), (3, REFUSED)].into_iter(), 4, false, Outcome::Acknowledged);
        assert_eq!(
            spans,
            [(0..1, Outcome::Acknowledged), (1..2, REFUSED), (2..3, Outcome::Acknowledged), (3..4, REFUSED)]
        );
    }

    #[test]
    fn an_ordered_insert_stops_at_the_first_refusal() {
        let spans = spread([(1, REFUSED)].into_iter(), 4, true, Outcome::Acknowledged);
        assert_eq!(spans[2], (2..4, Outcome::Rejected(Rejection::NotTried)));
    }
}
