//! Waits for servers that start late, before the first part of a command connects without such a wait.

use crate::error::Error;
use crate::topology::{COMMAND_TIMEOUT, Deployment};
use crate::uri::selection_limit;

/// Waits for the server of each URI with a `serverSelectionTimeoutMS`, and reports a long wait in one line. Must be called on a tokio
/// runtime.
///
/// # Errors
/// If a server does not answer in time, or refuses the connection for good.
pub async fn await_servers(
    mut uris: Vec<String>,
    report: &mut (dyn FnMut(String) + Send),
) -> Result<(), Error> {
    uris.sort();
    uris.dedup();
    for uri in uris.iter().filter(|uri| selection_limit(uri).is_some()) {
        Deployment::find_reporting(uri, COMMAND_TIMEOUT, report).await?;
    }
    Ok(())
}
