//! What `run` and `line` do before and after the load.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use plimsoll_load::retry::Retry;
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::clock;
use plimsoll_measure::event::Event;
use plimsoll_measure::line::Line;
use plimsoll_measure::run::Run;
use plimsoll_measure::size::Bytes;
use plimsoll_mongo::audit::Listener;
use plimsoll_mongo::scenario::Client;
use plimsoll_mongo::setup::Setup;
use plimsoll_mongo::sharding;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::audit::{Subject, audit};
use crate::cli::LoadArgs;
use crate::conclude::{conclude, exit};
use crate::exit::{Deserves, Exit, Outcome};
use crate::injection::Owned;
use crate::place::{Choice, Manner, Place, choice};
use crate::plan::{self, Plan};
use crate::run_dir::{self, RunDir};
use crate::scenario;
use crate::session::{Opening, Session};
use crate::terminal::{Terminal, print, say, style};

/// Reads the words, finds the server and opens a session.
///
/// # Errors
/// What cannot be meant, reached or begun.
pub fn open(name: &str, args: &LoadArgs) -> Outcome<Session> {
    let shard = plan::shard(&args.shard).deserves(Exit::Usage)?;
    let loaded = scenario::load(name, &args.overrides, args.seed).deserves(Exit::Usage)?;
    check_single(name, &loaded.scenario).deserves(Exit::Usage)?;
    let plan = Plan::build(&loaded).with_context(|| format!("scenario {name}")).deserves(Exit::Usage)?;
    let choice = choose(args, &loaded.scenario).deserves(Exit::Usage)?;
    setup(&loaded, &plan).deserves(Exit::Usage)?;
    check_faults(&plan, &choice).deserves(Exit::Usage)?;
    check_several(&loaded.scenario, &plan, &choice).deserves(Exit::Usage)?;
    check_cache(&loaded.scenario, &choice).deserves(Exit::Usage)?;
    let control = Control::listening(signals().context("listen to signals")?);
    let runtime = runtime()?;
    let started_ms = clock::wall_ms();
    let dir = RunDir::create(args.out.as_deref(), &loaded.name, started_ms).deserves(Exit::Failed)?;
    let path = dir.path().to_owned();
    let quiet = args.quiet || args.json;
    let begin = || {
        let timeout = Duration::from_nanos(loaded.scenario.timeout.as_ns());
        let cache_bytes = loaded.scenario.cache.map(Bytes::get);
        let mut place = Place::open(&choice, Manner { timeout, quiet, cache_bytes }, &runtime)?;
        put_proxies(&mut place, &loaded, &plan)?;
        let terminal = (!quiet).then(Terminal::new);
        Session::open(Opening { loaded, place, dir, terminal, control, shard, started_ms }, plan, runtime)
    };
    begin().inspect_err(|_| run_dir::abandon(&path))
}

/// Puts proxies between the load and the servers if the plan disturbs the network.
///
/// # Errors
/// When they cannot be put there.
pub fn put_proxies(place: &mut Place, loaded: &scenario::Loaded, plan: &Plan) -> Outcome<()> {
    if plan.injections.iter().any(|aimed| !aimed.fault.needs_process()) {
        let open = place.all().all(|place| place.site.is_open());
        if loaded.scenario.client == Client::Driver && !open {
            let error = anyhow::anyhow!(
                "faults: the official driver cannot be led through a proxy with a user; use client: lean"
            );
            return Err(error).deserves(Exit::Usage);
        }
        place.put_proxies(loaded.scenario.seed)?;
    }
    Ok(())
}

/// A runtime for everything that waits outside the load.
///
/// # Errors
/// When the system has no descriptor left.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")
}

/// A matrix is many scenarios, of which a search takes one.
fn check_single(name: &str, scenario: &scenario::Scenario) -> anyhow::Result<()> {
    anyhow::ensure!(
        scenario.matrix.is_none(),
        "{name} is a matrix of runs, and this is done with one scenario: make the matrix with `plimsoll run \
         {name}`, then go on with the scenario.yaml in the run directory of the cell that matters"
    );
    Ok(())
}

