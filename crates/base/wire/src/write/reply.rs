//! Holds the outcome of a batch, reused from write to write, so that success does not allocate.

use std::fmt::Display;

use crate::outcome::{Outcome, Span};
use crate::retryable::RetryAdvice;

/// The outcome of every document of a batch, and the bytes of the exchange.
#[derive(Clone, Debug, Default)]
pub struct WriteReply {
    spans: Vec<Span>,
    /// The refused documents of the current frame: index in the frame, outcome.
    pub(crate) refused: Vec<(u32, Outcome)>,
    errors: Vec<WriteFailure>,
    pub(crate) advice: RetryAdvice,
    /// Documents inserted, matched or deleted, as the server counts (`n`).
    pub n: u64,
    /// Documents that an update changed (`nModified`).
    pub n_modified: u64,
    /// Documents that an update inserted (`upserted`).
    pub n_upserted: u64,
    /// Messages sent, at least in part.
    pub commands: u32,
    /// Bytes handed to the kernel (under TLS: to TLS), compressed if the connection compresses.
    pub bytes_sent: u64,
    /// Bytes of replies, as they arrived.
    pub bytes_received: u64,
}

/// The first error with its outcome in a batch: of a document, a command or the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// The outcome of its documents.
    pub outcome: Outcome,
    /// The server's code; 0 if the error is not the server's.
    pub code: i32,
    /// The server's name of the code; empty for the error of one document, which has none.
    pub name: String,
    /// The message.
    pub message: String,
}

impl WriteReply {
    /// An empty reply for [`crate::Connection::write`] to fill.
    pub fn new() -> Self {
        WriteReply::default()
    }

    /// Consecutive documents with the same outcome, in the order of the batch, without gaps or overlaps.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Whether every document was acknowledged (true of an empty batch).
    pub fn is_acknowledged(&self) -> bool {
        self.spans.iter().all(|span| span.outcome == Outcome::Acknowledged)
    }

    /// The first error of a document, a command or the connection: the code (0 if it is not the server's) and the message.
    pub fn first_error(&self) -> Option<(i32, &str)> {
        self.errors.first().map(|error| (error.code, error.message.as_str()))
    }

    /// The first error of each outcome, in the order of their occurrence.
    pub fn errors(&self) -> &[WriteFailure] {
        &self.errors
    }

    /// Whether the batch may be sent again as a whole: the failed frames changed nothing, or carry a number.
    pub const fn advice(&self) -> RetryAdvice {
        self.advice
    }

    /// Clears the reply, but keeps the memory.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.refused.clear();
        self.errors.clear();
        self.advice = RetryAdvice::FINAL;
        (self.n, self.n_modified, self.n_upserted) = (0, 0, 0);
        (self.commands, self.bytes_sent, self.bytes_received) = (0, 0, 0);
    }

    /// Appends consecutive documents. Extends the last span if the outcome is the same.
    pub(crate) fn push_span(&mut self, first: u32, count: u32, outcome: Outcome) {
        if count == 0 {
            return;
        }
        match self.spans.last_mut() {
            Some(last) if last.outcome == outcome => last.count += count,
            _ => self.spans.push(Span { first, count, outcome }),
        }
    }

    /// Stores an error if it is the first with its outcome.
    pub(crate) fn note(&mut self, outcome: Outcome, code: i32, name: &[u8], message: impl Display) {
        if self.errors.iter().all(|known| known.outcome != outcome) {
            let name = String::from_utf8_lossy(name).into_owned();
            self.errors.push(WriteFailure { outcome, code, name, message: message.to_string() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Cause;

    #[test]
    fn adjacent_documents_with_the_same_outcome_are_one_span() {
        let mut reply = WriteReply::new();
        reply.push_span(0, 2, Outcome::Acknowledged);
        reply.push_span(2, 0, Outcome::NotSent);
        reply.push_span(2, 3, Outcome::Acknowledged);
        reply.push_span(5, 1, Outcome::Unknown(Cause::Timeout));
        let spans: Vec<_> = reply.spans().iter().map(|span| (span.first, span.count)).collect();
        assert_eq!(spans, [(0, 5), (5, 1)]);
    }

    #[test]
    fn the_first_error_of_each_outcome_is_kept_until_the_reply_is_cleared() {
        let mut reply = WriteReply::new();
        reply.note(Outcome::NotSent, 1, b"", "one");
        reply.note(Outcome::NotSent, 2, b"", "two");
        reply.note(Outcome::Unknown(Cause::Timeout), 3, b"Three", "three");
        assert_eq!(reply.first_error(), Some((1, "one")));
        assert_eq!(reply.errors().iter().map(|it| it.code).collect::<Vec<_>>(), [1, 3]);
        reply.clear();
        assert_eq!(reply.first_error(), None);
    }
}
