//! Sends updates, replacements and deletions over our own client.

use plimsoll_element::append;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_wire::{
    Connection, Error, Limits, RetryAdvice, WriteBatch, WriteConcern, WriteKind, WriteReply, WriteSpec,
};

use super::session::SessionId;
use crate::operation_builder::{OperationBuilder, OperationTarget, PendingWrite, Work};
use crate::outcome::{add, of_write};
use crate::setup::{Command, Purpose, Setup};

/// A prepared statement.
#[derive(Debug)]
pub(super) struct Buffers {
    batch: WriteBatch,
    reply: WriteReply,
    /// Whether the document must exist.
    promised: bool,
    pending: Option<PendingWrite>,
}

impl Buffers {
    pub fn new(
        setup: &Setup,
        command: &Command,
        write_concern: Option<&WriteConcern>,
        session: Option<SessionId>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let removes = command.purpose() == Purpose::Remove;
        let kind = if removes { WriteKind::Delete } else { WriteKind::Update };
        let mut spec = WriteSpec::new(kind, &setup.namespace.db, &setup.namespace.collection);
        spec.write_concern = write_concern.cloned();
        spec.session = session;
        let batch = WriteBatch::new(&spec, limits)?;
        Ok(Self { batch, reply: WriteReply::new(), promised: false, pending: None })
    }

    pub fn prepare(&mut self, work: Work<'_>, number: u64) -> Option<()> {
        let aim = work.builder.aim(work.operation, number)?;
        self.prepare_for(work, aim);
        Some(())
    }

    /// Prepares the change of a picked document.
    pub fn prepare_for(&mut self, work: Work<'_>, aim: OperationTarget) {
        self.batch.clear();
        self.promised = aim.is_promised() && work.command.must_match();
        self.pending = aim.pending();
        // A statement above the server's limit is not pushed and counts as refused.
        self.batch.push(|out| write(out, work, aim)).unwrap_or_default();
    }

    pub async fn send(&mut self, connection: &mut Connection, work: Work<'_>) -> Reply {
        if self.batch.is_empty() {
            return Reply::failed(Outcome::Rejected(Rejection::TooLarge), 1);
        }
        connection.write(&mut self.batch, &mut self.reply).await;
        work.note_write(&self.reply);
        let mut reply = of_write(&self.reply);
        work.builder.conclude(&mut self.pending, reply.outcome, self.reply.n > 0);
        self.judge(&mut reply);
        reply
    }

    pub const fn advice(&self) -> RetryAdvice {
        self.reply.advice()
    }

    pub fn release(&mut self, builder: &OperationBuilder) {
        builder.release(&mut self.pending);
    }

    /// Checks that a change by receipt matched, if its document must exist.
    fn judge(&self, reply: &mut Reply) {
        if reply.outcome != Outcome::Acknowledged {
            return;
        }
        reply.documents = self.reply.n;
        if self.reply.n == 0 && self.promised {
            add(reply, Outcome::Rejected(Rejection::Unexpected), 1);
        }
    }
}

/// Appends the statement.
pub(super) fn write(out: &mut Vec<u8>, work: Work<'_>, aim: OperationTarget) {
    let Work { builder, command, .. } = work;
    append::document(out, |out| {
        append::embedded(out, "q", |out| builder.write_filter(out, command, aim));
        if command.purpose() == Purpose::Remove {
            return append::int32(out, "limit", 1);
        }
        append::embedded(out, "u", |out| builder.write_update(out, command, aim));
        if let Command::Update { multi, upsert, .. } = command {
            append::boolean(out, "multi", *multi);
            append::boolean(out, "upsert", *upsert);
        }
    });
}
