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
mod injection;
mod matrix;
mod observer;
mod place;
mod plan;
mod readers;
mod run_dir;
mod scenario;
mod session;
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
            terminal::say(&format!("plimsoll: {:#}", failure.error));
            failure.exit.into()
        }
    }
}
