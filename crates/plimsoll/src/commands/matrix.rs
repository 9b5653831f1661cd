//! `plimsoll run` of a scenario with a matrix: makes and prints its runs.

use std::path::Path;

use anyhow::{Context, anyhow};
use plimsoll_measure::matrix::Matrix as Results;
use plimsoll_report::matrix as report;

use crate::cli::RunArgs;
use crate::terminal::{print, style};
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};
use plimsoll_run::lifecycle;
use plimsoll_scenario::Loaded;
use plimsoll_series::matrix::dir::read;
use plimsoll_series::matrix::drive::Drive;
use plimsoll_series::matrix::messages::{announce, list};
use plimsoll_series::matrix::prepare::{Prepared, Settings, prepare};

/// Makes the runs of a matrix that were asked for and are not there yet.
///
/// # Errors
/// What kept the matrix from being made.
pub fn run(loaded: &Loaded, args: &RunArgs) -> Outcome<Exit> {
    let settings =
        Settings { only: args.only.clone(), resume: args.resume.clone(), load: args.load.options() };
    let prepared = prepare(loaded, &settings).deserves(Exit::Usage)?;
    if args.list {
        tell_list(&prepared, args)?;
        return Ok(Exit::Held);
    }
    if let Some(reason) = &prepared.refusal {
        return Err(Failure { exit: Exit::Usage, error: anyhow!("{reason}") });
    }
    settings.load.console.say(&announce(&prepared.intent()));
    let flag = lifecycle::signals().context("listen to signals")?;
    let mut drive = Drive::start(prepared, &settings, flag)?;
    drive.make_all()?;
    let ended = drive.end()?;
    let shown = ended.path.display().to_string();
    if args.load.json {
        print_json(&ended.results)?;
    } else if !args.load.quiet {
        print(&format!("\n{}", report::summary(&ended.results, Some(&shown), style())));
    }
    if ended.is_cut {
        settings.load.console.say(&format!("It is not complete. Go on with --resume {shown}"));
    }
    Ok(ended.exit)
}

fn tell_list(prepared: &Prepared<'_>, args: &RunArgs) -> Outcome<()> {
    if args.load.json {
        return print_json(&prepared.results());
    }
    print(&format!("{}\n", announce(&prepared.intent())));
    print(&list(&prepared.expanded.cells, &prepared.shares));
    if let Some(reason) = &prepared.refusal {
        print(&format!("It would be refused: {reason}\n"));
    }
    Ok(())
}

fn print_json(results: &Results) -> Outcome<()> {
    let text = serde_json::to_string_pretty(results).context("write matrix.json")?;
    print(&format!("{text}\n"));
    Ok(())
}

/// Prints a matrix again.
///
/// # Errors
/// When the directory is none of a matrix.
pub fn show(path: &Path, json: bool) -> Outcome<Exit> {
    let results = read(path).deserves(Exit::Usage)?;
    if json {
        print_json(&results)?;
    } else {
        print(&report::summary(&results, Some(&path.display().to_string()), style()));
    }
    Ok(Exit::Held)
}
