//! Sends a batch frame by frame.

use crate::connection::Connection;
use crate::error::Malformed;
use crate::frame::Message;
use crate::outcome::{Cause, Outcome};
use crate::retryable::RetryAdvice;
use crate::transport::ExchangeError;
use crate::write::batch::{Sealed, WriteBatch};
use crate::write::classify::{Next, SentFrame, classify};
use crate::write::reply::WriteReply;

impl Connection {
    /// Writes a batch and stores the outcome of each document in `reply`. A failure is an outcome too: see
    /// [`WriteReply::first_error`] and [`Connection::is_broken`].
    ///
    /// A batch of several frames stops at a failed command or connection and, if it is ordered, at the first refused
    /// document. The documents of later frames are [`Outcome::NotSent`].
    pub async fn write(&mut self, batch: &mut WriteBatch, reply: &mut WriteReply) {
        reply.clear();
        let mut next = if self.is_broken() { Next::Stop } else { Next::Send };
        if next == Next::Stop {
            let message = "the connection is broken by an earlier failure: open a new one";
            reply.note(Outcome::NotSent, 0, b"", message);
            reply.advice.merge(RetryAdvice { is_retryable: true, wrote_nothing: true });
        }
        for frame in 0..batch.frames() {
            if next == Next::Send {
                next = self.write_frame(batch, frame, reply).await;
            } else {
                let (first, count) = batch.documents(frame);
                reply.push_span(first, count, Outcome::NotSent);
            }
        }
    }

    async fn write_frame(&mut self, batch: &mut WriteBatch, frame: usize, reply: &mut WriteReply) -> Next {
        let (kind, ordered) = (batch.kind(), batch.is_ordered());
        let is_acknowledged = batch.is_acknowledged();
        let sealed = batch.seal(frame, self.transport.next_request_id());
        let sent_frame = SentFrame { kind, ordered, first: sealed.first, count: sealed.count };
        let mut sent = 0;
        let handed = if is_acknowledged {
            self.transport.exchange(sealed.bytes, &mut sent).await
        } else {
            self.transport.post(sealed.bytes, &mut sent).await
        };
        reply.commands += u32::from(sent > 0);
        reply.bytes_sent += sent as u64;
        match handed {
            Err(fault) => give_up(&sent_frame, sent, &fault, reply),
            Ok(()) if is_acknowledged => self.read_reply(&sent_frame, &sealed, reply),
            Ok(()) => {
                reply.push_span(sent_frame.first, sent_frame.count, Outcome::Unknown(Cause::Unacknowledged));
                Next::Send
            }
        }
    }

    fn read_reply(&mut self, sent_frame: &SentFrame, sealed: &Sealed<'_>, reply: &mut WriteReply) -> Next {
        let bytes = self.transport.reply();
        reply.bytes_received += self.transport.received() as u64;
        read(sent_frame, bytes, sealed.request_id, reply).unwrap_or_else(|malformed| {
            self.transport.set_broken();
            give_up(sent_frame, sealed.bytes.len(), &ExchangeError::Malformed(malformed), reply)
        })
    }
}

/// Parses a complete reply and adds the outcome of the frame's documents.
pub(crate) fn read(
    sent_frame: &SentFrame,
    bytes: &[u8],
    request_id: i32,
    reply: &mut WriteReply,
) -> Result<Next, Malformed> {
    classify(sent_frame, Message::parse_reply(bytes, request_id)?.body.as_bytes(), reply)
}

/// The outcome without a usable reply: the documents are unknown as soon as the kernel has a byte of them.
fn give_up(sent_frame: &SentFrame, sent: usize, fault: &ExchangeError, reply: &mut WriteReply) -> Next {
    let outcome = match fault {
        _ if sent == 0 => Outcome::NotSent,
        ExchangeError::Timeout => Outcome::Unknown(Cause::Timeout),
        ExchangeError::Lost(_) | ExchangeError::Malformed(_) => Outcome::Unknown(Cause::ConnectionLost),
    };
    let is_retryable = matches!(fault, ExchangeError::Lost(_));
    reply.advice.merge(RetryAdvice { is_retryable, wrote_nothing: false });
    reply.note(outcome, 0, b"", fault);
    reply.push_span(sent_frame.first, sent_frame.count, outcome);
    Next::Stop
}
