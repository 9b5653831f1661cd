//! Reads the benchmark's arguments.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::Failure;

/// The argument that starts a process as our client.
pub(crate) const SERVE: &str = "serve";
/// Connections of each tool.
pub(crate) const CONNECTIONS: u32 = 50;

/// The parsed arguments.
pub(crate) enum Arguments {
    /// Run as our client.
    Serve {
        /// The address of the server.
        address: SocketAddr,
        /// The sending time in milliseconds.
        millis: u64,
    },
    /// Measure all tools.
    Measure {
        /// The size of the measurement.
        plan: Plan,
        /// The output format.
        format: Format,
    },
}

/// The size of a measurement.
pub(crate) struct Plan {
    /// The number of values behind each median.
    pub rounds: usize,
    /// The sending time of each tool in a round, in milliseconds.
    pub millis: u64,
    /// Directories of tools besides the PATH.
    pub tools: Vec<PathBuf>,
    /// Whether foreign tools are measured as well.
    pub others: bool,
}

/// The output format.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// A check that the benchmark runs.
    Verdict,
}

impl Arguments {
    /// `cargo bench` adds `--bench`. Without it this is a test run: small, and the options of other tests are ignored.
    pub(crate) fn read(words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let words: Vec<String> = words.collect();
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [SERVE, address, millis] => {
                Ok(Self::Serve { address: address.parse()?, millis: millis.parse()? })
            }
            ref words if words.contains(&"--bench") => options(words),
            _ => {
                let plan = Plan { rounds: 1, millis: 1_000, tools: Vec::new(), others: false };
                Ok(Self::Measure { plan, format: Format::Verdict })
            }
        }
    }
}

fn options(words: &[&str]) -> Result<Arguments, Failure> {
    let mut plan = Plan { rounds: 5, millis: 4000, tools: Vec::new(), others: true };
    let mut format = Format::Table;
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "--bench" => {}
            "--json" => format = Format::Json,
            "--rounds" => plan.rounds = number(word, words.next())?,
            "--seconds" => plan.millis = 1000 * number(word, words.next())? as u64,
            "--tools" => plan.tools.push(words.next().ok_or("--tools takes a directory")?.into()),
            _ => {
                let known = "--rounds N, --seconds N, --json and --tools DIR";
                return Err(format!("{word} is not an option: there are {known}").into());
            }
        }
    }
    Ok(Arguments::Measure { plan, format })
}

fn number(option: &str, word: Option<&str>) -> Result<usize, Failure> {
    let number = word.and_then(|word| word.parse().ok()).filter(|number| *number > 0);
    number.ok_or_else(|| format!("{option} takes a number from 1").into())
}
