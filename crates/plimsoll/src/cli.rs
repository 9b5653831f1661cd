//! The words of the command line, as typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

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
    /// Make the tests of a table one after the other, all night if need be.
    Suite(SuiteArgs),
    /// Move events from a source through transforms to a sink, with a stated delivery guarantee.
    #[command(subcommand)]
    Pipeline(PipelineCommand),
    /// Install the model that pipelines make vectors of texts with.
    #[cfg(feature = "embedding")]
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
    /// Run a service that a team could run, to use it or to measure it.
    #[command(subcommand)]
    Serve(ServeCommand),
    /// List the shipped scenarios, or print one.
    Scenarios(ScenariosArgs),
    /// Check the ruler on this machine before believing it.
    Selftest(SelftestArgs),
    /// Print the JSON Schema of a scenario, a pipeline, or a file of results.
    Schema(SchemaArgs),
    /// Print the completions for a shell.
    Completions(CompletionsArgs),
}

/// Options of every command that sends load.
#[derive(Clone, Debug, Args)]
pub struct LoadArgs {
    /// Where to send it: a mongodb:// URI, `mongod` (from the PATH), `embedded` or `embedded:relaxed`.
    #[arg(long, value_name = "URI|embedded[:profile]")]
    pub server: Option<String>,
    /// Spread the load over these servers, which know nothing of each other: URIs or host:port, separated by commas.
    #[arg(long, value_name = "HOST,HOST…", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Start so many embedded servers and spread the load over them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub count: usize,
    /// Replace a value of the scenario, for example --set phases.0.stop.duration=5s
    #[arg(long = "set", value_name = "path=value")]
    pub overrides: Vec<String>,
    /// Seed of all randomness.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Send only this part of the load, for example 0/4.
    #[arg(long, value_name = "i/n", default_value = "0/1")]
    pub shard: String,
    /// The run directory itself.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Keep the embedded server's storage in the run directory, for a later audit; of a matrix the collections too.
    #[arg(long)]
    pub keep: bool,
    /// Print run.json (of a matrix: matrix.json) on standard output and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
    /// For a suite: what the server at the address was started as.
    #[arg(long, value_name = "JSON", hide = true)]
    pub hosted_as: Option<crate::suite::hosted_as::HostedAs>,
}

/// Run a scenario.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A file, or the name of a shipped scenario.
    pub scenario: String,
    /// Of a matrix: the values to run instead of the defaults, for example --only size=1M,10M; `all` stands for every one.
    #[arg(long, value_name = "axis=value[,value]")]
    pub only: Vec<String>,
    /// Of a matrix: print the cells and what they will cost, and do nothing.
    #[arg(long)]
    pub list: bool,
    /// Of a matrix: make the runs that are missing in this directory of an earlier one.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "list"])]
    pub resume: Option<PathBuf>,
    /// Write the result to this file as well, in the form that k6 hands to handleSummary.
    #[arg(long, value_name = "FILE")]
    pub summary_export: Option<PathBuf>,
    /// The same in k6's older form, which its own --summary-export writes: there `true` is a threshold that failed.
    #[arg(long, value_name = "FILE")]
    pub summary_export_legacy: Option<PathBuf>,
    /// Begin the load at this moment, with everything ready before: a time in UTC such as 2026-11-21T18:30:00Z, milliseconds
    /// since 1970, or +10s. Shards that are given the same one are one run, which `plimsoll merge` joins.
    #[arg(long, value_name = "TIME")]
    pub start_at: Option<String>,
    /// How and where.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Join shards.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The run directory of every shard.
    #[arg(required = true, value_name = "DIR")]
    pub shards: Vec<PathBuf>,
    /// The directory of the joined run; a new one below plimsoll-runs if left out.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print its run.json on standard output and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Search for the load line.
