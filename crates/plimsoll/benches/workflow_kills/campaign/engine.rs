//! Runs the engines: processes of the program that work on one store.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use plimsoll_measure::duration::Span;
use plimsoll_process::{Child, Lifetime, Program, port};

use super::testbed::Address;

/// The program, as a user runs it.
const PROGRAM: &str = env!("CARGO_BIN_EXE_plimsoll");
/// The largest number of unexpected ends of one engine in a round.
const ENDS_MAX: u32 = 20;
/// The number of services in a round; an additional worker has no HTTP interface.
const SERVICES: usize = 2;
/// The largest number of services.
const SERVICES_MAX: usize = 8;

/// A process that runs instances. It ends with this value, and with this process.
pub struct Engine {
    arguments: Vec<String>,
    log: PathBuf,
    child: Child,
    ends: u32,
}

/// The engines of a round.
pub struct Engines {
    all: Vec<Engine>,
    /// The addresses of the services.
    pub services: Vec<SocketAddr>,
}

impl Engines {
    /// Starts two services and a worker, with logs in a directory.
    ///
    /// # Errors
    /// A process cannot be started.
    pub fn start(store: &Address, lease: Span, dir: &Path) -> anyhow::Result<Self> {
        let mut engines = Self::start_services(SERVICES, store, lease, dir)?;
        engines.all.push(Engine::start(worker(store, lease), dir.join("worker.log"))?);
        Ok(engines)
    }

    /// Starts a number of services, each of which is a worker too.
    ///
    /// # Errors
    /// A process cannot be started, or there are more than [`SERVICES_MAX`].
    pub fn start_services(count: usize, store: &Address, lease: Span, dir: &Path) -> anyhow::Result<Self> {
        ensure!(count <= SERVICES_MAX, "{count} processes are too many: choose {SERVICES_MAX} at most");
        let ports = port::free::<SERVICES_MAX>()?;
        let address = |port: &u16| SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
        let services: Vec<_> = ports[..count].iter().map(address).collect();
        let start = |(at, service): (usize, &SocketAddr)| {
            Engine::start(serve(store, *service, lease), dir.join(format!("service-{at}.log")))
        };
        let all = services.iter().enumerate().map(start).collect::<Result<_, _>>()?;
        Ok(Self { all, services })
    }

    /// The processes.
    pub fn pids(&self) -> Vec<u32> {
        self.all.iter().map(|engine| engine.child.pid()).collect()
    }

    /// The number of engines.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// One of the engines.
    pub fn engine(&mut self, at: usize) -> &mut Engine {
        &mut self.all[at]
    }

    /// Restarts engines that have ended by themselves.
    ///
    /// # Errors
    /// An engine ends again and again, or panicked.
    pub fn tend(&mut self) -> anyhow::Result<()> {
        self.all.iter_mut().try_for_each(Engine::tend)
    }

    /// The number of unexpected ends of all engines.
    pub fn ends(&self) -> u32 {
        self.all.iter().map(|engine| engine.ends).sum()
    }
}

impl Engine {
    fn start(arguments: Vec<String>, log: PathBuf) -> anyhow::Result<Self> {
        let child = launch(&arguments, &log)?;
        Ok(Self { arguments, log, child, ends: 0 })
    }

    /// The process.
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// Starts the process again.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn again(&mut self) -> anyhow::Result<()> {
        self.child = launch(&self.arguments, &self.log)?;
        Ok(())
    }

    fn tend(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.ended() else { return Ok(()) };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        ensure!(!log.contains("panicked at"), "an engine panicked: see {}", self.log.display());
        self.ends += 1;
        let is_too_often = self.ends > ENDS_MAX;
        ensure!(!is_too_often, "an engine ends again and again ({status}): see {}", self.log.display());
        self.again()
    }
}

fn serve(store: &Address, listen: SocketAddr, lease: Span) -> Vec<String> {
    let words = ["serve", "workflow", "--log", "warn", "--listen"].map(str::to_owned);
    let mut words = [&words[..], &[listen.to_string()]].concat();
    match store {
        Address::Mongodb { uri, database } => {
            words.extend([
                "--server".into(),
                uri.clone(),
                "--set".into(),
                format!("database.name={database}"),
            ]);
        }
        Address::Postgres { uri } => words.extend(["--set".into(), format!("postgres={uri}")]),
    }
    words.extend(["--set".into(), format!("worker.lease={lease}")]);
    words
}

fn worker(store: &Address, lease: Span) -> Vec<String> {
    let words = ["workflow", "worker", "--lease"].map(str::to_owned);
    let mut words = [&words[..], &[lease.to_string()]].concat();
    match store {
        Address::Mongodb { uri, database } => {
            words.extend(["--server".into(), uri.clone(), "--database".into(), database.clone()]);
        }
        Address::Postgres { uri } => words.extend(["--postgres".into(), uri.clone()]),
    }
    words
}

fn launch(arguments: &[String], log: &Path) -> anyhow::Result<Child> {
    let program = Program {
        name: "the engine",
        path: PROGRAM.into(),
        args: arguments.iter().map(Into::into).collect(),
        log: log.to_owned(),
        directory: ".".into(),
        hidden_variables: &[],
    };
    Child::spawn(&program, None, Lifetime::Bound).context("start an engine")
}
