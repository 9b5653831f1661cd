//! Sends transactions over the official driver: one session per lane, as the driver's users do.

use std::ops::Range;

use mongodb::bson::RawDocumentBuf;
use mongodb::error::Error;
use mongodb::options::ReadConcern;
use mongodb::{ClientSession, Collection};
use plimsoll_ledger::State;
use plimsoll_load::mix::scramble;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Outcome, Rejection};

use super::outcome::{of_commit, of_read_error, write_concern};
use super::topology::Topology;
use super::{Named, raw};
use crate::operation_builder::{OperationBuilder, ReturnedState, Work};
use crate::setup::{Command, FindShape, Purpose};

/// A prepared transaction.
#[derive(Debug)]
pub(super) struct Ready {
    steps: Vec<Step>,
    /// Whether the commit was sent: before it, a missing answer leaves no half transaction.
    is_committing: bool,
}

/// One operation of a transaction.
#[derive(Debug)]
enum Step {
    Insert { documents: Vec<RawDocumentBuf>, numbers: Range<u64>, ordered: bool },
    Named { named: Named, matched: u64 },
}

impl Ready {
    pub fn new(
        builder: &OperationBuilder,
        commands: &[Command],
        operation: usize,
        number: u64,
    ) -> Option<Self> {
        let mut ready = Self { steps: Vec::with_capacity(commands.len()), is_committing: false };
        for (index, command) in commands.iter().enumerate() {
            // The operations of a transaction draw their documents independently.
            let salt = scramble(operation as u64, index as u64 + 1);
            match Step::new(builder, command, salt, number) {
                Some(step) => ready.steps.push(step),
                None => {
                    ready.discard(builder);
                    return None;
                }
            }
        }
        Some(ready)
    }

    pub fn documents(&self) -> u64 {
        self.steps.len() as u64
    }

    pub fn discard(&mut self, builder: &OperationBuilder) {
        for step in &mut self.steps {
            match step {
                Step::Insert { numbers, .. } => builder.ledger().give_back(numbers.clone()),
                Step::Named { named, .. } => builder.release(&mut named.pending),
            }
        }
    }

    /// Records a missing answer. Documents of inserts are unknown from the start.
    pub fn doubt(&mut self, builder: &OperationBuilder) {
        self.settle(builder, State::Unknown);
    }

