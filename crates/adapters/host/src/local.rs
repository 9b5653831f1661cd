//! A server process that this process started: its life from the first line of its log to its end.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use plimsoll_measure::environment::{ServerFacts, ServerKind};
pub use plimsoll_process::Ending;
use plimsoll_process::{Child, Lifetime};
use serde::{Deserialize, Serialize};

use crate::home::{self, Home, Storage};
use crate::recipe::{Recipe, launch};

/// What a server promises about a write that it acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// On disk before it is acknowledged: survives `kill -9`.
    #[default]
    Journaled,
    /// The server's own defaults: faster, and what was acknowledged last can be lost, whatever the write concern says.
    Relaxed,
}

impl Profile {
    /// The name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Journaled => "journaled",
            Profile::Relaxed => "relaxed",
        }
    }
}

/// A server could not be started, stopped or moved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its storage cannot be used.
    #[error(transparent)]
    Home(#[from] home::Error),
    /// The program does not run.
    #[error(
        "{program:?} cannot be run ({source}): install it again with `plimsoll server install`, or mend the PATH"
    )]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It ended while it should have started.
    #[error("the server ended while it started ({status}); the last lines of its log say why:\n{tail}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// The log's last lines.
        tail: String,
    },
    /// It did not listen in time.
    #[error(
        "the server did not listen within {seconds} s; is the machine overloaded? The last lines of its log:\n{tail}"
    )]
    NotReady {
        /// How long it was given.
        seconds: u64,
        /// The log's last lines.
        tail: String,
    },
    /// A signal could not be sent or the process does not end.
    #[error("the server (process {pid}) cannot be signalled ({source}): end it by hand with `kill -9 {pid}`")]
    Signal {
        /// Its process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// It is not running.
    #[error("the server is not running: restart it first")]
    NotRunning,
    /// This machine has no port left.
    #[error("no port of the loopback address can be had ({0}): close programs that hold many connections")]
    Port(io::Error),
}

/// A server of ours, running or stopped. Dropping it, also by a panic, ends the process and removes temporary storage.
#[derive(Debug)]
pub struct Server {
    recipe: Recipe,
    address: SocketAddr,
    // The process must go before its storage: fields are dropped in this order.
    child: Option<Child>,
    home: Home,
}

impl Server {
    /// Starts a server on `port` (0: any free one) and waits until it listens.
    pub(crate) fn start(recipe: Recipe, storage: &Storage, port: u16) -> Result<Self, Error> {
        let home = Home::open(storage, &std::env::temp_dir())?;
        let lifetime = if home.is_temporary() { Lifetime::Bound } else { Lifetime::BoundWithData };
        let (child, address) = launch(&recipe, &home, port, lifetime)?;
        Ok(Server { recipe, address, child: Some(child), home })
    }

    /// Starts a server that stays when this process ends. Gives its process, address and home.
    pub(crate) fn start_detached(
        recipe: &Recipe,
        storage: &Storage,
        port: u16,
        parent: &Path,
    ) -> Result<(u32, SocketAddr, PathBuf), Error> {
        let home = Home::open(storage, parent)?;
        let (child, address) = launch(recipe, &home, port, Lifetime::Detached)?;
        Ok((child.release(), address, home.keep()))
    }

    /// Where it listens; a restart keeps it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What kind of server it is.
    pub fn kind(&self) -> ServerKind {
        self.recipe.kind
    }

    /// Its durability profile, for an embedded server.
    pub fn profile(&self) -> Option<Profile> {
        self.recipe.profile
    }

