//! Starts a service for a run, on its own database, after filling it.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use plimsoll_host::proxy::Proxy;
use plimsoll_host::service;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock;
use plimsoll_measure::environment::ServerFacts;
use tokio::runtime::Runtime;

use crate::console::Console;
use crate::exit::{Deserves, Exit, Outcome};
use crate::fill;
use crate::reexec;
use crate::run_dir;
use crate::server_provisioning::Place;
use plimsoll_scenario::{self as scenario, Staging};

/// A service of ours and the database behind it.
#[derive(Debug)]
pub struct Staged {
    /// Between the load and the service, for faults of the network.
    pub proxies: Vec<Arc<Proxy>>,
    /// The process, shared with its faults.
    pub process: Arc<Mutex<service::Service>>,
    /// The database behind it. Fields are dropped in their order: it ends after the service.
    pub place: Place,
    /// What the database says it is.
    pub facts: ServerFacts,
    /// What was done before the load, in words.
    pub told: Vec<String>,
    name: &'static str,
    scheme: &'static str,
    database: String,
}

/// What a service is started with.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// What it is.
    pub staging: &'a Staging,
    /// The run directory, which takes its settings and its output.
    pub run: &'a Path,
    /// Seed of what is filled in, and of the proxy.
    pub seed: u64,
    /// Where messages on the way go.
    pub console: &'a dyn Console,
    /// Whether the network between the load and the service is disturbed.
    pub wants_proxy: bool,
    /// The user's wish to stop.
    pub control: &'a Control,
}

impl Staged {
    /// Fills the database as the scenario says, and starts the service on it.
    ///
    /// # Errors
    /// When the database refuses, or the service does not start.
    pub fn start(start: Start<'_>, place: Place, runtime: &Runtime) -> Outcome<Self> {
        let Start { staging, run, seed, wants_proxy, .. } = start;
        let facts = runtime.block_on(place.facts()).deserves(Exit::Server)?;
        let uri = uri(&place).deserves(Exit::Usage)?;
        let settings = run.join(run_dir::SERVICE_SETTINGS);
        run_dir::write_private(&settings, &staging.settings()?)?;
        let began = clock::now();
        let Start { console, control, .. } = start;
        let filled = fill::fill(fill::Order { staging, seed, console, control }, &uri)?;
        let took_s = clock::now().since(began) as f64 / 1e9;
        let told = filled.map(|what| format!("filled in {what} in {took_s:.1} s")).into_iter().collect();
        let process = service::Service::start(options(staging, &uri, &settings, run)?);
        let process = process.context("start the service").deserves(Exit::Server)?;
        let proxies = wants_proxy.then(|| Proxy::start(process.address(), seed).map(Arc::new));
        let proxies = proxies.transpose().context("start a proxy")?.into_iter().collect();
        let process = Arc::new(Mutex::new(process));
        let (name, scheme, database) = (staging.name(), staging.scheme(), staging.database().to_owned());
        Ok(Self { proxies, process, place, facts, told, name, scheme, database })
    }

    /// What it is called.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The database that it keeps everything in.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.process().address())
    }

    /// The way of the load to it, if that is another.
    pub fn proxy(&self) -> Option<SocketAddr> {
        self.proxies.first().map(|proxy| proxy.address())
    }

    /// Its process, and the database's.
    pub fn pids(&self) -> Vec<u32> {
        std::iter::once(self.process().pid()).chain(self.place.pids()).collect()
    }

    /// Ends the service in order, and moves the database's storage into the run directory.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn keep(self, run: &Path) -> anyhow::Result<bool> {
        self.process().terminate()?;
        self.place.keep(run)
    }

    fn process(&self) -> MutexGuard<'_, service::Service> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the service reaches its database.
fn uri(place: &Place) -> anyhow::Result<String> {
    anyhow::ensure!(
        place.site.is_open(),
        "service: Plimsoll hands the address of the database on to the service, and this one wants more than an address \
         (a user, TLS or other options): start the service yourself, and give `http.url`"
    );
    let addresses: Vec<_> = place.road.addresses().iter().map(ToString::to_string).collect();
    let direct = if addresses.len() == 1 { "?directConnection=true" } else { "" };
    Ok(format!("mongodb://{}/{direct}", addresses.join(",")))
}

fn options(staging: &Staging, uri: &str, settings: &Path, run: &Path) -> anyhow::Result<service::Options> {
    let program = reexec::program().to_owned();
    let settings = fs::canonicalize(settings).context("find the service's settings")?;
    let words = ["serve", staging.name(), "--server", uri, "--config"].map(OsString::from);
    let args = words.into_iter().chain([settings.into_os_string()]).collect();
    let log = fs::canonicalize(run).context("find the run directory")?;
    Ok(service::Options { program, args, log: log.join(run_dir::SERVICE_LOG) })
}

/// Whether a plan disturbs the network between the load and the service.
pub fn wants_proxy(scenario: &scenario::Scenario) -> bool {
    let faults = scenario.phases.iter().flat_map(|phase| &phase.faults);
    faults.into_iter().any(|fault| fault.victim == scenario::Victim::Service && !fault.inject.needs_process())
}
