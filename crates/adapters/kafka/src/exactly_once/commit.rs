//! Commits or aborts a transaction while the next one is written.

use std::mem;
use std::sync::Arc;

use super::commit_thread::{CommitThread, Request};
use super::step::{self, Step};
use super::transaction::Transaction;
use super::transaction_buffer::TransactionBuffer;
use crate::membership::Membership;

/// The transaction before the one that is being written.
pub(super) struct Commit {
    thread: CommitThread,
    pub(super) transaction: Transaction,
    at: State,
    /// Whether one of the records was not acknowledged.
    has_failed: bool,
}

/// The state of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No transaction.
    None,
    /// The offsets are being sent, and the records are in flight.
    Sending,
    /// The offsets are part of the transaction, and records are in flight.
    Reporting,
    /// The transaction is being committed.
    Committing,
    /// The transaction cannot be committed.
    Failed,
}

/// The outcome of a transaction.
pub(super) enum Outcome {
    /// The transaction is committed: every reader sees it.
    Committed(TransactionBuffer),
    /// This transaction and the next one must be aborted.
    Failed(String),
    /// The producer is unusable.
    Over(String),
}

impl Commit {
    pub(super) const fn of(transaction: Transaction, thread: CommitThread) -> Self {
        Self { thread, transaction, at: State::None, has_failed: false }
    }

    /// Whether no transaction is being committed.
    pub(super) fn is_none(&self) -> bool {
        self.at == State::None
    }

    /// Takes over a fully queued transaction, and leaves the other producer for the next one.
    pub(super) fn take_over(&mut self, written: &mut Transaction, group: &Membership) -> Option<Outcome> {
        mem::swap(written, &mut self.transaction);
        let batches = || self.transaction.buffer.batches();
        let Some(generation) = group.generation(batches()) else {
            return Some(self.failed("a partition moved to another member".to_owned()));
        };
        match step::offsets_behind(batches()) {
            Ok(offsets) => {
                let producer = Arc::clone(&self.transaction.outlets.producer);
                self.thread.request(Request::Offsets { producer, offsets, generation });
                self.at = State::Sending;
                None
            }
            Err(reason) => Some(Outcome::Over(reason)),
        }
    }

    /// Continues as far as possible without waiting. The caller has already collected the reports.
    pub(super) fn advance(&mut self) -> Option<Outcome> {
        match self.at {
            State::Sending | State::Committing => return self.poll_step(),
            State::Reporting if self.has_failed => self.at = State::Failed,
            State::Reporting if self.transaction.in_flight() == 0 => {
                self.thread
                    .request(Request::Commit { producer: Arc::clone(&self.transaction.outlets.producer) });
                self.at = State::Committing;
            }
            State::None | State::Reporting | State::Failed => {}
        }
        None
    }

    fn poll_step(&mut self) -> Option<Outcome> {
        match self.thread.outcome()? {
            Step::Done if self.at == State::Sending => {
                self.at = State::Reporting;
                None
            }
            Step::Done => {
                self.at = State::None;
                Some(Outcome::Committed(self.transaction.committed()))
            }
            Step::Abort(reason) => Some(self.failed(reason)),
            Step::Over(reason) => Some(Outcome::Over(reason)),
            Step::Again => None,
        }
    }

    fn failed(&mut self, reason: String) -> Outcome {
        self.at = State::Failed;
        Outcome::Failed(reason)
    }

    /// Records that a record was not acknowledged; false if the transaction is already aborted or missing.
    pub(super) fn mark_failed(&mut self) -> bool {
        let is_news = matches!(self.at, State::Sending | State::Reporting);
        self.has_failed |= is_news;
        is_news
    }

    /// Aborts a failed transaction; does nothing without one. `None` while the outcome is unknown.
    pub(super) fn abort(&mut self) -> Option<Step> {
        match self.at {
            State::Sending | State::Reporting | State::Committing => None,
            State::Failed => Some(self.transaction.abort()),
            State::None => Some(Step::Done),
        }
    }

    /// Drops the transaction and returns its batches.
    pub(super) fn clear(&mut self) -> TransactionBuffer {
        (self.at, self.has_failed) = (State::None, false);
        mem::take(&mut self.transaction.buffer)
    }
}
