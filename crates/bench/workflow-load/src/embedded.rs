//! Runs the engine as a library in the clients' process.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use plimsoll_measure::clock::{now, wall_ms};
use plimsoll_workflow::instance::{Signal, StartRequest, Status};
use plimsoll_workflow::port::{Clock, Services, Store};
use plimsoll_workflow::step::{Call, CallError};
use plimsoll_workflow::worker::{
    Client, ClientError, Groups, Mailbox, Registry, Settings, Watchers, Worker, drive,
};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::load::Sample;
use crate::observed::{Observed, Waits};
use crate::unit::{SIGNAL, Unit};

/// The limit of every wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// Signals in memory above which clients are refused.
const BACKLOG_MAX: usize = 100_000;

/// The engine and a client of it. It needs a runtime of tokio.
pub struct Embedded<S> {
    client: Client<Observed<S>>,
    waits: Waits,
    worker: JoinHandle<()>,
}

/// An instance did not end as it should.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// A request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Nothing came within the limit.
    #[error("{instance} {missing} within {} s", PATIENCE.as_secs())]
    Late {
        /// The instance.
        instance: String,
        /// The missing event.
        missing: &'static str,
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
struct Wall;

impl Clock for Wall {
    fn now_ms(&self) -> u64 {
        wall_ms()
    }

    async fn until(&self, at_ms: u64) {
        sleep(Duration::from_millis(at_ms.saturating_sub(wall_ms()))).await;
    }
}

/// Steps that do nothing.
struct Nothing;

impl Services for Nothing {
    async fn call(&self, _: &Call) -> Result<Value, CallError> {
        Ok(Value::Null)
    }
}

impl<S: Store> Embedded<S> {
    /// Starts a worker with a name that no other process has, and deploys all units.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn start(store: S, owner: &str) -> Result<Self, UnitError> {
        let waits = Waits::default();
        let store = Arc::new(Observed { store, waits: waits.clone() });
        let (registry, mailbox, watchers) =
            (Arc::new(Registry::default()), Mailbox::default(), Watchers::default());
        let backlog = Arc::new(AtomicUsize::new(0));
        let worker = Worker {
            store: store.clone(),
            services: Arc::new(Nothing),
            clock: Arc::new(Wall),
            registry: registry.clone(),
            settings: Settings::new(owner),
            mailbox: mailbox.clone(),
            backlog: backlog.clone(),
            watchers: watchers.clone(),
        };
        let groups = Groups::default();
        let client = Client { store, registry, mailbox, backlog, backlog_max: BACKLOG_MAX, watchers, groups };
        for unit in Unit::ALL {
            client.deploy(&unit.definition(), wall_ms()).await?;
        }
        Ok(Self { client, waits, worker: tokio::spawn(drive(worker)) })
    }

    /// Runs one unit to its end.
    ///
    /// # Errors
    ///
    /// If a request fails, or the instance does not complete.
    pub async fn once(&self, unit: Unit, id: &str) -> Result<Sample, UnitError> {
        let begin = now();
        let (end, waiting) = (self.client.watchers.watch(id), self.waits.expect(id));
        let request = StartRequest {
            id: id.to_owned(),
            definition: unit.name().to_owned(),
            key: None,
            parent: None,
            depth: 0,
            input: Value::Null,
        };
        self.client.start(request, wall_ms()).await?;
        let mut signalled = begin;
        if unit == Unit::RoundTrip {
            let late = |_| late(id, "did not wait");
            // The sender goes only if the instance waits.
            timeout(PATIENCE, waiting).await.map_err(late)?.unwrap_or_default();
            signalled = now();
            self.client.publish(Signal::named(id, "1", SIGNAL, Value::Null, wall_ms())).await?;
        }
        let finished = timeout(PATIENCE, end).await.map_err(|_| late(id, "did not end"))?;
        if finished.status != Status::Done {
            return Err(UnitError::Ended {
                instance: id.to_owned(),
                status: finished.status,
                error: finished.error,
            });
        }
        Ok(Sample { total_ns: now().since(begin), signal_ns: now().since(signalled) })
    }

    /// Ends the worker, which gives its partitions back.
    pub async fn stop(self) {
        self.client.mailbox.close();
        // A worker that panicked has ended too.
        drop(self.worker.await);
    }
}

fn late(id: &str, missing: &'static str) -> UnitError {
    UnitError::Late { instance: id.to_owned(), missing }
}
