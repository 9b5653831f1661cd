//! Sends transactions over our own client: one session for each connection and operation, no retry.

use std::ops::Range;

use bson::{RawBsonRef, RawDocument};
use plimsoll_element::append;
use plimsoll_ledger::State;
use plimsoll_load::mix::scramble;
use plimsoll_measure::first_error::FirstError;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_wire::{Call, Connection, Limits, Outcome as Wire};

use super::change;
use super::cursor::read_concern;
use super::session::Session;
use crate::operation_builder::{OperationBuilder, OperationTarget, PendingWrite, ReturnedState, Work};
use crate::outcome::{of_error, outcome};
use crate::setup::{Command, FindShape, Purpose};
use crate::statement;

/// The requested documents of a find's first batch, so many that the server returns as many as fit one reply.
const FIND_BATCH: i32 = 1_000_000;

/// A prepared transaction.
#[derive(Debug)]
pub(super) struct Buffers {
    steps: Vec<Step>,
    session: Session,
    /// The outcome; `None` until the transaction is sent. A further attempt repeats the outcome and sends
    /// nothing.
    ended: Option<Outcome>,
}

/// One operation of a transaction.
#[derive(Debug)]
struct Step {
    call: Call,
    aim: OperationTarget,
    pending: Option<PendingWrite>,
    /// Numbers of the documents of an insert.
    numbers: Range<u64>,
    /// The number of documents that were inserted, found or changed.
    documents: u64,
}

/// The outcome of the whole transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Committed,
    /// Nothing of the transaction exists or will exist.
    Aborted,
    Unknown,
}

impl Buffers {
    pub fn new(builder: &OperationBuilder, steps: &[Command], session: u64, limits: &Limits) -> Self {
        let step = |_: &Command| Step {
            call: Call::new(&builder.setup.namespace.db, limits),
            aim: OperationTarget::default(),
            pending: None,
            numbers: 0..0,
            documents: 0,
        };
        Self {
            steps: steps.iter().map(step).collect(),
            session: Session::new(builder, session, limits),
            ended: None,
        }
    }

    pub fn prepare(&mut self, work: Work<'_>, number: u64) -> Option<()> {
        let Command::Transaction { steps } = work.command else { return None };
        self.session.begin();
        self.ended = None;
        for (index, command) in steps.iter().enumerate() {
            let step = &mut self.steps[index];
            let part = Work { command, ..work };
            if step.aim(part, index, number).is_none() {
                self.discard(work.builder);
                return None;
            }
            let mark = self.session.mark();
            let level = work.concerns().read.as_deref().filter(|_| index == 0);
            let Step { call, aim, numbers, .. } = step;
            let written = call.body(|out| {
                write_step(out, part, *aim, numbers);
                mark.write(out);
                if index == 0 {
                    append::boolean(out, "startTransaction", true);
                }
                read_concern(out, level);
            });
            // A command above the server's limit is not sent, and ends the transaction.
            written.unwrap_or_default();
        }
        Some(())
    }

    pub async fn send(&mut self, connection: &mut Connection, work: Work<'_>) -> Reply {
        let Command::Transaction { steps } = work.command else { return Reply::acknowledged(0) };
        if let Some(ended) = self.ended {
            return self.failed(ended);
        }
        // All reads of a transaction may see the documents as they are when it starts.
        for step in &mut self.steps {
            step.aim.document = step.aim.document.map(|picked| work.as_sent(picked));
        }
        let (outcome, fate) = match self.send_steps(connection, work, steps).await {
            Ok(()) => self.commit(connection, work).await,
            Err(outcome) => {
                self.session.abort(connection).await;
                (outcome, Fate::Aborted)
            }
        };
        self.settle(work.builder, fate);
        self.ended = Some(outcome);
        match outcome {
            Outcome::Acknowledged => {
                let documents = self.steps.iter().map(|step| step.documents).sum();
                let (bytes_sent, bytes_received) = self.session.bytes;
                Reply { bytes_sent, bytes_received, ..Reply::acknowledged(documents) }
            }
            outcome => self.failed(outcome),
        }
    }

