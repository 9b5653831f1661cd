//! Runs transactions in a session of the server over our own client: their number, their commit or abort, and their bytes.

use bson::RawDocument;
use plimsoll_element::append;
use plimsoll_load::mix::scramble;
use plimsoll_measure::outcome::{Doubt, Outcome};
use plimsoll_wire::{Call, CallReply, Connection, Error, Limits};

use crate::operation_builder::{OperationBuilder, Work};
use crate::outcome::of_commit;
use crate::statement;

/// A session, and the buffers that its transactions share.
#[derive(Debug)]
pub(super) struct Session {
    mark: Mark,
    /// The encoder of the command that ends a transaction: a commit or an abort.
    last: Call,
    /// The last answer.
    pub reply: CallReply,
    /// Bytes that the transaction has sent and received.
    pub bytes: (u64, u64),
}

/// The session and the transaction that a command belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    session: SessionId,
    number: i64,
}

impl Mark {
    /// The transaction, or the retryable write, with this number.
    pub const fn new(session: SessionId, number: i64) -> Self {
        Self { session, number }
    }

    /// Writes the fields that make a command a retryable write.
    pub fn write_retryable(self, out: &mut Vec<u8>) {
        append::nested(out, "lsid", |out| append::uuid(out, "id", &self.session));
        append::int64(out, "txnNumber", self.number);
    }

    /// Writes the fields that make a command part of the transaction.
    pub fn write(self, out: &mut Vec<u8>) {
        self.write_retryable(out);
        append::boolean(out, "autocommit", false);
    }
}

impl Session {
    /// The session of the connection with this number.
    pub fn new(builder: &OperationBuilder, session: u64, limits: &Limits) -> Self {
        Self {
            mark: Mark::new(session_id(builder, session), 0),
            last: Call::new("admin", limits),
            reply: CallReply::new(),
            bytes: (0, 0),
        }
    }

    /// Begins the next transaction.
    pub const fn begin(&mut self) {
        self.mark.number += 1;
        self.bytes = (0, 0);
    }

    /// The current transaction.
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// Sends a command and counts its bytes.
    ///
    /// # Errors
    /// When the server refuses or does not answer.
    pub async fn call(&mut self, connection: &mut Connection, call: &mut Call) -> Result<(), Error> {
        let sent = connection.call(call, &mut self.reply).await;
        self.count_bytes();
        sent
    }

    /// Commits the transaction.
    pub async fn commit(&mut self, connection: &mut Connection, work: Work<'_>) -> Outcome {
        let mark = self.mark;
        let written = self.last.body(|out| {
            append::int32(out, "commitTransaction", 1);
            mark.write(out);
            statement::write_concern(out, work.concerns().write.as_ref());
        });
        debug_assert!(written.is_ok(), "a commit is shorter than a document may be");
        let committed = connection.call(&mut self.last, &mut self.reply).await;
        self.count_bytes();
        match committed {
            Ok(()) => of_commit_reply(self.reply.body()),
            Err(error) => work.noted(of_commit(&error), &error),
        }
    }

    /// Aborts the transaction. If the server does not answer, the transaction ends by its time limit.
    pub async fn abort(&mut self, connection: &mut Connection) {
        if connection.is_broken() {
            return;
        }
        let mark = self.mark;
        let written = self.last.body(|out| {
            append::int32(out, "abortTransaction", 1);
            mark.write(out);
        });
        debug_assert!(written.is_ok(), "an abort is shorter than a document may be");
        connection.call(&mut self.last, &mut self.reply).await.unwrap_or_default();
    }

    fn count_bytes(&mut self) {
        self.bytes.0 += self.reply.bytes_sent() as u64;
        self.bytes.1 += self.reply.bytes_received() as u64;
    }
}

/// The identifier of a session of the server: a UUID.
pub(super) type SessionId = [u8; 16];

/// A session ID for each connection and operation of each worker of each run: a UUID in the form of version 4.
pub(super) fn session_id(builder: &OperationBuilder, session: u64) -> SessionId {
    let run = builder.setup.run.receipt(0).stamp().cast_unsigned() ^ u64::from(builder.setup.run.time_s);
    let place = builder.ledger().worker() << 40 | session;
    let halves = [scramble(run, place).to_be_bytes(), scramble(!run, place).to_be_bytes()];
    let mut id = [0; 16];
    id[..8].copy_from_slice(&halves[0]);
    id[8..].copy_from_slice(&halves[1]);
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

fn of_commit_reply(body: Option<&RawDocument>) -> Outcome {
    match body.map(|body| body.get("writeConcernError")) {
        Some(Ok(None)) => Outcome::Acknowledged,
        Some(_) => Outcome::Unknown(Doubt::WriteConcern),
        None => Outcome::Unknown(Doubt::ConnectionLost),
    }
}
