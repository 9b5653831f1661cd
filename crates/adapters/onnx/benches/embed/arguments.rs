//! Reads the benchmark's command line.

use std::env;
use std::path::PathBuf;

use plimsoll_install::Cache;

use crate::Failure;

/// The options of the benchmark.
pub(crate) struct Arguments {
    /// The number of rounds.
    pub(crate) rounds: usize,
    /// The length of each measurement.
    pub(crate) seconds: f64,
    /// The cache with the installed model.
    pub(crate) cache: PathBuf,
    /// A Python with the packages of `requirements-onnx.txt`, if any.
    pub(crate) python: Option<PathBuf>,
    /// The candle program, if it is built; it uses the weights in that Python's package.
    pub(crate) candle: Option<PathBuf>,
    /// Whether this is a test run, which only shows that everything works.
    pub(crate) is_test: bool,
}

const USAGE: &str = "there are --rounds N, --seconds S, --cache DIRECTORY, --python FILE and --candle FILE";

impl Arguments {
    /// `cargo bench` adds `--bench`. Without it this is a small test run that ignores other tests' options.
    pub(crate) fn read() -> Result<Self, Failure> {
        let cache = Cache::locate()?.root().to_owned();
        let mut arguments =
            Arguments { rounds: 1, seconds: 0.0, cache, python: None, candle: None, is_test: true };
        if env::args().any(|word| word == "--bench") {
            arguments = Arguments { rounds: 9, seconds: 1.0, is_test: false, ..arguments };
            arguments.take(env::args().skip(1).filter(|word| word != "--bench"))?;
        }
        Ok(arguments)
    }

    fn take(&mut self, mut words: impl Iterator<Item = String>) -> Result<(), String> {
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value: {USAGE}"))?;
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
    value.parse().ok().filter(|rounds| *rounds > 0).ok_or_else(|| "--rounds needs a number from 1".to_owned())
}
