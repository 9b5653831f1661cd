//! Sends rare commands from threads that may block: positions, topic numbers, checks before a start.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};
use plimsoll_wire::Connection;
use tokio::runtime::{Builder, Runtime};

use crate::error::Error;
use crate::topology::Deployment;

/// Attempts when the server is unreachable or changes its role.
const ATTEMPTS: u32 = 6;
/// The pause before the first retry; it doubles with each retry.
const BACKOFF: Duration = Duration::from_millis(100);

/// Sends commands one at a time over one connection, which it reopens when it breaks.
#[derive(Debug)]
pub struct Admin {
    deployment: Deployment,
    session: Mutex<Session>,
}

/// A connection and its runtime.
#[derive(Debug)]
struct Session {
    runtime: Runtime,
    connection: Option<Connection>,
}

/// Creates a single-threaded runtime.
///
/// # Errors
/// [`Error::Runtime`] if the system has no free file descriptor.
pub fn runtime() -> Result<Runtime, Error> {
    Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)
}

impl Admin {
    /// Prepares commands to the deployment that `uri` names; connects with the first command.
    ///
    /// # Errors
    /// If the URI is unusable.
    pub fn new(uri: &str, timeout: Duration) -> Result<Self, Error> {
        let runtime = runtime()?;
        let deployment = runtime.block_on(Deployment::new(uri, timeout))?;
        Ok(Self { deployment, session: Mutex::new(Session { runtime, connection: None }) })
    }

    /// Runs an idempotent command; retries transient errors for some seconds.
    ///
    /// # Errors
    /// The server's refusal, or the reason why the server is unreachable.
    pub fn run(&self, db: &str, command: &RawDocument) -> Result<RawDocumentBuf, Error> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let Session { runtime, connection } = &mut *session;
        runtime.block_on(retry(async || {
            let reply = self.send(connection, db, command).await;
            if reply.is_err() {
                *connection = None;
            }
            reply
        }))
    }

    async fn send(
        &self,
        open: &mut Option<Connection>,
        db: &str,
        command: &RawDocument,
    ) -> Result<RawDocumentBuf, Error> {
        let connection = match open {
            Some(connection) if !connection.is_broken() => connection,
            _ => open.insert(self.deployment.connect().await?),
        };
        Ok(connection.command(db, command).await?)
    }
}

/// Retries transient errors for some seconds.
///
/// # Errors
/// The last error, or the first that is not transient.
pub async fn retry<T>(mut attempt: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
    let mut backoff = BACKOFF;
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(error) if error.is_transient() => {
                tokio::time::sleep(backoff).await;
                backoff *= 2;
            }
            result => return result,
        }
    }
    attempt().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_server_is_reported_after_some_attempts() {
        let uri = "mongodb://127.0.0.1:1/?directConnection=true&connectTimeoutMS=50";
        let admin = Admin::new(uri, Duration::from_secs(1)).unwrap();
        let error = admin.run("admin", &bson::rawdoc! {"ping": 1}).unwrap_err();
        assert!(error.to_string().contains("start the server there"), "{error}");
    }
}
