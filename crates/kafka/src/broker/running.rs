//! A broker that this process started: from its first answer to its end.

use std::fs::{self, OpenOptions};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use plimsoll_measure::clock;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rustix::process::Signal;

use super::child::Child;
use super::home::Home;
use super::install;
use super::java::Java;
use super::settings::{Ports, Settings, java_of_format};
use super::tail;

/// How long a start may take; recovery after a kill is part of it.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long one question to a starting broker may take.
const ASK_LIMIT: Duration = Duration::from_millis(500);
/// How often a starting broker is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
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
    java: Java,
    jars: PathBuf,
    settings: Settings,
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
            match launch(&java, &jars, &home, &settings, ports) {
                Ok(child) => return Ok(Self { child, home, java, jars, settings, ports }),
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
        let graceful = self.child.terminate(limit).map_err(|source| self.unheard(source))?;
        if !graceful {
            self.kill()?;
        }
        Ok(graceful)
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
        self.child.signal(Signal::STOP).map_err(|source| self.unheard(source))
    }

    /// Lets its process go on after [`Broker::pause`].
    ///
    /// # Errors
    /// [`StartError::Signal`].
    pub fn resume(&self) -> Result<(), StartError> {
        self.child.signal(Signal::CONT).map_err(|source| self.unheard(source))
    }

    /// Starts it again on the same storage and ports, after killing it if it still runs.
    ///
    /// # Errors
    /// [`StartError`], with the last lines of its log; a port may have been taken meanwhile.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.kill()?;
        self.child = launch(&self.java, &self.jars, &self.home, &self.settings, self.ports)?;
        Ok(())
    }

    fn unheard(&self, source: io::Error) -> StartError {
        StartError::Signal { pid: self.pid(), source }
    }
}

/// Writes the properties for two free ports, and makes the storage.
fn prepare(java: &Java, jars: &Path, home: &Home, settings: &Settings) -> Result<Ports, StartError> {
    let ports = free_ports()?;
    fs::write(home.properties(), settings.properties(ports, &home.data()))?;
    let mut format = java.format(jars, &java_of_format(), &home.properties());
    let status = with_log(&mut format, home)?.status()?;
    match status.success() {
        true => Ok(ports),
        false => Err(StartError::Ended { status, tail: tail(&home.log()) }),
    }
}

/// Both are held at once, so that they differ.
fn free_ports() -> io::Result<Ports> {
    let listen = || TcpListener::bind(("127.0.0.1", 0));
    let (clients, controller) = (listen()?, listen()?);
    Ok(Ports { clients: clients.local_addr()?.port(), controller: controller.local_addr()?.port() })
}

/// Runs it in its home, with everything it prints appended to its log.
fn with_log<'a>(command: &'a mut Command, home: &Home) -> io::Result<&'a mut Command> {
    let log = OpenOptions::new().create(true).append(true).open(home.log())?;
    Ok(command.current_dir(home.path()).stdout(log.try_clone()?).stderr(log))
}

fn launch(
    java: &Java,
    jars: &Path,
    home: &Home,
    settings: &Settings,
    ports: Ports,
) -> Result<Child, StartError> {
    let mut command = java.broker(jars, &settings.java(), &home.properties());
    with_log(&mut command, home)?;
    let child = Child::spawn(command)?;
    let start = clock::now();
    while u128::from(clock::now().since(start)) < START_LIMIT.as_nanos() {
        if let Some(status) = child.ended() {
            return Err(StartError::Ended { status, tail: tail(&home.log()) });
        }
        if answers(ports.clients) {
            return Ok(child);
        }
        thread::sleep(LOOK_EVERY);
    }
    Err(StartError::NotReady { seconds: START_LIMIT.as_secs(), tail: tail(&home.log()) })
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
