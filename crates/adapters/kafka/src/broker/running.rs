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

/// The time limit of a start, including the recovery after a kill, and the interval between two probes.
const DEADLINE: Deadline =
    Deadline { limit: Duration::from_secs(120), poll_every: Duration::from_millis(50) };
/// The time limit of one probe.
const ASK_LIMIT: Duration = Duration::from_millis(500);
/// The attempts of a start whose port another program took.
const PORT_TRIES: u32 = 3;

/// A broker that this process started, running or stopped. Dropping it, also by a panic, ends the process and
/// removes temporary storage.
#[derive(Debug)]
pub struct Broker {
    // Fields are dropped in this order: the process must end before its storage is removed.
    child: Child,
    home: Home,
    program: Program,
    ports: Ports,
}

impl Broker {
    /// Starts a broker from the cache at `cache` on free ports and waits some seconds until it answers.
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

    /// The address for clients: `127.0.0.1:PORT`. A restart keeps it.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.ports.clients)
    }

    /// The ID of the current or last process.
    pub const fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The directory of the broker's data and log.
    pub fn storage(&self) -> &Path {
        self.home.path()
    }

    /// Stops the broker gracefully and kills it after `limit`; true if it ended gracefully.
    ///
    /// # Errors
    /// [`Error::Signal`] if the process can be neither stopped nor killed.
    pub fn stop(&self, limit: Duration) -> Result<bool, Error> {
        let ending = self.child.stop(limit)?;
        Ok(ending == Ending::Graceful)
    }

    /// Kills the process (`SIGKILL`). The storage stays for [`Broker::restart`].
    ///
    /// # Errors
    /// [`Error::Signal`] if the process does not die.
    pub fn kill(&self) -> Result<(), Error> {
        self.child.kill()
    }

    /// Pauses the process, connections open, like a machine that hangs.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn pause(&self) -> Result<(), Error> {
        self.child.pause()
    }

    /// Resumes the process after [`Broker::pause`].
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn resume(&self) -> Result<(), Error> {
        self.child.resume()
    }

    /// Restarts the broker on the same storage and ports; kills a running process first.
    ///
    /// # Errors
    /// [`StartError`], with the last lines of the log; another program may have taken a port meanwhile.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.kill()?;
        self.child = launch(&self.program, &self.home, self.ports)?;
        Ok(())
    }
}

/// Writes the properties for two free ports, and creates the storage.
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

/// Whether the broker returns its metadata. A client backs off after a refused connection, so each probe uses
/// a new client, and only once the port is open.
fn answers(port: u16) -> bool {
    if std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        return false;
    }
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", format!("127.0.0.1:{port}"));
    let asked = config.create().and_then(|consumer: BaseConsumer| consumer.fetch_metadata(None, ASK_LIMIT));
    asked.is_ok_and(|metadata| !metadata.brokers().is_empty())
}
