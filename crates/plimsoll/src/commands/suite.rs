//! Implements `plimsoll suite`: runs a table of tests, each as a child process.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, ensure};
use plimsoll_measure::clock::MILLISECOND_NS;
use plimsoll_measure::run::Verdict;
use plimsoll_measure::suite::{Row, Suite};
use plimsoll_report::suite as report;

use super::series::finish;
use crate::cli::SuiteArgs;
use crate::registry::Registry;
use crate::terminal::{console, print, say, screen};
use plimsoll_run::exit::{Deserves, Exit, Outcome, worst_of_runs};
use plimsoll_run::lifecycle;
use plimsoll_run::run_dir::{self, Named};
use plimsoll_series::suite::drive::Drive;
use plimsoll_series::suite::dry_run;
use plimsoll_series::suite::prepare::{Prepared, begin, completed, planned, reopen};
use plimsoll_series::suite::read::{Loaded, load as read};
use plimsoll_series::suite::resolve::{Arguments, Test, build};
use plimsoll_series::suite::schedule::{Retry, Settings};

/// The shortest time between two watchdog checks, in nanoseconds.
const WATCH_NS_MIN: u64 = 100 * MILLISECOND_NS;

/// Makes the missing runs of a suite.
///
/// # Errors
/// When a value is invalid, or the suite cannot be made.
pub fn suite(args: &SuiteArgs, registry: &Registry) -> Outcome<Exit> {
    let settings = settings(args).deserves(Exit::Usage)?;
    let Prepared { dir, suite, tests } = match &args.resume {
        Some(path) => match completed(path).deserves(Exit::Usage)?.filter(|_| !args.retry) {
            Some(suite) => return tell(&suite, path, args, false),
            None => reopen(path, args.existing, registry.systems).deserves(Exit::Usage)?,
        },
        None => {
            let loaded = read(args.file.as_deref().unwrap_or_default()).deserves(Exit::Usage)?;
            let tests = build(&loaded, &arguments(args), registry.systems).deserves(Exit::Usage)?;
            if args.list {
                list(&loaded, &tests);
                return Ok(Exit::Held);
            }
            if args.dry_run {
                let described =
                    dry_run::text(&planned(&loaded, &tests), &tests, registry.systems, screen().width);
                let text = described.deserves(Exit::Usage)?;
                warn(&tests, settings);
                print(&text);
                return Ok(Exit::Held);
            }
            begin(args.out.as_deref(), &loaded, tests).deserves(Exit::Usage)?
        }
    };
    warn(&tests, settings);
    let flag = lifecycle::signals("continue with --resume and its directory").context("listen to signals")?;
    let runtime = Arc::new(lifecycle::runtime()?);
    let mut drive = Drive { dir, suite, tests, settings, flag, runtime };
    let made = drive.make_all();
    let is_over = drive.flag.load(Ordering::Relaxed);
    let exit = tell(&drive.suite, drive.dir.path(), args, is_over)?;
    made.map(|()| exit)
}

/// Prints the warnings about all tests, each once.
fn warn(tests: &[Test], settings: Settings) {
    let mut printed = HashSet::new();
    for warning in tests.iter().flat_map(|test| &test.job.warnings) {
        if printed.insert(warning) {
            settings.console.warn(warning);
        }
    }
}

fn settings(args: &SuiteArgs) -> anyhow::Result<Settings> {
    ensure!(args.watch.as_ns() >= WATCH_NS_MIN, "--watch {}: give 100ms or more", args.watch);
    Ok(Settings {
        watch: args.watch,
        hung_after: args.hung_after,
        retry: if args.retry { Retry::Yes } else { Retry::No },
        console: console(args.quiet || args.json),
    })
}

fn arguments(args: &SuiteArgs) -> Arguments {
    Arguments {
        server: args.server.clone(),
        existing: args.existing,
        repetitions: args.repetitions,
        only: args.only.clone(),
    }
}

fn list(loaded: &Loaded, tests: &[Test]) {
    let suite = planned(loaded, tests);
    suite.runs.iter().for_each(|run| {
        let heading = report::heading(&suite, run, screen().width);
        print(&format!("{}\n", heading.join("\n").trim_start()));
    });
}

/// Whether the verdict of a completed run is INVALID.
fn is_invalid(suite: &Path, row: &Row) -> bool {
    let run = run_dir::resolve(&suite.join(&row.directory));
    let Ok(Named::Run(directory)) = run else { return false };
    run_dir::read_run(&directory).is_ok_and(|run| run.verdict == Verdict::Invalid)
}

/// Prints the results; `is_over` is whether the user asked to stop.
fn tell(suite: &Suite, path: &Path, args: &SuiteArgs, is_over: bool) -> Outcome<Exit> {
    finish(suite, path, args.json, args.quiet)?;
    if !suite.complete && !args.quiet && !args.json {
        say(&format!("The suite is incomplete. Continue with --resume {}", path.display()));
    }
    let is_cut = is_over || suite.rows.len() < suite.runs.len();
    let deserved = |row: &Row| Exit::of(row.exit);
    let is_invalid = args.fail_on_invalid && suite.rows.iter().any(|row| is_invalid(path, row));
    let exits = suite.rows.iter().filter_map(deserved).chain(is_cut.then_some(Exit::Interrupted));
    let exits = exits.chain(is_invalid.then_some(Exit::Invalid));
    Ok(worst_of_runs(&exits.collect::<Vec<_>>()))
}
