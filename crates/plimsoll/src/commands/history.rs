//! Implements `plimsoll history`: follows one scenario through its runs and finds changes.

use anyhow::Context;
use plimsoll_measure::history::{self, History, Request, Settings};
use plimsoll_report::history::{conclusions, summary};

use crate::cli::HistoryArgs;
use crate::terminal::{print, screen};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_series::ab::read_runs::{Measured, read_runs};

/// Finds changes in measured runs.
///
/// # Errors
/// A run is missing, or the runs have no history.
pub fn history(args: &HistoryArgs) -> Outcome<Exit> {
    let runs = read_runs(&args.runs).deserves(Exit::Usage)?;
    let request = Request {
        runs: runs.iter().map(Measured::subject).collect(),
        metric: args.metric.clone(),
        force: args.force,
        settings: Settings::default(),
    };
    let mut history = history::follow(request).deserves(Exit::Usage)?;
    history.conclusions = conclusions(&history);
    tell(&history, args.json)?;
    Ok(if args.gate { gate(&history) } else { Exit::Held })
}

fn tell(history: &History, json: bool) -> Outcome<()> {
    if json {
        let text = serde_json::to_string_pretty(history).context("write the history")?;
        print(&format!("{text}\n"));
    } else {
        print(&summary(history, screen()));
    }
    Ok(())
}

/// The exit code of `--gate`. An uncompensated regression ends with the code of a failed expectation. So do
/// too few runs: a gate must not open without a verdict.
fn gate(history: &History) -> Exit {
    if history.is_regression() || history.is_failed() { Exit::Expectation } else { Exit::Held }
}
