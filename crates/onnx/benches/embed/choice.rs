//! What the command line asks for.

use std::env;
use std::path::PathBuf;

/// How much to measure, and with what.
pub(crate) struct Choice {
    /// How often everything is measured.
    pub(crate) rounds: usize,
    /// How long each measurement lasts.
    pub(crate) seconds: f64,
    /// The cache with the installed model.
    pub(crate) cache: PathBuf,
    /// A Python with the packages of `requirements.txt`, if one is there.
    pub(crate) python: Option<PathBuf>,
}

const USAGE: &str = "--rounds N, --seconds S, --cache DIRECTORY, --python FILE";

impl Choice {
    pub(crate) fn read() -> Result<Self, String> {
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let cache = home.join(".cache/plimsoll");
        let mut choice = Choice { rounds: 5, seconds: 1.0, cache, python: None };
        // Cargo says --bench.
        let mut words = env::args().skip(1).filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let value = words.next().ok_or(USAGE)?;
            match word.as_str() {
                "--rounds" => choice.rounds = value.parse().map_err(|_| USAGE)?,
                "--seconds" => choice.seconds = value.parse().map_err(|_| USAGE)?,
                "--cache" => choice.cache = value.into(),
                "--python" => choice.python = Some(value.into()),
                _ => return Err(USAGE.into()),
            }
        }
        Ok(choice)
    }
}
