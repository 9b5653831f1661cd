//! Defines the error of every operation on a child: start, signal, stop.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::home;

/// A program could not be started, signalled or stopped. `name` is [`crate::Program::name`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program's storage cannot be used.
    #[error(transparent)]
    Home(#[from] home::Error),
    /// The program does not run.
    #[error("{program:?} cannot be run ({source}): install it again, or correct the PATH")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The program ended during its start.
    #[error("{name} ended while it started ({status}); the last lines of its log say why:\n{tail}")]
    Ended {
        /// The program.
        name: &'static str,
        /// Its exit status.
        status: ExitStatus,
        /// The log's last lines.
        tail: String,
    },
    /// The program exceeded the time limit of its start, and was killed.
    #[error(
        "{name} was not ready within {seconds} s; is the machine overloaded? The last lines of its log:\n{tail}"
    )]
    NotReady {
        /// The program.
        name: &'static str,
        /// The limit of the start.
        seconds: u64,
        /// The log's last lines.
        tail: String,
    },
    /// A signal could not be sent, or the process does not end.
    #[error("{name} (process {pid}) cannot be signalled ({source}): end it by hand with `kill -9 {pid}`")]
    Signal {
        /// The program.
        name: &'static str,
        /// Its process.
        pid: u32,
        /// The system's error.
        source: io::Error,
    },
    /// The program is not running.
    #[error("{name} is not running: restart it first")]
    NotRunning {
        /// The program.
        name: &'static str,
    },
    /// The program was not started with support for a simulated loss of power.
    #[error("{name} was not started for a loss of power: only the embedded server can lose it")]
    NoPowerLoss {
        /// The program.
        name: &'static str,
    },
    /// This machine has no port left.
    #[error("no free port on the loopback address ({0}): close programs that hold many connections")]
    Port(io::Error),
}
