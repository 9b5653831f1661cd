//! Finds and changes a document in one command, over our own client.

use bson::{RawBsonRef, RawDocument};
use plimsoll_element::append;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_wire::{Call, CallReply, Connection, Error, Limits, RetryAdvice};

use super::session::{Mark, SessionId};
use crate::operation_builder::{OperationBuilder, OperationTarget, PendingWrite, ReturnedState, Work};
use crate::outcome::{of_unconfirmed, of_write_error};
use crate::scenario::Returns;
use crate::setup::{Command, Purpose, Setup};
use crate::statement;
use crate::worker_ledger::PickedDocument;

/// A prepared find-and-modify.
#[derive(Debug)]
pub(super) struct Buffers {
    call: Call,
    reply: CallReply,
    aim: OperationTarget,
    pending: Option<PendingWrite>,
    /// The session of retryable writes; `None` without retries. `number` is that of the prepared write.
    session: Option<SessionId>,
    number: i64,
    /// The retry advice that follows from the last answer.
    pub advice: RetryAdvice,
}

impl Buffers {
    pub fn new(setup: &Setup, session: Option<SessionId>, limits: &Limits) -> Self {
        Self {
            call: Call::new(&setup.namespace.db, limits),
            reply: CallReply::new(),
            aim: OperationTarget::default(),
            pending: None,
            session,
            number: 0,
            advice: RetryAdvice::FINAL,
        }
    }

    pub fn prepare(&mut self, work: Work<'_>, number: u64) -> Option<()> {
        self.aim = work.builder.aim(work.operation, number)?;
        self.pending = self.aim.pending();
        self.number += 1;
        let (aim, session, number) = (self.aim, self.session, self.number);
        let written = self.call.body(|out| {
            write(out, work, aim);
            if let Some(session) = session {
                Mark::new(session, number).write_retryable(out);
            }
        });
        // A request above the server's limit is not sent and counts as refused.
        written.unwrap_or_default();
        Some(())
    }

    pub async fn send(&mut self, connection: &mut Connection, work: Work<'_>) -> Reply {
        if self.call.bytes() == 0 {
            return Reply::failed(Outcome::Rejected(Rejection::TooLarge), 1);
        }
        let picked = self.aim.document.map(|picked| work.as_sent(picked));
        let sent = connection.call(&mut self.call, &mut self.reply).await;
        self.advice = match &sent {
            Ok(()) => self.reply.body().map(RetryAdvice::of_body).unwrap_or_default(),
            Err(error) => RetryAdvice::of_write(error),
        };
        let answer = Answer::of(&sent, self.reply.body());
        work.builder.conclude(&mut self.pending, answer.outcome, answer.matched);
        if let Err(error) = &sent {
            work.noted(answer.outcome, error);
        }
        let outcome = judge(work, picked, &answer);
        let documents = u64::from(answer.matched);
        let mut reply = Reply::acknowledged(documents);
        if outcome != Outcome::Acknowledged {
            reply = Reply::failed(outcome, 1);
        }
        Reply {
            bytes_sent: self.reply.bytes_sent() as u64,
            bytes_received: self.reply.bytes_received() as u64,
            ..reply
        }
    }

    pub fn release(&mut self, builder: &OperationBuilder) {
        builder.release(&mut self.pending);
    }
}

/// Judges an answer: the returned document must be a possible version of the picked document.
fn judge(work: Work<'_>, picked: Option<PickedDocument>, answer: &Answer<'_>) -> Outcome {
    let Some(picked) = picked.filter(|_| answer.outcome == Outcome::Acknowledged) else {
        return answer.outcome;
    };
    let new = matches!(work.command, Command::FindAndModify { returns: Returns::New, .. });
    let shows = if new { ReturnedState::After } else { ReturnedState::Before };
    match work.builder.judge_read(&picked, shows, answer.value) {
        Ok(()) => answer.outcome,
        Err(rejection) => Outcome::Rejected(rejection),
    }
}

/// The server's answer.
struct Answer<'a> {
    outcome: Outcome,
    /// Whether the command matched a document.
    matched: bool,
    /// The returned document; `None` if the answer has none.
    value: Option<&'a [u8]>,
}

impl<'a> Answer<'a> {
    fn of(sent: &Result<(), Error>, body: Option<&'a RawDocument>) -> Self {
        let failed = |outcome| Self { outcome, matched: false, value: None };
        match (sent, body) {
            (Err(error), _) => failed(of_write_error(error)),
            (Ok(()), None) => failed(Outcome::Unknown(Doubt::ConnectionLost)),
            (Ok(()), Some(body)) => Self::said(body),
        }
    }

    fn said(body: &'a RawDocument) -> Self {
        let unsure = matches!(body.get("writeConcernError"), Ok(Some(RawBsonRef::Document(_))));
        let value = body.get_document("value").ok().map(RawDocument::as_bytes);
        let counted = body.get_document("lastErrorObject").ok().and_then(|last| last.get("n").ok()?);
        let matched = match counted {
            Some(RawBsonRef::Int32(n)) => n > 0,
            Some(RawBsonRef::Int64(n)) => n > 0,
            _ => value.is_some(),
        };
        let outcome = if unsure { of_unconfirmed(body) } else { Outcome::Acknowledged };
        Self { outcome, matched, value }
    }
}

fn write(out: &mut Vec<u8>, work: Work<'_>, aim: OperationTarget) {
    let Work { builder, command, .. } = work;
    append::string(out, "findAndModify", &builder.setup.namespace.collection);
    append::embedded(out, "query", |out| builder.write_filter(out, command, aim));
    if command.purpose() == Purpose::Remove {
        append::boolean(out, "remove", true);
    } else {
        append::embedded(out, "update", |out| builder.write_update(out, command, aim));
        let new = matches!(command, Command::FindAndModify { returns: Returns::New, .. });
        append::boolean(out, "new", new);
    }
    statement::write_concern(out, work.concerns().write.as_ref());
}
