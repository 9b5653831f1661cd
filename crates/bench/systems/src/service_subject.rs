//! Resolves the service that a scenario loads: a running one, or one that the run starts.

use std::sync::Arc;

use anyhow::{bail, ensure};
use plimsoll_deployment::pool_warnings;
use plimsoll_load::worker::Control;
use plimsoll_run::exit::Outcome;
use plimsoll_run::run_dir::RunDir;
use plimsoll_run::server_provisioning::{Choice, ServerAddress, StartOptions, canonical_address};
use plimsoll_run::system::{Estimate, Isolation, Kind, RunContext, Subject, System};
use plimsoll_scenario::secret::without_password;
use plimsoll_scenario::{Loaded, Plan, ServiceSpec, Victim};
use tokio::runtime::Runtime;

use crate::check;
use crate::managed_service::{Start, StartedService, wants_proxy};
use crate::service::{self, Address, Destination, Service, compile};
use crate::service_kind::{self, FillMoment, ServiceKind, Services};
use crate::service_program;

/// Scenarios that load a service over HTTP: a running one, or one of the listed kinds that the run starts.
#[derive(Clone, Copy, Debug)]
pub struct HttpKind(pub Services);

impl Kind for HttpKind {
    fn resolve(
        &self,
        loaded: &Loaded,
        address: ServerAddress<'_>,
    ) -> anyhow::Result<Option<Arc<dyn Subject>>> {
        let scenario = &loaded.scenario;
        let Some(section) = &scenario.http else { return Ok(None) };
        let Some(spec) = &scenario.service else {
            let url = url(&section.url, address)?;
            return Ok(Some(Arc::new(RunningService { url, services: self.0 })));
        };
        ensure!(
            section.url.is_empty(),
            "http.url: the run starts the service on a free port, so it needs no URL: remove `url`, or remove `service`"
        );
        let kind = service_kind::find(self.0, &spec.name)?;
        let server = kind.has_database().then(|| check::choose(address, scenario)).transpose()?;
        let spec = spec.clone().rooted(&loaded.base);
        Ok(Some(Arc::new(ManagedService { kind, spec, server, services: self.0 })))
    }
}

/// A running service, by its URL.
#[derive(Clone, Debug)]
pub struct RunningService {
    /// Its URL.
    pub url: String,
    /// The services whose workloads requests may name.
    pub services: Services,
}

