//! Sends aggregations and counts over our own client.

use plimsoll_element::append;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_wire::{Connection, Limits, ReadPreference, RetryAdvice};

use super::cursor::{Query, read_settings};
use crate::operation_builder::{Work, identity};
use crate::outcome::of_error;
use crate::setup::{Command, Pipeline, Setup};

/// A prepared aggregation.
#[derive(Debug)]
pub(super) struct Buffers {
    query: Query,
    preference: ReadPreference,
}

impl Buffers {
    pub fn new(setup: &Setup, preference: ReadPreference, limits: &Limits) -> Self {
        Self { query: Query::new(setup, limits), preference }
    }

    pub const fn advice(&self) -> RetryAdvice {
        self.query.advice
    }

    pub fn prepare(&mut self, work: Work<'_>, number: u64) -> Option<()> {
        let (Command::Aggregate(pipeline) | Command::Count(pipeline)) = work.command else { return None };
        // A request above the server's limit is not sent and counts as refused.
        let Self { query, preference } = self;
        let written = query.call().body(|out| {
            write(out, work, pipeline, number);
            read_settings(out, work.concerns().read.as_deref(), preference);
        });
        written.unwrap_or_default();
        Some(())
    }

    pub async fn send(&mut self, connection: &mut Connection, work: Work<'_>) -> Reply {
        if self.query.call().bytes() == 0 {
            return Reply::failed(Outcome::Rejected(Rejection::TooLarge), 1);
        }
        match self.query.read(connection, |_| ()).await {
            Err(error) => Reply::failed(work.noted(of_error(&error), &error), 1),
            // A count returns one answer, even from an empty collection.
            Ok(read) if matches!(work.command, Command::Count(_)) => Reply { documents: 1, ..read },
            Ok(read) => read,
        }
    }
}

fn write(out: &mut Vec<u8>, work: Work<'_>, pipeline: &Pipeline, number: u64) {
    let setup = &work.builder.setup;
    let identity = identity(setup.run, number);
    append::string(out, "aggregate", &setup.namespace.collection);
    append::array(out, "pipeline", |out| {
        for (index, stage) in pipeline.stages.iter().enumerate() {
            append::embedded_item(out, index, |out| stage.encode(number, &identity, out));
        }
    });
    append::nested(out, "cursor", |_| ());
    if let Some(allow) = pipeline.allow_disk_use {
        append::boolean(out, "allowDiskUse", allow);
    }
}
