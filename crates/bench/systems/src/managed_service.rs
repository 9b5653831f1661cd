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

use crate::service_kind::{FillMoment, ServiceKind};
use crate::service_program::{self, Filling};
use crate::service_snapshot::Snapshot;
use plimsoll_run::console::Console;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::reexec;
use plimsoll_run::run_dir;
use plimsoll_run::server_provisioning::RunningServer;
use plimsoll_run::system::Fill;
use plimsoll_scenario::{self as scenario, ServiceSpec};

/// A service that the run started, and the database behind it.
#[derive(Debug)]
pub struct StartedService {
    /// The proxies between the load and the service, for network faults.
    pub proxies: Vec<Arc<Proxy>>,
    /// The process, shared with its faults.
    pub process: Arc<Mutex<service::Service>>,
    /// The database, if the service has one. Fields drop in order, so it ends after the service.
    pub database: Option<DatabaseBehind>,
    /// Messages about the fill.
    pub notes: Vec<String>,
    spec: ServiceSpec,
}

/// The database behind a service.
#[derive(Debug)]
pub struct DatabaseBehind {
    /// Its server.
    pub place: RunningServer,
    /// The server's description of itself.
    pub facts: ServerFacts,
}

/// The inputs for starting a service.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Its kind.
    pub kind: &'static dyn ServiceKind,
    /// Its section of the scenario.
    pub spec: &'a ServiceSpec,
    /// The run directory, for its settings and its output.
    pub run: &'a Path,
    /// The seed of the fill and of the proxy.
    pub seed: u64,
    /// Shows messages.
    pub console: &'a dyn Console,
    /// Whether the network between the load and the service is disturbed.
    pub wants_proxy: bool,
    /// Receives the user's request to stop.
    pub control: &'a Control,
}

impl StartedService {
    /// Writes the settings, fills the database as the scenario defines, and starts the service.
    ///
    /// # Errors
    /// When the database refuses, or the service does not start.
    pub fn start(start: Start<'_>, place: Option<RunningServer>, runtime: &Runtime) -> Outcome<Self> {
        let Start { spec, run, seed, wants_proxy, .. } = start;
        // `check::for_service` has refused options that this address lacks.
        let uri = place.as_ref().map(|place| place.route.plain_uri());
        let database = place.map(|place| DatabaseBehind::open(place, runtime)).transpose()?;
        let settings = run.join(run_dir::SERVICE_SETTINGS);
        run_dir::write_private(&settings, &service_program::check(spec).deserves(Exit::Usage)?)?;
        let moment = FillMoment { seed, end_ms: clock::wall_ms() };
        let fill = start.kind.fill(spec, moment).deserves(Exit::Usage)?;
        let target = database.as_ref().zip(uri.as_deref());
        let filled = fill.zip(target).map(|(fill, target)| start.fill(&fill, target)).transpose()?;
        let process = service::Service::start(options(spec, uri.as_deref(), &settings, run)?);
        let process = process.context("start the service").deserves(Exit::Server)?;
        let proxies = wants_proxy.then(|| Proxy::start(process.address(), seed).map(Arc::new));
        let proxies = proxies.transpose().context("start a proxy")?.into_iter().collect();
        let process = Arc::new(Mutex::new(process));
        Ok(Self { proxies, process, database, notes: filled.into_iter().collect(), spec: spec.clone() })
    }

    /// The service's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The name of its database.
    pub fn database_name(&self) -> &str {
        self.spec.database()
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("{}://{}", self.spec.scheme(), self.process().address())
    }

    /// The address of the proxy in front of the service, if there is one.
    pub fn proxy(&self) -> Option<SocketAddr> {
        self.proxies.first().map(|proxy| proxy.address())
    }

    /// The process IDs of the service and of its database.
    pub fn pids(&self) -> Vec<u32> {
        let database = self.database.iter().flat_map(|database| database.place.pids());
        std::iter::once(self.process().pid()).chain(database).collect()
    }

    /// Ends the service gracefully, and moves the database's storage into the run directory.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn keep(self, run: &Path) -> anyhow::Result<bool> {
        self.process().terminate()?;
        self.database.map_or(Ok(false), |database| database.place.keep(run))
    }

    fn process(&self) -> MutexGuard<'_, service::Service> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DatabaseBehind {
    fn open(place: RunningServer, runtime: &Runtime) -> Outcome<Self> {
        let facts = runtime.block_on(place.facts()).deserves(Exit::Server)?;
        Ok(Self { place, facts })
    }
}

impl Start<'_> {
    /// Fills the database, or uses a snapshot; returns the message about it.
    fn fill(&self, fill: &Fill, (database, uri): (&DatabaseBehind, &str)) -> Outcome<String> {
        let began = clock::now();
        let done =
            match Snapshot::of(self.spec, fill, &database.place, &database.facts).deserves(Exit::Server)? {
                None => self.fill_anew(fill, uri)?,
                Some(snapshot) => self.fill_once(fill, uri, &snapshot)?,
            };
        let took_s = clock::now().since(began) as f64 / 1e9;
        Ok(format!("{done} {} in {took_s:.1} s", fill.description))
    }

    /// Uses the snapshot, or fills the database and takes the snapshot.
    fn fill_once(&self, fill: &Fill, uri: &str, snapshot: &Snapshot<'_>) -> Outcome<&'static str> {
        if snapshot.restore().deserves(Exit::Server)? {
            self.console.say(&format!("using the snapshot of {}", fill.description));
            return Ok("used the snapshot of");
        }
        let done = self.fill_anew(fill, uri)?;
        self.console.say(&format!("keeping a snapshot of {}", fill.description));
        if let Some(reason) = snapshot.take().deserves(Exit::Server)? {
            self.console.warn(&format!(
                "the next run fills in the data again, because there is no snapshot: {reason}"
            ));
        }
        Ok(done)
    }

    fn fill_anew(&self, fill: &Fill, uri: &str) -> Outcome<&'static str> {
        let filling = Filling { name: &self.spec.name, fill, uri, run: self.run };
        service_program::fill(filling, self.console, self.control)?;
        Ok("filled in")
    }
}

fn options(
    spec: &ServiceSpec,
    uri: Option<&str>,
    settings: &Path,
    run: &Path,
) -> anyhow::Result<service::Options> {
    let program = reexec::program().to_owned();
    let settings = fs::canonicalize(settings).context("find the service's settings")?;
    let server = uri.into_iter().flat_map(|uri| ["--server", uri]);
    let words = ["serve", &spec.name].into_iter().chain(server).chain(["--config"]).map(OsString::from);
    let args = words.chain([settings.into_os_string()]).collect();
    let log = fs::canonicalize(run).context("find the run directory")?;
    Ok(service::Options { program, args, log: log.join(run_dir::SERVICE_LOG) })
}

/// Whether a plan disturbs the network between the load and the service.
pub fn wants_proxy(scenario: &scenario::Scenario) -> bool {
    let faults = scenario.phases.iter().flat_map(|phase| &phase.faults);
    faults.into_iter().any(|fault| fault.victim == scenario::Victim::Service && !fault.inject.needs_process())
}
