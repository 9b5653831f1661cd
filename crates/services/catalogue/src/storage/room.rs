//! Reads documents as long as the answer has room in memory.

use bson::Document;
use mongodb::Cursor;

use super::Error;
use crate::Refusal;

/// Takes room for some bytes of stored documents, or refuses.
pub type Room<'a> = &'a (dyn Fn(usize) -> Result<(), Refusal> + Send + Sync);

/// Reads all documents of a cursor.
pub(super) async fn read(mut cursor: Cursor<Document>, room: Room<'_>) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    while cursor.advance().await? {
        room(cursor.current().as_bytes().len())?;
        documents.push(cursor.deserialize_current()?);
    }
    Ok(documents)
}
