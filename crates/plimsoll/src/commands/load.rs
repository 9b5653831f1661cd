//! What `run` and `line` do before and after the load.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock;
use plimsoll_measure::event::Event;
use plimsoll_measure::line::Line;
use plimsoll_measure::run::Run;
use plimsoll_mongo::audit::Listener;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::audit::{Subject, audit};
use crate::cli::LoadArgs;
use crate::conclude::{conclude, exit};
use crate::exit::{Deserves, Exit, Outcome};
use crate::injection::Owned;
use crate::place::{Choice, Place};
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
    let plan = Plan::build(&loaded).with_context(|| format!("scenario {name}")).deserves(Exit::Usage)?;
    let choice =
        choice(args.server.as_deref().or(loaded.scenario.server.as_deref())).deserves(Exit::Usage)?;
    check_documents(&loaded, &plan).deserves(Exit::Usage)?;
    check_faults(&plan, &choice).deserves(Exit::Usage)?;
    let control = Control::listening(signals().context("listen to signals")?);
    let runtime = runtime()?;
    let started_ms = clock::wall_ms();
    let dir = RunDir::create(args.out.as_deref(), &loaded.name, started_ms).deserves(Exit::Failed)?;
    let path = dir.path().to_owned();
    let quiet = args.quiet || args.json;
    let begin = || {
        let timeout = Duration::from_nanos(loaded.scenario.timeout.as_ns());
        let mut place = Place::open(&choice, timeout, quiet, &runtime)?;
        if plan.injections.iter().any(|injection| !injection.needs_process()) {
            place.put_proxies(loaded.scenario.seed)?;
        }
        let terminal = (!quiet).then(Terminal::new);
        Session::open(Opening { loaded, place, dir, terminal, control, shard, started_ms }, plan, runtime)
    };
    begin().inspect_err(|_| run_dir::abandon(&path))
}

/// A runtime for everything that waits outside the load.
///
/// # Errors
/// When the system has no descriptor left.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")
}

/// Compiles the documents once before a server is even looked for, so that a slip costs no waiting.
fn check_documents(loaded: &scenario::Loaded, plan: &Plan) -> anyhow::Result<()> {
    let run = plimsoll_ledger::Run { time_s: 0, tag: [0; 3] };
    let context = plimsoll_mongo::setup::Context { seed: loaded.scenario.seed, run, base: &loaded.base };
    plimsoll_mongo::setup::Setup::build(&loaded.scenario.section(), &plan.operations, context)?;
    Ok(())
}

/// What is done to a process needs one that is ours.
fn check_faults(plan: &Plan, choice: &Choice) -> anyhow::Result<()> {
    let hard = plan.injections.iter().find(|injection| injection.needs_process());
    match (hard, choice) {
        (Some(injection), Choice::Uri(_)) => anyhow::bail!(
            "faults: `{}` is done to a server that Plimsoll started and can start again; use --server embedded or \
             --server mongod, or faults of the network",
            injection.name()
        ),
        _ => Ok(()),
    }
}

fn choice(server: Option<&str>) -> anyhow::Result<Choice> {
    server.map_or(Ok(Choice::Any), str::parse)
}

/// The first Ctrl-C or SIGTERM sets the flag; the second ends the program at once. Servers that we started end with us.
fn signals() -> std::io::Result<Arc<AtomicBool>> {
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

/// Audits, sums up, writes everything down and says it.
///
/// # Errors
/// When the disk refuses.
pub fn close(mut session: Session, args: &LoadArgs, command: &str, line: Option<Line>) -> Outcome<Exit> {
    let promised = session.close_books();
    if let Some(error) = session.disk.take() {
        return Err(error.into());
    }
    let promised = promised?;
    let integrity = read_back(&mut session, &promised.ledger, &promised.touched);
    let run = conclude(&session, command, Some(integrity), line);
    let code = exit(&run, &session);
    let Session { dir, place, terminal, .. } = session;
    if let Some(mut terminal) = terminal {
        terminal.on(&Event::Finished(Box::new(run.clone())));
    }
    let path = dir.finish(&run)?;
    let shown = path.display().to_string();
    tell(&run, args, &shown)?;
    if let Some(server) = place.server.filter(|_| args.keep).and_then(Owned::into_server) {
        server.keep_storage(&run_dir::storage(&path)).context("keep the server's storage")?;
        if !args.quiet && !args.json {
            say(&format!("The server's storage is kept: plimsoll audit {shown}"));
        }
    }
    Ok(code)
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
        site: &session.place.site,
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
