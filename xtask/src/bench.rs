//! `cargo xtask bench`: measures after setting up.

use anyhow::Result;
use clap::Subcommand;

use crate::command::{self, cargo};
use crate::setup;

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// The CPU that each client costs: a bare socket, ours, the official driver, PyMongo.
    Client {
        /// Options of the benchmark: --rounds N, --json
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
}

/// Measures.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    setup::run()?;
    let Bench::Client { options } = bench;
    command::run(
        cargo().args(["bench", "--package", "plimsoll-mongo", "--bench", "client", "--"]).args(options),
    )
}
