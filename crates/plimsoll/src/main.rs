//! Reads words, builds plans, wires rooms, sets exit codes.

mod ab;
mod audit;
mod canary;
mod check;
mod cli;
mod commands;
mod conclude;
mod exit;
mod fill;
mod fleet;
mod held_back;
mod injection;
mod itself;
mod left;
mod log;
mod matrix;
mod merge;
mod observer;
mod pipeline;
mod place;
mod readers;
mod run_dir;
mod session;
mod signals;
mod start;
mod suite;
mod system;
mod terminal;
mod workload;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

use crate::cli::Cli;
use crate::exit::Exit;

/// For the C libraries too: records are made by one thread and freed by another, for which the usual allocator takes locks.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    match commands::execute(&Cli::parse_from(itself::words())) {
        // Who asked for data and has none of it must not take that for success.
        Ok(Exit::Held) if terminal::has_lost() => Exit::Failed.into(),
        Ok(exit) => exit.into(),
        Err(failure) => {
            terminal::say(&format!("plimsoll: {}", terminal::explained(&failure.error)));
            failure.exit.into()
        }
    }
}
