//! Where dead letters lie that are to be replayed: it follows from how they are written.

use std::sync::Arc;

use plimsoll_deployment::Admin;
use plimsoll_pipeline::replay::RepeatedLetters;

use super::{Insert, Named, Refusal, Transactional, timeout};
use crate::document::form::Form;
use crate::source::letters::Letters;

impl Transactional {
    /// The sink of events that come again: the same documents under the same names. Its transactions would take an event
    /// before the position that they keep for one that is there.
    pub fn sink_again(&self) -> Insert {
        let insert = Insert::new(self.uri.clone(), self.collection.clone());
        Insert {
            form: self.form,
            connections: self.connections,
            timeout: self.timeout,
            topics: self.topics.clone(),
            ..insert
        }
    }

    /// The sink of its dead letters, as one of its own.
    ///
    /// # Errors
    /// What cannot be meant, as a sentence.
    pub fn letters(&self) -> Result<Insert, Refusal> {
        let collection = self.dead_letters_collection()?.to_string();
        Ok(Insert { collection, form: Form::Full, ..self.sink_again() })
    }
}

impl Insert {
    /// Whether a letter that is written again replaces none: it has a new name then.
    pub const fn names_anew(&self) -> bool {
        matches!(self.identity, Named::ObjectId)
    }

    /// The letters that this sink wrote, so many at most; those of events in `again` stay.
    ///
    /// # Errors
    /// What cannot be meant, as a sentence.
    pub fn written(&self, limit: u64, again: &Arc<RepeatedLetters>) -> Result<Letters, Refusal> {
        if self.form != Form::Full {
            return Err(Refusal(format!(
                "dead letters of `form: {:?}` do not say which events they are: say `form: full` for the next ones",
                self.form
            )));
        }
        let namespace = self.collection.parse().map_err(Refusal::of)?;
        let admin = Admin::new(&self.uri, timeout(self.timeout)?).map_err(Refusal::of)?;
        let again = (!self.names_anew()).then(|| Arc::clone(again));
        Ok(Letters::new(admin, namespace, limit, again))
    }
}
