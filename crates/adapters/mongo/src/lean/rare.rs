//! Sends rare operations, and operations of several commands, over our own client.
//!
//! Their futures are larger than those of inserts, changes and finds, so they are separate.

use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::Outcome;
use plimsoll_wire::{Connection, Error, Limits, ReadPreference, RetryAdvice};

use super::find::ReadSettings;
use super::session::SessionId;
use super::{aggregate, find_and_modify, list_append, range, read_modify_write, transaction};
use crate::operation_builder::{OperationBuilder, Work};
use crate::setup::{Command, Selection, Setup};

/// The buffers of a rare operation on one connection.
#[derive(Debug)]
pub(super) enum Buffers {
    Range(Box<range::Buffers>),
    Aggregate(Box<aggregate::Buffers>),
    FindAndModify(Box<find_and_modify::Buffers>),
    ReadModifyWrite(Box<read_modify_write::Buffers>),
    Transaction(Box<transaction::Buffers>),
    ListAppend(Box<list_append::Buffers>),
}

impl Buffers {
    pub fn range(setup: &Setup, preference: ReadPreference, limits: &Limits) -> Self {
        Self::Range(Box::new(range::Buffers::new(setup, preference, limits)))
    }

    pub fn aggregate(setup: &Setup, preference: ReadPreference, limits: &Limits) -> Self {
        Self::Aggregate(Box::new(aggregate::Buffers::new(setup, preference, limits)))
    }

    pub fn find_and_modify(setup: &Setup, session: Option<SessionId>, limits: &Limits) -> Self {
        Self::FindAndModify(Box::new(find_and_modify::Buffers::new(setup, session, limits)))
    }

    pub fn read_modify_write(
        setup: &Setup,
        selection: &Selection,
        command: &Command,
        settings: ReadSettings<'_>,
        session: Option<SessionId>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let buffers = read_modify_write::Buffers::new(setup, selection, command, settings, session, limits)?;
        Ok(Self::ReadModifyWrite(Box::new(buffers)))
    }

    pub fn transaction(builder: &OperationBuilder, steps: &[Command], session: u64, limits: &Limits) -> Self {
        Self::Transaction(Box::new(transaction::Buffers::new(builder, steps, session, limits)))
    }

    pub fn list_append(builder: &OperationBuilder, session: u64, limits: &Limits) -> Self {
        Self::ListAppend(Box::new(list_append::Buffers::new(builder, session, limits)))
    }

    pub fn prepare(&mut self, work: Work<'_>, number: u64) -> Option<()> {
        match self {
            Self::Range(buffers) => buffers.prepare(work, number),
            Self::Aggregate(buffers) => buffers.prepare(work, number),
            Self::FindAndModify(buffers) => buffers.prepare(work, number),
            Self::ReadModifyWrite(buffers) => buffers.prepare(work, number),
            Self::Transaction(buffers) => buffers.prepare(work, number),
            Self::ListAppend(buffers) => buffers.prepare(work, number),
        }
    }

    pub async fn send(&mut self, connection: &mut Connection, work: Work<'_>) -> Reply {
        match self {
            Self::Range(buffers) => buffers.send(connection, work).await,
            Self::Aggregate(buffers) => buffers.send(connection, work).await,
            Self::FindAndModify(buffers) => buffers.send(connection, work).await,
            Self::ReadModifyWrite(buffers) => buffers.send(connection, work).await,
            Self::Transaction(buffers) => buffers.send(connection, work).await,
            Self::ListAppend(buffers) => buffers.send(connection, work).await,
        }
    }

    /// The retry advice that follows from the last answer. Transactions and appended lists are not sent
    /// again.
    pub const fn advice(&self) -> RetryAdvice {
        match self {
            Self::Range(buffers) => buffers.advice(),
            Self::Aggregate(buffers) => buffers.advice(),
            Self::FindAndModify(buffers) => buffers.advice,
            Self::ReadModifyWrite(buffers) => buffers.advice,
            Self::Transaction(_) | Self::ListAppend(_) => RetryAdvice::FINAL,
        }
    }

    /// Records that no connection could be opened, and returns the number of documents.
    pub fn unsent(&mut self, builder: &OperationBuilder, outcome: Outcome) -> u64 {
        match self {
            Self::Transaction(buffers) => buffers.unsent(builder, outcome),
            _ => 1,
        }
    }

    /// Releases the prepared operation: no retry follows.
    pub fn release(&mut self, builder: &OperationBuilder) {
        match self {
            Self::Range(_) | Self::Aggregate(_) | Self::ListAppend(_) => {}
            Self::FindAndModify(buffers) => buffers.release(builder),
            Self::ReadModifyWrite(buffers) => buffers.release(builder),
            Self::Transaction(buffers) => buffers.release(builder),
        }
    }

    /// Discards the prepared operation.
    pub fn discard(&mut self, builder: &OperationBuilder) {
        match self {
            Self::Transaction(buffers) => buffers.discard(builder),
            others => others.release(builder),
        }
    }
}
