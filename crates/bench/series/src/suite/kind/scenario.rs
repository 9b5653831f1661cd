//! Runs a scenario as a test: a child process `plimsoll run`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use plimsoll_deployment::Namespace;
use plimsoll_measure::inspection::Inspection;
use plimsoll_measure::size::Bytes;
use plimsoll_measure::suite;
use plimsoll_mongo::scenario::Existing;

use super::{Ended, Host, Job, Kind, WarmUp, arguments, measured, settled_path};
use crate::dry_run::{self, DryRun};
use crate::isolation::Exclusive;
use crate::progress::{Events, Progress};
use crate::suite::typed::Row;
use plimsoll_run::console::Silent;
use plimsoll_run::options::LoadOptions;
use plimsoll_run::run_dir;
use plimsoll_run::server_provisioning::Choice;
use plimsoll_run::system::{Isolation, Registry, Subject, resolve};
use plimsoll_scenario::Plan;
use plimsoll_scenario::{self as scenario, Loaded, Victim};

/// The executor of every scenario.
const EXECUTOR: &str = "thread-per-worker";
/// The key of a scenario that names its collection.
const COLLECTION: &str = "collection";

/// A test that runs a scenario.
#[derive(Debug)]
pub struct Scenario;

impl Kind for Scenario {
    fn kind(&self) -> suite::Kind {
        suite::Kind::Scenario
    }

    fn named<'a>(&self, row: &'a Row) -> Option<&'a str> {
        row.scenario.as_deref()
    }

    fn settled(&self, row: Row, base: &Path) -> Row {
        Row { scenario: settled_path(row.scenario.as_deref(), base), ..row }
    }

    fn prepare(&self, row: &Row, registry: Registry) -> anyhow::Result<Job> {
        let name = row.scenario.as_deref().unwrap_or_default();
        let Resolved { overrides, loaded, plan, subject } = resolved(name, row, registry)?;
        check_cpus(row, subject.as_ref(), &plan)?;
        let host = host(subject.as_ref(), &loaded, &plan, row)?;
        let job = Job {
            what: loaded.name.clone(),
            hash: loaded.hash(),
            arguments: load(name, &overrides, &host, row),
            warm_up: warm_up(name, &overrides, &host, row, &loaded)?,
            exclusive: exclusive(subject.as_ref(), &loaded, existing(row, &loaded)),
            existing: existing(row, &loaded),
            is_theirs: false,
            cache_bytes: loaded.scenario.cache.map(Bytes::get),
            patience: loaded.scenario.timeout,
            topics: None,
            warnings: subject.warnings(&loaded, &plan),
            awaited: awaited(subject.as_ref()),
            host,
        };
        Ok(job)
    }

    fn dry_run(&self, row: &Row, registry: Registry) -> anyhow::Result<DryRun> {
        let name = row.scenario.as_deref().unwrap_or_default();
        let Resolved { loaded, plan, subject, .. } = resolved(name, row, registry)?;
        dry_run::of(&loaded, &plan, subject.as_ref())
    }

    fn progress(&self, directory: &Path) -> Box<dyn Progress> {
        Box::new(Events::of(directory))
    }

    fn ended(&self, directory: &Path) -> Option<Ended> {
        run_dir::read_run(directory).ok().map(|run| measured::ended(&run))
    }

    fn states(&self, directory: &Path) -> Option<(Inspection, Inspection)> {
        run_dir::read_run(directory).ok().and_then(|run| measured::states(&run))
    }
}

/// The scenario of a row, with its overrides, its plan and its system.
struct Resolved {
    overrides: Vec<String>,
    loaded: Loaded,
    plan: Plan,
    subject: Arc<dyn Subject>,
}

fn resolved(name: &str, row: &Row, registry: Registry) -> anyhow::Result<Resolved> {
    check_columns(row)?;
    let overrides = overrides(name, row)?;
    let loaded = scenario::load(name, &overrides, None)?;
    let plan = Plan::build(&loaded)
        .map_err(|error| loaded.located(error))
        .with_context(|| format!("scenario {name}"))?;
    let options = LoadOptions::on(row.server.clone(), registry, &Silent);
    let subject = resolve(options.registry, &loaded, &plan, options.address())?;
    Ok(Resolved { overrides, loaded, plan, subject })
}

fn check_columns(row: &Row) -> anyhow::Result<()> {
    for (column, is_there) in [("fill", row.fill.is_some()), ("partitions", row.partitions.is_some())] {
        ensure!(!is_there, "{column}: a scenario has no topics: leave it out, or name a pipeline");
    }
    let known = row.executor.as_deref().is_none_or(|executor| executor == EXECUTOR);
    ensure!(
        known,
        "executor {}: a scenario has one OS thread per worker, each with its own runtime and connections; write \
         {EXECUTOR} or leave it out, and set `threads`",
        row.executor.as_deref().unwrap_or_default()
    );
    Ok(())
}

/// The row's overrides of the scenario, then those of its columns.
fn overrides(name: &str, row: &Row) -> anyhow::Result<Vec<String>> {
    let plain = scenario::load(name, &row.overrides, None)?;
    ensure!(
        plain.scenario.matrix.is_none(),
        "{name} is a matrix of runs, but a test is one run: run the matrix with `plimsoll run {name}`, or give one cell of \
         it with overrides and matrix=null"
    );
    let last = plain.scenario.phases.len().saturating_sub(1);
    let mut all = row.overrides.clone();
    all.extend(row.duration.map(|duration| format!("phases.{last}.stop={{duration: {duration}}}")));
    all.extend(row.threads.map(|threads| format!("workers={threads}")));
    all.extend(row.cache.map(|cache| format!("cache={cache}")));
    if let Some(in_flight) = row.in_flight {
        all.push(format!("{}={in_flight}", in_flight_path(&plain, last)?));
    }
    Ok(all)
}

