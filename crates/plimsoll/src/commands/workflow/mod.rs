//! Implements `plimsoll workflow`: works directly on a store.

mod audit;
mod dead;
mod definitions;
mod deploy;
mod migrate;
mod send;
mod show;
mod store;
mod task;
mod worker;

use crate::cli::WorkflowCommand;
use plimsoll_run::exit::Outcome;

/// Runs a subcommand.
///
/// # Errors
/// The arguments are invalid, an item is missing, or the store fails.
pub fn workflow(command: &WorkflowCommand) -> Outcome {
    match command {
        WorkflowCommand::Worker(args) => worker::worker(args),
        WorkflowCommand::Deploy(args) => deploy::deploy(args),
        WorkflowCommand::Start(args) => send::start(args),
        WorkflowCommand::Signal(args) => send::signal(args),
        WorkflowCommand::Task(command) => task::task(command),
        WorkflowCommand::Show(args) => show::show(args),
        WorkflowCommand::List(args) => show::list(args),
        WorkflowCommand::Explain(args) => show::explain(args),
        WorkflowCommand::Cancel { instance, reason } => send::cancel(instance, reason),
        WorkflowCommand::Retry(args) => send::retry(args),
        WorkflowCommand::Dead(command) => dead::dead(command),
        WorkflowCommand::Audit(args) => audit::audit(args),
        WorkflowCommand::Migrate(args) => migrate::migrate(args),
        WorkflowCommand::Definitions { name } => definitions::definitions(name.as_deref()),
    }
}
