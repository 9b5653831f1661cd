//! Opens a run before its load and finishes it afterwards.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use plimsoll_ledger::Run as RunId;
use plimsoll_load::arrivals::Share;
use plimsoll_load::phase::Phase;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock;
use plimsoll_measure::event::Event;
use plimsoll_measure::line::Line;
use plimsoll_measure::run::Run;
use plimsoll_measure::size::Bytes;
use plimsoll_mongo::scenario::Existing;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::console::Console;
use crate::event_sinks::EventSinks;
use crate::exit::{Deserves, Exit, Outcome};
use crate::merge::identity;
use crate::options::LoadOptions;
use crate::run_dir::{self, RunDir};
use crate::run_summary::{conclude, exit};
use crate::server_provisioning::{Choice, StartOptions};
use crate::session::{Opening, Session, new_run, phase_event};
use crate::shard_log::{Recorder, ShardEnd};
use crate::signals::is_request;
use crate::start_at::{Moment, SharedBy};
use crate::system::{RunContext, Subject, System, Workers, resolve};
use plimsoll_scenario as scenario;
use plimsoll_scenario::{Loaded, Plan, plan};

/// The time in which a run that is not open yet may end by itself after the first signal.
const OPENING_GRACE: Duration = Duration::from_secs(1);

/// The time limit for writing the last line to the terminal.
const LAST_WORD_MAX: Duration = Duration::from_millis(100);

/// How far ahead a suggested start time is, in milliseconds: shards need time to get ready.
const SHARDS_AHEAD_MS: u64 = 60_000;

/// A scenario with its plan and its system, checked before a server is contacted.
#[derive(Debug)]
pub struct Checked {
    /// The scenario.
    pub loaded: Loaded,
    /// Its plan.
    pub plan: Plan,
    /// The system that it loads.
    pub subject: Arc<dyn Subject>,
    /// The part of the load to send.
    pub shard: Share,
}

/// Checks everything that can be checked before a server is contacted. `name` is the scenario's name on the command line.
///
/// # Errors
/// When the scenario or an option is invalid.
pub fn check(name: &str, loaded: Loaded, options: &LoadOptions, start: Option<Moment>) -> Outcome<Checked> {
    let shard = plan::shard(&options.shard).deserves(Exit::Usage)?;
    check_single(name, &loaded.scenario).deserves(Exit::Usage)?;
    let located = |error| loaded.located(error);
    let plan = Plan::build(&loaded).map_err(located).with_context(|| format!("scenario {name}"));
    let plan = plan.deserves(Exit::Usage)?;
    let subject = resolve(options.registry, &loaded, &plan, options.address());
    let subject = subject.map_err(located).deserves(Exit::Usage)?;
    check_shard(shard, &loaded.scenario, subject.as_ref(), start).deserves(Exit::Usage)?;
    Ok(Checked { loaded, plan, subject, shard })
}

/// Reads the options, finds the server and opens a session in which one load is varied. Checks that the plan
/// has such a load before anything starts.
///
/// # Errors
/// When the scenario or an option is invalid, the server cannot be reached, or the run cannot begin.
pub fn open(name: &str, options: &LoadOptions) -> Outcome<Session> {
    let loaded = scenario::load(name, &options.overrides, options.seed).deserves(Exit::Usage)?;
    let checked = check(name, loaded, options, None)?;
    let varied = checked.plan.searched().map(drop);
    varied.with_context(|| format!("scenario {name}")).deserves(Exit::Usage)?;
    open_at(checked, options, None)
}

