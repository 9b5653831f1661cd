//! Sends many updates in few commands.

use bson::{Bson, Document, doc};
use mongodb::{Client, Collection};

use super::Error;

/// The maximum number of updates in one command, and its maximum size in bytes.
const UPDATES_MAX: usize = 1_000;
const COMMAND_BYTES_MAX: usize = 4 << 20;

/// Sends updates, `{q, u, upsert}` each, in any order. Returns the reason of the first one that the server refused; the others are stored.
///
/// # Errors
/// The server failed.
pub(super) async fn send(
    client: &Client,
    collection: &Collection<Document>,
    updates: &[Document],
) -> Result<Option<String>, Error> {
    let mut first = None;
    let database = client.database(&collection.namespace().db);
    for updates in commands(updates) {
        let command = doc! {"update": collection.name(), "updates": updates, "ordered": false};
        first = first.or(refused(&database.run_command(command).await?));
    }
    Ok(first)
}

/// Splits updates into commands that the server accepts.
fn commands(updates: &[Document]) -> Vec<&[Document]> {
    let (mut commands, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (place, update) in updates.iter().enumerate() {
        let more = update.to_vec().map_or(COMMAND_BYTES_MAX, |update| update.len());
        if place > from && (bytes + more > COMMAND_BYTES_MAX || place - from >= UPDATES_MAX) {
            commands.push(&updates[from..place]);
            (from, bytes) = (place, 0);
        }
        bytes += more;
    }
    commands.push(&updates[from..]);
    commands.retain(|command| !command.is_empty());
    commands
}

/// The first refusal in the answer to a command with several updates.
fn refused(answer: &Document) -> Option<String> {
    let first = answer.get_array("writeErrors").ok()?.first().and_then(Bson::as_document)?;
    Some(first.get_str("errmsg").unwrap_or("no reason").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_bounded_in_updates_and_bytes() {
        let small = vec![doc! {"a": 1}; 2 * UPDATES_MAX + 1];
        let lengths = |updates: &[Document]| commands(updates).iter().map(|it| it.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&small), [UPDATES_MAX, UPDATES_MAX, 1]);
        let large = vec![doc! {"a": "x".repeat(COMMAND_BYTES_MAX / 2)}; 3];
        assert_eq!(lengths(&large), [1, 1, 1]);
        assert!(commands(&[]).is_empty());
    }
}
