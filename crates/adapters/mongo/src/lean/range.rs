//! Sends ranges over our own client.

use plimsoll_element::append;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::Outcome;
use plimsoll_wire::{Connection, Limits, ReadPreference, RetryAdvice};

use super::cursor::{Query, read_settings};
use crate::operation_builder::{OperationTarget, ReturnedState, Work};
use crate::outcome::of_error;
use crate::setup::{Command, Setup};
use crate::statement;

/// A prepared range.
#[derive(Debug)]
pub(super) struct Buffers {
    query: Query,
    aim: OperationTarget,
    preference: ReadPreference,
}

impl Buffers {
    pub fn new(setup: &Setup, preference: ReadPreference, limits: &Limits) -> Self {
        Self { query: Query::new(setup, limits), aim: OperationTarget::default(), preference }
    }

    pub const fn advice(&self) -> RetryAdvice {
        self.query.advice
    }

    pub fn prepare(&mut self, work: Work<'_>, number: u64) -> Option<()> {
        self.aim = work.builder.aim(work.operation, number)?;
        let Command::Range { limit, shape, .. } = work.command else { return None };
        let limit = work.builder.limit(*limit, number);
        let collection = &work.builder.setup.namespace.collection;
        let Self { query, aim, preference } = self;
        let written = query.call().body(|out| {
            append::string(out, "find", collection);
            append::embedded(out, "filter", |out| work.builder.write_lower_bound(out, *aim));
            append::nested(out, "sort", |out| append::int32(out, "_id", 1));
            append::int64(out, "limit", i64::from(limit));
            // Asks for all documents in one reply, as far as they fit.
            append::int64(out, "batchSize", i64::from(limit));
            statement::constant(out, "projection", shape.projection.as_ref());
            read_settings(out, work.concerns().read.as_deref(), preference);
        });
        debug_assert!(written.is_ok(), "a receipt is shorter than a document may be");
        Some(())
    }

    /// The first returned document must be the picked one: no earlier document matches.
    pub async fn send(&mut self, connection: &mut Connection, work: Work<'_>) -> Reply {
        let Some(picked) = self.aim.document else { return Reply::acknowledged(0) };
        let picked = work.as_sent(picked);
        let whole = !has_projection(work.command);
        let mut judged = Ok(());
        let read = self.query.read(connection, |reply| {
            let found = reply.documents().next().map(bson::RawDocument::as_bytes);
            judged = if whole {
                work.builder.judge_first(&picked, found)
            } else {
                work.builder.judge_read(&picked.in_part(), ReturnedState::Before, found)
            };
        });
        match (read.await, judged) {
            (Err(error), _) => Reply::failed(work.noted(of_error(&error), &error), 1),
            (Ok(_), Err(rejection)) => Reply::failed(Outcome::Rejected(rejection), 1),
            (Ok(read), Ok(())) => read,
        }
    }
}

const fn has_projection(command: &Command) -> bool {
    matches!(command, Command::Range { shape, .. } if shape.projection.is_some())
}
