//! `plimsoll history`: follows one scenario through its runs and finds changes.

use anyhow::Context;
use plimsoll_measure::history::{self, History, Request, Settings};
use plimsoll_report::history::{conclusions, summary};

use crate::cli::HistoryArgs;
use crate::terminal::{print, style};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_series::ab::gather::{Measured, gather};

/// Follows what was measured.
///
/// # Errors
/// When something is missing, or the runs have no history.
pub fn history(args: &HistoryArgs) -> Outcome<Exit> {
    let runs = gather(&args.runs).deserves(Exit::Usage)?;
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
        print(&summary(history, style()));
    }
    Ok(())
}

/// A change for the worse that no later one made good ends like an expectation that failed. So do runs that are too few: a gate
/// must not open for what could not be judged.
fn gate(history: &History) -> Exit {
    if history.is_regression() || history.is_failed() { Exit::Expectation } else { Exit::Held }
}
