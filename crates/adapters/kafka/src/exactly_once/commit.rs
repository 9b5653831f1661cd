//! Commits or aborts a transaction while the next one is written.

use std::mem;
use std::sync::Arc;

use super::commit_thread::{Ask, CommitThread};
use super::step::{self, Step};
use super::transaction::Transaction;
use super::transaction_buffer::TransactionBuffer;
use crate::membership::Membership;

/// The transaction before the one that is being written.
pub(super) struct Commit {
    thread: CommitThread,
    pub(super) transaction: Transaction,
    at: At,
    /// Whether one of its records was not acknowledged.
    is_spoilt: bool,
}

/// The state of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// There is none.
    None,
    /// Its offsets are being sent, and its records are in flight.
    Sending,
    /// Its offsets are part of it, and records are in flight.
    Reporting,
    /// It is being committed.
    Committing,
    /// It cannot be committed.
    Failed,
}

/// The outcome of a transaction.
pub(super) enum Outcome {
    /// It is committed: every reader sees it.
    Committed(TransactionBuffer),
    /// It must be aborted, and the one behind it too.
    Failed(String),
    /// The producer cannot be used any more.
    Over(String),
}

impl Commit {
    pub(super) const fn of(transaction: Transaction, thread: CommitThread) -> Self {
        Self { thread, transaction, at: At::None, is_spoilt: false }
    }

    /// Whether there is none.
    pub(super) fn is_none(&self) -> bool {
        self.at == At::None
    }

    /// Takes a fully queued transaction, and leaves the other producer for the next one.
    pub(super) fn take_over(&mut self, written: &mut Transaction, group: &Membership) -> Option<Outcome> {
        mem::swap(written, &mut self.transaction);
        let batches = || self.transaction.buffer.batches();
        let Some(generation) = group.generation(batches()) else {
            return Some(self.failed("a partition went to another member".to_owned()));
        };
        match step::offsets_behind(batches()) {
            Ok(offsets) => {
                let producer = Arc::clone(&self.transaction.outlets.producer);
                self.thread.ask(Ask::Offsets { producer, offsets, generation });
                self.at = At::Sending;
                None
            }
            Err(reason) => Some(Outcome::Over(reason)),
        }
    }

    /// Continues as far as possible without waiting. The caller has taken its reports.
    pub(super) fn turn(&mut self) -> Option<Outcome> {
        match self.at {
            At::Sending | At::Committing => return self.hear(),
            At::Reporting if self.is_spoilt => self.at = At::Failed,
            At::Reporting if self.transaction.in_flight() == 0 => {
                self.thread.ask(Ask::Commit { producer: Arc::clone(&self.transaction.outlets.producer) });
                self.at = At::Committing;
            }
            At::None | At::Reporting | At::Failed => {}
        }
        None
    }

    fn hear(&mut self) -> Option<Outcome> {
        match self.thread.outcome()? {
            Step::Done if self.at == At::Sending => {
                self.at = At::Reporting;
                None
            }
            Step::Done => {
                self.at = At::None;
                Some(Outcome::Committed(self.transaction.committed()))
            }
            Step::Abort(reason) => Some(self.failed(reason)),
            Step::Over(reason) => Some(Outcome::Over(reason)),
            Step::Again => None,
        }
    }

    fn failed(&mut self, reason: String) -> Outcome {
        self.at = At::Failed;
        Outcome::Failed(reason)
    }

    /// Notes that a record was not acknowledged; false if that changes nothing, because it is aborted already or there is none.
    pub(super) fn spoil(&mut self) -> bool {
        let is_news = matches!(self.at, At::Sending | At::Reporting);
        self.is_spoilt |= is_news;
        is_news
    }

    /// Aborts it if it failed; also done if there is none. `None` while its outcome is unknown.
    pub(super) fn give_up(&mut self) -> Option<Step> {
        match self.at {
            At::Sending | At::Reporting | At::Committing => None,
            At::Failed => Some(self.transaction.give_up()),
            At::None => Some(Step::Done),
        }
    }

    /// Drops it and returns its batches.
    pub(super) fn clear(&mut self) -> TransactionBuffer {
        (self.at, self.is_spoilt) = (At::None, false);
        mem::take(&mut self.transaction.buffer)
    }
}
