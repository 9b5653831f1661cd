//! Runs Temporal's server on PostgreSQL.

use std::path::Path;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_process::{Child, Deadline, Launch, Lifetime, Program};
use tempfile::TempDir;

use super::Failure;

/// The time limit of a start, in which the server makes its schema.
const DEADLINE: Deadline =
    Deadline { limit: Duration::from_secs(120), poll_every: Duration::from_millis(20) };
/// The words before the server's address, which it prints once it is ready.
const READY: &str = "listening on ";

/// A running server. It ends with this value.
pub(crate) struct Server {
    child: Child,
    address: String,
    /// Its log.
    _directory: TempDir,
}

impl Server {
    pub(crate) fn start(program: &Path, database: &str) -> Result<Self, Failure> {
        let directory = tempfile::tempdir()?;
        let program = Program {
            name: "Temporal",
            path: program.canonicalize()?,
            args: ["-uri", database].map(Into::into).to_vec(),
            log: directory.path().join("log"),
            directory: directory.path().to_owned(),
            hidden_variables: &["SQL_"],
        };
        let (lifetime, now_ns) = (Lifetime::Bound, || clock::now().as_ns());
        let launch = Launch { program: &program, lock: None, lifetime, deadline: DEADLINE, now_ns };
        let (child, address) = launch.until(&mut address)?;
        Ok(Self { child, address, _directory: directory })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

fn address(lines: &str) -> Option<String> {
    lines.lines().find_map(|line| line.strip_prefix(READY)).map(str::to_owned)
}
