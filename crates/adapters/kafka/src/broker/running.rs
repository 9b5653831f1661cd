//! Starts, pauses, kills, restarts and stops one broker.

use std::fs;
use std::path::Path;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_process::log::tail;
use plimsoll_process::{Child, Deadline, Ending, Error, Launch, Lifetime, Program, port};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::error::StartError;
use super::home::Home;
use super::install;
use super::java::{Java, NAME};
use super::settings::{Ports, Settings, java_of_format};

/// The limit of a start, with the recovery after a kill, and the pause between two probes.
const DEADLINE: Deadline =
    Deadline { limit: Duration::from_secs(120), poll_every: Duration::from_millis(50) };
/// The limit of one probe.
const ASK_LIMIT: Duration = Duration::from_millis(500);
/// Tries of a start whose port was taken in between.
const PORT_TRIES: u32 = 3;

/// A broker that this process started, running or stopped. Dropping it, also by a panic, ends the process and removes temporary
/// storage.
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
            match launch(&program, &home, ports).map_err(StartError::from) {
                Ok(child) => return Ok(Self { child, home, program, ports }),
                // Another program took a port between the choice and the start.
                Err(StartError::Process(Error::Ended { tail, .. }))
                    if tail.contains("in use") && tries < PORT_TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Its address, as clients want it: `127.0.0.1:PORT`. A restart keeps it.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.ports.clients)
    }

    /// The ID of its current or last process.
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
    /// [`Error::Signal`] if it can be neither asked nor killed.
    pub fn stop(&self, limit: Duration) -> Result<bool, Error> {
        let ending = self.child.stop(limit)?;
        Ok(ending == Ending::Graceful)
    }

    /// Kills it (`SIGKILL`). The storage stays for [`Broker::restart`].
    ///
    /// # Errors
    /// [`Error::Signal`] if it does not die.
    pub fn kill(&self) -> Result<(), Error> {
        self.child.kill()
    }

    /// Pauses its process, connections open, like a machine that hangs.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn pause(&self) -> Result<(), Error> {
        self.child.pause()
    }

    /// Resumes its process after [`Broker::pause`].
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn resume(&self) -> Result<(), Error> {
        self.child.resume()
    }

    /// Restarts it on the same storage and ports; kills it first if it still runs.
    ///
    /// # Errors
    /// [`StartError`], with the last lines of its log; a port may have been taken meanwhile.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.kill()?;
        self.child = launch(&self.program, &self.home, self.ports)?;
        Ok(())
    }
}

/// Writes the properties for two free ports, and makes the storage.
fn prepare(java: &Java, jars: &Path, home: &Home, settings: &Settings) -> Result<Ports, StartError> {
    let [clients, controller] = port::free()?;
    let ports = Ports { clients, controller };
    fs::write(home.properties(), settings.properties(ports, &home.data()))?;
    let format = java.format(jars, &java_of_format(), home);
    let child = Child::spawn(&format, Some(home.lock()?), Lifetime::Bound)?;
    match child.wait(DEADLINE.limit) {
        Some(status) if status.success() => Ok(ports),
        Some(status) => Err(Error::Ended { name: NAME, status, tail: tail(&home.log()) }.into()),
        None => {
            let seconds = DEADLINE.limit.as_secs();
            Err(Error::NotReady { name: NAME, seconds, tail: tail(&home.log()) }.into())
        }
    }
}

fn launch(program: &Program, home: &Home, ports: Ports) -> Result<Child, Error> {
    let (lock, now_ns) = (Some(home.lock()?), || clock::now().as_ns());
    let launch = Launch { program, lock, lifetime: Lifetime::Bound, deadline: DEADLINE, now_ns };
    let (child, ()) = launch.until(&mut |_| answers(ports.clients).then_some(()))?;
    Ok(child)
}

/// Whether it returns its metadata. A client that was refused a connection backs off, so each probe has a new client, and only
/// once the port is open.
fn answers(port: u16) -> bool {
    if std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        return false;
    }
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", format!("127.0.0.1:{port}"));
    let asked = config.create().and_then(|consumer: BaseConsumer| consumer.fetch_metadata(None, ASK_LIMIT));
    asked.is_ok_and(|metadata| !metadata.brokers().is_empty())
}
