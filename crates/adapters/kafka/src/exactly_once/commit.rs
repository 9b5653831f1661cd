//! The end of a transaction, while the next one is written.

use std::mem;
use std::sync::Arc;

use super::commit_thread::{Ask, CommitThread};
use super::step::{self, Step};
use super::transaction::Transaction;
use super::transaction_buffer::TransactionBuffer;
use crate::membership::Membership;

/// The transaction before the one that is written.
pub(super) struct Commit {
    thread: CommitThread,
    pub(super) transaction: Transaction,
    at: At,
    /// Whether a record of it was not acknowledged.
    is_spoilt: bool,
}

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// There is none.
    None,
    /// Its offsets are sent, and its records are on their way.
    Sending,
    /// Its offsets are part of it, and records are on their way.
    Reporting,
    /// It is being committed.
    Committing,
    /// It cannot be committed.
    Failed,
}

/// What became of it.
pub(super) enum Outcome {
    /// It is there for all to see.
    Committed(TransactionBuffer),
    /// It is to be given up, and what is behind it as well.
    Failed(String),
    /// The producer is of no more use.
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

    /// Takes a transaction all of which is in its producer's queue, and leaves the other producer for the next one.
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

    /// Goes on with it as far as that is possible without waiting. Its reports must have been taken.
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

    /// A record of it was not acknowledged; false if that says nothing new, because it is given up or there is none.
    pub(super) fn spoil(&mut self) -> bool {
        let is_news = matches!(self.at, At::Sending | At::Reporting);
        self.is_spoilt |= is_news;
        is_news
    }

    /// Gives it up if it failed; done as well if there is none. `None` while it is not known what becomes of it.
    pub(super) fn give_up(&mut self) -> Option<Step> {
        match self.at {
            At::Sending | At::Reporting | At::Committing => None,
            At::Failed => Some(self.transaction.give_up()),
            At::None => Some(Step::Done),
        }
    }

    /// Nothing more is to come of it; gives what was in it.
    pub(super) fn clear(&mut self) -> TransactionBuffer {
        (self.at, self.is_spoilt) = (At::None, false);
        mem::take(&mut self.transaction.buffer)
    }
}