    /// Records that no connection could be opened, and returns the number of operations.
    pub fn unsent(&mut self, builder: &OperationBuilder, outcome: Outcome) -> u64 {
        self.settle(builder, Fate::Aborted);
        self.ended = Some(outcome);
        self.steps.len() as u64
    }

    /// Discards the prepared operations.
    pub fn discard(&mut self, builder: &OperationBuilder) {
        for step in &mut self.steps {
            let numbers = std::mem::take(&mut step.numbers);
            if !numbers.is_empty() {
                builder.ledger().give_back(numbers);
            }
        }
        self.release(builder);
    }

    pub fn release(&mut self, builder: &OperationBuilder) {
        self.steps.iter_mut().for_each(|step| builder.release(&mut step.pending));
    }

    /// Runs one operation after the other.
    ///
    /// # Errors
    /// The reason why the transaction ended before its commit.
    async fn send_steps(
        &mut self,
        connection: &mut Connection,
        work: Work<'_>,
        commands: &[Command],
    ) -> Result<(), Outcome> {
        for (step, command) in self.steps.iter_mut().zip(commands) {
            if step.call.bytes() == 0 {
                return Err(Outcome::Rejected(Rejection::TooLarge));
            }
            let sent = self.session.call(connection, &mut step.call).await;
            sent.map_err(|error| work.noted(of_error(&error), &error))?;
            let body = self.session.reply.body().ok_or(Outcome::Rejected(Rejection::Other))?;
            step.judge(Work { command, ..work }, body)?;
        }
        Ok(())
    }

    async fn commit(&mut self, connection: &mut Connection, work: Work<'_>) -> (Outcome, Fate) {
        let outcome = self.session.commit(connection, work).await;
        let fate = match outcome {
            Outcome::Acknowledged => Fate::Committed,
            Outcome::Rejected(_) => Fate::Aborted,
            Outcome::Unknown(_) => Fate::Unknown,
        };
        (outcome, fate)
    }

    fn settle(&mut self, builder: &OperationBuilder, fate: Fate) {
        let state = match fate {
            Fate::Committed => State::Acknowledged,
            Fate::Aborted => State::Rejected,
            Fate::Unknown => State::Unknown,
        };
        if fate == Fate::Unknown {
            builder.ledger().doubt_together(self.steps.iter().flat_map(Step::writes));
        }
        for step in &mut self.steps {
            let numbers = std::mem::take(&mut step.numbers);
            if !numbers.is_empty() {
                builder.ledger().settle(numbers, state);
            }
            builder.conclude_with(&mut step.pending, state, step.documents > 0);
        }
    }

    fn failed(&self, outcome: Outcome) -> Reply {
        Reply::failed(outcome, self.steps.len() as u64)
    }
}

impl Step {
    /// Takes numbers for the inserted documents, or picks the named document.
    fn aim(&mut self, work: Work<'_>, index: usize, number: u64) -> Option<()> {
        self.documents = 0;
        if let Command::Insert { batch, .. } = work.command {
            self.aim = OperationTarget { number, document: None };
            self.numbers = work.builder.take(*batch)?;
            return Some(());
        }
        // The operations of a transaction draw their documents independently.
        let salt = scramble(work.operation as u64, index as u64 + 1);
        self.aim = work.builder.aim_at(work.command, salt, number)?;
        self.pending = self.aim.pending();
        Some(())
    }

    /// The numbers of the documents that the step inserts, replaces or deletes.
    fn writes(&self) -> impl Iterator<Item = Range<u64>> {
        let changed = self.pending.filter(|_| self.documents > 0);
        [self.numbers.clone()].into_iter().chain(changed.map(|pending| pending.numbers()))
    }