/// Opens a session whose load is sent as planned, optionally from a given start time.
///
/// # Errors
/// When the server cannot be reached, or the run cannot begin.
pub fn open_at(checked: Checked, options: &LoadOptions, start: Option<Moment>) -> Outcome<Session> {
    let Checked { loaded, plan, subject, shard } = checked;
    let runtime = runtime()?;
    let started_ms = clock::wall_ms();
    run_dir::check_vacant(options.out.as_deref()).deserves(Exit::Usage)?;
    let dir = RunDir::create(options.out.as_deref(), &loaded.name, started_ms).deserves(Exit::Failed)?;
    let path = dir.path().to_owned();
    let opened = Arc::new(AtomicBool::new(false));
    let give_up = {
        let (opened, path, console) = (Arc::clone(&opened), path.clone(), options.console);
        move || end_unopened(Arc::clone(&opened), path.clone(), console)
    };
    let flag = listen(&cut_off(&path, subject.server()), give_up).context("listen to signals")?;
    let control = Control::listening(flag);
    if shard != Share::WHOLE && start.is_none() {
        options
            .console
            .say("Without --start-at this shard is a run by itself: it cannot be joined with the others");
    }
    let begin = || {
        let timeout = Duration::from_nanos(loaded.scenario.timeout.as_ns());
        let cache_bytes = loaded.scenario.cache.map(Bytes::get);
        let context = RunContext { loaded: &loaded, plan: &plan, run: new_run(started_ms), shard };
        let run = start.and_then(|start| together(context, start)).unwrap_or(context.run);
        let context = RunContext { run, ..context };
        let power_loss = loaded.scenario.power_loss();
        let start_options = StartOptions { timeout, console: options.console, cache_bytes, power_loss };
        let mut system = subject.open(context, &dir, start_options, &control, runtime)?;
        options.hosted_as.iter().for_each(|hosted| system.hosted_as(hosted));
        let mut sinks = EventSinks::new(dir, options.console);
        if shard != Share::WHOLE {
            sinks.shard = Some(Recorder::create(&path)?);
        }
        let opening = Opening {
            loaded,
            plan,
            system,
            sinks,
            control,
            shard,
            run,
            started_ms,
            calibrates: options.calibrate,
        };
        let mut session = Session::open(opening)?;
        session.start_at_ms = start.map(|start| start.wall_ms);
        session.warm_up = options.warm_up;
        Ok(session)
    };
    let begun = begin();
    opened.store(true, Ordering::Relaxed);
    begun.inspect_err(|_| clear(&path))
}

/// Ends a run that the first signal finds before its load, unless the run ends or opens in time: a server may take long to answer or
/// to start.
fn end_unopened(opened: Arc<AtomicBool>, path: PathBuf, console: &'static dyn Console) {
    if opened.load(Ordering::Relaxed) {
        return;
    }
    console.say("stopping before the load");
    thread::spawn(move || {
        thread::sleep(OPENING_GRACE);
        if !opened.load(Ordering::Relaxed) {
            clear(&path);
            say_at_last("plimsoll: stopped before the load: there are no results\n");
            signal_hook::low_level::exit(i32::from(Exit::Interrupted.code()));
        }
    });
}

/// The advice after a run that ended at once. Only a server that the run did not start still has the writes.
fn cut_off(path: &Path, server: Option<&Choice>) -> String {
    let path = path.display();
    let writes = match server {
        Some(choice) if choice.is_running() => {
            format!(", and check its writes with `plimsoll audit {path} --server ADDRESS`")
        }
        Some(_) => "; its server ended with it, so its writes cannot be checked: run it again, or name a server that keeps running with --server"
            .to_owned(),
        None => "; its writes cannot be checked: run it again".to_owned(),
    };
    format!("see its seconds with `plimsoll show {path} --replay`{writes}")
}

/// The run ID that all shards share, if there are several. Each shard derives it from the common start time.
fn together(context: RunContext<'_>, start: Moment) -> Option<RunId> {
    let workers = Workers::of(context, false).count;
    (context.shard != Share::WHOLE)
        .then(|| identity(&context.loaded.hash(), context.shard.of, workers, start.wall_ms))
}

/// Ends a run that sent nothing, and clears its directory so that it is not taken for the latest run.
pub fn forget(session: Session) {
    let path = session.sinks.dir.path().to_owned();
    drop(session);
    clear(&path);
}

fn clear(path: &Path) {
    // A ledger that cannot be removed does no harm.
    fs::remove_dir_all(run_dir::ledger(path)).unwrap_or_default();
    run_dir::abandon(path);
}

/// Refuses options that several shards cannot combine.
fn check_shard(
    shard: Share,
    scenario: &scenario::Scenario,
    subject: &dyn Subject,
    start: Option<Moment>,
) -> anyhow::Result<()> {
    if shard == Share::WHOLE {
        return Ok(());
    }
    let is_there = subject.server().is_none_or(Choice::is_running);
    anyhow::ensure!(
        is_there,
        "--shard: each shard would start its own server, and the results could not be joined: start one, and give all of \
         them its address with --server"
    );
    anyhow::ensure!(
        scenario.existing != Existing::Drop,
        "existing: drop: each shard would drop what the others have written; drop the collection before, and use \
         `--set existing=refuse`"
    );
    anyhow::ensure!(
        start.is_none_or(|start| start.shared_by == SharedBy::AllProcesses),
        "--start-at: a relative time differs between shards; give all the same time, such as {}",
        clock::utc(clock::wall_ms() + SHARDS_AHEAD_MS)
    );
    Ok(())
}

/// A runtime for asynchronous work outside the load.
///
/// # Errors
/// When the operating system has no file descriptor left.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")
}

/// Refuses a matrix, because a matrix holds many scenarios and a search needs one.
fn check_single(name: &str, scenario: &scenario::Scenario) -> anyhow::Result<()> {
    anyhow::ensure!(
        scenario.matrix.is_none(),
        "{name} is a matrix of runs, but this command takes one scenario: run the matrix with `plimsoll run \
         {name}`, then use the scenario.yaml in the run directory of the cell you want"
    );
    Ok(())
}

