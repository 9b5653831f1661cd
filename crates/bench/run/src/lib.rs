//! Runs one plan on one system, records and audits the run, and summarizes it.
//!
//! In reading order: [`lifecycle`] opens and closes a run, [`session`] holds its state, [`system`] defines the system under load,
//! [`run_summary`] builds the summary, [`merge`] joins the shards of one run.

pub mod lifecycle;
pub mod session;
pub mod system;

pub mod bottleneck;
pub mod run_summary;

pub mod merge;
pub mod shard_log;

pub mod injection;
pub mod server_provenance;
pub mod server_provisioning;
pub mod stale_runs;

pub mod event_sinks;
pub mod host_observer;
pub mod observer;
pub mod phase_recorder;
pub mod run_dir;

pub mod console;
pub mod exit;
pub mod options;
pub mod reexec;
pub mod signals;
pub mod start_at;
