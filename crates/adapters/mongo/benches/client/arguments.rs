//! Reads the benchmark's arguments.

use plimsoll_wire::Address;

use crate::Failure;
use crate::client::Client;
use crate::rounds::Plan;

/// The argument before the client's name, for a process that is one client.
pub(crate) const SERVE: &str = "serve";

/// The parsed arguments.
pub(crate) enum Arguments {
    /// Run as one of the clients and follow the orders on standard input.
    Serve {
        /// The selected client.
        client: Client,
        /// The address of the server.
        address: Address,
    },
    /// Measure all clients.
    Measure {
        /// The size of the measurement.
        plan: Plan,
        /// The output format.
        format: Format,
    },
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
            [SERVE, client, address] => {
                Ok(Arguments::Serve { client: Client::named(client)?, address: address.parse()? })
            }
            ref words if words.contains(&"--bench") => options(words),
            _ => Ok(Arguments::Measure { plan: Plan::SMALL, format: Format::Verdict }),
        }
    }
}

fn options(words: &[&str]) -> Result<Arguments, Failure> {
    let (mut plan, mut format) = (Plan::FULL, Format::Table);
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--bench" => {}
            "--json" => format = Format::Json,
            "--rounds" => plan.rounds = rounds(words.next().copied())?,
            _ => return Err(format!("{word} is not an option: there are --rounds N and --json").into()),
        }
    }
    Ok(Arguments::Measure { plan, format })
}

fn rounds(word: Option<&str>) -> Result<u32, Failure> {
    word.and_then(|word| word.parse().ok())
        .filter(|&rounds| rounds > 0)
        .ok_or_else(|| "--rounds takes a number from 1".into())
}
