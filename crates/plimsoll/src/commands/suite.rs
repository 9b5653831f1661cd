//! `plimsoll suite`: runs a table of tests, each as a child process.

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, ensure};
use plimsoll_host::machine;
use plimsoll_measure::clock::{MILLISECOND_NS, utc, wall_ms};
use plimsoll_measure::suite::{FORMAT, Row, Suite};
use plimsoll_report::suite as report;

use crate::cli::SuiteArgs;
use crate::registry::SYSTEMS;
use crate::terminal::{console, print, say, style};
use plimsoll_run::exit::{Deserves, Exit, Outcome, worst_of_runs};
use plimsoll_run::lifecycle;
use plimsoll_series::same_machine::check_same;
use plimsoll_series::suite::dir::{SuiteDir, read as read_results, resumed};
use plimsoll_series::suite::drive::Drive;
use plimsoll_series::suite::read::{Loaded, load as read};
use plimsoll_series::suite::resolve::{Test, Words, build, kept, title, told};
use plimsoll_series::suite::schedule::{Retry, Settings, is_same, schedule};

/// The watchdog looks no more often than this, in nanoseconds.
const WATCH_NS_MIN: u64 = 100 * MILLISECOND_NS;

/// Makes the runs of a suite that are not there yet.
///
/// # Errors
/// What cannot be meant, or kept the suite from being made.
pub fn suite(args: &SuiteArgs) -> Outcome<Exit> {
    let settings = settings(args).deserves(Exit::Usage)?;
    let begun = match &args.resume {
        Some(path) => match made_already(path, args).deserves(Exit::Usage)? {
            Some(suite) => return tell(&suite, path, args, false),
            None => reopen(path, args).deserves(Exit::Usage)?,
        },
        None => {
            let loaded = read(args.file.as_deref().unwrap_or_default()).deserves(Exit::Usage)?;
            let tests = build(&loaded, &words(args), SYSTEMS).deserves(Exit::Usage)?;
            if args.list {
                list(&loaded, &tests);
                return Ok(Exit::Held);
            }
            begin(args, &loaded, tests)?
        }
    };
    let flag = lifecycle::signals().context("listen to signals")?;
    let runtime = lifecycle::runtime()?;
    let (dir, suite, tests) = begun;
    let mut drive = Drive { dir, suite, tests, settings, flag, runtime };
    let made = drive.make_all();
    let asked = drive.flag.load(Ordering::Relaxed);
    let exit = tell(&drive.suite, drive.dir.path(), args, asked)?;
    made?;
    Ok(exit)
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

fn words(args: &SuiteArgs) -> Words {
    Words {
        server: args.server.clone(),
        existing: args.existing,
        repetitions: args.repetitions,
        only: args.only.clone(),
    }
}

fn list(loaded: &Loaded, tests: &[Test]) {
    let suite = results(loaded, tests);
    suite.runs.iter().for_each(|run| {
        let heading = report::heading(&suite, run);
        print(&format!("{}\n", heading.join("\n").trim_start()));
    });
}

type Begun = (SuiteDir, Suite, Vec<Test>);

fn begin(args: &SuiteArgs, loaded: &Loaded, tests: Vec<Test>) -> Outcome<Begun> {
    let mut suite = results(loaded, &tests);
    let asked = kept(loaded, &tests);
    let dir = SuiteDir::create(args.out.as_deref(), &suite.name, &asked, suite.started_ms);
    let dir = dir.deserves(Exit::Usage)?;
    suite.environment = machine::environment(dir.path());
    Ok((dir, suite, tests))
}

/// What is known before the first run.
fn results(loaded: &Loaded, tests: &[Test]) -> Suite {
    let started_ms = wall_ms();
    Suite {
        format: FORMAT,
        name: loaded.name.clone(),
        title: title(loaded),
        question: loaded.suite.question.clone(),
        started: utc(started_ms),
        started_ms,
        tests: tests.iter().map(told).collect(),
        runs: schedule(tests),
        ..Suite::default()
    }
}

/// An earlier suite of which every run was made: there is nothing to go on with, and its scenarios need not be there.
fn made_already(path: &Path, args: &SuiteArgs) -> anyhow::Result<Option<Suite>> {
    let suite = resumed(path)?;
    Ok(Some(suite).filter(|suite| suite.complete && !args.retry))
}

/// An earlier suite, to go on with: its tests and its machine must still be what they were.
fn reopen(path: &Path, args: &SuiteArgs) -> anyhow::Result<Begun> {
    let (dir, loaded, suite) = SuiteDir::open(path)?;
    check_same(&suite.environment, &machine::environment(path))?;
    let mut tests = build(&loaded, &Words::default(), SYSTEMS).context("--resume")?;
    for (test, before) in tests.iter().zip(&suite.tests) {
        ensure!(
            test.name == before.name && test.job.hash == before.hash,
            "--resume: the {} {} of test {} has changed since the suite was begun: begin anew without --resume",
            before.kind.name(),
            before.what,
            before.name
        );
    }
    ensure!(
        tests.len() == suite.tests.len() && is_same(&schedule(&tests), &suite.runs),
        "--resume: {} names other tests than suite.json: begin anew without --resume",
        path.display()
    );
    if let Some(existing) = args.existing {
        tests.iter_mut().for_each(|test| test.job.rule(existing));
    }
    Ok((dir, suite, tests))
}

/// Says what there is; `asked` is whether somebody wanted to stop.
fn tell(suite: &Suite, path: &Path, args: &SuiteArgs, asked: bool) -> Outcome<Exit> {
    let shown = path.display().to_string();
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(suite).context("write suite.json")?));
    } else if !args.quiet {
        print(&format!("\n{}", report::summary(suite, Some(&shown), style())));
    }
    if !suite.complete && !args.quiet && !args.json {
        say(&format!("It is not complete. Go on with --resume {shown}"));
    }
    let is_cut = asked || suite.rows.len() < suite.runs.len();
    let deserved = |row: &Row| Exit::of(row.exit);
    let exits = suite.rows.iter().filter_map(deserved).chain(is_cut.then_some(Exit::Interrupted));
    Ok(worst_of_runs(&exits.collect::<Vec<_>>()))
}

/// Prints what a suite directory says.
///
/// # Errors
/// When it says nothing, or was written by a later version.
pub fn show(path: &Path, as_json: bool) -> Outcome<Exit> {
    let suite = read_results(path).deserves(Exit::Usage)?;
    if as_json {
        print(&format!("{}\n", serde_json::to_string_pretty(&suite).context("write suite.json")?));
    } else {
        print(&report::summary(&suite, Some(&path.display().to_string()), style()));
    }
    Ok(Exit::Held)
}
