//! Loads the workflow engine inside of this process: units of work, clients, and their samples.
//!
//! In reading order: [`WorkflowKind`] claims scenarios with the section `workflow`; a `system` holds the engine and its store under load;
//! a `target` runs one instance for each operation, and a `ledger` keeps the promises that the `audit` checks afterwards.

pub mod embedded;
pub mod load;
pub mod unit;

mod subject;
mod system;

mod store_server;
mod target;

mod audit;
mod client;
mod counters;
mod ledger;
mod observed;
mod work;

pub use subject::WorkflowKind;

/// Describes the workflow service to scenarios.
#[derive(Clone, Copy, Debug)]
pub struct WorkflowLoad;

impl plimsoll_systems::ServiceKind for WorkflowLoad {
    fn name(&self) -> &'static str {
        "workflow"
    }
}
