//! Resolves the system that a scenario and the options name, before it is found or started.

use std::fmt::Debug;
use std::sync::Arc;

use anyhow::bail;
use plimsoll_load::worker::Control;
use plimsoll_mongo::setup::Setup;
use plimsoll_scenario::{Loaded, Plan};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::{RunContext, System};
use crate::exit::Outcome;
use crate::run_dir::RunDir;
use crate::server_provisioning::{Choice, ServerAddress, StartOptions};

/// A kind of system that scenarios can load. The binary's registry lists them.
pub trait Kind: Debug + Sync {
    /// The subject, if the scenario is of this kind.
    ///
    /// # Errors
    /// When the scenario and the address contradict each other.
    fn resolve(
        &self,
        loaded: &Loaded,
        address: ServerAddress<'_>,
    ) -> anyhow::Result<Option<Arc<dyn Subject>>>;
}

/// The kinds of systems of a program.
pub type Registry = &'static [&'static dyn Kind];

/// A resolved system that is not yet found or started.
pub trait Subject: Debug {
    /// Checks everything that can be checked before a server is contacted.
    ///
    /// # Errors
    /// When the system does not support a part of the plan.
    fn check(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<()>;

    /// Finds or starts the system.
    ///
    /// # Errors
    /// When it cannot be reached or started.
    fn open(
        &self,
        context: RunContext<'_>,
        dir: &RunDir,
        start: StartOptions,
        control: &Control,
        runtime: Runtime,
    ) -> Outcome<Box<dyn System>>;

    /// The database server under load, or behind a service that the run starts.
    fn server(&self) -> Option<&Choice>;

    /// One sentence for each option of the servers' addresses without effect on a run.
    fn warnings(&self, _: &Loaded, _: &Plan) -> Vec<String> {
        self.server().map(Choice::warnings).unwrap_or_default()
    }

    /// The isolation of the runs of a series on this system.
    fn isolation(&self) -> Isolation;

    /// The needs of a run: its documents and its fill.
    ///
    /// # Errors
    /// When its documents cannot be compiled.
    fn estimate(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<Estimate>;

    /// The same system with another database, if it has its own database.
    fn on_database(&self, name: &str) -> Option<Arc<dyn Subject>>;

    /// One identifier for all spellings of a system.
    fn canonical(&self) -> String;
}

/// The isolation of the runs of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each run has its own collection on the database.
    Collection,
    /// No isolation: a running service keeps the data of each run.
    Shared,
    /// Each run starts its own server and service.
    Fresh,
    /// Each run starts its own service, with its own database on a running server.
    Database {
        /// The path of the database name in the scenario.
        path: String,
        /// The database name in the scenario.
        name: String,
    },
}

/// The documents and the fill that a run needs, besides its operations.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// The compiled documents, if they are read back after the load.
    pub audited: Option<Arc<Setup>>,
    /// The fill of a service that the run starts.
    pub fill: Option<Fill>,
}

/// The data that a service holds before the load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fill {
    /// The number of documents, such as readings and activities.
    pub documents: u64,
    /// The maximum number of writes to store them.
    pub writes: u64,
    /// The data in words, such as `360 readings of 1 sensors`.
    pub description: String,
    /// The fill request to the service, as JSON.
    pub order: Value,
    /// The description of the data for a reusable snapshot, without the time. `None` if each run fills anew.
    pub snapshot: Option<Value>,
}

/// The checked subject of a scenario.
///
/// # Errors
/// When the scenario and the address contradict each other, or request an unsupported feature.
pub fn resolve(
    registry: Registry,
    loaded: &Loaded,
    plan: &Plan,
    address: ServerAddress<'_>,
) -> anyhow::Result<Arc<dyn Subject>> {
    for kind in registry {
        if let Some(subject) = kind.resolve(loaded, address)? {
            subject.check(loaded, plan)?;
            return Ok(subject);
        }
    }
    bail!("no registered system can load this scenario")
}
