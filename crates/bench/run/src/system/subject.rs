//! Which system the words and the scenario name, and how it is opened.

use anyhow::{bail, ensure};
use plimsoll_load::worker::Control;
use tokio::runtime::Runtime;

use super::{
    Database, Ground, Service, Staged, Start, System, compile, compile_requests, service, wants_proxy,
};
use crate::check;
use crate::exit::Outcome;
use crate::fill;
use crate::options::LoadOptions;
use crate::run_dir::RunDir;
use crate::server_provisioning::{Choice, Manner, Place};
use plimsoll_scenario::Plan;
use plimsoll_scenario::secret::without_password;
use plimsoll_scenario::{Loaded, Staging, Victim};

/// A system, as meant.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A database.
    Database(Choice),
    /// A service that is there, at its URL.
    Service(String),
    /// A service that is started on a database.
    Staged(Box<Staging>, Choice),
}

impl Subject {
    /// What a scenario and the words of the command line name, with everything checked that can be before a server is even
    /// looked for.
    ///
    /// # Errors
    /// When they contradict each other, or ask of the system what it cannot do.
    pub fn of(loaded: &Loaded, plan: &Plan, options: &LoadOptions) -> anyhow::Result<Self> {
        let scenario = &loaded.scenario;
        let subject = match (&scenario.http, &scenario.service) {
            (None, None) => Self::Database(check::choose(options, scenario)?),
            (None, Some(_)) => {
                bail!("service: a scenario that starts a service sends requests to it: add `http: {{}}`")
            }
            (Some(section), Some(_)) if !section.url.is_empty() => {
                bail!(
                    "http.url: the service that is started has an address of its own; leave out `url`, or `service`"
                )
            }
            (Some(_), Some(staging)) => {
                let staging = staging.clone().rooted(&loaded.base);
                Self::Staged(Box::new(staging), check::choose(options, scenario)?)
            }
            (Some(section), None) => Self::Service(url(&section.url, options)?),
        };
        subject.check(loaded, plan)?;
        Ok(subject)
    }

    /// The same, its service in another database where it starts one.
    #[must_use]
    pub fn on_database(self, name: &str) -> Self {
        match self {
            Self::Staged(staging, choice) => Self::Staged(Box::new(staging.on(name)), choice),
            other => other,
        }
    }

    fn check(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<()> {
        match self {
            Self::Database(choice) => {
                compile(loaded, plan, plimsoll_ledger::Run { time_s: 0, tag: [0; 3] })?;
                let to_service = plan.injections.iter().any(|aimed| aimed.victim == Victim::Service);
                ensure!(!to_service, "faults: victim: service: this scenario starts no service");
                check::faults(plan, choice)?;
                check::several(&loaded.scenario, plan, choice)?;
                check::cache(&loaded.scenario, choice)
            }
            Self::Service(url) => {
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
                compile_requests(loaded, plan, 0, Some(url)).map(drop)
            }
            Self::Staged(staging, choice) => {
                ensure!(
                    !matches!(choice, Choice::Several(_)),
                    "service: it is started on one database; name one with --server"
                );
                service::check(&loaded.scenario, plan)?;
                check::faults(plan, choice)?;
                check::cache(&loaded.scenario, choice)?;
                fill::check(staging)?;
                compile_requests(loaded, plan, 0, Some("http://127.0.0.1:1")).map(drop)
            }
        }
    }

    /// Finds or starts the system.
    ///
    /// # Errors
    /// What cannot be reached or started.
    pub fn open(
        &self,
        ground: Ground<'_>,
        dir: &RunDir,
        manner: Manner,
        control: &Control,
        runtime: Runtime,
    ) -> Outcome<Box<dyn System>> {
        match self {
            Self::Database(choice) => {
                let place = place(ground, choice, manner, &runtime)?;
                Ok(Box::new(Database::open(ground, place, runtime)?))
            }
            Self::Service(url) => Ok(Box::new(Service::open(ground, Some(url), None, runtime)?)),
            Self::Staged(staging, choice) => {
                let place = place(ground, choice, manner, &runtime)?;
                let scenario = &ground.loaded.scenario;
                let start = Start {
                    staging,
                    run: dir.path(),
                    seed: scenario.seed,
                    console: manner.console,
                    wants_proxy: wants_proxy(scenario),
                    control,
                };
                let staged = Staged::start(start, place, &runtime)?;
                Ok(Box::new(Service::open(ground, None, Some(staged), runtime)?))
            }
        }
    }
}

fn place(ground: Ground<'_>, choice: &Choice, manner: Manner, runtime: &Runtime) -> Outcome<Place> {
    let mut place = Place::open(choice, manner, runtime)?;
    check::put_proxies(&mut place, ground.loaded, ground.plan)?;
    Ok(place)
}

/// The command line's URL, or else the scenario's.
fn url(typed: &str, options: &LoadOptions) -> anyhow::Result<String> {
    ensure!(
        options.hosts.is_empty() && options.count == 1,
        "--hosts and --count are for databases, and this scenario loads a service"
    );
    let url = options.server.as_deref().unwrap_or(typed);
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
