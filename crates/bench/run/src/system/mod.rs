//! Defines the system under load: a database, or a service, possibly with a database behind it.
//!
//! A session knows phases, readers and figures; a system knows connections, documents and processes.

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
use plimsoll_measure::environment::ServerFacts;
use plimsoll_measure::inspection::{Collection, Size};
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::run::{Answers, ServerShare};
use plimsoll_wire::ConnectOptions;

use crate::exit::Outcome;
use crate::server_provenance::HostedAs;
use plimsoll_scenario::Loaded;
use plimsoll_scenario::Plan;

mod subject;

pub use subject::{Estimate, Fill, Isolation, Kind, Registry, Subject, resolve};

/// The purpose of an opened system.
#[derive(Clone, Copy, Debug)]
pub struct RunContext<'a> {
    /// The scenario.
    pub loaded: &'a Loaded,
    /// The plan.
    pub plan: &'a Plan,
    /// The run's identity.
    pub run: RunId,
    /// This process among all shards.
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
    /// As many workers as there are cores to spare beside a local server, at most one a connection. The pacer spins only
    /// where they leave a core free. A shard has as many wherever the server is: all shards must have the same, for the
    /// shares of the plan follow from it.
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
    /// The system's own facts.
    fn facts(&self) -> &ServerFacts;

    /// Records the provenance of the server at the address, from its starter.
    fn hosted_as(&mut self, _: &HostedAs) {}

    /// The threads of the load.
    fn workers(&self) -> Workers;

    /// The client that sends the operations.
    fn client(&self) -> &'static str;

    /// Whether that client tells how many bytes went over the wire.
    fn tells_bytes(&self) -> bool;

    /// The collections that the load goes to, where it goes to any.
    fn collections(&self) -> Vec<String>;

    /// The checked answers of each operation of a service, after its end.
    fn answers(&self) -> Vec<Answers> {
        Vec::new()
    }

    /// Its processes, as far as they run on this machine. After a restart they are others.
    fn pids(&self) -> Vec<u32>;

    /// The server whose counters tell what happens inside, if there is one.
    fn observed(&self) -> Option<ConnectOptions>;

    /// Gets everything ready that has to be there before the load; `tell` hears of it as it happens.
    ///
    /// # Errors
    /// What the system refuses.
    fn begin(&mut self, context: RunContext<'_>, ledger: &Path, tell: &mut dyn FnMut(String)) -> Outcome<()>;

    /// Gets ready what one of the plan's phases needs before its load.
    ///
    /// # Errors
    /// What the system refuses.
    fn prepare(&mut self, plan: &Plan, phase: usize, tell: &mut dyn FnMut(String)) -> Outcome<()>;

    /// The planned faults of a phase, connected to the system.
    fn faults(&self, plan: &Plan, phase: &Phase) -> Vec<Box<dyn Fault>>;

    /// The next phase begins at this moment; so it does for every other shard, if there are any.
    fn begin_at(&mut self, at: Instant);

    /// Runs a phase.
    ///
    /// # Errors
    /// When it cannot be run at all.
    fn run(
        &mut self,
        phase: &Phase,
        control: &Control,
        faults: &mut [Box<dyn Fault>],
        sink: &mut dyn FnMut(Progress),
    ) -> Result<Finished, RunError>;

    /// Connections that are open.
    fn connections(&self) -> usize;

    /// Each server's share of the load.
    fn shares(&self) -> Vec<ServerShare>;

    /// Median round trip of an empty request, in nanoseconds; nothing if it does not answer.
    fn ping_ns(&self) -> Option<u64>;

    /// The tool's ceiling with the load of a phase, against a server that answers at once: (operations,
    /// documents) per
    /// second.
    ///
    /// # Errors
    /// When that server cannot be started, or the load not be sent.
    fn ceiling(&self, phase: &Phase, control: &Control) -> anyhow::Result<(f64, f64)>;

    /// Ends the workers and closes the books.
    ///
    /// # Errors
    /// When the disk refuses the ledger.
    fn close(&mut self, ledger: &Path) -> anyhow::Result<()>;

    /// Reads back what was written, once the books are closed; `progress` hears (documents read, documents expected). A
    /// server on its way back is waited for as long as `patience`. Nothing if the load proves nothing.
    fn audit(&mut self, patience: Duration, progress: &mut (dyn FnMut(u64, u64) + Send))
    -> Option<Integrity>;

    /// The collection before the load, and after the audit.
    fn inspections(&self) -> (Option<Collection>, Option<Collection>);

    /// The collections that a service of ours keeps everything in, before the load and when it was closed.
    fn collections_behind(&self) -> [Vec<Collection>; 2] {
        [Vec::new(), Vec::new()]
    }

    /// The size of its data, if known without an audit.
    fn size(&self) -> Option<Size> {
        None
    }

    /// Moves the storage of every server that we started into the run directory; says whether there was any.
    ///
    /// # Errors
    /// When it cannot be moved.
    fn keep(self: Box<Self>, run: &Path) -> anyhow::Result<bool>;
}

/// CPU that processes have used, in nanoseconds; zero if it is not known.
pub fn cpu_ns(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| process::usage(*pid)).map(|usage| usage.cpu_ns).sum()
}
