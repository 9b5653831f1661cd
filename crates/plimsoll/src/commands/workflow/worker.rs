//! Implements `plimsoll workflow worker`: runs instances until it is asked to end.

use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use plimsoll_workflow_service::calls::Secrets;
use plimsoll_workflow_service::engine::{Engine, WorkerOptions, lease_ms};
use plimsoll_workflow_service::store::{Missing, Size};

use super::store::Opened;
use crate::cli::{LogLevel, WorkerArgs};
use crate::commands::serve::log_to_stderr;
use crate::terminal::{print, say};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::signals::Signals;

/// The number of connections of a worker.
const CONNECTIONS: usize = 8;
/// The number of partitions of a new store.
const PARTITIONS: u16 = 64;
/// The time between two lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Runs a worker.
///
/// # Errors
/// The store cannot be opened, or the worker ends by a defect.
pub(super) fn worker(args: &WorkerArgs) -> Outcome {
    log_to_stderr(LogLevel::Info);
    let held_max = args.partitions.map_or(usize::MAX, usize::from);
    let size = Size { connections: CONNECTIONS, partitions: PARTITIONS, held_max };
    let secrets = secrets(&args.secrets).deserves(Exit::Usage)?;
    let lease_ms = lease_ms(args.lease).map_err(|words| anyhow!("--lease: {words}")).deserves(Exit::Usage)?;
    let options =
        WorkerOptions { hosts: args.hosts.clone(), secrets, calls_max: args.calls as usize, lease_ms };
    let Opened { engine, runtime } = Opened::with(&args.store, size, Missing::Create, Some(options))?;
    runtime.block_on(run(&engine))
}

fn secrets(options: &[String]) -> anyhow::Result<Secrets> {
    let split = |option: &'_ String| {
        option.split_once('=').map(|(name, source)| (name.to_owned(), source.to_owned()))
    };
    let pairs: Option<Vec<_>> = options.iter().map(split).collect();
    let pairs = pairs.context("--secret: write NAME=env:VARIABLE or NAME=file:PATH")?;
    let pairs = pairs.iter().map(|(name, source)| (name.as_str(), source.as_str()));
    Secrets::read(pairs, Path::new(".")).map_err(|words| anyhow!("--secret: {words}"))
}

async fn run(engine: &Engine) -> Outcome {
    let mut signals = Signals::listen().context("listen to signals")?;
    print("running; SIGTERM or Ctrl-C ends it\n");
    let mut before = Counts::of(engine);
    loop {
        tokio::select! {
            _ = signals.next() => break,
            () = tokio::time::sleep(LINE_EVERY) => before = line(engine, before),
            () = engine.death() => {
                return Err(anyhow!("the worker ended by a defect: report the messages above"))
                    .deserves(Exit::Failed);
            }
        }
    }
    engine.close().await;
    say("plimsoll: the worker has ended and gave its partitions back");
    Ok(Exit::Held)
}

/// The counters of a moment.
#[derive(Clone, Copy, Debug)]
struct Counts {
    changed: u64,
    ended: u64,
}

impl Counts {
    fn of(engine: &Engine) -> Self {
        Self { changed: engine.metrics.changed(), ended: engine.metrics.ended() }
    }
}

/// Prints the work of the last second, if a terminal shows it.
fn line(engine: &Engine, before: Counts) -> Counts {
    let now = Counts::of(engine);
    if stderr().is_terminal() {
        say(&format!(
            "{} changes/s  {} ends/s  {} partitions  {} signals waiting",
            now.changed - before.changed,
            now.ended - before.ended,
            engine.metrics.partitions(),
            engine.backlog()
        ));
    }
    now
}