/// Compiles the documents once before a server is even looked for, so that a slip costs no waiting.
///
/// # Errors
/// What cannot be meant.
pub fn setup(loaded: &scenario::Loaded, plan: &Plan) -> anyhow::Result<Setup> {
    let run = plimsoll_ledger::Run { time_s: 0, tag: [0; 3] };
    let context = plimsoll_mongo::setup::Context { seed: loaded.scenario.seed, run, base: &loaded.base };
    let setup = Setup::build(&loaded.scenario.section(), &plan.operations, context)?;
    if let Some(typed) = &loaded.scenario.shard {
        sharding::Plan::build(typed, &setup, plan.documents(), context)?;
    }
    Ok(setup)
}

/// What is done to a process needs one that is ours.
///
/// # Errors
/// When there is none, or a fault is aimed at one that is not there.
pub fn check_faults(plan: &Plan, choice: &Choice) -> anyhow::Result<()> {
    let hard = plan.injections.iter().find(|aimed| aimed.fault.needs_process());
    let servers =
        if let Choice::Several(servers) = choice { &servers[..] } else { std::slice::from_ref(choice) };
    if let Some(aimed) = plan.injections.iter().find(|aimed| aimed.server >= servers.len()) {
        anyhow::bail!(
            "faults: `{}` is aimed at server {}, and there are {}, counted from 0",
            aimed.fault.name(),
            aimed.server,
            servers.len()
        );
    }
    match (hard, &servers[hard.map_or(0, |aimed| aimed.server)]) {
        (Some(aimed), Choice::Uri(_)) => anyhow::bail!(
            "faults: `{}` is done to a server that Plimsoll started and can start again; use --server embedded or \
             --server mongod, or faults of the network",
            aimed.fault.name()
        ),
        _ => Ok(()),
    }
}

/// Only a server that we start has the cache that we say.
///
/// # Errors
/// When one is not ours to start.
pub fn check_cache(scenario: &scenario::Scenario, choice: &Choice) -> anyhow::Result<()> {
    let servers =
        if let Choice::Several(servers) = choice { &servers[..] } else { std::slice::from_ref(choice) };
    let given = servers.iter().any(|server| matches!(server, Choice::Uri(_)));
    anyhow::ensure!(
        scenario.cache.is_none() || !given,
        "cache: the cache of a server that is running cannot be set; leave it out (--set cache=null), or use --server embedded"
    );
    Ok(())
}

/// The servers that the command line names, or else the scenario.
///
/// # Errors
/// When the words contradict each other, or name no server.
pub fn choose(args: &LoadArgs, scenario: &scenario::Scenario) -> anyhow::Result<Choice> {
    if args.server.is_some() || !args.hosts.is_empty() {
        return choice(args.server.as_deref(), &args.hosts, args.count);
    }
    choice(scenario.server.as_deref(), &scenario.servers, args.count)
}

/// What several servers that know nothing of each other cannot do.
///
/// # Errors
/// What the scenario asks of them.
pub fn check_several(scenario: &scenario::Scenario, plan: &Plan, choice: &Choice) -> anyhow::Result<()> {
    if !matches!(choice, Choice::Several(_)) {
        return Ok(());
    }
    if scenario.client == Client::Driver {
        anyhow::bail!("client: the official driver is not spread over several servers; use client: lean");
    }
    if scenario.retry != Retry::None {
        anyhow::bail!("retry: a second attempt would go to another of several servers; use retry: none");
    }
    match plan.operations.iter().find(|(_, operation)| operation.needs_receipts()) {
        Some((name, _)) => anyhow::bail!(
            "operation `{name}` names documents by receipt, and several servers do not know which of them has one; give a \
             filter, or one server"
        ),
        None => Ok(()),
    }
}

/// The first Ctrl-C or SIGTERM sets the flag; the second ends the program at once. Servers that we started end with us.
///
/// # Errors
/// When the system does not let us listen.
pub fn signals() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(Exit::Interrupted.code()),
            flag.clone(),
        )?;
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(flag)
}

