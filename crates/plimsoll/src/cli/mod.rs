//! Defines the command line: a file for each group of commands.

mod load;

mod compare;
mod pipeline;
mod results;
mod runs;
mod suite;

mod serve;
mod server;
mod tool;

mod shared;
mod workflow;

use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, Parser, Subcommand};

pub use compare::{AbArgs, CompareArgs, HistoryArgs};
pub use load::{BenchArgs, LadderArgs, LineArgs, MergeArgs, OnceArgs, RunArgs};
pub use pipeline::{PipelineArgs, PipelineCommand, PipelineRunArgs};
#[cfg(feature = "kafka")]
pub use pipeline::{PipelineAuditArgs, PipelineDemoArgs, Victim};
pub use results::{AuditArgs, InspectArgs, ReportArgs, ShowArgs};
pub use runs::{LabelArgs, ListArgs, PruneArgs, RunsCommand};
#[cfg(feature = "services")]
pub use serve::LogLevel;
pub use serve::ServeArgs;
pub use server::{ServerCommand, StartArgs, StopArgs};
pub use shared::{JudgeArgs, LoadArgs, StrictnessArgs};
pub use suite::SuiteArgs;
pub use tool::{
    CompletionsArgs, DeriveArgs, ManArgs, ModelCommand, ScenariosArgs, ScenariosCommand, SchemaArgs,
    SchemaOf, SelftestArgs,
};
pub use workflow::WorkflowCommand;
#[cfg(feature = "services")]
pub use workflow::{
    DeadCommand, DeployArgs, InstanceArgs, ListInstancesArgs, MigrateArgs, SendArgs, StartInstanceArgs,
    StoreArgs, TaskActArgs, TaskCommand, TaskListArgs, WorkerArgs,
};

/// Find the load line of a MongoDB deployment, the highest load at which its latency holds, with its
/// bottleneck. Prove that every acknowledged write is kept.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, max_term_width = 100)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario and audit its writes.
    Run(RunArgs),
    /// Run one operation that the options describe, without a scenario file.
    Bench(BenchArgs),
    /// Search for the highest load at which the objective holds.
    Line(LineArgs),
    /// Measure throughput with more and more writers, and fit its scalability law.
    Ladder(LadderArgs),
    /// Join the shards of one run that several processes or machines sent.
    Merge(MergeArgs),
    /// Compare runs of B with runs of A: better, worse, or noise.
    Compare(CompareArgs),
    /// Measure two servers, settings, clients or binaries in turns, and compare them.
    Ab(AbArgs),
    /// Find changes in the runs of a scenario: when its figures changed, by how much, and in which direction.
    History(HistoryArgs),
    /// Run a table of tests, one after the other.
    Suite(SuiteArgs),
    /// Move events from a source through transforms to a sink, with a stated delivery guarantee.
    #[command(subcommand)]
    Pipeline(PipelineCommand),
    /// Install the embedding model of pipelines.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Print the summary of a run again, or a result of k6, wrk, wrk2, YCSB or oha.
    Show(ShowArgs),
    /// Write the page of a run again.
    Report(ReportArgs),
    /// Audit the writes of a run again.
    Audit(AuditArgs),
    /// List, label and remove run directories.
    #[command(subcommand)]
    Runs(RunsCommand),
    /// List the contents of a deployment, without changing anything.
    Inspect(InspectArgs),
    /// Install, start and stop servers on this machine.
    #[command(subcommand)]
    Server(ServerCommand),
    Serve(ServeArgs),
    /// Run durable workflows: deploy definitions, start instances, send signals, and see why an instance waits.
    #[command(subcommand)]
    Workflow(WorkflowCommand),
    /// List the shipped scenarios, or print one.
    Scenarios(ScenariosArgs),
    /// Verify Plimsoll's accuracy on this machine.
    Selftest(SelftestArgs),
    /// Print the JSON Schema of a scenario, a pipeline, or a results file.
    Schema(SchemaArgs),
    /// Print the completions for a shell.
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory.
    #[command(hide = true)]
    Man(ManArgs),
}

impl Command {
    /// Whether the command may start servers, brokers or services.
    pub const fn starts_processes(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Line(_)
                | Self::Ladder(_)
                | Self::Ab(_)
                | Self::Suite(_)
                | Self::Pipeline(_)
                | Self::Audit(_)
                | Self::Inspect(_)
                | Self::Server(_)
                | Self::Serve(_)
                | Self::Selftest(_)
        )
    }
}

/// The command line of a program with services of these names.
pub fn command(services: Vec<&'static str>) -> clap::Command {
    let services = PossibleValuesParser::new(services);
    Cli::command()
        .mut_subcommand("serve", |serve| serve.mut_arg("service", |service| service.value_parser(services)))
}
