//! Reads the cursor of a command. The command is encoded again for each operation.

use plimsoll_deployment::Namespace;
use plimsoll_element::append;
use plimsoll_measure::interval::Reply;
use plimsoll_wire::{Call, Connection, Error, FindReply, Limits, ReadPreference, RetryAdvice};

use super::find::count;
use crate::setup::Setup;

/// A command with a cursor, and its `getMore` request.
#[derive(Debug)]
pub(super) struct Query {
    call: Call,
    more: Call,
    reply: FindReply,
    namespace: Namespace,
    /// The retry advice that follows from the last answer.
    pub advice: RetryAdvice,
}

impl Query {
    pub fn new(setup: &Setup, limits: &Limits) -> Self {
        let namespace = setup.namespace.clone();
        let (call, more) = (Call::new(&namespace.db, limits), Call::new(&namespace.db, limits));
        Self { call, more, reply: FindReply::new(), namespace, advice: RetryAdvice::FINAL }
    }

    /// The command's encoder.
    pub const fn call(&mut self) -> &mut Call {
        &mut self.call
    }

    /// Sends the command and reads the cursor to its end; `first` gets the first batch.
    pub async fn read(
        &mut self,
        connection: &mut Connection,
        first: impl FnOnce(&FindReply) + Send,
    ) -> Result<Reply, Error> {
        let Self { call, more, reply, namespace, advice } = self;
        let found = connection.query(call, reply).await;
        // A lost cursor is not read again: only the first command is retryable.
        *advice = found.as_ref().err().map_or(RetryAdvice::FINAL, RetryAdvice::of_read);
        found?;
        first(reply);
        let mut read = Reply::acknowledged(0);
        loop {
            count(&mut read, reply);
            let cursor_id = reply.cursor_id();
            if cursor_id == 0 {
                return Ok(read);
            }
            let written = more.body(|out| {
                append::int64(out, "getMore", cursor_id);
                append::string(out, "collection", &namespace.collection);
            });
            debug_assert!(written.is_ok(), "a name is shorter than a document may be");
            connection.query(more, reply).await?;
        }
    }
}

/// Appends the settings of a read outside transactions.
pub(super) fn read_settings(out: &mut Vec<u8>, level: Option<&str>, preference: &ReadPreference) {
    read_concern(out, level);
    preference.append(out);
}

/// Appends a read concern, if any.
pub(super) fn read_concern(out: &mut Vec<u8>, level: Option<&str>) {
    if let Some(level) = level {
        append::nested(out, "readConcern", |out| append::string(out, "level", level.as_bytes()));
    }
}
