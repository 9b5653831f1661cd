//! Defines the system under load: a database, or a service, possibly with a database behind it.
//!
//! A session handles phases, event sinks and figures; a system handles connections, documents and processes.

use std::path::Path;
use std::time::Duration;

use plimsoll_host::{machine, process};
use plimsoll_ledger::Run as RunId;
use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::{Finished, Progress, RunError};
use plimsoll_load::fault::Fault;
use plimsoll_load::phase::Phase;
use plimsoll_load::runtime::Spin;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock::Instant;
use plimsoll_measure::clock_offset::ServerClock;
use plimsoll_measure::environment::ServerFacts;
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::inspection::{Collection, Size};
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::run::{Answers, ServerShare};
use plimsoll_measure::workflow::Workflow;
use plimsoll_wire::ConnectOptions;

use crate::exit::Outcome;
use crate::server_provenance::HostedAs;
use plimsoll_scenario::Loaded;
use plimsoll_scenario::Plan;

mod subject;

pub use subject::{Estimate, Fill, Isolation, Kind, Registry, Subject, resolve};

/// A load to repeat against a server that answers at once.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a> {
    /// The phase with its open loads.
    pub phase: &'a Phase,
    /// Cores that other threads use at the same time: as many as the server used.
    pub cores: f64,
    /// The mean size of an answer, in bytes.
    pub answer_bytes: usize,
    /// Whether the pacer spins.
    pub spin: Spin,
}

/// The run that a system is opened for.
#[derive(Clone, Copy, Debug)]
pub struct RunContext<'a> {
    /// The scenario.
    pub loaded: &'a Loaded,
    /// The plan.
    pub plan: &'a Plan,
    /// The run's identity.
    pub run: RunId,
    /// The share of this process among all shards.
    pub shard: Share,
}

/// The threads of the load.
#[derive(Clone, Copy, Debug)]
pub struct Workers {
    /// The number of worker threads.
    pub count: usize,
    /// Whether the pacer spins.
    pub spin: Spin,
}

impl Workers {
    /// One worker for each core that a local server leaves free, at most one per connection. The pacer spins only if a core
    /// stays free. A shard ignores where the server is: all shards need equally many workers, because the shares of the plan
    /// follow from it.
    pub fn of(context: RunContext<'_>, is_local: bool) -> Self {
        let cores = machine::cores() as usize;
        let servers = usize::from(is_local && context.shard == Share::WHOLE);
        let spare = cores.saturating_sub(servers);
        let wanted = context.loaded.scenario.workers.map_or(spare, |workers| workers as usize);
        let count = wanted.clamp(1, context.plan.connections().max(1) as usize).min(256);
        let spin = if count + servers >= cores { Spin::Off } else { Spin::On };
        Self { count, spin }
    }
}

/// The system under load.
pub trait System: std::fmt::Debug {
    /// The facts of the system.
    fn facts(&self) -> &ServerFacts;

    /// Records the provenance of the server at the address, from its starter.
    fn hosted_as(&mut self, _: &HostedAs) {}

    /// The threads of the load.
    fn workers(&self) -> Workers;

    /// The client that sends the operations.
    fn client(&self) -> &'static str;

    /// Whether that client reports the number of bytes on the wire.
    fn tells_bytes(&self) -> bool;

    /// The collections that the load writes or reads, if any.
    fn collections(&self) -> Vec<String>;

    /// The checked answers of each operation of a service, available after its end.
    fn answers(&self) -> Vec<Answers> {
        Vec::new()
    }

    /// The ids of the system's processes on this machine. A restart changes them.
    fn pids(&self) -> Vec<u32>;

    /// The server whose counters show its internal work, if there is one.
    fn observed(&self) -> Option<ConnectOptions>;

    /// Prepares everything that the load requires. Reports the progress to `tell`.
    ///
    /// # Errors
    /// When the system refuses.
    fn begin(&mut self, context: RunContext<'_>, ledger: &Path, tell: &mut dyn FnMut(String)) -> Outcome<()>;

    /// Prepares the requirements of one phase before its load.
    ///
    /// # Errors
    /// When the system refuses.
    fn prepare(&mut self, plan: &Plan, phase: usize, tell: &mut dyn FnMut(String)) -> Outcome<()>;

    /// The planned faults of a phase, connected to the system.
    fn faults(&self, plan: &Plan, phase: &Phase) -> Vec<Box<dyn Fault>>;

    /// Schedules the next phase for this time, which all shards share.
    fn begin_at(&mut self, at: Instant);

    /// Runs a phase.
    ///
    /// # Errors
    /// When the phase cannot be run at all.
    fn run(
        &mut self,
        phase: &Phase,
        control: &Control,
        faults: &mut [Box<dyn Fault>],
        sink: &mut dyn FnMut(Progress),
    ) -> Result<Finished, RunError>;

    /// The number of open connections.
    fn connections(&self) -> usize;

    /// Each server's share of the load.
    fn shares(&self) -> Vec<ServerShare>;

    /// Median round trip of an empty request, in nanoseconds. `None` if the server does not answer.
    fn ping_ns(&self) -> Option<u64>;

    /// The clock of a server that all shards reach, with its offset now; `None` if the server gives no time.
    fn server_clock(&self) -> Option<ServerClock> {
        None
    }

    /// The tool's ceiling with the load of a phase, against a server that answers at once: (operations, documents) per second.
    ///
    /// # Errors
    /// When that server cannot be started, or the load cannot be sent.
    fn ceiling(&self, phase: &Phase, control: &Control) -> anyhow::Result<(f64, f64)>;

    /// The tool's latency floor: response times of a phase with open loads against a server that answers at once.
    ///
    /// # Errors
    /// When that server cannot be started, or the load cannot be sent.
    fn floor(&self, replay: &Replay<'_>, control: &Control) -> anyhow::Result<Latency>;

    /// Ends the workers and saves the ledger.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    fn close(&mut self, ledger: &Path) -> anyhow::Result<()>;

    /// Reads the written documents back after `close`. Reports (documents read, documents expected) to `progress`, first before it
    /// contacts a server. Waits at most `patience` for a server that restarts. `None` if the load proves nothing.
    fn audit(&mut self, patience: Duration, progress: &mut (dyn FnMut(u64, u64) + Send))
    -> Option<Integrity>;

    /// The collection before the load, and after the audit.
    fn inspections(&self) -> (Option<Collection>, Option<Collection>);

    /// The collections in which a started service stores its data, before the load and at its end.
    fn collections_behind(&self) -> [Vec<Collection>; 2] {
        [Vec::new(), Vec::new()]
    }

    /// The size of the system's data, if known without an audit.
    fn size(&self) -> Option<Size> {
        None
    }

    /// The figures of the workflow engine after the audit, if the load goes to it.
    fn workflow(&self) -> Option<Workflow> {
        None
    }

    /// Moves the storage of every server that Plimsoll started into the run directory. Returns whether there was any.
    ///
    /// # Errors
    /// When it cannot be moved.
    fn keep(self: Box<Self>, run: &Path) -> anyhow::Result<bool>;
}

/// The CPU time of processes in nanoseconds. Zero if unknown.
pub fn cpu_ns(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| process::usage(*pid)).map(|usage| usage.cpu_ns).sum()
}
