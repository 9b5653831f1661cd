//! Runs Plimsoll with the shipped systems and services.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::main(&plimsoll::SHIPPED)
}
