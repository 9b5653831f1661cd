//! Opens the engine on a store: a client, and a worker if this process shall run instances.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::RangeInclusive;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use plimsoll_measure::duration::Span;
use plimsoll_service::Clock;
use plimsoll_workflow::definition::{Definition, Version};
use plimsoll_workflow::instance::StartRequest;
use plimsoll_workflow::port::{Clock as Port, Inserted, Record, Stored};
use plimsoll_workflow::program::Program;
use plimsoll_workflow::step::ID_BYTES_MAX;
use plimsoll_workflow::worker::{Client, ClientError, Groups, Mailbox, Settings, Watchers, Worker, drive};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use crate::calls::{Calls, Secrets, unknown_function};
use crate::metrics::Metrics;
use crate::store::{Missing, Place, Size, Store};

/// The longest wait for calls in flight at the end.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// The time between two checks whether a process is idle: longer than the wait of a result for its commit.
const IDLE_EVERY: Duration = Duration::from_millis(30);
/// Idle checks in sequence that end a drain.
const IDLE_CHECKS: u32 = 4;
/// The time between two loads of the definitions.
const REFRESH_EVERY: Duration = Duration::from_secs(5);

/// The reason why a business key is invalid, or `None`.
pub fn key_fault(key: &str) -> Option<String> {
    let is_invalid = key.is_empty() || key.len() > ID_BYTES_MAX || key.chars().any(char::is_control);
    is_invalid
        .then(|| format!("the key is invalid: use 1 to {ID_BYTES_MAX} bytes without control characters"))
}

/// The options of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// The hosts that steps may call.
    pub hosts: Vec<String>,
    /// The secrets of headers.
    pub secrets: Secrets,
    /// The maximum number of concurrent calls.
    pub calls_max: usize,
    /// The length of a lease, in milliseconds. After the end of this process, others take over with this delay.
    pub lease_ms: u64,
}

/// The usual length of a lease.
pub const LEASE: Span = Span::from_secs(15);
/// The shortest and the longest lease.
const LEASES: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(300);

/// The length of a lease in milliseconds.
///
/// # Errors
///
/// If a process could not renew it in time, or others would wait too long.
pub fn lease_ms(lease: Span) -> Result<u64, String> {
    let (least, most) = (LEASES.start(), LEASES.end());
    let fault = || format!("a lease of {lease} is invalid: choose {least} to {most}");
    LEASES.contains(&lease).then_some(lease.as_ns() / 1_000_000).ok_or_else(fault)
}

/// The options of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The place of the store.
    pub place: Place,
    /// Its size.
    pub size: Size,
    /// The consequence of a missing store.
    pub missing: Missing,
    /// Above this number of waiting signals in memory, senders are refused.
    pub backlog_max: usize,
    /// The worker. `None` if this process only sends.
    pub worker: Option<WorkerOptions>,
}

/// The reason why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be used.
    #[error("{place}: {error}")]
    Store {
        /// The place, without a password.
        place: String,
        /// The reason.
        error: plimsoll_workflow::port::StoreError,
    },
    /// TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] plimsoll_net::TlsError),
}

/// The reason why a definition was not deployed.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// This program lacks a function.
    #[error("{0}")]
    Function(String),
    /// The engine refused.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The engine in this process.
pub struct Engine {
    /// Starts instances and sends signals.
    pub client: Client<Store>,
    /// The counters.
    pub metrics: Arc<Metrics>,
    clock: Clock,
    tasks: Mutex<Option<Tasks>>,
    death: watch::Receiver<bool>,
}

/// The tasks of a process that runs instances.
struct Tasks {
    worker: JoinHandle<()>,
    refresh: JoinHandle<()>,
}

impl Engine {
    /// Opens the store, loads all definitions, and starts the worker. It needs a runtime of tokio.
    ///
    /// # Errors
    ///
    /// If the store cannot be used.
    pub async fn open(options: Options, clock: Clock) -> Result<Self, OpenError> {
        let metrics = Arc::new(Metrics::default());
        let place = format!("{:?}", options.place);
        let failed = |error| OpenError::Store { place: place.clone(), error };
        let store = Store::open(&options.place, options.size, options.missing, clock, metrics.clone())
            .await
            .map_err(failed)?;
        store.refresh().await.map_err(failed)?;
        let client = Client {
            registry: store.registry().clone(),
            store: Arc::new(store),
            mailbox: Mailbox::default(),
            backlog: Arc::new(AtomicUsize::new(0)),
            backlog_max: options.backlog_max,
            watchers: Watchers::default(),
            groups: Groups::default(),
        };
        let (dies, death) = watch::channel(false);
        let begin = |worker| start(&client, worker, clock, &metrics, dies);
        let tasks = options.worker.map(begin).transpose()?;
        Ok(Self { client, metrics, clock, tasks: Mutex::new(tasks), death })
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        Wall(self.clock).now_ms()
    }

    /// Signals that wait in memory.
    pub fn backlog(&self) -> usize {
        self.client.backlog.load(Ordering::Relaxed)
    }

    /// Stores a definition. Returns whether the store had its version already.
    ///
    /// # Errors
    ///
    /// If the definition is invalid or calls a function that this program lacks, or if the store fails.
    pub async fn deploy(&self, definition: &Definition) -> Result<Inserted, DeployError> {
        let program = Program::compile_new(definition).map_err(ClientError::Definition)?;
        if let Some(words) = unknown_function(&program) {
            return Err(DeployError::Function(words));
        }
        self.refresh().await.map_err(ClientError::Store)?;
        let is_known = self.client.registry.program(&program.version.hash).is_some();
        self.client.deploy(definition, self.now_ms()).await?;
        Ok(if is_known { Inserted::Known } else { Inserted::New })
    }

