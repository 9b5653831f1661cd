//! Rare commands from threads that may wait: positions, topics, questions before a start.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};
use plimsoll_wire::{Connection, Error as Wire};
use tokio::runtime::{Builder, Runtime};

use crate::site::{Site, SiteError};

/// How often a command is tried when the server is away or changes.
const TRIES: u32 = 6;
/// The pause before the first further try; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

/// One connection that is opened anew when it breaks, and the runtime it lives on.
#[derive(Debug)]
pub struct Control {
    site: Site,
    desk: Mutex<Desk>,
}

#[derive(Debug)]
struct Desk {
    runtime: Runtime,
    connection: Option<Connection>,
}

/// A runtime for one thread.
///
/// # Errors
/// If the system has no file descriptors left.
pub fn runtime() -> Result<Runtime, SiteError> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| SiteError::Refused(format!("no event loop can be had: {error}")))
}

impl Control {
    /// A desk for the deployment that `uri` names; connects with the first command.
    ///
    /// # Errors
    /// If the URI cannot be used.
    pub fn new(uri: &str, timeout: Duration) -> Result<Self, SiteError> {
        let runtime = runtime()?;
        let site = runtime.block_on(Site::new(uri, timeout))?;
        Ok(Self { site, desk: Mutex::new(Desk { runtime, connection: None }) })
    }

    /// Runs a command that does the same when it is done twice; tries again for some seconds when that may help.
    ///
    /// # Errors
    /// What the server says, or why it cannot be asked.
    pub fn run(&self, db: &str, command: &RawDocument) -> Result<RawDocumentBuf, SiteError> {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let Desk { runtime, connection } = &mut *desk;
        runtime.block_on(patiently(async || {
            let said = ask(&self.site, connection, db, command).await;
            if said.is_err() {
                *connection = None;
            }
            said
        }))
    }
}

/// Tries again for some seconds what may pass.
///
/// # Errors
/// The last error, or the first that does not pass.
pub async fn patiently<T>(mut attempt: impl AsyncFnMut() -> Result<T, SiteError>) -> Result<T, SiteError> {
    let mut pause = PAUSE;
    for _ in 1..TRIES {
        match attempt().await {
            Err(error) if may_pass(&error) => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            said => return said,
        }
    }
    attempt().await
}

async fn ask(
    site: &Site,
    kept: &mut Option<Connection>,
    db: &str,
    command: &RawDocument,
) -> Result<RawDocumentBuf, SiteError> {
    let connection = match kept {
        Some(connection) if !connection.is_broken() => connection,
        _ => kept.insert(site.connect().await?),
    };
    Ok(connection.command(db, command).await?)
}

/// Whether another try may help: the network, a failover, an overload.
pub fn may_pass(error: &SiteError) -> bool {
    match error {
        SiteError::Wire(Wire::Server(error)) => passing_code(error.code),
        error => !error.is_final(),
    }
}

/// Codes of the server that stand for a state which passes.
pub fn passing_code(code: i32) -> bool {
    use plimsoll_wire::{Class, Outcome};
    match Outcome::of_command_error(code) {
        Outcome::Unknown(_) | Outcome::Rejected(Class::NotPrimary | Class::Overload) => true,
        // InternalError, UnknownError, FailedToSatisfyReadPreference, ReadConcernMajorityNotAvailableYet.
        Outcome::Rejected(_) => matches!(code, 1 | 8 | 133 | 134),
        Outcome::Acknowledged | Outcome::NotSent => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        for code in [91, 189, 10107, 13435, 11600, 112, 202, 133] {
            assert!(passing_code(code), "{code}");
        }
        for code in [11000, 121, 13, 18, 26, 73, 0] {
            assert!(!passing_code(code), "{code}");
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_told_after_some_tries() {
        let uri = "mongodb://127.0.0.1:1/?directConnection=true&connectTimeoutMS=50";
        let control = Control::new(uri, Duration::from_secs(1)).unwrap();
        let error = control.run("admin", &bson::rawdoc! {"ping": 1}).unwrap_err();
        assert!(error.to_string().contains("start the server there"), "{error}");
    }
}
