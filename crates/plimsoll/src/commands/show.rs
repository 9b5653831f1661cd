//! Implements `plimsoll show`: prints a run again from its events, or a result of another tool.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, anyhow};
use plimsoll_measure::comparison::Comparison;
use plimsoll_measure::matrix::Matrix;
use plimsoll_measure::run::Run;
use plimsoll_measure::suite::Suite;
use plimsoll_report::foreign;

use super::series;
use crate::cli::ShowArgs;
use crate::terminal::{Terminal, print, screen};
use plimsoll_run::console::LiveView;
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};
use plimsoll_run::run_dir::{self, Named, Whole};
use plimsoll_series::ab::read_runs;

/// The bytes of one read from a file of another tool.
const READ_BYTES: usize = 1 << 20;

/// Prints the summary of a run, of a matrix, a suite or a comparison, or of another tool's result.
///
/// # Errors
/// The result is missing or invalid.
pub fn show(args: &ShowArgs) -> Outcome<Exit> {
    match run_dir::locate_any(args.run.as_deref()).deserves(Exit::Usage)? {
        Named::Whole(whole, path) => show_whole(whole, &path, args),
        Named::File(file) => show_file(&file, args),
        Named::Run(path) | Named::Runs(path) => show_run(&path, args),
    }
}

fn show_run(path: &Path, args: &ShowArgs) -> Outcome<Exit> {
    if args.replay {
        let mut terminal = Terminal::new();
        run_dir::read_events(path)?.iter().for_each(|event| terminal.on(event));
        return Ok(Exit::Held);
    }
    let run = run_dir::read_run(path)?;
    tell(&run, Some(&path.display().to_string()), args)
}

fn tell(run: &Run, directory: Option<&str>, args: &ShowArgs) -> Outcome<Exit> {
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(run).context("write run.json")?));
    } else {
        print(&plimsoll_report::summary(run, directory, screen()));
    }
    Ok(Exit::Held)
}

/// Prints a copied run.json, or a result of another tool.
fn show_file(path: &Path, args: &ShowArgs) -> Outcome<Exit> {
    let copied = path.extension().is_some_and(|extension| extension == "json").then(|| read_runs::read(path));
    match copied {
        Some(Ok(measured)) if !args.replay => tell(&measured.run, None, args),
        _ => show_foreign(path, args),
    }
}

fn show_foreign(path: &Path, args: &ShowArgs) -> Outcome<Exit> {
    if args.replay {
        let error =
            anyhow!("--replay: {} is a file, and only run directories contain events", path.display());
        return Err(Failure { exit: Exit::Usage, error });
    }
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let result = foreign::read(BufReader::with_capacity(READ_BYTES, file))
        .with_context(|| format!("read {}", path.display()))
        .deserves(Exit::Usage)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&result).context("write JSON")?));
    } else {
        print(&foreign::summary(&result, screen()));
    }
    Ok(Exit::Held)
}

/// Prints the result of several runs together.
fn show_whole(whole: Whole, path: &Path, args: &ShowArgs) -> Outcome<Exit> {
    if args.replay {
        let error = anyhow!(
            "--replay: {} is {}; name one of the run directories in it",
            path.display(),
            whole.words()
        );
        return Err(Failure { exit: Exit::Usage, error });
    }
    match whole {
        Whole::Matrix => series::show::<Matrix>(path, args.json),
        Whole::Suite => series::show::<Suite>(path, args.json),
        Whole::Comparison => series::show::<Comparison>(path, args.json),
    }
}
