//! Reads documents as long as the answer has room in memory.

use std::sync::{Mutex, PoisonError};

use bson::Document;
use mongodb::Cursor;

use super::Error;
use crate::Refusal;

/// Takes room for some bytes of stored documents, or refuses.
pub type Room<'a> = &'a (dyn Fn(usize) -> Result<(), Refusal> + Send + Sync);

/// Room of an answer that may be read several times: each attempt takes the room of the one before it first.
pub(super) struct Reused<'a> {
    room: Room<'a>,
    /// The bytes of this attempt, and those that have room.
    bytes: Mutex<(usize, usize)>,
}

impl<'a> Reused<'a> {
    pub(super) fn new(room: Room<'a>) -> Self {
        Self { room, bytes: Mutex::default() }
    }

    pub(super) fn take(&self, more: usize) -> Result<(), Refusal> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, held) = &mut *bytes;
        *read += more;
        if *read > *held {
            (self.room)(*read - *held)?;
            *held = *read;
        }
        Ok(())
    }

    /// Begins another attempt.
    pub(super) fn restart(&self) {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).0 = 0;
    }
}

/// Reads all documents of a cursor.
pub(super) async fn read(mut cursor: Cursor<Document>, room: Room<'_>) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    while cursor.advance().await? {
        room(cursor.current().as_bytes().len())?;
        documents.push(cursor.deserialize_current()?);
    }
    Ok(documents)
}
