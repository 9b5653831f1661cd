//! Opens the store of a command, and gives its failures their exit codes.

use anyhow::{Context, anyhow, ensure};
use plimsoll_deployment::{
    COMMAND_TIMEOUT, Deployment, check_durable, selection_limit, warnings, warnings_of_store,
};
use plimsoll_service::Clock;
use plimsoll_workflow::port::{Record, Store as _, StoreError};
use plimsoll_workflow::worker::ClientError;
use plimsoll_workflow_service::engine::{Engine, Options, WorkerOptions};
use plimsoll_workflow_service::store::{Missing, Place, Size};
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::cli::StoreArgs;
use crate::terminal::{console, print};
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};

/// The number of connections of a command.
const CONNECTIONS: usize = 2;
/// The number of partitions of a new store.
const PARTITIONS: u16 = 64;
/// The schemes of MongoDB's URIs.
const SCHEMES: [&str; 2] = ["mongodb://", "mongodb+srv://"];

/// An open store with the runtime that it needs.
pub(super) struct Opened {
    /// The engine, without a worker.
    pub engine: Engine,
    /// The runtime.
    pub runtime: Runtime,
}

impl Opened {
    /// Opens an existing store.
    ///
    /// # Errors
    /// The arguments are invalid, or the server is unreachable.
    pub fn open(args: &StoreArgs) -> Outcome<Self> {
        let size = Size { connections: CONNECTIONS, partitions: PARTITIONS, held_max: 0 };
        Self::with(args, size, Missing::Refuse, None)
    }

    /// Opens the store, or creates it.
    ///
    /// # Errors
    /// The arguments are invalid, or the server is unreachable.
    pub fn create(args: &StoreArgs) -> Outcome<Self> {
        let size = Size { connections: CONNECTIONS, partitions: PARTITIONS, held_max: 0 };
        Self::with(args, size, Missing::Create, None)
    }

    /// Opens the store with the connections of `size`, and starts a worker if its options are given.
    ///
    /// # Errors
    /// The arguments are invalid, or the server is unreachable.
    pub fn with(
        args: &StoreArgs,
        size: Size,
        missing: Missing,
        worker: Option<WorkerOptions>,
    ) -> Outcome<Self> {
        let place = place(args).deserves(Exit::Usage)?;
        if let Place::Mongo { uri, .. } = &place {
            check_durable(uri).context("--server").deserves(Exit::Usage)?;
            let all = warnings_of_store(uri).into_iter().chain(warnings(uri));
            all.for_each(|warning| console(true).warn(&warning));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.context("start the runtime")?;
        if let Place::Mongo { uri, .. } = &place {
            await_server(uri, &runtime)?;
        }
        let options = Options { place, size, missing, backlog_max: usize::MAX, worker };
        let engine = runtime.block_on(Engine::open(options, Clock::start()));
        Ok(Self { engine: engine.deserves(Exit::Server)?, runtime })
    }

    /// The record of an instance.
    ///
    /// # Errors
    /// The instance is unknown, or the store fails.
    pub fn record(&self, instance: &str) -> Outcome<Record> {
        let loaded = self.runtime.block_on(self.engine.client.store.load(&[instance.to_owned()]));
        let found = loaded.map_err(failed)?.into_iter().next().flatten();
        let unknown = || anyhow!("no instance has the id `{instance}`: `plimsoll workflow list` lists all");
        found.ok_or_else(unknown).deserves(Exit::Usage)
    }
}

/// Waits for the server if the address sets `serverSelectionTimeoutMS`. Reports the wait as every other command does.
fn await_server(uri: &str, runtime: &Runtime) -> Outcome<()> {
    if selection_limit(uri).is_none() {
        return Ok(());
    }
    let mut report = |line: String| console(true).warn(&line);
    let found = runtime.block_on(Deployment::find_reporting(uri, COMMAND_TIMEOUT, &mut report));
    found.map(drop).deserves(Exit::Server)
}

fn place(args: &StoreArgs) -> anyhow::Result<Place> {
    if let Some(uri) = &args.postgres {
        let is_one = uri.starts_with("postgres://") || uri.starts_with("postgresql://");
        ensure!(is_one, "--postgres: write postgres://user@host:5432/database");
        return Ok(Place::Postgres { uri: uri.clone() });
    }
    let is_one = SCHEMES.iter().any(|scheme| args.server.starts_with(scheme));
    ensure!(is_one, "--server: write mongodb://host:27017, or name PostgreSQL with --postgres");
    Ok(Place::Mongo { uri: args.server.clone(), database: args.database.clone() })
}

/// The failure of a command whose store failed. The exit code is that of a server's fault.
pub(super) fn failed(error: StoreError) -> Failure {
    Failure { exit: Exit::Server, error: error.into() }
}

/// The failure of a command whose request was refused.
pub(super) fn refused(error: ClientError) -> Failure {
    match error {
        ClientError::Store(error) => failed(error),
        error => Failure { exit: Exit::Usage, error: error.into() },
    }
}

/// Prints a value as JSON.
///
/// # Errors
/// When it has no JSON form.
pub(super) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value).context("write the result as JSON")?));
    Ok(())
}

/// Reads JSON of an option.
///
/// # Errors
/// The text is no JSON.
pub(super) fn json(option: &str, text: Option<&String>) -> anyhow::Result<serde_json::Value> {
    let Some(text) = text else { return Ok(serde_json::Value::Null) };
    let parsed = plimsoll_service::strict_json::parse(text.as_bytes());
    parsed
        .map_err(|error| anyhow!("{option}: `{text}` is no JSON ({error}): write for example '{{\"a\": 1}}'"))
}
