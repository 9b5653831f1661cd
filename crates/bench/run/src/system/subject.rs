//! Resolves the system that a scenario and the options name, before it is found or started.

use std::fmt::Debug;
use std::sync::Arc;

use anyhow::{bail, ensure};
use plimsoll_load::worker::Control;
use plimsoll_mongo::setup::Setup;
use plimsoll_scenario::secret::without_password;
use plimsoll_scenario::{Loaded, Plan, Staging, Victim};
use tokio::runtime::Runtime;

use super::{
    Database, Ground, Service, Staged, Start, System, compile, compile_requests, service, wants_proxy,
};
use crate::check;
use crate::exit::Outcome;
use crate::fill;
use crate::run_dir::RunDir;
use crate::server_provisioning::{Choice, Manner, Place, ServerAddress, canonical_address};

/// The run that stands for any when documents and commands are compiled only to be checked.
const ANY_RUN: plimsoll_ledger::Run = plimsoll_ledger::Run { time_s: 0, tag: [0; 3] };

/// A kind of system that scenarios can load. The binary's registry lists them.
pub trait Kind: Debug + Sync {
    /// The subject, if the scenario is of this kind.
    ///
    /// # Errors
    /// When the scenario and the address contradict each other.
    fn resolve(
        &self,
        loaded: &Loaded,
        address: ServerAddress<'_>,
    ) -> anyhow::Result<Option<Arc<dyn Subject>>>;
}

/// The kinds of systems of a program.
pub type Registry = &'static [&'static dyn Kind];

/// A system as a scenario and the options name it: resolved, neither found nor started.
pub trait Subject: Debug {
    /// Checks everything that can be checked before a server is contacted.
    ///
    /// # Errors
    /// The first thing that this system cannot do.
    fn check(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<()>;

    /// Finds or starts the system.
    ///
    /// # Errors
    /// When it cannot be reached or started.
    fn open(
        &self,
        ground: Ground<'_>,
        dir: &RunDir,
        manner: Manner,
        control: &Control,
        runtime: Runtime,
    ) -> Outcome<Box<dyn System>>;

    /// The database server that takes the load, or that stands behind a service which the run starts.
    fn server(&self) -> Option<&Choice>;

    /// How the runs of a series are kept apart on this system.
    fn isolation(&self) -> Isolation;

    /// What a run takes besides the operations that it sends.
    ///
    /// # Errors
    /// When its documents cannot be compiled.
    fn estimate(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<Estimate>;

    /// The same system with another database behind it, where it has one of its own.
    fn on_database(&self, name: &str) -> Option<Arc<dyn Subject>>;

    /// A text that is equal for two names of one system.
    fn canonical(&self) -> String;
}

/// How the runs of a series are kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each run has a collection of its own on the database.
    Collection,
    /// Nothing is kept apart: a running service keeps what each run leaves.
    Shared,
    /// Each run starts its own server and service.
    Fresh,
    /// Each run starts its own service, with its own database on a running server.
    Database {
        /// Where the scenario names the database.
        path: String,
        /// The name in the scenario.
        name: String,
    },
}

/// What a run takes besides the operations that it sends.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// The compiled documents, where they are read back after the load.
    pub audited: Option<Arc<Setup>>,
    /// The fill of a service that the run starts.
    pub fill: Option<Fill>,
}

/// What a service holds before the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Readings, activities and the like.
    pub documents: u64,
    /// Writes that storing them takes at most.
    pub writes: u64,
}

/// The checked subject of a scenario.
///
/// # Errors
/// When the scenario and the address contradict each other, or ask for something that the system cannot do.
pub fn resolve(
    registry: Registry,
    loaded: &Loaded,
    plan: &Plan,
    address: ServerAddress<'_>,
) -> anyhow::Result<Arc<dyn Subject>> {
    for kind in registry {
        if let Some(subject) = kind.resolve(loaded, address)? {
            subject.check(loaded, plan)?;
            return Ok(subject);
        }
    }
    bail!("this program knows no system for this scenario")
}

