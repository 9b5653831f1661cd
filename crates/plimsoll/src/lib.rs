//! Parses input, wires crates, prints results, sets exit codes.
//!
//! A program is [`main`] with a [`Registry`]: the shipped one, or one with more services.

mod cli;
mod commands;
mod registry;
mod terminal;

use std::process::ExitCode;

use clap::FromArgMatches;
use mimalloc::MiMalloc;

use crate::cli::Cli;
use plimsoll_run::exit::{Exit, explained};
use plimsoll_run::reexec;

pub use cli::ServeArgs;
pub use plimsoll_systems as systems;
#[cfg(feature = "services")]
pub use plimsoll_workflow_load::WorkflowKind;
pub use registry::{Registry, SHIPPED, Serve};

/// The allocator, also for the C libraries. One thread allocates records and another frees them; the default
/// allocator takes locks for that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Runs the command that the arguments of this process name.
pub fn main(registry: &'static Registry) -> ExitCode {
    let matches = cli::command(registry.names()).get_matches_from(reexec::arguments());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match commands::execute(&cli, registry) {
        // A caller that requested data and got none must not see success.
        Ok(Exit::Held) if terminal::has_lost() => Exit::Failed.into(),
        Ok(exit) => exit.into(),
        Err(failure) => {
            terminal::say(&format!("plimsoll: {}", explained(&failure.error)));
            failure.exit.into()
        }
    }
}