/// The key of the operations in flight of the last phase.
fn in_flight_path(loaded: &Loaded, last: usize) -> anyhow::Result<String> {
    let tree = loaded.tree()?;
    let loads = tree["phases"][last]["load"].as_object().cloned().unwrap_or_default();
    let [(name, load)] = &loads.iter().collect::<Vec<_>>()[..] else {
        bail!(
            "in_flight: the last phase has {} concurrent loads: set it for each with overrides",
            loads.len()
        );
    };
    let arrivals = load["arrivals"].as_object().and_then(|arrivals| arrivals.keys().next());
    let key = match arrivals.map(String::as_str) {
        Some("closed") => "writers",
        Some("constant" | "poisson" | "ramp" | "steps" | "rates") => "connections",
        other => bail!(
            "in_flight: `{}` sets the number of writers itself: change its settings with overrides",
            other.unwrap_or_default()
        ),
    };
    let arrivals = arrivals.map(String::as_str).unwrap_or_default();
    Ok(format!("phases.{last}.load.{name}.arrivals.{arrivals}.{key}"))
}

/// Whether the run has faults of the server's process.
fn needs_process(plan: &Plan) -> bool {
    plan.injections.iter().any(|aimed| aimed.victim == Victim::Server && aimed.fault.needs_process())
}

/// Checks the CPU columns: CPUs can be assigned only if the suite starts the server and the load itself.
fn check_cpus(row: &Row, subject: &dyn Subject, plan: &Plan) -> anyhow::Result<()> {
    let running = |choice: &Choice| match choice {
        Choice::Uri(_) => true,
        Choice::Several(all) => all.iter().all(|one| matches!(one, Choice::Uri(_))),
        _ => false,
    };
    let (is_running, is_suites) = match (subject.isolation(), subject.server()) {
        (Isolation::Collection, Some(choice)) => {
            (running(choice), !matches!(choice, Choice::Several(_)) && !needs_process(plan))
        }
        (Isolation::Shared, _) => (true, false),
        _ => (false, false),
    };
    ensure!(
        row.server_cpus.is_none() || !is_running,
        "server_cpus: a running server cannot be pinned to CPUs; leave it out, or use server embedded"
    );
    ensure!(
        is_running || is_suites || (row.server_cpus.is_none() && row.client_cpus.is_none()),
        "client_cpus and server_cpus: here the run itself starts its server, so both would have the same CPUs; leave them \
         out"
    );
    Ok(())
}

fn host(subject: &dyn Subject, loaded: &Loaded, plan: &Plan, row: &Row) -> anyhow::Result<Host> {
    match subject.server().filter(|_| subject.isolation() == Isolation::Collection) {
        Some(choice) if !matches!(choice, Choice::Several(_)) && !needs_process(plan) => {
            let namespace = loaded.scenario.collection.parse::<Namespace>()?;
            Ok(Host::Suite(choice.clone(), namespace))
        }
        _ => Ok(Host::Run(row.server.clone())),
    }
}

/// The URIs of the running servers of a run.
fn awaited(subject: &dyn Subject) -> Vec<String> {
    subject.server().into_iter().flat_map(Choice::uris).map(str::to_owned).collect()
}

fn existing(row: &Row, loaded: &Loaded) -> Existing {
    row.existing.map_or(loaded.scenario.existing, Existing::from)
}

/// The exclusive data of each run. A rule that drops or keeps documents needs the named collection. Otherwise each run gets
/// its own collection on a running server.
fn exclusive(subject: &dyn Subject, loaded: &Loaded, rule: Existing) -> Exclusive {
    let exclusive = Exclusive::of(subject, loaded);
    let is_own = rule == Existing::Refuse && matches!(exclusive, Exclusive::NumberedCollection(_));
    if is_own { exclusive } else { Exclusive::Nothing }
}

fn load(name: &str, overrides: &[String], host: &Host, row: &Row) -> Vec<String> {
    let mut sets: Vec<String> = overrides.to_vec();
    match (host, row.existing) {
        // The suite started the server with its cache, and has emptied the collection.
        (Host::Suite(..), _) => sets.push("cache=null".to_owned()),
        (Host::Run(_), Some(existing)) => sets.push(format!("existing={}", existing.name())),
        (Host::Run(_), None) => {}
    }
    arguments(&["run", name], &sets)
}

/// The same load for a short time in every phase, without expectations.
fn warm_up(
    name: &str,
    overrides: &[String],
    host: &Host,
    row: &Row,
    loaded: &Loaded,
) -> anyhow::Result<Option<WarmUp>> {
    let Some(time) = row.warm_up.filter(|time| time.as_ns() > 0) else { return Ok(None) };
    ensure!(
        matches!(host, Host::Suite(..)),
        "warm_up: the run starts its own server, so a warm-up would have no effect; leave it out"
    );
    let mut sets = overrides.to_vec();
    let phases = 0..loaded.scenario.phases.len();
    sets.extend(phases.map(|index| format!("phases.{index}.stop={{duration: {time}}}")));
    sets.extend(["existing=refuse", "expect={}", "cache=null"].map(str::to_owned));
    let warm = scenario::load(name, &sets, None).context("warm_up")?;
    Plan::build(&warm).context("warm_up: leave it out, or give it 0s")?;
    Ok(Some(WarmUp {
        arguments: arguments(&["run", name, "--as-warm-up"], &sets),
        collection: Some(COLLECTION),
        topics: Vec::new(),
    }))
}
