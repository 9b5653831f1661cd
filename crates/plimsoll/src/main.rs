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
mod log;
mod matrix;
mod merge;
mod observer;
mod pipeline;
mod place;
mod plan;
mod readers;
mod run_dir;
mod scenario;
mod session;
mod start;
mod suite;
mod system;
mod terminal;
mod work;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    match commands::execute(&Cli::parse()) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            terminal::say(&format!("plimsoll: {}", terminal::explained(&failure.error)));
            failure.exit.into()
        }
    }
}