/// The first Ctrl-C or SIGTERM sets the flag; one that arrives more than [`DEBOUNCE_NS`](crate::signals::DEBOUNCE_NS) later ends the program at once. Servers
/// that Plimsoll started end with the program, and a last line shows `continued`: how to continue.
///
/// # Errors
/// When the signal handlers cannot be registered.
pub fn signals(continued: &str) -> std::io::Result<Arc<AtomicBool>> {
    listen(continued, || ())
}

/// Listens as [`signals`] does, and calls `on_first` after the first signal.
fn listen(continued: &str, on_first: impl Fn() + Send + 'static) -> std::io::Result<Arc<AtomicBool>> {
    let last_word = format!("plimsoll: ended at once, before the results were complete: {continued}\n");
    let flag = Arc::new(AtomicBool::new(false));
    let mut received = Signals::new([SIGINT, SIGTERM])?;
    let stopped = Arc::clone(&flag);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut first = None;
        for _ in received.forever() {
            let is_first = !stopped.swap(true, Ordering::Relaxed);
            if is_first {
                on_first();
            }
            if is_request(&mut first, clock::now()) && !is_first {
                say_at_last(&last_word);
                signal_hook::low_level::exit(i32::from(Exit::Interrupted.code()));
            }
        }
    })?;
    Ok(flag)
}

/// Prints a line, unless the terminal or the pipe does not take it in time.
fn say_at_last(line: &str) {
    let (done, printed) = channel();
    let line = line.to_owned();
    thread::spawn(move || {
        // A lost terminal loses this line only.
        std::io::stderr().write_all(line.as_bytes()).unwrap_or_default();
        done.send(()).unwrap_or_default();
    });
    printed.recv_timeout(LAST_WORD_MAX).unwrap_or_default();
}

/// Runs the phases before the last one unchanged: they prepare the load.
///
/// # Errors
/// When a phase cannot be run at all.
pub fn prepare(session: &mut Session) -> Outcome<()> {
    let phases = session.plan.phases.clone();
    for phase in phases.iter().rev().skip(1).rev() {
        if !session.is_over() {
            session.run(phase, |_| ())?;
        }
    }
    session.prepare(phases.len().saturating_sub(1))
}

/// Announces a phase and runs it.
///
/// # Errors
/// When the phase cannot be run at all.
pub fn one_phase(session: &mut Session, phase: &Phase) -> Outcome<()> {
    let event = phase_event(phase, session.elapsed_ns());
    session.emit(&event);
    session.summary.arm();
    session.run(phase, |_| ())?;
    Ok(())
}

/// A finished run.
#[derive(Debug)]
pub struct Closed {
    /// Its summary.
    pub run: Run,
    /// Its exit code.
    pub exit: Exit,
    /// Its directory.
    pub path: PathBuf,
    /// The system that was under load.
    pub system: Box<dyn System>,
}

/// Audits the documents, builds the summary and writes it.
///
/// # Errors
/// When a write fails.
pub fn finish(mut session: Session, command: &str, line: Option<Line>) -> Outcome<Closed> {
    let closed = session.close();
    if let Some(error) = session.sinks.disk.take() {
        return Err(error.into());
    }
    closed?;
    let integrity = session.audit();
    let run = conclude(&session, command, integrity, line);
    let exit = exit(&run, session.ended, session.stopped);
    let end = ShardEnd { server_cpu_ns: session.server_cpu_ns() };
    session.sinks.shard.take().map_or(Ok(()), |shard| shard.close(end))?;
    let Session { sinks: EventSinks { dir, live, .. }, system, .. } = session;
    if let Some(mut live) = live {
        live.on(&Event::Finished(Box::new(run.clone())));
    }
    let path = dir.finish(&run)?;
    Ok(Closed { run, exit, path, system })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_advises_an_audit_only_of_a_server_that_still_runs() {
        let advice = |server: Option<&Choice>| cut_off(Path::new("runs/a"), server);
        let running = Choice::Uri("mongodb://a:1".into());
        let both = Choice::Several(vec![running.clone(), Choice::Mongod]);
        for choice in [&running, &both] {
            assert!(
                advice(Some(choice)).ends_with("with `plimsoll audit runs/a --server ADDRESS`"),
                "{choice:?}"
            );
        }
        for server in [Some(&Choice::Any), Some(&Choice::Mongod), None] {
            let advice = advice(server);
            assert!(
                !advice.contains("plimsoll audit") && advice.contains("`plimsoll show runs/a --replay`"),
                "{advice}"
            );
            assert!(advice.contains("cannot be checked: run it again"), "{advice}");
        }
    }
}
