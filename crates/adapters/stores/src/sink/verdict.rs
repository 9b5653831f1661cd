//! Converts a server's reply to the verdict on a batch.
//!
//! A transient error (network, failover, overload, an unknown outcome) fails the batch, which is retried. An error of one
//! document refuses its event. A permanent error (rights, names) stops the pipeline. An error without a document splits the batch
//! to find it.

use plimsoll_deployment::{Error as DeploymentError, is_transient_code};
use plimsoll_pipeline::{Failure, FailureClass, Refused, Verdict};
use plimsoll_wire::{Class, Outcome, Span, WriteReply};

use crate::topics::TopicError;

/// Codes of errors in the command, never in a document: NamespaceNotFound, CommandNotFound, InvalidOptions, InvalidNamespace,
/// CommandNotSupported, CommandNotSupportedOnView, NotImplemented, errors of the stable API, unknown fields.
pub const COMMAND_CODES: &[i32] = &[26, 59, 72, 73, 115, 166, 238, 322, 323, 324, 40413, 40414, 40415];
/// DocumentValidationFailure: always about one document.
const VALIDATION: i32 = 121;

/// The meaning of an existing document with the sent `_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The event was written before: the `_id` identifies it.
    Replayed,
    /// It is another document.
    Refused,
    /// A refusal, in a sink that gives a repeated event a new `_id`.
    NewId,
}

/// The verdict on a batch in which the last event of each name replaced the earlier ones. If the refused events affect
/// an earlier event, the batch is split until that event is the last of its name.
pub fn split_if(affected: impl FnOnce(&[Refused]) -> bool, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Written { ref refused, .. } if affected(refused) => Verdict::failed(
            FailureClass::RefusedEvent,
            "the server refused an event of a batch in which a later event had replaced an earlier event",
        ),
        verdict => verdict,
    }
}

/// The first error of a reply, and facts about its other documents.
struct FirstError<'a> {
    code: i32,
    words: &'a str,
    /// Whether some documents already existed.
    replays: bool,
    /// Whether the batch may be split: nothing of it was written, or written events are recognised.
    halves: bool,
}

/// Collects the results of a batch's documents.
#[derive(Debug, Default)]
pub struct BatchVerdict {
    replayed: u32,
    refused: Vec<Refused>,
    failure: Option<Failure>,
}

impl BatchVerdict {
    /// Refuses an event that cannot be stored.
    pub fn refuse(&mut self, index: u32, reason: impl Into<String>) {
        self.refused.push(Refused { index, reason: reason.into() });
    }

    /// Fails the whole batch. The more severe class wins.
    pub fn fail(&mut self, class: FailureClass, reason: impl Into<String>) {
        let weight = |class| match class {
            FailureClass::RefusedEvent => 0,
            FailureClass::Transient => 1,
            FailureClass::Final => 2,
        };
        if self.failure.as_ref().is_none_or(|known| weight(class) > weight(known.class)) {
            self.failure = Some(Failure { class, reason: reason.into() });
        }
    }

    /// Adds the reply to one write. `indexes` maps its documents to events.
    pub fn take(&mut self, reply: &WriteReply, indexes: &[u32], existing: Existing) {
        let (code, words) = reply.first_error().unwrap_or((0, "no reason was given"));
        let replays = reply.spans().iter().any(|span| span.outcome == Outcome::Rejected(Class::DuplicateId));
        let written = reply.spans().iter().any(|span| span.outcome == Outcome::Acknowledged);
        let halves = existing != Existing::NewId || !written;
        for span in reply.spans() {
            match span.outcome {
                Outcome::Acknowledged => {}
                Outcome::NotSent | Outcome::Unknown(_) => self.fail(FailureClass::Transient, words),
                Outcome::Rejected(Class::DuplicateId) if existing == Existing::Replayed => {
                    self.replayed += span.count
                }
                Outcome::Rejected(class) => {
                    self.reject(*span, class, FirstError { code, words, replays, halves }, indexes)
                }
            }
        }
    }

    fn reject(&mut self, span: Span, class: Class, first: FirstError<'_>, indexes: &[u32]) {
        let FirstError { code, words, replays, halves } = first;
        let is_first = Class::of_code(code) == class;
        let of_one = matches!(class, Class::DuplicateKey | Class::DuplicateId)
            || (class == Class::Validation && code == VALIDATION);
        match class {
            Class::NotPrimary | Class::Overload => return self.fail(FailureClass::Transient, words),
            Class::Unauthorized => return self.fail(FailureClass::Final, words),
            _ if is_first && is_transient_code(code) => return self.fail(FailureClass::Transient, words),
            _ if is_first && COMMAND_CODES.contains(&code) => return self.fail(FailureClass::Final, words),
            _ if span.count > 1 && !of_one && halves => return self.fail(FailureClass::RefusedEvent, words),
            _ => {}
        }
        let reason = match class {
            // The first error may concern an already existing document.
            Class::DuplicateKey if replays => "duplicate key in an index other than _id".to_owned(),
            _ if is_first => format!("{}: {words}", class.name()),
            _ => class.name().to_owned(),
        };
        let range = span.first as usize..(span.first + span.count) as usize;
        for index in indexes.get(range).unwrap_or_default() {
            self.refuse(*index, reason.clone());
        }
    }

    /// Counts updates that left a document unchanged: it had the same event or a newer one.
    pub fn replay_unchanged(&mut self, reply: &WriteReply) {
        let unchanged = reply.n.saturating_sub(reply.n_modified + reply.n_upserted);
        self.replayed += u32::try_from(unchanged).unwrap_or(u32::MAX);
    }

    /// Adds the results of another part of the batch.
    pub fn merge(&mut self, part: Self) {
        self.replayed += part.replayed;
        self.refused.extend(part.refused);
        if let Some(Failure { class, reason }) = part.failure {
            self.fail(class, reason);
        }
    }

    /// Whether the whole batch failed.
    pub const fn is_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether the whole batch failed with this class.
    pub fn has_failed(&self, class: FailureClass) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.class == class)
    }

    /// The verdict on the batch, from all collected results.
    pub fn verdict(mut self) -> Verdict {
        match self.failure {
            Some(failure) => Verdict::Failed(failure),
            None => {
                self.refused.sort_by_key(|refused| refused.index);
                Verdict::Written { replayed: self.replayed, refused: self.refused }
            }
        }
    }
}

/// The class of a failure to connect.
pub fn of_deployment(error: &DeploymentError) -> FailureClass {
    if error.is_final() { FailureClass::Final } else { FailureClass::Transient }
}

/// The class of a failure to number a topic.
pub fn of_topic(error: &TopicError) -> FailureClass {
    match error {
        TopicError::Taken { .. } | TopicError::Changed { .. } => FailureClass::Final,
        TopicError::Wire(plimsoll_wire::Error::Server(error)) if !is_transient_code(error.code) => {
            FailureClass::Final
        }
        TopicError::Wire(_) => FailureClass::Transient,
    }
}