impl Subject for RunningService {
    fn check(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<()> {
        service::check(&loaded.scenario, plan)?;
        ensure!(
            loaded.scenario.cache.is_none(),
            "cache: needs a server that Plimsoll starts; this scenario starts none"
        );
        ensure!(
            plan.injections.is_empty(),
            "faults: need a service or a database that Plimsoll started; let the scenario start one with \
             `service:`"
        );
        let to = Destination { url: &self.url, start_ms: 0, services: self.services };
        compile(loaded, plan, to).map(drop)
    }

    fn open(
        &self,
        context: RunContext<'_>,
        _: &RunDir,
        _: StartOptions,
        _: &Control,
        runtime: Runtime,
    ) -> Outcome<Box<dyn System>> {
        Ok(Box::new(Service::open(context, Address::Running(self.url.clone()), self.services, runtime)?))
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
        canonical_address(&self.url)
    }
}

/// A service that the run starts on a database and fills.
#[derive(Clone, Debug)]
pub struct ManagedService {
    /// Its kind.
    pub kind: &'static dyn ServiceKind,
    /// Its settings and its fill.
    pub spec: ServiceSpec,
    /// The server of its database, if it has one.
    pub server: Option<Choice>,
    /// The services whose workloads requests may name.
    pub services: Services,
}

impl Subject for ManagedService {
    fn check(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<()> {
        service::check(&loaded.scenario, plan)?;
        match &self.server {
            Some(Choice::Several(_)) => {
                bail!("service: it is started on one database; name one with --server")
            }
            Some(server) => {
                check::faults(plan, server)?;
                check::cache(&loaded.scenario, server)?;
                check::for_service(server)?;
            }
            None => check_without_database(loaded, plan)?,
        }
        service_program::check(&self.spec)?;
        self.kind.fill(&self.spec, FillMoment::default())?;
        let to = Destination { url: "http://127.0.0.1:1", start_ms: 0, services: self.services };
        compile(loaded, plan, to).map(drop)
    }

    fn open(
        &self,
        context: RunContext<'_>,
        dir: &RunDir,
        start: StartOptions,
        control: &Control,
        runtime: Runtime,
    ) -> Outcome<Box<dyn System>> {
        self.unused_options().iter().for_each(|warning| start.console.warn(warning));
        let place = self
            .server
            .as_ref()
            .map(|server| check::open_place(context, server, start, &runtime))
            .transpose()?;
        let scenario = &context.loaded.scenario;
        let start = Start {
            kind: self.kind,
            spec: &self.spec,
            run: dir.path(),
            seed: scenario.seed,
            console: start.console,
            wants_proxy: wants_proxy(scenario),
            control,
        };
        let started = StartedService::start(start, place, &runtime)?;
        Ok(Box::new(Service::open(context, Address::Started(Box::new(started)), self.services, runtime)?))
    }

    fn server(&self) -> Option<&Choice> {
        self.server.as_ref()
    }

    fn warnings(&self, _: &Loaded, _: &Plan) -> Vec<String> {
        let unknown = self.server.iter().flat_map(Choice::warnings);
        unknown.chain(self.unused_options()).collect()
    }

    fn isolation(&self) -> Isolation {
        match &self.server {
            Some(Choice::Uri(_)) => {
                Isolation::Database { path: self.spec.database_path(), name: self.spec.database().to_owned() }
            }
            _ => Isolation::Fresh,
        }
    }

    fn estimate(&self, _: &Loaded, _: &Plan) -> anyhow::Result<Estimate> {
        Ok(Estimate { audited: None, fill: self.kind.fill(&self.spec, FillMoment::default())? })
    }

    fn on_database(&self, name: &str) -> Option<Arc<dyn Subject>> {
        let spec = self.spec.with_database(name).ok()?;
        Some(Arc::new(Self { spec, ..self.clone() }))
    }

    fn canonical(&self) -> String {
        let server = self.server.as_ref().map(Choice::canonical);
        format!("{:?} on {server:?}", self.spec)
    }
}

impl ManagedService {
    /// One sentence for each option of a pool in the database's address: neither the run nor the service has a pool.
    fn unused_options(&self) -> Vec<String> {
        self.server.iter().flat_map(Choice::uris).flat_map(pool_warnings).collect()
    }
}

/// Refuses scenario keys for a database if the service has none.
fn check_without_database(loaded: &Loaded, plan: &Plan) -> anyhow::Result<()> {
    ensure!(loaded.scenario.cache.is_none(), "cache: this service has no database server");
    let to_server = plan.injections.iter().any(|aimed| aimed.victim == Victim::Server);
    ensure!(!to_server, "faults: this service has no database server; use `victim: service`");
    Ok(())
}

/// The URL from the command line, or else from the scenario.
fn url(typed: &str, address: ServerAddress<'_>) -> anyhow::Result<String> {
    ensure!(
        address.hosts.is_empty() && address.count == 1,
        "--hosts and --count are for databases, and this scenario loads a service"
    );
    let url = address.server.unwrap_or(typed);
    ensure!(
        url.is_empty() || url.contains("://"),
        "{}: the URL of a service begins with http:// or https://; this scenario cannot load a database",
        without_password(url)
    );
    ensure!(
        url.starts_with("http://") || url.starts_with("https://"),
        "http.url: name the address of the service, such as --server http://127.0.0.1:8080, or let the scenario start one with `service:`"
    );
    Ok(url.to_owned())
}
