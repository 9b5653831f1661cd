//! Sends inserts over our own client.

use std::ops::Range;

use plimsoll_ledger::State;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_wire::{
    Class, Connection, Error, Limits, Outcome as Wire, RetryAdvice, WriteBatch, WriteConcern, WriteKind,
    WriteReply, WriteSpec,
};

use super::Attempt;
use super::session::SessionId;
use crate::operation_builder::{OperationBuilder, Work};
use crate::outcome::{add, answered, outcome, state};
use crate::setup::{Command, Setup};
use crate::worker_ledger::WorkerLedger;

/// A prepared insert.
#[derive(Debug)]
pub(super) struct Buffers {
    batch: WriteBatch,
    reply: WriteReply,
    /// The numbers of the prepared documents.
    numbers: Range<u64>,
    /// Numbers of the documents above this server's size limit, which were not pushed.
    oversized: Vec<u64>,
}

impl Buffers {
    pub fn new(
        setup: &Setup,
        ordered: bool,
        write_concern: Option<&WriteConcern>,
        session: Option<SessionId>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let mut spec = WriteSpec::new(WriteKind::Insert, &setup.namespace.db, &setup.namespace.collection);
        spec.write_concern = write_concern.cloned();
        spec.ordered = ordered;
        spec.session = session;
        let batch = WriteBatch::new(&spec, limits)?;
        Ok(Self { batch, reply: WriteReply::new(), numbers: 0..0, oversized: Vec::new() })
    }

    pub fn prepare(&mut self, work: Work<'_>) -> Option<()> {
        self.batch.clear();
        self.oversized.clear();
        self.numbers = 0..0;
        let count = if let Command::Insert { batch, .. } = work.command { *batch } else { 1 };
        let numbers = work.builder.take(count)?;
        for number in numbers.clone() {
            if self.batch.push(|out| work.builder.write_document(out, number)).is_err() {
                self.oversized.push(number);
            }
        }
        self.numbers = numbers;
        Some(())
    }

    pub async fn send(&mut self, connection: &mut Connection, work: Work<'_>, attempt: Attempt) -> Reply {
        connection.write(&mut self.batch, &mut self.reply).await;
        work.note_write(&self.reply);
        self.note(work.builder, attempt)
    }

    /// Records that no connection could be opened for an attempt, and returns the number of documents. An earlier attempt keeps its
    /// outcome.
    pub fn unsent(&self, builder: &OperationBuilder, attempt: Attempt) -> u64 {
        if attempt == Attempt::First && !self.numbers.is_empty() {
            builder.ledger().settle(self.numbers.clone(), State::NotSent);
        }
        self.numbers.end - self.numbers.start
    }

    pub const fn advice(&self) -> RetryAdvice {
        self.reply.advice()
    }

    pub fn discard(&mut self, builder: &OperationBuilder) {
        let numbers = std::mem::take(&mut self.numbers);
        if !numbers.is_empty() {
            builder.ledger().give_back(numbers);
        }
    }

    /// Records the outcomes of the documents and sums them up.
    fn note(&self, builder: &OperationBuilder, attempt: Attempt) -> Reply {
        let mut ledger = builder.ledger();
        let mut reply = answered(&self.reply);
        let mut pushed = Pushed { next: self.numbers.start, oversized: &self.oversized };
        for span in self.reply.spans() {
            let outcome = outcome(span.outcome);
            pushed.take(u64::from(span.count), |numbers| match attempt {
                Attempt::First => {
                    add(&mut reply, outcome, numbers.end - numbers.start);
                    ledger.settle(numbers, state(outcome));
                }
                Attempt::Further => {
                    let settled = |number| settle_again(&mut ledger, number, span.outcome);
                    numbers.map(settled).for_each(|outcome| add(&mut reply, outcome, 1));
                }
            });
        }
        add(&mut reply, Outcome::Rejected(Rejection::TooLarge), self.oversized.len() as u64);
        for number in &self.oversized {
            ledger.settle(*number..number + 1, State::Rejected);
        }
        reply
    }
}

/// The outcome of a retry for one document. A duplicate `_id` means that an earlier attempt inserted the document: a success,
/// but a promise only if it was already acknowledged. A refusal, also by another unique index, reveals nothing about the earlier
/// attempt: an unknown outcome stays unknown.
fn settle_again(ledger: &mut WorkerLedger, number: u64, said: Wire) -> Outcome {
    let outcome = outcome(said);
    match (ledger.state_of(number), outcome) {
        (State::Acknowledged, _) => Outcome::Acknowledged,
        (State::Unknown, _) if said == Wire::Rejected(Class::DuplicateId) => Outcome::Acknowledged,
        (State::Unknown, Outcome::Rejected(_)) => outcome,
        _ => {
            ledger.settle(number..number + 1, state(outcome));
            outcome
        }
    }
}

/// Iterates over an insert's numbers in the order of pushing, without oversized documents.
struct Pushed<'a> {
    next: u64,
    oversized: &'a [u64],
}

impl Pushed<'_> {
    fn take(&mut self, mut count: u64, mut each: impl FnMut(Range<u64>)) {
        while count > 0 {
            let hole = self.oversized.first().copied().unwrap_or(u64::MAX);
            let end = (self.next + count).min(hole);
            if end > self.next {
                each(self.next..end);
                count -= end - self.next;
            }
            self.next = end;
            if end == hole {
                self.oversized = &self.oversized[1..];
                self.next += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_skip_documents_that_were_not_pushed() {
        let mut pushed = Pushed { next: 10, oversized: &[10, 13, 14] };
        let mut seen = Vec::new();
        pushed.take(1, |numbers| seen.push(numbers));
        pushed.take(3, |numbers| seen.push(numbers));
        assert_eq!(seen, [11..12, 12..13, 15..17]);
    }
}
