//! Defines the arguments of `runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::duration::Span;

/// The hours of a day.
const DAY_HOURS: f64 = 24.0;

/// The subcommands of `runs`.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List the runs with their verdicts, rates, sizes and labels, the latest first.
    List(ListArgs),
    /// Label a run, which also protects it from `runs prune`.
    Label(LabelArgs),
    /// Remove runs that are neither recent nor labelled.
    Prune(PruneArgs),
}

/// Options of `runs list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The directory of the runs.
    #[arg(value_name = "DIR", default_value = "plimsoll-runs")]
    pub directory: PathBuf,
    /// Print the list as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `runs label`.
#[derive(Debug, Args)]
pub struct LabelArgs {
    /// A run directory or its run.json.
    pub run: PathBuf,
    /// The label, in one line; an empty text removes the label.
    pub text: String,
}

/// Options of `runs prune`. Each run that is removed is printed; directories with files that Plimsoll did not write stay.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("rule").required(true).multiple(true).args(["keep", "older_than"])))]
pub struct PruneArgs {
    /// The directory of the runs.
    #[arg(value_name = "DIR", default_value = "plimsoll-runs")]
    pub directory: PathBuf,
    /// Keep the latest N runs. Labelled and running runs stay too, and do not count.
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
    /// Remove only runs that began longer ago than this, for example 30d or 12h.
    #[arg(long, value_name = "DURATION", value_parser = age)]
    pub older_than: Option<Span>,
    /// Print the runs, without removing them.
    #[arg(long)]
    pub dry_run: bool,
}

/// Parses a duration, which may also be in days.
fn age(text: &str) -> Result<Span, String> {
    let days = text.strip_suffix('d').and_then(|days| days.trim().parse::<f64>().ok());
    let hours = days.map(|days| format!("{}h", days * DAY_HOURS));
    let span = hours.as_deref().unwrap_or(text).parse::<Span>();
    span.map_err(|_| {
        format!("invalid duration `{text}`: write a number with its unit, for example 30d or 12h")
    })
}

impl PruneArgs {
    /// The age from which runs are removed, in milliseconds.
    pub fn older_than_ms(&self) -> u64 {
        self.older_than.map_or(0, |span| span.as_ns() / (SECOND_NS / 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_may_be_in_days() {
        for (text, hours) in [("30d", 720), ("0.5d", 12), ("2h", 2)] {
            assert_eq!(age(text).unwrap(), Span::from_secs(hours * 3600), "{text}");
        }
        for text in ["", "d", "30", "-1d", "3x"] {
            assert!(age(text).unwrap_err().contains("30d or 12h"), "{text}");
        }
    }
}
