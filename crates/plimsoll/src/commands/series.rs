//! Prints the results of a series: a suite, a matrix or a comparison.

use std::path::Path;

use anyhow::Context;
use plimsoll_measure::comparison::Comparison;
use plimsoll_measure::matrix::Matrix;
use plimsoll_measure::suite::Suite;
use plimsoll_report::text::Screen;
use plimsoll_report::{comparison, matrix, suite};

use crate::terminal::{print, screen};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_series::directory::{Results, read};

/// Results with a summary for the terminal.
pub trait Summary: Results {
    /// Renders them; `directory` holds their files.
    const SUMMARY: fn(&Self, Option<&str>, Screen) -> String;
}

impl Summary for Suite {
    const SUMMARY: fn(&Self, Option<&str>, Screen) -> String = suite::summary;
}

impl Summary for Matrix {
    const SUMMARY: fn(&Self, Option<&str>, Screen) -> String = matrix::summary;
}

impl Summary for Comparison {
    const SUMMARY: fn(&Self, Option<&str>, Screen) -> String = comparison::summary;
}

/// Prints results.
///
/// # Errors
/// When they cannot be written as JSON.
pub fn tell<T: Summary>(results: &T, path: &Path, json: bool) -> Outcome<()> {
    if json {
        let text = serde_json::to_string_pretty(results).with_context(|| format!("write {}", T::FILE))?;
        print(&format!("{text}\n"));
    } else {
        print(&T::SUMMARY(results, Some(&path.display().to_string()), screen()));
    }
    Ok(())
}

/// Prints results after the messages of their runs.
///
/// # Errors
/// When they cannot be written as JSON.
pub fn finish<T: Summary>(results: &T, path: &Path, json: bool, quiet: bool) -> Outcome<()> {
    if !json && !quiet {
        print("\n");
    }
    if json || !quiet { tell(results, path, json) } else { Ok(()) }
}

/// Prints the results in a directory.
///
/// # Errors
/// When it holds none, or a later version wrote them.
pub fn show<T: Summary>(path: &Path, json: bool) -> Outcome<Exit> {
    tell(&read::<T>(path).deserves(Exit::Usage)?, path, json).map(|()| Exit::Held)
}