    /// Reads the server's answer.
    ///
    /// # Errors
    /// The reason why the transaction ends.
    fn judge(&mut self, work: Work<'_>, body: &RawDocument) -> Result<(), Outcome> {
        if let Some((code, message)) = first_write_error(body) {
            let outcome = match outcome(Wire::of_write_error(code)) {
                Outcome::Unknown(_) => Outcome::Rejected(Rejection::Other),
                known => known,
            };
            work.note(outcome, || FirstError::new(code, "", message));
            return Err(outcome);
        }
        if let Command::Find { shape, .. } = work.command {
            return self.judge_find(work, shape, body).map_err(Outcome::Rejected);
        }
        self.documents = count(body);
        let missing = self.documents == 0 && self.aim.is_promised() && work.command.must_match();
        if missing { Err(Outcome::Rejected(Rejection::Unexpected)) } else { Ok(()) }
    }

    fn judge_find(&mut self, work: Work<'_>, shape: &FindShape, body: &RawDocument) -> Result<(), Rejection> {
        let batch = body.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let batch = batch.map_err(|_| Rejection::Other)?;
        let mut found = batch.into_iter().filter_map(|item| item.ok()?.as_document());
        let first = found.next();
        self.documents = u64::from(first.is_some()) + found.count() as u64;
        let Some(picked) = self.aim.document else { return Ok(()) };
        let picked = if shape.projection.is_none() { picked } else { picked.in_part() };
        work.builder.judge_read(&picked, ReturnedState::Before, first.map(RawDocument::as_bytes))
    }
}

fn write_step(out: &mut Vec<u8>, work: Work<'_>, aim: OperationTarget, numbers: &Range<u64>) {
    let Work { builder, command, .. } = work;
    let collection = builder.setup.namespace.collection.as_bytes();
    match command {
        Command::Insert { ordered, .. } => {
            append::string(out, "insert", collection);
            append::array(out, "documents", |out| {
                for (index, number) in numbers.clone().enumerate() {
                    append::embedded_item(out, index, |out| builder.write_document(out, number));
                }
            });
            append::boolean(out, "ordered", *ordered);
        }
        Command::Find { shape, .. } => write_find(out, work, aim, shape),
        _ => {
            let (name, list) = match command.purpose() {
                Purpose::Remove => ("delete", "deletes"),
                _ => ("update", "updates"),
            };
            append::string(out, name, collection);
            append::array(out, list, |out| {
                append::embedded_item(out, 0, |out| change::write(out, work, aim));
            });
        }
    }
}

fn write_find(out: &mut Vec<u8>, work: Work<'_>, aim: OperationTarget, shape: &FindShape) {
    let Work { builder, command, .. } = work;
    append::string(out, "find", &builder.setup.namespace.collection);
    append::embedded(out, "filter", |out| builder.write_filter(out, command, aim));
    statement::constant(out, "projection", shape.projection.as_ref());
    statement::constant(out, "sort", shape.sort.as_ref());
    let limit = if aim.document.is_some() { Some(1) } else { shape.limit };
    if let Some(limit) = limit {
        append::int64(out, "limit", i64::from(limit));
    }
    // A transaction reads only the documents that fit one reply.
    append::int32(out, "batchSize", FIND_BATCH);
    append::boolean(out, "singleBatch", true);
}

/// The code and the message of the first write error in an answer.
pub(super) fn first_write_error(body: &RawDocument) -> Option<(i32, &str)> {
    let errors = body.get_array("writeErrors").ok()?;
    let first = errors.into_iter().next()?.ok()?.as_document()?;
    Some((first.get_i32("code").ok()?, first.get_str("errmsg").unwrap_or_default()))
}

/// Documents inserted, matched or deleted.
fn count(body: &RawDocument) -> u64 {
    match body.get("n") {
        Ok(Some(RawBsonRef::Int32(n))) => u64::try_from(n).unwrap_or(0),
        Ok(Some(RawBsonRef::Int64(n))) => u64::try_from(n).unwrap_or(0),
        Ok(Some(RawBsonRef::Double(n))) => n as u64,
        _ => 0,
    }
}
