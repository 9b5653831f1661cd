//! Closes a run: audits it, prints its result and keeps the server's storage on request.

use anyhow::Context;
use plimsoll_measure::line::Line;
use plimsoll_measure::run::Run;
use plimsoll_run::exit::{Exit, Outcome};
use plimsoll_run::lifecycle::{Closed, finish};
use plimsoll_run::session::Session;

use crate::cli::LoadArgs;
use crate::terminal::{print, say, screen};

/// Audits the run, sums it up, writes all files and prints the result.
///
/// # Errors
/// A file cannot be written.
pub fn close(session: Session, args: &LoadArgs, command: &str, line: Option<Line>) -> Outcome<Exit> {
    settle(finish(session, command, line)?, args)
}

/// Prints the result of a run, and keeps the server's storage on request.
///
/// # Errors
/// A file cannot be written.
pub fn settle(closed: Closed, args: &LoadArgs) -> Outcome<Exit> {
    let Closed { run, exit, path, system } = closed;
    let shown = path.display().to_string();
    show(&run, args, &shown)?;
    if args.keep && system.keep(&path)? && !args.is_quiet() {
        say(&format!("The server's storage is kept: plimsoll audit {shown}"));
    }
    Ok(args.strictness.exit(exit, run.verdict))
}

fn show(run: &Run, args: &LoadArgs, directory: &str) -> Outcome<()> {
    if args.json {
        let text = serde_json::to_string_pretty(run).context("write run.json")?;
        print(&format!("{text}\n"));
    } else if !args.quiet {
        print(&plimsoll_report::summary(run, Some(directory), screen()));
    }
    Ok(())
}