#[derive(Debug, Args)]
pub struct LineArgs {
    /// A file, or the name of a shipped scenario.
    #[arg(default_value = "bulk-baseline")]
    pub scenario: String,
    /// Search three times, and confirm for longer than two checkpoints.
    #[arg(long)]
    pub thorough: bool,
    /// How and where.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Climb a ladder of writers.
#[derive(Debug, Args)]
pub struct LadderArgs {
    /// A file, or the name of a shipped scenario.
    #[arg(default_value = "bulk-baseline")]
    pub scenario: String,
    /// How many writers, one number a rung.
    #[arg(long, value_name = "N,N…", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32])]
    pub writers: Vec<u32>,
    /// How long each rung is measured, in seconds; one second more lets it settle.
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    pub step: u64,
    /// How and where.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// How two things are judged.
#[derive(Clone, Debug, Args)]
pub struct JudgeArgs {
    /// The metric that decides, for example insert.response_ns.p99; throughput, or p99 where the schedule gives the rate, if
    /// left out.
    #[arg(long, value_name = "METRIC")]
    pub primary: Option<String>,
    /// No smaller difference is called better or worse.
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = effect)]
    pub min_effect: f64,
}

/// Hold B against A.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A: run directories, run.json files, or directories that hold several runs. Without --with: A and B, one each; or a
    /// comparison that was made, to print it again.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// B, likewise.
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub with: Vec<PathBuf>,
    /// How to judge.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// What is compared and may differ: a key of the scenario as in --set, or server, environment or one below these.
    #[arg(long, value_name = "KEY")]
    pub varies: Vec<String>,
    /// Compare runs that are not comparable all the same.
    #[arg(long)]
    pub force: bool,
    /// Where comparison.json and the page go; a new directory below plimsoll-runs if left out.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print comparison.json on standard output and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// Measure A and B in turns.
#[derive(Debug, Args)]
pub struct AbArgs {
    /// A file, or the name of a shipped scenario.
    pub scenario: String,
    /// What A is: server=URI, set PATH=VALUE or binary=FILE; several times for several of them. As the scenario says if left
    /// out.
    #[arg(long, value_name = "WORDS")]
    pub a: Vec<String>,
    /// What B is, likewise.
    #[arg(long, value_name = "WORDS")]
    pub b: Vec<String>,
    /// How many runs of each; fewer than 8 can show nothing.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub pairs: u32,
    /// Measure A against itself, to see what noise alone does.
    #[arg(long)]
    pub same: bool,
    /// Make the runs that are missing in this directory of an earlier comparison.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub resume: Option<PathBuf>,
    /// How to judge.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// How and where both are measured.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Make the tests of a table. Each run is a process of its own: what happens to one ends no other.
#[derive(Debug, Args)]
pub struct SuiteArgs {
    /// A file, .csv or .yaml, or the name of a shipped suite.
    #[arg(required_unless_present_any = ["resume", "bound_to"])]
    pub file: Option<String>,
    /// Make the runs that are missing in this directory of an earlier suite; of a complete one print its summary again.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "out", "server", "repetitions", "only", "list"])]
    pub resume: Option<PathBuf>,
    /// When going on, make those again that failed or hung.
    #[arg(long, requires = "resume")]
    pub retry: bool,
    /// Only these tests.
    #[arg(long, value_name = "TEST,TEST…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// How often each test is run, instead of what its row says.
    #[arg(long, value_name = "N")]
    pub repetitions: Option<u32>,
    /// Where tests whose rows name no server send their load.
    #[arg(long, value_name = "URI|embedded[:profile]")]
    pub server: Option<String>,
    /// What happens to a collection that is not empty, where rows do not say.
    #[arg(long, value_enum, value_name = "RULE")]
    pub existing: Option<crate::suite::typed::Existing>,
    /// How often the watchdog looks at a run.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub watch: plimsoll_measure::duration::Span,
    /// After so many looks without progress a run is taken for hung, and ended.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub hung_after: u32,
    /// Print the runs in their order, and do nothing.
    #[arg(long)]
    pub list: bool,
    /// For the suite itself: become the program with the words behind `--`, asked to end when this process does.
    #[arg(long, value_name = "PID", hide = true, requires = "words")]
    pub bound_to: Option<u32>,
    /// These words.
    #[arg(last = true, hide = true, requires = "bound_to")]
    pub words: Vec<String>,
    /// The suite directory itself.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print suite.json on standard output and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
}

/// A difference as a share, typed as a percentage.
fn effect(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("{text}: write a percentage from 0% to 100%, for example 3%"))
}

