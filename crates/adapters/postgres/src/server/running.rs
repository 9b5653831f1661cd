//! Starts, pauses, kills, restarts and stops one server.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_process::home::{self, Home};
use plimsoll_process::log::tail;
use plimsoll_process::{Child, Deadline, Ending, Error, Launch, Lifetime, Program, port};

use super::Storage;
use super::install::{directory, is_installed};

/// The name of the program in errors.
const NAME: &str = "the PostgreSQL server";
/// The prefix of temporary homes; the owner's process ID and six random characters follow.
const PREFIX: &str = "plimsoll-postgres-";
/// The time limit of a start, including the recovery after a kill, and the interval between two probes.
const DEADLINE: Deadline = Deadline { limit: Duration::from_secs(60), poll_every: Duration::from_millis(10) };
/// The limit of attempts of a start whose port another program took.
const PORT_TRIES: u32 = 3;
/// The log line at which a start is complete.
const READY: &str = "database system is ready to accept connections";
/// The role and the database of every connection.
const USER: &str = "plimsoll";
/// The command that runs a program under an unprivileged user, because PostgreSQL refuses to run as root.
/// Outside the user namespace, the program's files belong to root.
const UNSHARE: [&str; 4] = ["unshare", "--user", "--map-user=1000", "--map-group=1000"];

/// Settings of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The directory of the data.
    pub storage: Storage,
    /// Settings of `postgresql.conf`; they override the defaults.
    pub parameters: BTreeMap<String, String>,
}

/// A server could not be started, stopped or signalled.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The server is not in the cache.
    #[error(
        "PostgreSQL is not installed: run `cargo xtask setup`, or name an existing server with --postgres"
    )]
    NotInstalled,
    /// The file system refused.
    #[error("the storage of PostgreSQL cannot be used ({0}): choose a writable directory")]
    Storage(#[from] io::Error),
    /// Another server runs on its storage, or the storage holds foreign files.
    #[error(transparent)]
    Home(#[from] home::Error),
    /// The process did not start, or cannot be signalled.
    #[error(transparent)]
    Process(#[from] Error),
}

/// A server that this process started, running or stopped. Dropping it, also by a panic, ends the process and removes temporary
/// storage.
#[derive(Debug)]
pub struct Server {
    // Fields are dropped in this order: the process must end before its storage is removed.
    child: Child,
    home: Home,
    program: Program,
    port: u16,
}

impl Server {
    /// Starts a server from the cache at `cache` on a free port, and waits until it accepts connections. A new storage is formatted.
    ///
    /// # Errors
    /// [`StartError`], with the last lines of the log.
    pub fn start(cache: &Path, settings: &Settings) -> Result<Self, StartError> {
        if !is_installed(cache) {
            return Err(StartError::NotInstalled);
        }
        let binaries = directory(cache).join("bin");
        let home = Home::open(&settings.storage, PREFIX, &std::env::temp_dir())?;
        format(&binaries, &home)?;
        let mut tries = 0;
        loop {
            tries += 1;
            let [port] = port::free()?;
            let program = program(&binaries, "postgres", arguments(&home, port, settings), &home);
            match launch(&program, &home) {
                Ok(child) => return Ok(Self { child, home, program, port }),
                // Another program took the port between the choice and the start.
                Err(StartError::Process(Error::Ended { tail, .. }))
                    if tail.contains("in use") && tries < PORT_TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The URI for clients. A restart keeps it.
    pub fn uri(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port)
    }

    /// The process ID of the current or last postmaster.
    pub const fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The directory of the server's data and log.
    pub fn storage(&self) -> &Path {
        self.home.path()
    }

    /// Stops the server gracefully and kills it after `limit`; true if it ended gracefully.
    ///
    /// # Errors
    /// [`Error::Signal`] if the process can be neither stopped nor killed.
    pub fn stop(&self, limit: Duration) -> Result<bool, Error> {
        Ok(self.child.stop(limit)? == Ending::Graceful)
    }

    /// Kills the postmaster (`SIGKILL`). Its other processes end when they notice. The storage stays for [`Server::restart`].
    ///
    /// # Errors
    /// [`Error::Signal`] if the process does not die.
    pub fn kill(&self) -> Result<(), Error> {
        self.child.kill()
    }

    /// Restarts the server on the same storage and port; kills a running process first.
    ///
    /// # Errors
    /// [`StartError`], with the last lines of the log.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.kill()?;
        let start = clock::now();
        loop {
            match launch(&self.program, &self.home) {
                // The killed server's other processes hold its shared memory until they notice its end.
                Err(StartError::Process(Error::Ended { tail, .. }))
                    if tail.contains("still in use") && waited(start) < DEADLINE.limit =>
                {
                    std::thread::sleep(DEADLINE.poll_every);
                }
                other => return other.map(|child| self.child = child),
            }
        }
    }
}

fn waited(start: clock::Instant) -> Duration {
    Duration::from_nanos(clock::now().since(start))
}

/// Formats the storage unless it is formatted.
fn format(binaries: &Path, home: &Home) -> Result<(), StartError> {
    if home.data().join("PG_VERSION").is_file() {
        return Ok(());
    }
    let mut args: Vec<OsString> = vec!["--pgdata".into(), home.data().into()];
    args.extend(
        ["--username", USER, "--auth=trust", "--no-locale", "--encoding=UTF8", "--no-sync"]
            .map(OsString::from),
    );
    let format = program(binaries, "initdb", args, home);
    let child = Child::spawn(&format, Some(home.lock()?), Lifetime::Bound)?;
    match child.wait(DEADLINE.limit) {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(Error::Ended { name: NAME, status, tail: tail(&format.log) }.into()),
        None => {
            let seconds = DEADLINE.limit.as_secs();
            Err(Error::NotReady { name: NAME, seconds, tail: tail(&format.log) }.into())
        }
    }
}

/// The arguments of `postgres`: the loopback address only, no socket in the file system.
fn arguments(home: &Home, port: u16, settings: &Settings) -> Vec<OsString> {
    let mut parameters = BTreeMap::from(
        [("listen_addresses", "127.0.0.1"), ("unix_socket_directories", ""), ("max_connections", "200")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    parameters.extend(settings.parameters.clone());
    let mut args: Vec<OsString> = vec!["-D".into(), home.data().into(), "-p".into(), port.to_string().into()];
    for (name, value) in parameters {
        args.extend(["-c".into(), format!("{name}={value}").into()]);
    }
    args
}

fn program(binaries: &Path, name: &str, args: Vec<OsString>, home: &Home) -> Program {
    let path = binaries.join(name);
    let (path, args) =
        if rustix::process::geteuid().is_root() { unprivileged(path, args) } else { (path, args) };
    Program {
        name: NAME,
        path,
        args,
        log: home.path().join("postgres.log"),
        directory: home.path().to_owned(),
        hidden_variables: &["PG"],
    }
}

fn unprivileged(path: PathBuf, args: Vec<OsString>) -> (PathBuf, Vec<OsString>) {
    let [unshare, options @ ..] = UNSHARE;
    let mut all: Vec<OsString> = options.map(OsString::from).into();
    all.push(path.into());
    all.extend(args);
    (unshare.into(), all)
}

fn launch(program: &Program, home: &Home) -> Result<Child, StartError> {
    let (lock, now_ns) = (Some(home.lock()?), || clock::now().as_ns());
    let launch = Launch { program, lock, lifetime: Lifetime::Bound, deadline: DEADLINE, now_ns };
    let (child, ()) = launch.until(&mut |lines| lines.contains(READY).then_some(()))?;
    Ok(child)
}
