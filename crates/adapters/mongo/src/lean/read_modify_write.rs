//! Finds a document and then changes it, over our own client.

use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::Outcome;
use plimsoll_wire::{Connection, Error, Limits, RetryAdvice};

use super::find::ReadSettings;
use super::session::SessionId;
use super::{change, find};
use crate::operation_builder::{OperationBuilder, Work};
use crate::setup::{Command, FindShape, Selection, Setup};

/// Two commands that form one operation.
#[derive(Debug)]
pub(super) struct Buffers {
    find: find::Buffers,
    change: change::Buffers,
    /// The retry advice that follows from the last answer.
    pub advice: RetryAdvice,
}

impl Buffers {
    pub fn new(
        setup: &Setup,
        selection: &Selection,
        command: &Command,
        settings: ReadSettings<'_>,
        session: Option<SessionId>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let write_concern = settings.concerns.write.as_ref();
        let change = change::Buffers::new(setup, command, write_concern, session, limits)?;
        let find = find::Buffers::new(setup, selection, &FindShape::default(), settings, limits)?;
        Ok(Self { find, change, advice: RetryAdvice::FINAL })
    }

    pub fn prepare(&mut self, work: Work<'_>, number: u64) -> Option<()> {
        let aim = work.builder.aim(work.operation, number)?;
        self.find.prepare_for(work, aim);
        self.change.prepare_for(work, aim);
        Some(())
    }

    /// A failed read ends the operation without a write.
    pub async fn send(&mut self, connection: &mut Connection, work: Work<'_>) -> Reply {
        let read = self.find.send(connection, work).await;
        // A failed read says nothing about the write of an earlier attempt.
        self.advice = RetryAdvice { wrote_nothing: true, ..self.find.advice };
        if read.outcome != Outcome::Acknowledged {
            return read;
        }
        let written = self.change.send(connection, work).await;
        self.advice = self.change.advice();
        Reply {
            bytes_sent: read.bytes_sent + written.bytes_sent,
            bytes_received: read.bytes_received + written.bytes_received,
            ..written
        }
    }

    pub fn release(&mut self, builder: &OperationBuilder) {
        self.change.release(builder);
    }
}
