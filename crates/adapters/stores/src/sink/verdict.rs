//! What a server's answer means for the events of a batch.
//!
//! What passes (network, failover, overload, an unknown outcome) fails the batch, which comes again. What concerns one document
//! refuses that event. What will not pass (rights, names) stops the pipeline. A refusal of a whole command that no document is
//! named in is looked for by halves.

use plimsoll_deployment::{Error as DeploymentError, is_transient_code};
use plimsoll_pipeline::{Failure, FailureClass, Refused, Verdict};
use plimsoll_wire::{Class, Outcome, Span, WriteReply};

use crate::topics::TopicError;

/// Codes that are about the command and never about a document: NamespaceNotFound, CommandNotFound, InvalidOptions,
/// InvalidNamespace, CommandNotSupported, CommandNotSupportedOnView, NotImplemented, the stable API's, unknown fields.
pub const OF_COMMAND: &[i32] = &[26, 59, 72, 73, 115, 166, 238, 322, 323, 324, 40413, 40414, 40415];
/// DocumentValidationFailure: said of one document, however many there are.
const VALIDATION: i32 = 121;

/// What a document means that is there already under the `_id` that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was written before: the `_id` says which event it is.
    Replayed,
    /// It is another document.
    Refused,
    /// The same, and no event is known again: each gets another `_id` whenever it is sent.
    Anew,
}

/// The first error of a reply, and what became of others of its documents.
struct Told<'a> {
    code: i32,
    words: &'a str,
    /// Whether some were there before.
    replays: bool,
    /// Whether the batch may come again in halves: nothing of it was written, or what was is known again.
    halves: bool,
}

/// Adds up what became of a batch's documents.
#[derive(Debug, Default)]
pub struct Judgement {
    replayed: u32,
    refused: Vec<Refused>,
    failure: Option<Failure>,
}

impl Judgement {
    /// An event that was not sent, for it cannot be stored.
    pub fn refuse(&mut self, index: u32, reason: impl Into<String>) {
        self.refused.push(Refused { index, reason: reason.into() });
    }

    /// Something that concerns the whole batch; what is worse stays.
    pub fn fail(&mut self, class: FailureClass, reason: impl Into<String>) {
        let weight = |class| match class {
            FailureClass::Poisoned => 0,
            FailureClass::Passing => 1,
            FailureClass::Final => 2,
        };
        if self.failure.as_ref().is_none_or(|known| weight(class) > weight(known.class)) {
            self.failure = Some(Failure { class, reason: reason.into() });
        }
    }

    /// Takes in the answer to one write; `places` says which event each of its documents was.
    pub fn take(&mut self, reply: &WriteReply, places: &[u32], taken: Taken) {
        let (code, words) = reply.first_error().unwrap_or((0, "no reason was given"));
        let replays = reply.spans().iter().any(|span| span.outcome == Outcome::Rejected(Class::DuplicateId));
        let written = reply.spans().iter().any(|span| span.outcome == Outcome::Acknowledged);
        let halves = taken != Taken::Anew || !written;
        for span in reply.spans() {
            match span.outcome {
                Outcome::Acknowledged => {}
                Outcome::NotSent | Outcome::Unknown(_) => self.fail(FailureClass::Passing, words),
                Outcome::Rejected(Class::DuplicateId) if taken == Taken::Replayed => {
                    self.replayed += span.count
                }
                Outcome::Rejected(class) => {
                    self.reject(*span, class, Told { code, words, replays, halves }, places)
                }
            }
        }
    }

    fn reject(&mut self, span: Span, class: Class, first: Told<'_>, places: &[u32]) {
        let Told { code, words, replays, halves } = first;
        let told = Class::of_code(code) == class;
        let of_one = matches!(class, Class::DuplicateKey | Class::DuplicateId)
            || (class == Class::Validation && code == VALIDATION);
        match class {
            Class::NotPrimary | Class::Overload => return self.fail(FailureClass::Passing, words),
            Class::Unauthorized => return self.fail(FailureClass::Final, words),
            _ if told && is_transient_code(code) => return self.fail(FailureClass::Passing, words),
            _ if told && OF_COMMAND.contains(&code) => return self.fail(FailureClass::Final, words),
            _ if span.count > 1 && !of_one && halves => return self.fail(FailureClass::Poisoned, words),
            _ => {}
        }
        let reason = match class {
            // The first error may be of a document that was written before.
            Class::DuplicateKey if replays => {
                "duplicate key, in another index than that of the _id".to_owned()
            }
            _ if told => format!("{}: {words}", class.name()),
            _ => class.name().to_owned(),
        };
        let range = span.first as usize..(span.first + span.count) as usize;
        for index in places.get(range).unwrap_or_default() {
            self.refuse(*index, reason.clone());
        }
    }

    /// Updates that found a document and left it as it was: it had been written before, or a newer one.
    pub fn replay_unchanged(&mut self, reply: &WriteReply) {
        let unchanged = reply.n.saturating_sub(reply.n_modified + reply.n_upserted);
        self.replayed += u32::try_from(unchanged).unwrap_or(u32::MAX);
    }

    /// Takes in what became of another part of the batch.
    pub fn merge(&mut self, part: Self) {
        self.replayed += part.replayed;
        self.refused.extend(part.refused);
        if let Some(Failure { class, reason }) = part.failure {
            self.fail(class, reason);
        }
    }

    /// Whether something of this class concerns the whole batch.
    pub fn has_failed(&self, class: FailureClass) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.class == class)
    }

    /// What became of the batch.
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
pub fn of_site(error: &DeploymentError) -> FailureClass {
    if error.is_final() { FailureClass::Final } else { FailureClass::Passing }
}

/// The class of a failure to give a topic its number.
pub fn of_topic(error: &TopicError) -> FailureClass {
    match error {
        TopicError::Taken { .. } | TopicError::Changed { .. } => FailureClass::Final,
        TopicError::Wire(plimsoll_wire::Error::Server(error)) if !is_transient_code(error.code) => {
            FailureClass::Final
        }
        TopicError::Wire(_) => FailureClass::Passing,
    }
}