    /// Starts an instance. Definitions that another process deployed are loaded first if the name is unknown.
    ///
    /// # Errors
    ///
    /// If the request is invalid, this process has too much work, or the store fails.
    pub async fn start(&self, request: StartRequest) -> Result<Inserted, ClientError> {
        if self.client.registry.latest(&request.definition).is_none() {
            self.refresh().await?;
        }
        self.client.start(request, self.now_ms()).await
    }

    /// Waits until an instance has a version after another one, or for a time. Returns its record then. None: it does not exist.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn wait_for_change(
        &self,
        instance: &str,
        after: u64,
        longest: Duration,
    ) -> Result<Option<Arc<Record>>, ClientError> {
        let wall = Wall(self.clock);
        let until_ms = wall.now_ms().saturating_add(longest.as_millis() as u64);
        self.client.wait_for_change(instance, after, until_ms, &wall).await
    }

    /// The program of a version. Definitions are loaded first if it is unknown.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn program(&self, version: &Version) -> Stored<Option<Arc<Program>>> {
        if let Some(program) = self.client.registry.program(&version.hash) {
            return Ok(Some(program));
        }
        self.refresh().await?;
        Ok(self.client.registry.program(&version.hash))
    }

    /// Loads the definitions of the store.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn refresh(&self) -> Stored<Vec<Definition>> {
        self.client.store.refresh().await
    }

    /// Begins no more calls, and waits at most ten seconds until the calls in flight have ended and their results are stored. Then ends
    /// the worker, which gives its partitions back. Instances continue in other processes, or later.
    pub async fn close(&self) {
        let tasks = self.tasks.lock().await.take();
        if let Some(Tasks { worker, refresh }) = tasks {
            refresh.abort();
            self.metrics.begin_drain();
            if tokio::time::timeout(DRAIN_MAX, self.idle()).await.is_err() {
                tracing::warn!("calls in flight are cut off; they are made again with the same key");
            }
            self.client.mailbox.close();
            worker.await.unwrap_or_default();
        }
    }

    /// Waits until this process has been idle for some checks: a result is stored a moment after its call.
    async fn idle(&self) {
        let mut checks = 0;
        while checks < IDLE_CHECKS {
            tokio::time::sleep(IDLE_EVERY).await;
            checks = if self.metrics.is_busy() { 0 } else { checks + 1 };
        }
    }

    /// Whether the worker has died, which is a defect.
    pub fn has_died(&self) -> bool {
        *self.death.borrow()
    }

    /// Waits for the death of the worker. Without one, waits for ever.
    pub async fn death(&self) {
        if self.death.clone().wait_for(|is_dead| *is_dead).await.is_err() {
            std::future::pending().await
        }
    }
}

/// Loads definitions that other processes deploy, again and again.
async fn keep_current(store: Arc<Store>) {
    loop {
        tokio::time::sleep(REFRESH_EVERY).await;
        if let Err(error) = store.registry().refresh_now(&*store).await {
            tracing::warn!(%error, "the definitions cannot be loaded now");
        }
    }
}

fn start(
    client: &Client<Store>,
    options: WorkerOptions,
    clock: Clock,
    metrics: &Arc<Metrics>,
    dies: watch::Sender<bool>,
) -> Result<Tasks, plimsoll_net::TlsError> {
    let settings = Settings::new(owner(&Wall(clock))).with_lease_ms(options.lease_ms);
    let settings = Settings { calls_max: options.calls_max, ..settings };
    let worker = Worker {
        store: client.store.clone(),
        services: Arc::new(Calls::new(options.hosts, options.secrets, clock, metrics.clone())?),
        clock: Arc::new(Wall(clock)),
        registry: client.registry.clone(),
        settings,
        mailbox: client.mailbox.clone(),
        backlog: client.backlog.clone(),
        watchers: client.watchers.clone(),
    };
    Ok(Tasks {
        worker: tokio::spawn(watched(drive(worker), dies)),
        refresh: tokio::spawn(keep_current(client.store.clone())),
    })
}

/// Runs a worker, and reports its death. Acknowledged requests are durable: another process does their work.
async fn watched(worker: impl Future<Output = ()>, dies: watch::Sender<bool>) {
    if AssertUnwindSafe(worker).catch_unwind().await.is_err() {
        tracing::error!("the worker has died by a defect: report the message above, and restart the process");
        dies.send_replace(true);
    }
}

/// A name that no other process has: machine, process, moment and a random number.
fn owner(wall: &Wall) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let random = RandomState::new().build_hasher().finish();
    format!("{}-{}-{:x}-{:08x}", host.trim(), std::process::id(), wall.now_ms(), random as u32)
}

/// The wall clock.
struct Wall(Clock);

impl Port for Wall {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.now_ms()).unwrap_or_default()
    }

    async fn until(&self, at_ms: u64) {
        tokio::time::sleep(Duration::from_millis(at_ms.saturating_sub(self.now_ms()))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_that_panics_is_reported_dead_and_one_that_ends_is_not() {
        let (dies, death) = watch::channel(false);
        watched(async { panic!("as asked") }, dies.clone()).await;
        assert!(*death.borrow());
        let (dies, death) = watch::channel(false);
        watched(async {}, dies).await;
        assert!(!*death.borrow());
    }
}
