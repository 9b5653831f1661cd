//! Defines the command line: a file for each group of commands.

mod load;

mod compare;
mod pipeline;
mod results;
mod suite;

mod serve;
mod server;
mod tool;

mod shared;

use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, Parser, Subcommand};

pub use compare::{AbArgs, CompareArgs, HistoryArgs};
pub use load::{LadderArgs, LineArgs, MergeArgs, RunArgs};
pub use pipeline::{PipelineArgs, PipelineCommand, PipelineRunArgs};
#[cfg(feature = "kafka")]
pub use pipeline::{PipelineAuditArgs, PipelineDemoArgs, Victim};
pub use results::{AuditArgs, InspectArgs, ReportArgs, ShowArgs};
pub use serve::{LogLevel, ServeArgs};
pub use server::{ServerCommand, StartArgs};
pub use shared::{JudgeArgs, LoadArgs};
pub use suite::SuiteArgs;
pub use tool::{CompletionsArgs, ManArgs, ModelCommand, ScenariosArgs, SchemaArgs, SchemaOf, SelftestArgs};

/// The load line of a MongoDB deployment: how much load it takes, at what latency, held back by what, with proof that
/// nothing it acknowledged was lost.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario and audit what it wrote.
    Run(RunArgs),
    /// Search for the highest load at which the objective holds.
    Line(LineArgs),
    /// Send the same load with more and more writers, and fit the law that its throughput follows.
    Ladder(LadderArgs),
    /// Join the shards that several processes or machines ran of one plan, as one run.
    Merge(MergeArgs),
    /// Hold runs of B against runs of A: better, worse, or noise.
    Compare(CompareArgs),
    /// Measure two servers, settings, clients or binaries in turns, and compare them.
    Ab(AbArgs),
    /// Follow a scenario through its runs: when its figures changed, by how much, and for better or worse.
    History(HistoryArgs),
    /// Make the tests of a table one after the other, all night if need be.
    Suite(SuiteArgs),
    /// Move events from a source through transforms to a sink, with a stated delivery guarantee.
    #[command(subcommand)]
    Pipeline(PipelineCommand),
    /// Install the model that pipelines make vectors of texts with.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Print the summary of a run again, or a result of k6, wrk, wrk2, YCSB or oha.
    Show(ShowArgs),
    /// Write the page of a run again.
    Report(ReportArgs),
    /// Read back what a run wrote, again.
    Audit(AuditArgs),
    /// Show what is in a deployment, without changing anything.
    Inspect(InspectArgs),
    /// Install, start and stop servers on this machine.
    #[command(subcommand)]
    Server(ServerCommand),
    Serve(ServeArgs),
    /// List the shipped scenarios, or print one.
    Scenarios(ScenariosArgs),
    /// Check the ruler on this machine before believing it.
    Selftest(SelftestArgs),
    /// Print the JSON Schema of a scenario, a pipeline, or a file of results.
    Schema(SchemaArgs),
    /// Print the completions for a shell.
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory.
    #[command(hide = true)]
    Man(ManArgs),
}

/// The command line of a program with services of these names.
pub fn command(services: impl Iterator<Item = &'static str>) -> clap::Command {
    let services = PossibleValuesParser::new(services);
    Cli::command()
        .mut_subcommand("serve", |serve| serve.mut_arg("service", |service| service.value_parser(services)))
}
