//! What the command line asks for.

use std::env;
use std::path::PathBuf;

use plimsoll_install::Cache;

use crate::Failure;

/// How much to measure, and with what.
pub(crate) struct Choice {
    /// How often everything is measured.
    pub(crate) rounds: usize,
    /// How long each measurement lasts.
    pub(crate) seconds: f64,
    /// The cache with the installed model.
    pub(crate) cache: PathBuf,
    /// A Python with the packages of `requirements-onnx.txt`, if one is there.
    pub(crate) python: Option<PathBuf>,
    /// candle's side, if it is built; it takes the weights that come with that Python.
    pub(crate) candle: Option<PathBuf>,
    /// Whether it is only to be seen that everything runs.
    pub(crate) is_test: bool,
}

const USAGE: &str = "there are --rounds N, --seconds S, --cache DIRECTORY, --python FILE and --candle FILE";

impl Choice {
    /// `cargo bench` adds `--bench`. Without it this is a test run: small, and deaf to the options of other tests.
    pub(crate) fn read() -> Result<Self, Failure> {
        let cache = Cache::locate()?.root().to_owned();
        let mut choice = Choice { rounds: 1, seconds: 0.0, cache, python: None, candle: None, is_test: true };
        if env::args().any(|word| word == "--bench") {
            choice = Choice { rounds: 9, seconds: 1.0, is_test: false, ..choice };
            choice.take(env::args().skip(1).filter(|word| word != "--bench"))?;
        }
        Ok(choice)
    }

    fn take(&mut self, mut words: impl Iterator<Item = String>) -> Result<(), String> {
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} takes a value: {USAGE}"))?;
            match word.as_str() {
                "--rounds" => self.rounds = at_least_one(&value)?,
                "--seconds" => self.seconds = value.parse().map_err(|_| USAGE)?,
                "--cache" => self.cache = value.into(),
                "--python" => self.python = Some(value.into()),
                "--candle" => self.candle = Some(value.into()),
                _ => return Err(format!("{word} is not an option: {USAGE}")),
            }
        }
        Ok(())
    }
}

fn at_least_one(value: &str) -> Result<usize, String> {
    value.parse().ok().filter(|rounds| *rounds > 0).ok_or_else(|| "--rounds takes a number from 1".to_owned())
}
