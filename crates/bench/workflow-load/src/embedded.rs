//! Runs the engine as a library in the clients' process.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_measure::clock::{now, wall_ms};
use plimsoll_scenario::Mode;
use plimsoll_workflow::definition::Definition;
use plimsoll_workflow::instance::{Signal, StartRequest, State, Status};
use plimsoll_workflow::port::{Clock, Inserted, Record, Services, Store};
use plimsoll_workflow::step::{Call, CallError};
use plimsoll_workflow::worker::{
    Client, ClientError, Groups, Mailbox, Registry, Settings, Watchers, Worker, drive,
};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::load::Sample;
use crate::observed::Observed;
use crate::unit::{SIGNAL, Unit};

/// The limit of every wait of [`Embedded::once`].
const PATIENCE: Duration = Duration::from_secs(60);
/// The time without news after which a client reads its instance. If the answer to a change is lost, its news never comes.
const QUIET: Duration = Duration::from_secs(1);
/// Above this number of waiting signals, clients are refused.
pub(crate) const BACKLOG_MAX: usize = 100_000;
/// Concurrent transactions in the control arm: as many as the published baseline had signal workers.
const TRANSACTIONS_MAX: usize = 8;

/// The engine and its clients. It needs a runtime of tokio.
pub struct Embedded<S> {
    store: Arc<Observed<S>>,
    /// One client for each worker, so that a client can hint the worker that owns an instance.
    clients: Vec<Client<Observed<S>>>,
    workers: Mutex<Workers<S>>,
}

/// Prepared workers, and workers that have begun.
struct Workers<S> {
    ready: Vec<Worker<Observed<S>, Nothing, Wall>>,
    running: Vec<JoinHandle<()>>,
}

impl<S> std::fmt::Debug for Embedded<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Embedded {{ workers: {} }}", self.clients.len())
    }
}

/// An instance did not end as it should.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// A request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The instance did not end within the limit.
    #[error("{instance} did not end within {} s", .limit.as_secs_f64())]
    Late {
        /// The instance.
        instance: String,
        /// The limit.
        limit: Duration,
    },
    /// The instance ended in another way.
    #[error("{instance} ended as {}: {}", .status.name(), .error.as_deref().unwrap_or("no reason is known"))]
    Ended {
        /// The instance.
        instance: String,
        /// Its status.
        status: Status,
        /// Its error.
        error: Option<String>,
    },
}

/// The wall clock.
pub(crate) struct Wall;

impl Clock for Wall {
    fn now_ms(&self) -> u64 {
        wall_ms()
    }

    async fn until(&self, at_ms: u64) {
        sleep(Duration::from_millis(at_ms.saturating_sub(wall_ms()))).await;
    }
}

/// Steps that do nothing.
pub(crate) struct Nothing;

impl Services for Nothing {
    async fn call(&self, _: &Call) -> Result<Value, CallError> {
        Ok(Value::Null)
    }
}

impl<S: Store> Embedded<S> {
    /// Starts a worker with a name that no other process has, and deploys the units of [`Unit`].
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn start(store: S, owner: &str) -> Result<Self, UnitError> {
        let definitions = Unit::ALL.map(Unit::definition);
        let owners = vec![owner.to_owned()];
        let engine = Self::prepare(store, Mode::Batches, owners, &definitions, BACKLOG_MAX).await?;
        engine.begin(&Handle::current());
        Ok(engine)
    }

    /// Deploys definitions, and prepares one worker for each name. No other process ever has one of the names. Clients are refused while more
    /// than `backlog_max` signals wait.
    ///
    /// # Errors
    ///
    /// If the store fails, or a definition is invalid.
    pub(crate) async fn prepare(
        store: S,
        mode: Mode,
        owners: Vec<String>,
        definitions: &[Definition],
        backlog_max: usize,
    ) -> Result<Self, UnitError> {
        let store = Arc::new(Observed::new(store, mode, owners.clone()));
        let registry = Arc::new(Registry::default());
        let (mut clients, mut ready) = (Vec::new(), Vec::new());
        for owner in owners {
            let (client, worker) = worker(&store, &registry, settings(owner, mode), backlog_max);
            clients.push(client);
            ready.push(worker);
        }
        let deployer =
            clients.first().into_iter().flat_map(|client| definitions.iter().map(move |it| (client, it)));
        for (client, definition) in deployer {
            client.deploy(definition, wall_ms()).await?;
        }
        Ok(Self { store, clients, workers: Mutex::new(Workers { ready, running: Vec::new() }) })
    }

    /// Begins the prepared workers.
    pub(crate) fn begin(&self, runtime: &Handle) {
        let mut workers = self.workers();
        let ready = std::mem::take(&mut workers.ready);
        workers.running.extend(ready.into_iter().map(|worker| runtime.spawn(drive(worker))));
    }

    /// The store.
    pub(crate) fn store(&self) -> &Observed<S> {
        &self.store
    }

