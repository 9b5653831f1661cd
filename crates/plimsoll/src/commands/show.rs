//! `plimsoll show`: a run again, through the same readers as when it was live.

use std::path::Path;

use anyhow::{Context, anyhow};

use super::matrix;
use crate::cli::ShowArgs;
use crate::exit::{Deserves, Exit, Failure, Outcome};
use crate::run_dir;
use crate::terminal::{Terminal, print, style};

/// Prints the summary of a run or of a matrix.
///
/// # Errors
/// When there is none.
pub fn show(args: &ShowArgs) -> Outcome<Exit> {
    if let Some(path) = run_dir::locate_matrix(args.run.as_deref()) {
        return show_matrix(&path, args);
    }
    let path = run_dir::locate(args.run.as_deref()).deserves(Exit::Usage)?;
    if args.replay {
        let mut terminal = Terminal::new();
        run_dir::read_events(&path)?.iter().for_each(|event| terminal.on(event));
        return Ok(Exit::Held);
    }
    let run = run_dir::read_run(&path)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&run).context("write run.json")?));
    } else {
        print(&plimsoll_report::summary(&run, Some(&path.display().to_string()), style()));
    }
    Ok(Exit::Held)
}

fn show_matrix(path: &Path, args: &ShowArgs) -> Outcome<Exit> {
    if args.replay {
        let error =
            anyhow!("--replay: {} is a matrix; name one of the run directories in it", path.display());
        return Err(Failure { exit: Exit::Usage, error });
    }
    matrix::show(path, args.json)
}
