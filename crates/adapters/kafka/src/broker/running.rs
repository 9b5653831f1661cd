//! A broker that this process started: from its first answer to its end.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_process::home;
use plimsoll_process::log::tail;
use plimsoll_process::{Child, Ending, Launch, LaunchError, Lifetime, Patience, Program, port};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::home::Home;
use super::install;
use super::java::Java;
use super::settings::{Ports, Settings, java_of_format};

/// How long a start may take, and how often the broker is looked at on the way; recovery after a kill is part of it.
const PATIENCE: Patience = Patience { limit: Duration::from_secs(120), every: Duration::from_millis(50) };
/// How long one question to a starting broker may take.
const ASK_LIMIT: Duration = Duration::from_millis(500);
/// How many times a start is tried when a port was taken in between.
const PORT_TRIES: u32 = 3;

/// A broker could not be started, stopped or signalled.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It is not in the cache.
    #[error("the broker is not installed: run `cargo xtask setup`, or name a broker of your own")]
    NotInstalled,
    /// There is no Java.
    #[error(
        "java cannot be run ({0}): install Java 17 or newer (Debian: `apt-get install default-jre-headless`)"
    )]
    NoJava(io::Error),
    /// Java is too old.
    #[error("the broker needs Java 17 or newer, and this is {0}: install a newer one, or set JAVA_HOME")]
    OldJava(u32),
    /// The file system refused.
    #[error("the broker's storage cannot be used ({0}): choose a directory that can be written to")]
    Storage(#[from] io::Error),
    /// Another broker runs on its storage, or it holds something that is not ours.
    #[error(transparent)]
    Home(#[from] home::Error),
    /// The Java machine does not run, though it just did.
    #[error("java cannot be run ({0}): mend the PATH, or set JAVA_HOME")]
    Spawn(io::Error),
    /// It ended while it should have started.
    #[error("the broker ended while it started ({status}); the last lines of its log say why:\n{tail}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// The log's last lines.
        tail: String,
    },
    /// It did not answer in time.
    #[error(
        "the broker did not answer within {seconds} s; is the machine overloaded? The last lines of its log:\n{tail}"
    )]
    NotReady {
        /// How long it was given.
        seconds: u64,
        /// The log's last lines.
        tail: String,
    },
    /// A signal could not be sent, or the process does not end.
    #[error("the broker (process {pid}) cannot be signalled ({source}): end it by hand with `kill -9 {pid}`")]
    Signal {
        /// Its process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
}

/// A broker of ours, running or stopped. Dropping it, also by a panic, ends the process and removes temporary storage.
#[derive(Debug)]
pub struct Broker {
    // The process must go before its storage: fields are dropped in this order.
    child: Child,
    home: Home,
    program: Program,
    ports: Ports,
}

impl Broker {
    /// Starts a broker from the cache at `cache` on free ports and waits until it answers: some seconds.
    ///
    /// # Errors
    /// [`StartError`], with the last lines of its log.
    pub fn start(cache: &Path, settings: Settings) -> Result<Self, StartError> {
        if !install::is_installed(cache) {
            return Err(StartError::NotInstalled);
        }
        let (java, jars) = (Java::find()?, install::directory(cache));
        let mut tries = 0;
        loop {
            tries += 1;
            let home = Home::open(&settings.storage)?;
            let ports = prepare(&java, &jars, &home, &settings)?;
            let program = java.broker(&jars, &settings.java(), &home);
            match launch(&program, &home, ports) {
                Ok(child) => return Ok(Self { child, home, program, ports }),
                // Somebody took a port between the choice and the start.
                Err(StartError::Ended { tail, .. }) if tail.contains("in use") && tries < PORT_TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Its address, as clients want it: `127.0.0.1:PORT`. A restart keeps it.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.ports.clients)
    }

    /// Its process, or the last one it had.
    pub const fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The directory of its data and its log.
    pub fn storage(&self) -> &Path {
        self.home.path()
    }

    /// Asks it to end and kills it after `limit`; true if it ended by itself.
    ///
    /// # Errors
    /// [`StartError::Signal`] if it can be neither asked nor killed.
    pub fn stop(&self, limit: Duration) -> Result<bool, StartError> {
        let ending = self.child.stop(limit).map_err(|source| self.unheard(source))?;
        Ok(ending == Ending::Graceful)
    }

    /// Kills it as `kill -9` does. The storage stays for [`Broker::restart`].
    ///
    /// # Errors
    /// [`StartError::Signal`] if it does not die.
    pub fn kill(&self) -> Result<(), StartError> {
        self.child.kill().map_err(|source| self.unheard(source))
    }

    /// Stops its process where it is, connections open, as a machine that hangs.
    ///
    /// # Errors
    /// [`StartError::Signal`].
    pub fn pause(&self) -> Result<(), StartError> {
        self.child.pause().map_err(|source| self.unheard(source))
    }

    /// Lets its process go on after [`Broker::pause`].
    ///
    /// # Errors
    /// [`StartError::Signal`].
    pub fn resume(&self) -> Result<(), StartError> {
        self.child.resume().map_err(|source| self.unheard(source))
    }

    /// Starts it again on the same storage and ports, after killing it if it still runs.
    ///
    /// # Errors
    /// [`StartError`], with the last lines of its log; a port may have been taken meanwhile.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.kill()?;
        self.child = launch(&self.program, &self.home, self.ports)?;
        Ok(())
    }

    fn unheard(&self, source: io::Error) -> StartError {
        StartError::Signal { pid: self.pid(), source }
    }
}

/// Writes the properties for two free ports, and makes the storage.
fn prepare(java: &Java, jars: &Path, home: &Home, settings: &Settings) -> Result<Ports, StartError> {
    let [clients, controller] = port::free()?;
    let ports = Ports { clients, controller };
    fs::write(home.properties(), settings.properties(ports, &home.data()))?;
    let format = java.format(jars, &java_of_format(), home);
    let child = Child::spawn(&format, Some(home.lock()?), Lifetime::Bound).map_err(StartError::Spawn)?;
    match child.wait(PATIENCE.limit) {
        Some(status) if status.success() => Ok(ports),
        Some(status) => Err(StartError::Ended { status, tail: tail(&home.log()) }),
        None => Err(StartError::NotReady { seconds: PATIENCE.limit.as_secs(), tail: tail(&home.log()) }),
    }
}

fn launch(program: &Program, home: &Home, ports: Ports) -> Result<Child, StartError> {
    let (lock, now_ns) = (Some(home.lock()?), || clock::now().as_ns());
    let launch = Launch { program, lock, lifetime: Lifetime::Bound, patience: PATIENCE, now_ns };
    let launched = launch.until(&mut |_| answers(ports.clients).then_some(()));
    launched.map(|(child, ())| child).map_err(|error| match error {
        LaunchError::Spawn(source) => StartError::Spawn(source),
        LaunchError::Ended { status, tail } => StartError::Ended { status, tail },
        LaunchError::Late { seconds, tail } => StartError::NotReady { seconds, tail },
    })
}

/// Whether it tells of itself. A client that was refused a connection waits longer and longer, so each question has one of
/// its own, and only when somebody listens.
fn answers(port: u16) -> bool {
    if std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        return false;
    }
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", format!("127.0.0.1:{port}"));
    let asked = config.create().and_then(|consumer: BaseConsumer| consumer.fetch_metadata(None, ASK_LIMIT));
    asked.is_ok_and(|metadata| !metadata.brokers().is_empty())
}
