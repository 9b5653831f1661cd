//! A service of ours in a process of its own: started, hurt and ended as a server is, on a port that it keeps.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_process::{Child, Launch, LaunchError, Lifetime, Patience, Program, port};

/// How long a start may take, and how often the log is looked at on the way; opening its database is part of it.
const PATIENCE: Patience = Patience { limit: Duration::from_secs(60), every: Duration::from_millis(5) };
/// How long a graceful end may take.
const END_LIMIT: Duration = Duration::from_secs(30);

/// How a service is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; `--listen ADDRESS` is added.
    pub args: Vec<OsString>,
    /// The file that takes its output.
    pub log: PathBuf,
}

/// A service could not be started or signalled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program does not run.
    #[error("{program:?} cannot be run ({source}): is it still where it was?")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It ended while it should have started.
    #[error("the service ended while it started ({status}); the last lines of its log say why:\n{tail}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// The log's last lines.
        tail: String,
    },
    /// It did not listen in time.
    #[error("the service did not listen within {seconds} s; the last lines of its log:\n{tail}")]
    NotReady {
        /// How long it was given.
        seconds: u64,
        /// The log's last lines.
        tail: String,
    },
    /// A signal could not be sent.
    #[error(
        "the service (process {pid}) cannot be signalled ({source}): end it by hand with `kill -9 {pid}`"
    )]
    Signal {
        /// Its process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// This machine has no port left.
    #[error("no port of the loopback address can be had ({0}): close programs that hold many connections")]
    Port(io::Error),
}

/// A service that runs, or that was killed and may be started again. Dropping it ends it.
#[derive(Debug)]
pub struct Service {
    options: Options,
    address: SocketAddr,
    child: Child,
}

impl Service {
    /// Starts it on a free port of 127.0.0.1 and waits until it says that it listens.
    ///
    /// # Errors
    /// [`Error`], with the last lines of its log.
    pub fn start(options: Options) -> Result<Self, Error> {
        let [port] = port::free().map_err(Error::Port)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let child = launch(&options, address)?;
        Ok(Self { options, address, child })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process, or the last one it had.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Kills it as a crash would (`SIGKILL`).
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub fn kill(&self) -> Result<(), Error> {
        self.child.kill().map_err(|source| self.unheard(source))
    }

    /// Starts it again on the same port, after it was killed.
    ///
    /// # Errors
    /// [`Error`], with the last lines of its log.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.kill()?;
        self.child = launch(&self.options, self.address)?;
        Ok(())
    }

    /// Stops it where it is (`SIGSTOP`).
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub fn pause(&self) -> Result<(), Error> {
        self.child.pause().map_err(|source| self.unheard(source))
    }

    /// Lets it go on (`SIGCONT`).
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub fn resume(&self) -> Result<(), Error> {
        self.child.resume().map_err(|source| self.unheard(source))
    }

    /// Asks it to end (`SIGTERM`) and waits; true if it did so by itself.
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub fn terminate(&self) -> Result<bool, Error> {
        self.child.terminate(END_LIMIT).map_err(|source| self.unheard(source))
    }

    fn unheard(&self, source: io::Error) -> Error {
        Error::Signal { pid: self.child.pid(), source }
    }
}

fn launch(options: &Options, address: SocketAddr) -> Result<Child, Error> {
    let mut args = options.args.clone();
    args.extend([OsString::from("--listen"), OsString::from(address.to_string())]);
    let (path, log) = (options.program.clone(), options.log.clone());
    let directory = log.parent().unwrap_or(Path::new(".")).to_owned();
    let program = Program { path, args, log, directory, hidden_variables: &[] };
    let (lifetime, now_ns) = (Lifetime::Bound, || clock::now().as_ns());
    let launch = Launch { program: &program, lock: None, lifetime, patience: PATIENCE, now_ns };
    let (child, ()) = launch
        .until(&mut |lines| is_ready(lines, address).then_some(()))
        .map_err(|error| not_started(options, error))?;
    Ok(child)
}

fn not_started(options: &Options, error: LaunchError) -> Error {
    match error {
        LaunchError::Spawn(source) => Error::Spawn { program: options.program.clone(), source },
        LaunchError::Ended { status, tail } => Error::Ended { status, tail },
        LaunchError::Late { seconds, tail } => Error::NotReady { seconds, tail },
    }
}

/// Whether one of the lines ends with its URL.
fn is_ready(lines: &str, address: SocketAddr) -> bool {
    lines.contains(&format!("://{address}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use std::fs;

    fn options(directory: &Path, script: &str) -> Options {
        let args = ["-c", script, "sh"].map(OsString::from).to_vec();
        Options { program: "/bin/sh".into(), args, log: directory.join("service.log") }
    }

    const LISTENS: &str = "echo http://$2; exec sleep 60";

    #[test]
    fn it_is_started_killed_and_started_again_where_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let mut service = Service::start(options(directory.path(), LISTENS)).unwrap();
        let (address, pid) = (service.address(), service.pid());
        service.kill().unwrap();
        assert!(!process::is_alive(pid));
        service.restart().unwrap();
        assert_eq!(service.address(), address);
        let log = fs::read_to_string(directory.path().join("service.log")).unwrap();
        assert_eq!(log, format!("http://{address}\n").repeat(2));
    }

    #[test]
    fn it_ends_with_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let service = Service::start(options(directory.path(), LISTENS)).unwrap();
        let pid = service.pid();
        drop(service);
        assert!(!process::is_alive(pid));
    }

    #[test]
    fn one_that_ends_at_once_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let error = Service::start(options(directory.path(), "echo no database; exit 4")).unwrap_err();
        assert!(error.to_string().contains("no database"), "{error}");
    }

    #[test]
    fn only_its_own_url_counts() {
        let address = "127.0.0.1:80".parse().unwrap();
        assert!(is_ready("opened\nhttp://127.0.0.1:80\n", address));
        assert!(!is_ready("http://127.0.0.1:8080\n", address));
        assert!(!is_ready("", address));
    }
}
