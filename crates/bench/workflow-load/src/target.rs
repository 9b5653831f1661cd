//! Runs one unit for each operation of a load. All work for the store runs on the engine's threads.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_load::retry::Retry;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::first_error::{FirstErrors, OperationError};
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_workflow::port::Store;
use tokio::runtime::Handle;
use tokio::task::JoinError;

use crate::client::{Job, first_error, outcome};
use crate::embedded::{Embedded, UnitError};
use crate::ledger::Ledger;
use crate::work::Work;

/// The parts that all threads of a load share.
#[derive(Debug)]
pub(crate) struct Shared<S> {
    /// The engine.
    pub(crate) engine: Embedded<S>,
    /// The units by operation.
    pub(crate) works: Vec<Work>,
    /// The run, as in the ids of its instances.
    pub(crate) run: String,
    /// The time limit of an operation.
    pub(crate) limit: Duration,
    /// Whether the store did not answer an operation, and has answered none since then.
    pub(crate) is_lost: AtomicBool,
}

/// One thread's view of the engine.
#[derive(Debug)]
pub(crate) struct Instances<S> {
    shared: Arc<Shared<S>>,
    ledger: Arc<Ledger>,
    runtime: Handle,
    errors: Arc<FirstErrors>,
}

/// One operation in flight.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// The operation and the index of its instance.
    prepared: Option<(usize, usize)>,
    /// The store did not answer the last operation.
    is_lost: bool,
}

impl<S: Store> Instances<S> {
    pub(crate) fn new(shared: Arc<Shared<S>>, thread: u64, runtime: Handle) -> Self {
        let ledger = Arc::new(Ledger::new(&shared.run, thread));
        Self { shared, ledger, runtime, errors: Arc::default() }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Runs one operation on the engine's threads.
    async fn run(&self, operation: usize, index: usize) -> Result<(), UnitError> {
        let (shared, ledger) = (self.shared.clone(), self.ledger.clone());
        let running = self.runtime.spawn(async move {
            let (engine, work, limit) = (&shared.engine, &shared.works[operation], shared.limit);
            Job { engine, work, operation, ledger: &ledger, index, limit }.run(&shared.run).await
        });
        match running.await.map_err(JoinError::try_into_panic) {
            Ok(result) => result,
            // A panic of a client is a defect of this program, so the panic continues here.
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(_)) => Err(UnitError::Late { instance: self.ledger.id(index), limit: self.shared.limit }),
        }
    }
}

impl<S: Store> Target for Instances<S> {
    type Lane = Lane;

    fn begin(&self, _: Option<u64>) {}

    /// After a failure, queries the store first, so that clients wait for a store that restarts.
    async fn open(&self) -> Result<Lane, Box<dyn Error + Send + Sync>> {
        if self.shared.is_lost.load(Ordering::Relaxed) {
            let shared = self.shared.clone();
            self.runtime.spawn(async move { shared.engine.store().deployed().await }).await??;
            self.shared.is_lost.store(false, Ordering::Relaxed);
        }
        Ok(Lane::default())
    }

    fn prepare(&self, lane: &mut Lane, operation: usize, _: u64) -> Prepared {
        lane.prepared = Some((operation, self.ledger.open(operation)));
        Prepared::Ready
    }

    async fn send(&self, lane: &mut Lane) -> Reply {
        let Some((operation, index)) = lane.prepared.take() else {
            return Reply::failed(Outcome::Rejected(Rejection::NotTried), 1);
        };
        match self.run(operation, index).await {
            Ok(()) => Reply::acknowledged(1),
            Err(error) => {
                let outcome = outcome(&error);
                lane.is_lost = outcome == Outcome::Unknown(Doubt::ConnectionLost);
                if lane.is_lost {
                    self.shared.is_lost.store(true, Ordering::Relaxed);
                }
                self.errors.note(operation, outcome, || {
                    first_error(&error).of_command(&self.shared.works[operation].command())
                });
                Reply::failed(outcome, 1)
            }
        }
    }

    fn discard(&self, lane: &mut Lane) {
        lane.prepared = None;
    }

    fn tick(&self) {}

    fn first_errors(&self) -> Vec<OperationError> {
        self.errors.take()
    }

    fn is_broken(&self, lane: &Lane) -> bool {
        lane.is_lost
    }

    /// The engine repeats what it can, and the client must not start an instance twice.
    fn retry(&self, _: &Lane, _: Option<Retry>) -> Retry {
        Retry::None
    }

    async fn settle(&self, _: &mut Lane) {}
}