    /// Its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running().ok().map(Child::pid)
    }

    /// The directory of its data, log and lock.
    pub fn storage(&self) -> &Path {
        self.home.path()
    }

    /// What it printed.
    pub fn log(&self) -> PathBuf {
        self.home.log()
    }

    /// Writes what only its starter knows into the facts that it reported.
    pub fn describe(&self, facts: &mut ServerFacts) {
        facts.kind = self.recipe.kind;
        facts.profile = self.recipe.profile.map(|profile| profile.name().to_owned());
        if self.recipe.product.is_some() {
            facts.product.clone_from(&self.recipe.product);
        }
    }

    /// Asks it to end and kills it after `limit`. A server that is not running counts as ended gracefully.
    ///
    /// # Errors
    /// [`Error::Signal`] if it can be neither asked nor killed.
    pub fn stop(&mut self, limit: Duration) -> Result<Ending, Error> {
        let Some(child) = self.child.take_if(|child| child.ended().is_none()) else {
            return Ok(Ending::Graceful);
        };
        child.stop(limit).map_err(signal_error(&child))
    }

    /// Kills it as `kill -9` does: nothing is flushed. The storage stays for [`Server::restart`].
    ///
    /// # Errors
    /// [`Error::NotRunning`]; [`Error::Signal`] if it does not die.
    pub fn kill(&mut self) -> Result<(), Error> {
        let child = self.running()?;
        child.kill().map_err(signal_error(child))
    }

    /// Stops its process where it is, connections open, as a machine that hangs.
    ///
    /// # Errors
    /// [`Error::NotRunning`]; [`Error::Signal`] if it cannot be signalled.
    pub fn pause(&self) -> Result<(), Error> {
        let child = self.running()?;
        child.pause().map_err(signal_error(child))
    }

    /// Lets its process go on after [`Server::pause`].
    ///
    /// # Errors
    /// [`Error::NotRunning`]; [`Error::Signal`] if it cannot be signalled.
    pub fn resume(&self) -> Result<(), Error> {
        let child = self.running()?;
        child.resume().map_err(signal_error(child))
    }

    /// Starts it again on the same storage and address, after ending it gracefully (within 10 s) if it still runs.
    ///
    /// # Errors
    /// As for a start; the port may have been taken meanwhile.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop(Duration::from_secs(10))?;
        let lifetime = if self.home.is_temporary() { Lifetime::Bound } else { Lifetime::BoundWithData };
        let (child, _) = launch(&self.recipe, &self.home, self.address.port(), lifetime)?;
        self.child = Some(child);
        Ok(())
    }

    /// Ends it gracefully (within 60 s, then it is killed) and moves its storage to `to`, which must not exist. A server
    /// can be started there again with [`Storage::At`].
    ///
    /// # Errors
    /// [`Error::Home`] if it cannot be moved; temporary storage is gone then.
    pub fn keep_storage(mut self, to: &Path) -> Result<PathBuf, Error> {
        self.stop(Duration::from_secs(60))?;
        Ok(self.home.move_to(to)?)
    }

    fn running(&self) -> Result<&Child, Error> {
        self.child.as_ref().filter(|child| child.ended().is_none()).ok_or(Error::NotRunning)
    }
}

fn signal_error(child: &Child) -> impl FnOnce(io::Error) -> Error + use<> {
    let pid = child.pid();
    move |source| Error::Signal { pid, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn ready(line: &str, _: u16) -> Option<SocketAddr> {
        line.strip_prefix("listening on ")?.parse().ok()
    }

    /// A shell script in the place of a server; what a real one is told comes as its parameters.
    fn recipe(script: &str) -> Recipe {
        Recipe {
            kind: ServerKind::Embedded,
            profile: Some(Profile::Relaxed),
            product: None,
            program: "/bin/sh".into(),
            args: ["-c", script].map(OsString::from).to_vec(),
            data_option: "--data",
            config_option: None,
            hidden_variables: &[],
            chooses_port: true,
            ready,
        }
    }

    #[test]
    fn a_server_is_started_when_its_log_says_so() {
        let script = "echo warming up; echo listening on 127.0.0.1:4242; exec sleep 60";
        let mut server = Server::start(recipe(script), &Storage::Temporary, 0).unwrap();
        assert_eq!(server.address(), "127.0.0.1:4242".parse().unwrap());
        assert_eq!(server.stop(Duration::from_secs(10)).unwrap(), Ending::Graceful);
        assert_eq!(server.pid(), None);
        assert!(matches!(server.kill(), Err(Error::NotRunning)));
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_last_words() {
        let error = Server::start(recipe("echo disk full >&2; exit 7"), &Storage::Temporary, 0).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("disk full") && text.contains('7'), "{text}");
    }

    #[test]
    fn a_deaf_server_is_killed_when_its_time_is_over() {
        let script = "trap '' TERM; echo listening on 127.0.0.1:1; while :; do sleep 0.02; done";
        let mut server = Server::start(recipe(script), &Storage::Temporary, 0).unwrap();
        assert_eq!(server.stop(Duration::from_millis(50)).unwrap(), Ending::Killed);
    }

    #[test]
    fn a_restart_reads_only_the_new_part_of_the_log() {
        let script = "echo x >> data/starts; [ $(wc -l < data/starts) = 2 ] && exit 9; \
                      echo listening on 127.0.0.1:2; exec sleep 60";
        let mut server = Server::start(recipe(script), &Storage::Temporary, 0).unwrap();
        assert!(matches!(server.restart(), Err(Error::Ended { .. })));
        server.restart().unwrap();
        assert!(server.pid().is_some());
    }
}