    /// Starts an instance: durable when the call returns.
    ///
    /// # Errors
    ///
    /// If the request is refused, or the store fails.
    pub(crate) async fn begin_instance(&self, definition: &str, id: &str) -> Result<Inserted, ClientError> {
        let request = StartRequest {
            id: id.to_owned(),
            definition: definition.to_owned(),
            key: None,
            parent: None,
            depth: 0,
            input: Value::Null,
        };
        self.client(id).start(request, wall_ms()).await
    }

    /// Sends a signal: durable when the call returns.
    ///
    /// # Errors
    ///
    /// If the signal is refused, or the store fails.
    pub(crate) async fn publish(&self, signal: Signal) -> Result<Inserted, ClientError> {
        self.client(&signal.instance).publish(signal).await
    }

    /// The next durable state of an instance.
    pub(crate) async fn next(&self, news: &mut UnboundedReceiver<Record>, instance: &str) -> Record {
        loop {
            if let Ok(Some(record)) = timeout(QUIET, news.recv()).await {
                return record;
            }
            let found = self.store.load(&[instance.to_owned()]).await;
            if let Some(record) = found.ok().and_then(|found| found.into_iter().next().flatten()) {
                return record;
            }
        }
    }

    /// Runs one unit to its end.
    ///
    /// # Errors
    ///
    /// If a request fails, or the instance does not complete.
    pub async fn once(&self, unit: Unit, id: &str) -> Result<Sample, UnitError> {
        let late = |_| UnitError::Late { instance: id.to_owned(), limit: PATIENCE };
        let result = timeout(PATIENCE, self.follow(unit, id)).await.map_err(late);
        self.store.unlisten(id);
        result?
    }

    async fn follow(&self, unit: Unit, id: &str) -> Result<Sample, UnitError> {
        let (begin, mut news) = (now(), self.store.listen(id));
        self.begin_instance(unit.name(), id).await?;
        let mut signalled = None;
        loop {
            let record = self.next(&mut news, id).await;
            if record.status.is_ended() {
                done(&record)?;
                let end = now();
                return Ok(Sample {
                    total_ns: end.since(begin),
                    signal_ns: end.since(signalled.unwrap_or(begin)),
                });
            }
            // The client sends its signal only once the instance waits for it.
            if unit == Unit::RoundTrip && record.due_ms.is_none() && signalled.is_none() {
                signalled = Some(now());
                self.publish(Signal::named(id, "1", SIGNAL, Value::Null, wall_ms())).await?;
            }
        }
    }

    /// Ends the workers, which give their partitions back.
    pub async fn stop(self) {
        self.halt().await;
    }

    /// Ends the workers, which give their partitions back.
    pub(crate) async fn halt(&self) {
        self.clients.iter().for_each(|client| client.mailbox.close());
        let running = std::mem::take(&mut self.workers().running);
        for worker in running {
            // A worker that panicked has ended too.
            drop(worker.await);
        }
    }

    fn client(&self, instance: &str) -> &Client<Observed<S>> {
        let owner = self.store.owner(instance);
        &self.clients[owner.min(self.clients.len() - 1)]
    }

    fn workers(&self) -> MutexGuard<'_, Workers<S>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks the end of an instance.
///
/// # Errors
///
/// If it is not `done`.
pub(crate) fn done(record: &Record) -> Result<(), UnitError> {
    if record.status == Status::Done {
        return Ok(());
    }
    let error = State::decode(&record.body).ok().and_then(|state| state.error);
    Err(UnitError::Ended { instance: record.id.clone(), status: record.status, error })
}

/// The control arm has one signal in a scan and one change in a commit.
fn settings(owner: String, mode: Mode) -> Settings {
    let settings = Settings::new(owner);
    match mode {
        Mode::Batches => settings,
        Mode::Transactions => Settings { batch: 1, commits_max: TRANSACTIONS_MAX, ..settings },
    }
}

type WorkerWithClient<S> = (Client<Observed<S>>, Worker<Observed<S>, Nothing, Wall>);

/// A worker and the client that hints it.
fn worker<S: Store>(
    store: &Arc<Observed<S>>,
    registry: &Arc<Registry>,
    settings: Settings,
    backlog_max: usize,
) -> WorkerWithClient<S> {
    let (mailbox, watchers) = (Mailbox::default(), Watchers::default());
    let backlog = Arc::new(AtomicUsize::new(0));
    let worker = Worker {
        store: store.clone(),
        services: Arc::new(Nothing),
        clock: Arc::new(Wall),
        registry: registry.clone(),
        settings,
        mailbox: mailbox.clone(),
        backlog: backlog.clone(),
        watchers: watchers.clone(),
    };
    let client = Client {
        store: store.clone(),
        registry: registry.clone(),
        mailbox,
        backlog,
        backlog_max,
        watchers,
        groups: Groups::default(),
    };
    (client, worker)
}
