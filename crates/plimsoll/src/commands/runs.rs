//! Implements `plimsoll runs`: lists, labels and removes run directories.

use std::path::Path;

use anyhow::{Context, ensure};
use plimsoll_measure::clock;
use plimsoll_report::runs::{Listed, State, figure, summary};
use plimsoll_report::units::{bytes, counted};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::run_dir::{self, Named, Rule};
use serde_json::json;

use crate::cli::{LabelArgs, ListArgs, PruneArgs, RunsCommand};
use crate::terminal::{print, say, screen};

/// The version of the form of `runs list --json`.
const FORMAT: u32 = 1;

/// Lists, labels or removes runs.
///
/// # Errors
/// A path names no run, or a file cannot be written or removed.
pub fn runs(command: &RunsCommand) -> Outcome<Exit> {
    match command {
        RunsCommand::List(args) => list(args)?,
        RunsCommand::Label(args) => label(args)?,
        RunsCommand::Prune(args) => prune(args)?,
    }
    Ok(Exit::Held)
}

fn list(args: &ListArgs) -> Outcome<()> {
    run_dir::resolve(&args.directory).deserves(Exit::Usage)?;
    let runs: Vec<Listed> = run_dir::list(&args.directory).into_iter().map(shown).collect();
    if args.json {
        let list = json!({"format": FORMAT, "runs": runs});
        print(&format!("{}\n", serde_json::to_string_pretty(&list).context("write the list")?));
    } else {
        print(&summary(&runs, screen()));
    }
    Ok(())
}

/// A run as the list shows it.
fn shown(it: run_dir::Listed) -> Listed {
    let (state, run) = match it.state {
        run_dir::State::Ended(run) => (State::Ended, Some(run)),
        run_dir::State::Cut => (State::Cut, None),
        run_dir::State::Running => (State::Running, None),
    };
    Listed {
        directory: it.path.display().to_string(),
        started: clock::utc(it.started_ms),
        scenario: it.name,
        label: it.label,
        state,
        verdict: run.as_ref().map(|run| run.verdict),
        figure: run.and_then(|run| figure(&run)),
        bytes: it.bytes,
    }
}

fn label(args: &LabelArgs) -> Outcome<()> {
    let run = run_dir::resolve(&args.run).deserves(Exit::Usage)?;
    let Named::Run(path) = run else {
        let error =
            anyhow::anyhow!("{} is not a run directory or its run.json: name one run", args.run.display());
        return Err(error).deserves(Exit::Usage);
    };
    run_dir::set_label(&path, &args.text).deserves(Exit::Usage)
}

fn prune(args: &PruneArgs) -> Outcome<()> {
    check_directory(&args.directory).deserves(Exit::Usage)?;
    let rule = Rule { keep: args.keep.unwrap_or(0), younger_than_ms: args.older_than_ms() };
    let listed = run_dir::list(&args.directory);
    let (mut count, mut size) = (0, 0);
    for run in run_dir::surplus(&listed, &rule, clock::wall_ms()) {
        if let Err(reason) = run_dir::check(&run.path) {
            say(&format!("plimsoll: {} stays: {reason:#}", run.path.display()));
            continue;
        }
        if !args.dry_run {
            run_dir::remove(&run.path)?;
        }
        (count, size) = (count + 1, size + run.bytes);
        print(&format!("{}  {}\n", run.path.display(), bytes(run.bytes)));
    }
    let done = if args.dry_run { "would be removed" } else { "removed" };
    say(&format!("{} {done}, {}", counted(count, "run"), bytes(size)));
    Ok(())
}

/// Refuses everything but a directory of runs: without one of its runs, a matrix, a suite or a comparison is incomplete.
fn check_directory(directory: &Path) -> anyhow::Result<()> {
    let named = run_dir::resolve(directory)?;
    ensure!(
        matches!(named, Named::Runs(_)),
        "{} is not a directory of runs: name the directory that holds run directories, such as {}",
        directory.display(),
        run_dir::RUNS
    );
    Ok(())
}
