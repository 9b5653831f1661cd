//! A service of ours in a process of its own: started, hurt and ended as a server is, on a port that it keeps.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use plimsoll_measure::clock;
use rustix::process::Signal;

use crate::child::{self, Child, Lifetime, Program};

/// How long a start may take; opening its database is part of it.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a graceful end may take.
const END_LIMIT: Duration = Duration::from_secs(30);
/// How often the log is looked at while a service starts.
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
        let address = free().map_err(Error::Port)?;
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
        self.child.signal(Signal::STOP).map_err(|source| self.unheard(source))
    }

    /// Lets it go on (`SIGCONT`).
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub fn resume(&self) -> Result<(), Error> {
        self.child.signal(Signal::CONT).map_err(|source| self.unheard(source))
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

/// An address that nobody listens on right now.
fn free() -> io::Result<SocketAddr> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr()
}

fn launch(options: &Options, address: SocketAddr) -> Result<Child, Error> {
    let mut args = options.args.clone();
    args.extend([OsString::from("--listen"), OsString::from(address.to_string())]);
    let directory = options.log.parent().unwrap_or(Path::new(".")).to_owned();
    let spawn = |source| Error::Spawn { program: options.program.clone(), source };
    let said = fs::metadata(&options.log).map_or(0, |log| log.len());
    let program = Program {
        path: options.program.clone(),
        args,
        log: options.log.clone(),
        directory,
        hidden_variables: None,
    };
    let nothing = File::open("/dev/null").map_err(spawn)?;
    let child = Child::spawn(&program, nothing, Lifetime::Bound).map_err(spawn)?;
    wait(&child, &options.log, said, address)?;
    Ok(child)
}

/// Waits until the part of the log after `said` bytes says its URL.
fn wait(child: &Child, log: &Path, said: u64, address: SocketAddr) -> Result<(), Error> {
    let began = clock::now();
    loop {
        if is_ready(&fs::read(log).unwrap_or_default(), said, address) {
            return Ok(());
        }
        if let Some(status) = child.ended() {
            return Err(Error::Ended { status, tail: child::tail(log) });
        }
        if clock::now().since(began) > START_LIMIT.as_nanos() as u64 {
            return Err(Error::NotReady { seconds: START_LIMIT.as_secs(), tail: child::tail(log) });
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn is_ready(log: &[u8], said: u64, address: SocketAddr) -> bool {
    let fresh = log.get(usize::try_from(said).unwrap_or(usize::MAX)..).unwrap_or_default();
    String::from_utf8_lossy(fresh).contains(&format!("://{address}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

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
    fn what_it_said_before_does_not_count() {
        let address = "127.0.0.1:80".parse().unwrap();
        assert!(is_ready(b"old\nhttp://127.0.0.1:80\n", 4, address));
        assert!(!is_ready(b"http://127.0.0.1:80\n", 20, address));
        assert!(!is_ready(b"http://127.0.0.1:8080\n", 0, address));
        assert!(!is_ready(b"", 22, address));
    }
}
