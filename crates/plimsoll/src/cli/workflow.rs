//! Defines the arguments of `workflow`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use plimsoll_measure::duration::Span;

/// The subcommands of `workflow`.
#[derive(Debug, Subcommand)]
pub enum WorkflowCommand {
    /// Run instances until SIGTERM or Ctrl-C. Several workers share a store.
    Worker(WorkerArgs),
    /// Deploy definitions. Running instances stay on their version.
    Deploy(DeployArgs),
    /// Start an instance. The same id again changes nothing.
    Start(StartInstanceArgs),
    /// Send a signal to an instance.
    Signal(SendArgs),
    /// List tasks, or act on one.
    #[command(subcommand)]
    Task(TaskCommand),
    /// Show an instance with its history.
    Show(InstanceArgs),
    /// List instances, by business key, status or definition.
    List(ListInstancesArgs),
    /// Explain why an instance waits.
    Explain(InstanceArgs),
    /// Cancel an instance: it undoes its completed calls and ends.
    Cancel {
        /// The instance.
        #[command(flatten)]
        instance: InstanceArgs,
        /// The reason.
        #[arg(long, value_name = "TEXT", default_value = "an operator cancelled it")]
        reason: String,
    },
    /// Let a parked or quarantined instance try again.
    Retry(InstanceArgs),
    /// List dead letters, or send one again.
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Check every invariant over the whole store.
    Audit(StoreArgs),
    /// Move the open instances of a definition to its latest version.
    Migrate(MigrateArgs),
    /// List the shipped definitions, or print one.
    Definitions {
        /// Print this definition.
        name: Option<String>,
    },
}

/// The store.
#[derive(Clone, Debug, Args)]
pub struct StoreArgs {
    /// The MongoDB deployment.
    #[arg(long, value_name = "URI", default_value = "mongodb://localhost:27017")]
    pub server: String,
    /// The database of the store in MongoDB.
    #[arg(long, value_name = "NAME", default_value = "workflow")]
    pub database: String,
    /// The store is in this database of PostgreSQL instead: postgres://user@host:5432/name
    #[arg(long, value_name = "URI", conflicts_with_all = ["server", "database"])]
    pub postgres: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `workflow worker`.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// A host that `http` steps may call, as host or host:port.
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// A secret that headers of `http` steps refer to as ${NAME}, for example crm=env:CRM_TOKEN or crm=file:/run/secrets/crm
    #[arg(long = "secret", value_name = "NAME=SOURCE")]
    pub secrets: Vec<String>,
    /// The largest number of calls at the same time.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub calls: u32,
    /// The largest number of partitions that this worker holds; by default its share of all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub partitions: Option<u16>,
    /// The length of a lease, from 1s to 5m: other workers take over that long after the end of this one.
    #[arg(long, value_name = "SPAN", default_value = "15s")]
    pub lease: Span,
}

/// Options of `workflow deploy`.
#[derive(Debug, Args)]
pub struct DeployArgs {
    /// Files in YAML or JSON, or names of shipped definitions.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Options of `workflow start`.
#[derive(Debug, Args)]
pub struct StartInstanceArgs {
    /// The definition's name; its latest version applies.
    pub definition: String,
    /// The id of the instance.
    pub instance: String,
    /// The business key, by which the instance is found.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// The first data: a JSON object.
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Options of `workflow signal`.
#[derive(Debug, Args)]
pub struct SendArgs {
    /// The instance.
    pub instance: String,
    /// The name of the signal.
    pub name: String,
    /// The content: JSON.
    #[arg(long, value_name = "JSON")]
    pub body: Option<String>,
    /// The id of the signal: a repetition with the same id changes nothing; by default a new id, which is printed.
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// An instance in a store.
#[derive(Clone, Debug, Args)]
pub struct InstanceArgs {
    /// The id of the instance.
    pub instance: String,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Options of `workflow list`.
#[derive(Debug, Args)]
pub struct ListInstancesArgs {
    /// Only with this business key.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Only with this status: running, compensating, parked, quarantined, done, failed or cancelled.
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// Only of this definition.
    #[arg(long, value_name = "NAME")]
    pub definition: Option<String>,
    /// Only ids after this one.
    #[arg(long, value_name = "ID")]
    pub after: Option<String>,
    /// The largest number of instances.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// The subcommands of `workflow task`.
#[derive(Debug, Subcommand)]
pub enum TaskCommand {
    /// List tasks.
    List(TaskListArgs),
    /// Assign a free task.
    Assign {
        /// The task and the person who acts.
        #[command(flatten)]
        act: TaskActArgs,
        /// The person who gets the task.
        #[arg(long, value_name = "PERSON")]
        to: String,
    },
    /// Give an assigned task to another person.
    Reassign {
        /// The task and the person who acts.
        #[command(flatten)]
        act: TaskActArgs,
        /// The person who gets the task.
        #[arg(long, value_name = "PERSON")]
        to: String,
    },
    /// Free a task.
    Release(TaskActArgs),
    /// Complete a task.
    Complete {
        /// The task and the person who acts.
        #[command(flatten)]
        act: TaskActArgs,
        /// The payload: JSON.
        #[arg(long, value_name = "JSON")]
        payload: Option<String>,
    },
}

/// Options of `workflow task list`.
#[derive(Debug, Args)]
pub struct TaskListArgs {
    /// Only with this status: open, completed or closed; `any` lists all.
    #[arg(long, value_name = "STATUS", default_value = "open")]
    pub status: String,
    /// Only open to this role.
    #[arg(long, value_name = "ROLE")]
    pub role: Option<String>,
    /// Only assigned to this person.
    #[arg(long, value_name = "PERSON")]
    pub assignee: Option<String>,
    /// Only of this instance.
    #[arg(long, value_name = "ID")]
    pub instance: Option<String>,
    /// The largest number of tasks.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// A task and the person who acts.
#[derive(Clone, Debug, Args)]
pub struct TaskActArgs {
    /// The id of the task, as `workflow task list` prints it.
    pub task: String,
    /// The person who acts.
    #[arg(long, value_name = "PERSON")]
    pub by: String,
    /// A role of this person.
    #[arg(long = "role", value_name = "ROLE")]
    pub roles: Vec<String>,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// The subcommands of `workflow dead`.
#[derive(Debug, Subcommand)]
pub enum DeadCommand {
    /// List dead letters.
    List {
        /// The largest number of dead letters.
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// The store.
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Send a dead letter again as the original signal.
    Redrive {
        /// The instance of the signal.
        instance: String,
        /// The id of the signal.
        signal: String,
        /// The operator, for the record.
        #[arg(long, value_name = "PERSON")]
        by: String,
        /// The store.
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// Options of `workflow migrate`.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// The definition.
    pub definition: String,
    /// Tell which instances can move, without moving them.
    #[arg(long)]
    pub dry_run: bool,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
}