    pub async fn send(
        &mut self,
        (work, topology): (Work<'_>, &Topology),
        collection: &Collection<RawDocumentBuf>,
        session: Option<&mut ClientSession>,
    ) -> Reply {
        let builder = work.builder;
        let Some(session) = session else {
            self.settle(builder, State::NotSent);
            return Reply::failed(Outcome::Rejected(Rejection::NotTried), self.documents());
        };
        let outcome = self.run((work, topology), collection, session).await;
        let (state, outcome) = match outcome {
            Ok(()) => {
                self.is_committing = true;
                of_committed(work, session.commit_transaction().await)
            }
            Err(outcome) => {
                // Ends a transaction that the server has not ended; without an answer it ends by its time limit.
                session.abort_transaction().await.unwrap_or_default();
                (State::Rejected, outcome)
            }
        };
        self.settle(builder, state);
        match outcome {
            Outcome::Acknowledged => Reply::acknowledged(self.steps.iter().map(Step::documents).sum()),
            outcome => Reply::failed(outcome, self.documents()),
        }
    }

    async fn run(
        &mut self,
        (work, topology): (Work<'_>, &Topology),
        collection: &Collection<RawDocumentBuf>,
        session: &mut ClientSession,
    ) -> Result<(), Outcome> {
        let Command::Transaction { steps: commands } = work.command else { return Ok(()) };
        // All reads of a transaction may see the documents as they are when it starts.
        for step in &mut self.steps {
            if let Step::Named { named, .. } = step {
                named.aim.document = named.aim.document.map(|picked| work.as_sent(picked));
            }
        }
        let mut start = session.start_transaction();
        let concerns = work.concerns();
        if let Some(level) = &concerns.read {
            start = start.read_concern(ReadConcern::custom(level));
        }
        if let Some(write) = &concerns.write {
            start = start.write_concern(write_concern(write));
        }
        start.await.map_err(|error| work.noted(of_read_error(&error), &error))?;
        for (step, command) in self.steps.iter_mut().zip(commands) {
            match step {
                Step::Insert { documents, ordered, .. } => {
                    let inserted = collection.insert_many(&*documents).ordered(*ordered);
                    let failed = |error| work.noted(of_read_error(&error), &error);
                    inserted.session(&mut *session).await.map_err(failed)?;
                }
                Step::Named { named, matched } => {
                    *matched = run_named((work, topology), command, named, collection, session).await?;
                }
            }
        }
        Ok(())
    }

    fn settle(&mut self, builder: &OperationBuilder, state: State) {
        if state == State::Unknown && self.is_committing {
            builder.ledger().doubt_together(self.steps.iter().flat_map(Step::writes));
        }
        for step in &mut self.steps {
            match step {
                Step::Insert { numbers, .. } => builder.ledger().settle(numbers.clone(), state),
                Step::Named { named, matched } => {
                    builder.conclude_with(&mut named.pending, state, *matched > 0)
                }
            }
        }
    }
}

impl Step {
    fn new(builder: &OperationBuilder, command: &Command, salt: u64, number: u64) -> Option<Self> {
        if let Command::Insert { batch, ordered } = command {
            let numbers = builder.take(*batch)?;
            let document = |number| raw(|out| builder.write_document(out, number));
            let documents = numbers.clone().map(document).collect();
            return Some(Self::Insert { documents, numbers, ordered: *ordered });
        }
        let aim = builder.aim_at(command, salt, number)?;
        Some(Self::Named { named: Named::new(builder, command, aim), matched: 0 })
    }

    /// The documents that it inserts, replaces or deletes.
    fn writes(&self) -> Option<Range<u64>> {
        match self {
            Self::Insert { numbers, .. } => Some(numbers.clone()),
            Self::Named { named, matched } => named.pending.filter(|_| *matched > 0).map(|it| it.numbers()),
        }
    }

    const fn documents(&self) -> u64 {
        match self {
            Self::Insert { documents, .. } => documents.len() as u64,
            Self::Named { matched, .. } => *matched,
        }
    }
}

fn of_committed(work: Work<'_>, committed: Result<(), Error>) -> (State, Outcome) {
    let failed = |error| work.noted(of_commit(&error), &error);
    let outcome = committed.map_or_else(failed, |()| Outcome::Acknowledged);
    let state = match outcome {
        Outcome::Acknowledged => State::Acknowledged,
        Outcome::Rejected(_) => State::Rejected,
        Outcome::Unknown(_) => State::Unknown,
    };
    (state, outcome)
}

/// Returns the number of matched documents.
async fn run_named(
    (work, topology): (Work<'_>, &Topology),
    command: &Command,
    named: &Named,
    collection: &Collection<RawDocumentBuf>,
    session: &mut ClientSession,
) -> Result<u64, Outcome> {
    if let Command::Find { shape, .. } = command {
        return find((work, topology), shape, named, collection, session).await;
    }
    let filter = named.filter.clone();
    let changed = match command {
        Command::Delete { .. } => {
            collection.delete_one(filter).session(session).await.map(|done| done.deleted_count)
        }
        Command::Update { multi: true, .. } => {
            let update = collection.update_many(filter, named.update());
            update.session(session).await.map(|done| done.matched_count)
        }
        _ if command.purpose() == Purpose::Replace => {
            let replace = collection.replace_one(filter, &named.update);
            replace.session(session).await.map(|done| done.matched_count)
        }
        _ => {
            let update = collection.update_one(filter, named.update());
            update.session(session).await.map(|done| done.matched_count)
        }
    };
    let count = changed.map_err(|error| work.noted(of_read_error(&error), &error))?;
    let missing = count == 0 && named.aim.is_promised() && command.must_match();
    if missing { Err(Outcome::Rejected(Rejection::Unexpected)) } else { Ok(count) }
}

async fn find(
    (work, topology): (Work<'_>, &Topology),
    shape: &FindShape,
    named: &Named,
    collection: &Collection<RawDocumentBuf>,
    session: &mut ClientSession,
) -> Result<u64, Outcome> {
    let mut find = collection.find(named.filter.clone());
    if let Some(projection) = &shape.projection {
        find = find.projection(projection.clone());
    }
    if let Some(sort) = &shape.sort {
        find = find.sort(sort.clone());
    }
    let limit = if named.aim.document.is_some() { Some(-1) } else { shape.limit.map(i64::from) };
    if let Some(limit) = limit {
        find = find.limit(limit);
    }
    let builder = work.builder;
    let failed = |error: Error| work.noted(of_read_error(&error), &error);
    let mut cursor = find.session(&mut *session).await.map_err(failed)?;
    let mut documents = 0;
    while cursor.advance(session).await.map_err(failed)? {
        documents += 1;
        if let Some(picked) = named.aim.document.filter(|_| documents == 1) {
            let picked = topology.answered(picked);
            let picked = if shape.projection.is_none() { picked } else { picked.in_part() };
            let judged =
                builder.judge_read(&picked, ReturnedState::Before, Some(cursor.current().as_bytes()));
            judged.map_err(Outcome::Rejected)?;
        }
    }
    match named.aim.document {
        Some(picked) if documents == 0 => {
            let judged = builder.judge_read(&topology.answered(picked), ReturnedState::Before, None);
            judged.map_err(Outcome::Rejected).map(|()| 0)
        }
        _ => Ok(documents),
    }
}