/// Print a run again.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The run directory, or a file that k6, wrk, wrk2, YCSB or oha wrote, packed by gzip or not; the latest run below
    /// plimsoll-runs if left out.
    pub run: Option<PathBuf>,
    /// Print run.json instead; of a file of another tool everything that was read, as JSON.
    #[arg(long)]
    pub json: bool,
    /// Replay its events as they were shown.
    #[arg(long)]
    pub replay: bool,
}

/// Write the page again.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The run directory; the latest one below plimsoll-runs if left out.
    pub run: Option<PathBuf>,
    /// Where to write it; report.html in the run directory if left out.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Audit again.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The run directory; the latest one below plimsoll-runs if left out.
    pub run: Option<PathBuf>,
    /// Where the documents are now, if not where they were written.
    #[arg(long, value_name = "URI")]
    pub server: Option<String>,
    /// The same for documents that were spread over several servers, separated by commas.
    #[arg(long, value_name = "HOST,HOST…", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Write the receipts of all acknowledged and of all lost documents into this directory, one a line.
    #[arg(long, value_name = "DIR")]
    pub receipts: Option<PathBuf>,
    /// Print the findings as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Show what is in a deployment.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Where it is: a mongodb:// URI, or a server of its own to start: `mongod` (from the PATH), `embedded` or
    /// `embedded:relaxed`.
    #[arg(long, value_name = "URI|embedded[:profile]", default_value = "mongodb://localhost:27017")]
    pub server: String,
    /// Look at all collections of this database; without it and --collection at those of plimsoll where it exists, else
    /// at those of all databases but admin, config and local.
    #[arg(long = "database", value_name = "DB")]
    pub databases: Vec<String>,
    /// Look at this collection.
    #[arg(long = "collection", value_name = "DB.COLL")]
    pub collections: Vec<String>,
    /// End with code 99 if a document has this field, for example note, customer.password or "*.password".
    #[arg(long, value_name = "FIELD")]
    pub forbidden: Vec<String>,
    /// Show so many documents of each collection, at most 20.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=20))]
    pub samples: u32,
    /// Print the inspection as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Servers on this machine.
#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    /// Install the embedded server into the cache (about 6 minutes, once).
    Install,
    /// Start an embedded server that stays until it is stopped.
    Start(StartArgs),
    /// Stop the servers that were started.
    Stop,
    /// List the servers that run.
    Status,
}

/// Start a server that stays.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The port on 127.0.0.1; any free one if left out.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// `journaled` or `relaxed`.
    #[arg(long, default_value = "journaled")]
    pub profile: String,
    /// Where it keeps its data; a temporary directory if left out.
    #[arg(long, value_name = "DIR")]
    pub storage: Option<PathBuf>,
    /// How many to start, each on a free port with a temporary directory.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub count: u32,
}

/// Services.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// Readings of sensors and activity feeds over HTTP, kept in MongoDB.
    Telemetry(TelemetryArgs),
}