/// Phases before the last one prepare the ground and run as they are.
///
/// # Errors
/// When one cannot be run at all.
pub fn prepare(session: &mut Session) -> Outcome<()> {
    let phases = session.plan.phases.clone();
    for phase in phases.iter().rev().skip(1).rev() {
        if !session.is_over() {
            session.run(phase, |_| ())?;
        }
    }
    session.make_indexes(phases.len().saturating_sub(1))
}

/// Audits, sums up, writes everything down and says it.
///
/// # Errors
/// When the disk refuses.
pub fn close(session: Session, args: &LoadArgs, command: &str, line: Option<Line>) -> Outcome<Exit> {
    let Closed { run, exit, path, place } = finish(session, command, line)?;
    let shown = path.display().to_string();
    tell(&run, args, &shown)?;
    if args.keep && keep(place, &path)? && !args.quiet && !args.json {
        say(&format!("The server's storage is kept: plimsoll audit {shown}"));
    }
    Ok(exit)
}

/// A run that is over.
#[derive(Debug)]
pub struct Closed {
    /// Its summary.
    pub run: Run,
    /// The exit code that it deserves.
    pub exit: Exit,
    /// Its directory.
    pub path: PathBuf,
    /// Where it was made.
    pub place: Place,
}

/// Audits, sums up and writes everything down.
///
/// # Errors
/// When the disk refuses.
pub fn finish(mut session: Session, command: &str, line: Option<Line>) -> Outcome<Closed> {
    let promised = session.close_books();
    if let Some(error) = session.disk.take() {
        return Err(error.into());
    }
    let promised = promised?;
    let integrity = read_back(&mut session, &promised.ledger, &promised.touched);
    session.collection_after = session.inspect();
    let run = conclude(&session, command, Some(integrity), line);
    let exit = exit(&run, &session);
    let Session { dir, place, terminal, .. } = session;
    if let Some(mut terminal) = terminal {
        terminal.on(&Event::Finished(Box::new(run.clone())));
    }
    let path = dir.finish(&run)?;
    Ok(Closed { run, exit, path, place })
}

/// Moves the storage of every server that we started into the run directory; says whether there was any.
///
/// # Errors
/// When it cannot be moved.
pub fn keep(place: Place, path: &Path) -> anyhow::Result<bool> {
    let Place { server, others, .. } = place;
    let servers = std::iter::once(server).chain(others.into_iter().map(|other| other.server));
    let mut kept = false;
    for (index, server) in servers.flatten().filter_map(Owned::into_server).enumerate() {
        server.keep_storage(&run_dir::storage(path, index)).context("keep the server's storage")?;
        kept = true;
    }
    Ok(kept)
}

/// A server that was given up already is not waited for once more.
fn patience(session: &Session) -> Duration {
    let given_up = session.ended == Ended::Unreachable || session.control.is_stopped();
    let limit = session.loaded.scenario.unreachable_for;
    if given_up { Duration::ZERO } else { Duration::from_nanos(limit.as_ns()) }
}

fn read_back(
    session: &mut Session,
    ledger: &plimsoll_ledger::Ledger,
    touched: &plimsoll_ledger::Touched,
) -> plimsoll_measure::integrity::Integrity {
    let counts = ledger.counts();
    let expected = counts.acknowledged + counts.unknown;
    let subject = Subject {
        setup: &session.setup,
        servers: session.place.all().map(|place| place.site.options()).collect(),
        patience: patience(session),
        ledger,
        touched,
        neighbours: session.neighbours(),
        before: &session.before,
    };
    audit(&subject, &session.runtime, &mut Watched { terminal: &mut session.terminal, expected })
}

/// Shows how far an audit is.
struct Watched<'a> {
    terminal: &'a mut Option<Terminal>,
    expected: u64,
}

impl Listener for Watched<'_> {
    fn read(&mut self, documents: u64) {
        if let Some(terminal) = self.terminal {
            terminal.on(&Event::Auditing { read: documents, expected: self.expected });
        }
    }
}

fn tell(run: &Run, args: &LoadArgs, directory: &str) -> Outcome<()> {
    if args.json {
        let text = serde_json::to_string_pretty(run).context("write run.json")?;
        print(&format!("{text}\n"));
    } else if !args.quiet {
        print(&plimsoll_report::summary(run, Some(directory), style()));
    }
    Ok(())
}
