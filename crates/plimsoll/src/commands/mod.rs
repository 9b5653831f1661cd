//! Dispatches commands: each has its own file.

mod ab;
mod audit;
mod bench;
mod closing;
mod compare;
mod completions;
mod derive;
mod history;
mod inspect;
mod ladder;
mod line;
mod matrix;
mod merge;
#[cfg(feature = "embedding")]
mod model;
mod pipeline;
mod report;
mod run;
mod runs;
mod scenarios;
mod schema;
mod selftest;
mod series;
#[cfg(feature = "services")]
mod serve;
mod server;
mod show;
mod suite;
#[cfg(feature = "services")]
mod workflow;

use crate::cli::{Cli, Command};
use crate::registry::Registry;
#[cfg(not(all(feature = "embedding", feature = "services")))]
use plimsoll_run::exit::Deserves;
use plimsoll_run::exit::{Exit, Outcome};

/// Executes the command.
///
/// # Errors
/// When the command fails, with its exit code.
pub fn execute(cli: &Cli, registry: &'static Registry) -> Outcome<Exit> {
    if cli.command.starts_processes() {
        // Leftovers of killed processes; the next start retries a failure.
        plimsoll_host::sweep(&std::env::temp_dir());
    }
    match &cli.command {
        Command::Run(args) => run::run(args, registry),
        Command::Bench(args) => bench::bench(args, registry),
        Command::Line(args) => line::line(args, registry),
        Command::Ladder(args) => ladder::climb(args, registry),
        Command::Merge(args) => merge::merge(args),
        Command::Compare(args) => compare::compare(args),
        Command::Ab(args) => ab::ab(args, registry),
        Command::History(args) => history::history(args),
        Command::Suite(args) => suite::suite(args, registry),
        Command::Pipeline(command) => pipeline::pipeline(command),
        #[cfg(feature = "embedding")]
        Command::Model(command) => model::model(command),
        #[cfg(not(feature = "embedding"))]
        Command::Model(_) => {
            Err(anyhow::anyhow!(plimsoll_stream::missing::NO_EMBEDDING)).deserves(Exit::Usage)
        }
        Command::Show(args) => show::show(args),
        Command::Report(args) => report::report(args),
        Command::Audit(args) => audit::audit(args),
        Command::Runs(command) => runs::runs(command),
        Command::Inspect(args) => inspect::inspect(args),
        Command::Server(command) => server::server(command),
        #[cfg(feature = "services")]
        Command::Serve(args) => serve::serve(args, registry),
        #[cfg(feature = "services")]
        Command::Workflow(command) => workflow::workflow(command),
        #[cfg(not(feature = "services"))]
        Command::Serve(_) | Command::Workflow(_) => {
            Err(anyhow::anyhow!(plimsoll_systems::service_kind::NO_SERVICES)).deserves(Exit::Usage)
        }
        Command::Scenarios(args) => scenarios::scenarios(args),
        Command::Selftest(args) => selftest::selftest(args),
        Command::Schema(args) => schema::schema(args, registry),
        Command::Completions(args) => completions::completions(args, registry),
        Command::Man(args) => completions::man(args, registry),
    }
}