/// Run the telemetry service. It prints its URL when it serves, and ends on SIGTERM or Ctrl-C when everything that it
/// accepted is finished; a second signal ends it at once.
#[derive(Debug, Args)]
pub struct TelemetryArgs {
    /// The address to listen on; port 0 takes any free one. One that others reach needs `security` in the settings.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where everything is kept: a mongodb:// URI, or a server of its own to start: `mongod` (from the PATH), `embedded`
    /// or `embedded:relaxed`; `database.uri` of the settings if left out.
    #[arg(long, value_name = "URI|embedded[:profile]")]
    pub server: Option<String>,
    /// Where a server that is started keeps its data; a temporary directory if left out.
    #[arg(long, value_name = "DIR")]
    pub storage: Option<PathBuf>,
    /// The settings, as YAML; the guide of the service lists them.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Replace a value of the settings, for example --set readings.design=bucket
    #[arg(long = "set", value_name = "path=value")]
    pub overrides: Vec<String>,
    /// How much is logged on standard error.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info)]
    pub log: LogLevel,
    /// Print the settings with all defaults as YAML, and do nothing.
    #[arg(long)]
    pub print_settings: bool,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum LogLevel {
    /// What failed.
    Error,
    /// What may be wrong.
    Warn,
    /// The beginning and the end.
    Info,
    /// Everything.
    Debug,
}

/// The shipped scenarios.
#[derive(Debug, Args)]
pub struct ScenariosArgs {
    /// Print this one.
    pub name: Option<String>,
}

/// Check the ruler.
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Only the lying servers, so many times, each with a new seed and in every second one with connections that break; ends
    /// with the first round that does not find exactly what was lied about.
    #[arg(long, value_name = "N", conflicts_with = "full", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Documents of a round.
    #[arg(long, value_name = "N", requires = "rounds", default_value_t = 2_000_000,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub documents: u64,
    /// Of so many documents of a round the server forgets one, flips a bit of one and stores one twice.
    #[arg(long, value_name = "N", requires = "rounds", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub one_in: u64,
    /// What the first round follows from; the time of day if left out.
    #[arg(long, requires = "rounds")]
    pub seed: Option<u64>,
    /// Compare runs as well: a server against itself, and against one that takes 10 % longer.
    #[arg(long)]
    pub full: bool,
    /// Print the results as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Print a schema.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Which one.
    #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
    pub of: SchemaOf,
}

/// What has a schema.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum SchemaOf {
    /// Scenario files.
    Scenario,
    /// run.json
    Run,
    /// matrix.json
    Matrix,
    /// comparison.json
    Comparison,
    /// suite.json
    Suite,
    /// Pipeline files.
    Pipeline,
    /// pipeline.json
    Stream,
}

/// Print completions.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// For which shell.
    pub shell: Shell,
}

/// What to do with the model.
#[cfg(feature = "embedding")]
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Fetch all-MiniLM-L6-v2 and ONNX Runtime into the cache, about 110 MB, and hold them to their digests.
    Install,
}

/// What to do with a pipeline.
#[derive(Debug, Subcommand)]
pub enum PipelineCommand {
    /// Run a pipeline until its source ends, or until it is interrupted.
    Run(PipelineRunArgs),
    /// Hold the collections that a pipeline writes from Kafka against its topic: what is missing, doubled, strange or altered.
    #[cfg(feature = "kafka")]
    Audit(PipelineAuditArgs),
    /// Say what a pipeline is and whether it can give its guarantee, without reading an event.
    Check(PipelineArgs),
}

/// Which pipeline.
#[derive(Clone, Debug, Args)]
pub struct PipelineArgs {
    /// The file.
    pub file: PathBuf,
    /// Replace a value of the file, for example --set in_flight.events=18000
    #[arg(long = "set", value_name = "path=value")]
    pub overrides: Vec<String>,
}

/// How to run a pipeline.
#[derive(Clone, Debug, Args)]
pub struct PipelineRunArgs {
    #[command(flatten)]
    pub what: PipelineArgs,
    /// Tell Prometheus at this address: /metrics and /healthz.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<SocketAddr>,
    /// The directory of the run.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print pipeline.json on standard output and nothing else there.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Which pipeline's destination to audit.
#[cfg(feature = "kafka")]
#[derive(Clone, Debug, Args)]
pub struct PipelineAuditArgs {
    #[command(flatten)]
    pub what: PipelineArgs,
    /// Print the audit as JSON on standard output and nothing else there.
    #[arg(long)]
    pub json: bool,
}
