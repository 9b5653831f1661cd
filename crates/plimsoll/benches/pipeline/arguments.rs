//! Reads the benchmark's arguments.

use std::path::{Path, PathBuf};

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::duration::Span;

use crate::plan::Plan;
use crate::{Failure, ROWS, STEADY};

const USAGE: &str = "the options are --rounds N, --only A,B, --steady SPAN, --install and --out DIR";

/// The resolved arguments.
pub(crate) struct Arguments {
    /// The amount of measurement.
    pub(crate) plan: Plan,
    /// The requested rows; empty for all.
    only: Vec<String>,
    /// Whether to fetch the peer first.
    pub(crate) install: bool,
    /// The directory of the results.
    pub(crate) out: Option<PathBuf>,
    /// Whether this is a test run, which only shows that everything works.
    pub(crate) is_test: bool,
}

impl Arguments {
    /// `cargo bench` adds `--bench`. Without that option this is a small test run, which ignores the options
    /// of other tests.
    pub(crate) fn read(words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let words: Vec<String> = words.collect();
        if words.iter().any(|word| word == "--bench") {
            return options(words.into_iter().filter(|word| word != "--bench"));
        }
        Ok(Self { plan: Plan::SMALL, only: Vec::new(), install: false, out: None, is_test: true })
    }

    /// Whether a row is requested.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Arguments, Failure> {
    let mut arguments =
        Arguments { plan: Plan::FULL, only: Vec::new(), install: false, out: None, is_test: false };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} takes a value: {USAGE}"));
        match word.as_str() {
            "--rounds" => arguments.plan.rounds = rounds(&value()?)?,
            "--only" => arguments.only = only(&value()?)?,
            "--steady" => arguments.plan.steady_s = value()?.parse::<Span>()?.as_ns() / SECOND_NS,
            "--install" => arguments.install = true,
            // Cargo runs this in the directory of its package.
            "--out" => arguments.out = Some(root().join(value()?)),
            _ => return Err(format!("{word} is not an option: {USAGE}").into()),
        }
    }
    Ok(arguments)
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rounds(word: &str) -> Result<usize, Failure> {
    let rounds = word.parse().ok().filter(|rounds| (1..=100).contains(rounds));
    rounds.ok_or_else(|| "--rounds takes a number from 1 to 100".into())
}

fn only(word: &str) -> Result<Vec<String>, Failure> {
    let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).chain([STEADY]).collect();
    let wanted: Vec<String> = word.split(',').map(str::to_owned).collect();
    match wanted.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        Some(unknown) => {
            Err(format!("--only {unknown}: unknown row; the rows are {}", names.join(", ")).into())
        }
        None => Ok(wanted),
    }
}