/// Scenarios that load a database.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseKind;

impl Kind for DatabaseKind {
    fn resolve(
        &self,
        loaded: &Loaded,
        address: ServerAddress<'_>,
    ) -> anyhow::Result<Option<Arc<dyn Subject>>> {
        let scenario = &loaded.scenario;
        if scenario.http.is_some() {
            return Ok(None);
        }
        ensure!(
            scenario.service.is_none(),
            "service: a scenario that starts a service sends requests to it: add `http: {{}}`"
        );
        Ok(Some(Arc::new(DatabaseAt(check::choose(address, scenario)?))))
    }
}

/// A database.
#[derive(Clone, Debug)]
pub struct DatabaseAt(pub Choice);

impl Subject for DatabaseAt {
    fn check(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<()> {
        compile(loaded, plan, ANY_RUN)?;
        let to_service = plan.injections.iter().any(|aimed| aimed.victim == Victim::Service);
        ensure!(!to_service, "faults: victim: service: this scenario starts no service");
        check::faults(plan, &self.0)?;
        check::several(&loaded.scenario, plan, &self.0)?;
        check::cache(&loaded.scenario, &self.0)
    }

    fn open(
        &self,
        ground: Ground<'_>,
        _: &RunDir,
        manner: Manner,
        _: &Control,
        runtime: Runtime,
    ) -> Outcome<Box<dyn System>> {
        let place = place(ground, &self.0, manner, &runtime)?;
        Ok(Box::new(Database::open(ground, place, runtime)?))
    }

    fn server(&self) -> Option<&Choice> {
        Some(&self.0)
    }

    fn isolation(&self) -> Isolation {
        Isolation::Collection
    }

    fn estimate(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<Estimate> {
        Ok(Estimate { audited: Some(Arc::new(compile(loaded, plan, ANY_RUN)?)), fill: None })
    }

    fn on_database(&self, _: &str) -> Option<Arc<dyn Subject>> {
        None
    }

    fn canonical(&self) -> String {
        format!("{:?}", self.0.canonical())
    }
}

/// Scenarios that load a service over HTTP.
#[derive(Clone, Copy, Debug)]
pub struct ServiceKind;

impl Kind for ServiceKind {
    fn resolve(
        &self,
        loaded: &Loaded,
        address: ServerAddress<'_>,
    ) -> anyhow::Result<Option<Arc<dyn Subject>>> {
        let scenario = &loaded.scenario;
        let Some(section) = &scenario.http else { return Ok(None) };
        let Some(staging) = &scenario.service else {
            return Ok(Some(Arc::new(RunningService(url(&section.url, address)?))));
        };
        ensure!(
            section.url.is_empty(),
            "http.url: the service that is started has an address of its own; leave out `url`, or `service`"
        );
        let staging = staging.clone().rooted(&loaded.base);
        Ok(Some(Arc::new(ManagedService { staging, server: check::choose(address, scenario)? })))
    }
}

/// A running service, by its URL.
#[derive(Clone, Debug)]
pub struct RunningService(pub String);

impl Subject for RunningService {
    fn check(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<()> {
        service::check(&loaded.scenario, plan)?;
        ensure!(
            loaded.scenario.cache.is_none(),
            "cache: it is of a server that Plimsoll starts, and this scenario starts none"
        );
        ensure!(
            plan.injections.is_empty(),
            "faults: they are done to a service or a database that Plimsoll started; let the scenario start one with \
             `service:`"
        );
        compile_requests(loaded, plan, 0, Some(&self.0)).map(drop)
    }

    fn open(
        &self,
        ground: Ground<'_>,
        _: &RunDir,
        _: Manner,
        _: &Control,
        runtime: Runtime,
    ) -> Outcome<Box<dyn System>> {
        Ok(Box::new(Service::open(ground, Some(&self.0), None, runtime)?))
    }

    fn server(&self) -> Option<&Choice> {
        None
    }

    fn isolation(&self) -> Isolation {
        Isolation::Shared
    }

    fn estimate(&self, _: &Loaded, _: &Plan) -> anyhow::Result<Estimate> {
        Ok(Estimate::default())
    }

    fn on_database(&self, _: &str) -> Option<Arc<dyn Subject>> {
        None
    }

    fn canonical(&self) -> String {
        canonical_address(&self.0)
    }
}

/// A service that the run starts on a database and fills.
#[derive(Clone, Debug)]
pub struct ManagedService {
    /// The service, its settings and its fill.
    pub staging: Staging,
    /// The server of its database.
    pub server: Choice,
}

impl Subject for ManagedService {
    fn check(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<()> {
        ensure!(
            !matches!(self.server, Choice::Several(_)),
            "service: it is started on one database; name one with --server"
        );
        service::check(&loaded.scenario, plan)?;
        check::faults(plan, &self.server)?;
        check::cache(&loaded.scenario, &self.server)?;
        fill::check(&self.staging)?;
        compile_requests(loaded, plan, 0, Some("http://127.0.0.1:1")).map(drop)
    }

    fn open(
        &self,
        ground: Ground<'_>,
        dir: &RunDir,
        manner: Manner,
        control: &Control,
        runtime: Runtime,
    ) -> Outcome<Box<dyn System>> {
        let place = place(ground, &self.server, manner, &runtime)?;
        let scenario = &ground.loaded.scenario;
        let start = Start {
            staging: &self.staging,
            run: dir.path(),
            seed: scenario.seed,
            console: manner.console,
            wants_proxy: wants_proxy(scenario),
            control,
        };
        let staged = Staged::start(start, place, &runtime)?;
        Ok(Box::new(Service::open(ground, None, Some(staged), runtime)?))
    }

    fn server(&self) -> Option<&Choice> {
        Some(&self.server)
    }

    fn isolation(&self) -> Isolation {
        if !matches!(self.server, Choice::Uri(_)) {
            return Isolation::Fresh;
        }
        let (path, name) = (self.staging.database_path().to_owned(), self.staging.database().to_owned());
        Isolation::Database { path, name }
    }

    fn estimate(&self, _: &Loaded, _: &Plan) -> anyhow::Result<Estimate> {
        let fill = Fill { documents: self.staging.filled(), writes: self.staging.writes() };
        Ok(Estimate { audited: None, fill: Some(fill) })
    }

    fn on_database(&self, name: &str) -> Option<Arc<dyn Subject>> {
        Some(Arc::new(Self { staging: self.staging.clone().on(name), server: self.server.clone() }))
    }

    fn canonical(&self) -> String {
        format!("{:?} on {:?}", self.staging, self.server.canonical())
    }
}

fn place(ground: Ground<'_>, choice: &Choice, manner: Manner, runtime: &Runtime) -> Outcome<Place> {
    let mut place = Place::open(choice, manner, runtime)?;
    check::put_proxies(&mut place, ground.loaded, ground.plan)?;
    Ok(place)
}

/// The command line's URL, or else the scenario's.
fn url(typed: &str, address: ServerAddress<'_>) -> anyhow::Result<String> {
    ensure!(
        address.hosts.is_empty() && address.count == 1,
        "--hosts and --count are for databases, and this scenario loads a service"
    );
    let url = address.server.unwrap_or(typed);
    ensure!(
        url.is_empty() || url.contains("://"),
        "{}: the URL of a service begins with http:// or https://; a database has no place in a scenario that sends requests",
        without_password(url)
    );
    ensure!(
        url.starts_with("http://") || url.starts_with("https://"),
        "http.url: say where the service is, such as --server http://127.0.0.1:8080, or let the scenario start one with `service:`"
    );
    Ok(url.to_owned())
}
