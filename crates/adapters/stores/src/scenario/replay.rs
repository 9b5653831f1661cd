//! Builds the source that replays dead letters, from the settings of the sink that wrote them.

use std::sync::Arc;

use plimsoll_deployment::Admin;
use plimsoll_pipeline::replay::RepeatedLetters;

use super::{IdKind, Insert, Refusal, Transactional, timeout};
use crate::document::form::Form;
use crate::source::dead_letters::DeadLetters;

impl Transactional {
    /// The sink of replayed events: the same documents under the same `_id`s. The transactional sink would skip events before
    /// its stored position as already written.
    pub fn replay_sink(&self) -> Insert {
        let insert = Insert::new(self.uri.clone(), self.collection.clone());
        Insert {
            form: self.form,
            connections: self.connections,
            timeout: self.timeout,
            topics: self.topics.clone(),
            ..insert
        }
    }

    /// The settings of its sink of dead letters.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn letters(&self) -> Result<Insert, Refusal> {
        let collection = self.dead_letters_collection()?.to_string();
        Ok(Insert { collection, form: Form::Full, ..self.replay_sink() })
    }
}

impl Insert {
    /// Whether a repeated letter gets a new `_id`, so that it replaces no other letter.
    pub const fn names_anew(&self) -> bool {
        matches!(self.identity, IdKind::ObjectId)
    }

    /// Whether each letter identifies its event, so that it can be replayed.
    pub fn identifies_events(&self) -> bool {
        self.form == Form::Full
    }

    /// The source of the first `limit` letters that this sink wrote. Letters of events in `repeated` are not removed.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn written(&self, limit: u64, repeated: &Arc<RepeatedLetters>) -> Result<DeadLetters, Refusal> {
        if !self.identifies_events() {
            return Err(Refusal(format!(
                "dead letters of `form: {:?}` do not identify their events, so they cannot be replayed: use `form: full` from now on",
                self.form
            )));
        }
        let namespace = self.collection.parse().map_err(Refusal::of)?;
        let admin = Admin::new(&self.uri, timeout(self.timeout)?).map_err(Refusal::of)?;
        let repeated = (!self.names_anew()).then(|| Arc::clone(repeated));
        Ok(DeadLetters::new(admin, namespace, limit, repeated))
    }
}
