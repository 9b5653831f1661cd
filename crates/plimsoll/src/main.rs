//! Reads words, wires crates, prints results, sets exit codes.

mod cli;
mod commands;
mod registry;
mod terminal;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

use crate::cli::Cli;
use plimsoll_run::exit::{Exit, explained};
use plimsoll_run::reexec;

/// For the C libraries too: records are made by one thread and freed by another, for which the usual allocator takes locks.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    match commands::execute(&Cli::parse_from(reexec::arguments())) {
        // Who asked for data and has none of it must not take that for success.
        Ok(Exit::Held) if terminal::has_lost() => Exit::Failed.into(),
        Ok(exit) => exit.into(),
        Err(failure) => {
            terminal::say(&format!("plimsoll: {}", explained(&failure.error)));
            failure.exit.into()
        }
    }
}
