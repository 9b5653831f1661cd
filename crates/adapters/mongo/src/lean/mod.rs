//! Sends the load over our own client: one file per operation.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_deployment::Deployment;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::first_error::OperationError;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_wire::{Connection, Limits};

use crate::operation_builder::{OperationBuilder, Work};
use crate::setup::{Command, Setup};
use crate::worker_ledger::{Closed, WorkerLedger};

mod insert;

mod change;
mod find_and_modify;
mod read_modify_write;

mod find;

mod aggregate;
mod cursor;
mod range;

mod transaction;

mod rare;

/// One worker's view of the server, over our own client.
#[derive(Debug)]
pub struct Lean {
    builder: Arc<OperationBuilder>,
    deployment: Arc<Deployment>,
    /// Connections opened so far: each has its own session.
    opened: AtomicU64,
}

/// A connection with its buffers, one set for each operation of the plan.
#[derive(Debug)]
pub struct Lane {
    connection: Connection,
    buffers: Vec<Buffers>,
    current: usize,
    /// Whether the server is no longer the primary: the connection must be reopened, perhaps to another member.
    misled: bool,
    /// The number of times that the prepared operation was sent.
    attempts: u32,
}

/// The buffers for one operation of the plan on one connection.
#[derive(Debug)]
enum Buffers {
    Insert(Box<insert::Buffers>),
    Change(Box<change::Buffers>),
    Find(Box<find::Buffers>),
    Rare(rare::Buffers),
}

/// Whether the prepared operation is sent for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    First,
    Further,
}

impl Lean {
    /// A target for one worker.
    pub fn new(setup: Arc<Setup>, deployment: Arc<Deployment>, ledger: WorkerLedger) -> Self {
        Self::sharing(Arc::new(OperationBuilder::new(setup, ledger)), deployment)
    }

    /// A target that shares its worker's documents with other targets.
    pub const fn sharing(builder: Arc<OperationBuilder>, deployment: Arc<Deployment>) -> Self {
        Self { builder, deployment, opened: AtomicU64::new(0) }
    }

    /// This worker's operation builder.
    pub fn builder(&self) -> &OperationBuilder {
        &self.builder
    }

    /// Ends the target and returns its ledger, unless another target still shares it.
    pub fn close(self) -> Option<Closed> {
        Arc::into_inner(self.builder).map(OperationBuilder::close)
    }

    fn work(&self, operation: usize) -> Work<'_> {
        self.builder.work(operation)
    }

    /// Creates a lane on an open connection.
    ///
    /// # Errors
    /// When a command cannot be encoded.
    pub(crate) fn furnish(&self, connection: Connection) -> Result<Lane, plimsoll_wire::Error> {
        let limits = connection.limits();
        let buffers = self.builder.setup.commands.iter().map(|command| self.buffers(command, &limits));
        let buffers = buffers.collect::<Result<_, _>>()?;
        Ok(Lane { connection, buffers, current: 0, misled: false, attempts: 0 })
    }

    pub(crate) const fn deployment(&self) -> &Arc<Deployment> {
        &self.deployment
    }

    /// Releases the prepared operation: no retry follows.
    pub(crate) fn release(&self, lane: &mut Lane) {
        lane.buffers[lane.current].release(&self.builder);
    }

    fn buffers(&self, command: &Command, limits: &Limits) -> Result<Buffers, plimsoll_wire::Error> {
        let setup = &self.builder.setup;
        Ok(match command {
            Command::Insert { ordered, .. } => {
                Buffers::Insert(Box::new(insert::Buffers::new(setup, *ordered, limits)?))
            }
            Command::Update { .. } | Command::Replace { .. } | Command::Delete { .. } => {
                Buffers::Change(Box::new(change::Buffers::new(setup, command, limits)?))
            }
            Command::Find { selection, shape } => {
                Buffers::Find(Box::new(find::Buffers::new(setup, selection, shape, limits)?))
            }
            Command::Range { .. } => Buffers::Rare(rare::Buffers::range(setup, limits)),
            Command::Count(_) | Command::Aggregate(_) => {
                Buffers::Rare(rare::Buffers::aggregate(setup, limits))
            }
            Command::FindAndModify { .. } => Buffers::Rare(rare::Buffers::find_and_modify(setup, limits)),
            Command::ReadModifyWrite { selection, .. } => {
                Buffers::Rare(rare::Buffers::read_modify_write(setup, selection, command, limits)?)
            }
            Command::Transaction { steps, .. } => {
                let session = self.opened.fetch_add(1, Ordering::Relaxed);
                Buffers::Rare(rare::Buffers::transaction(&self.builder, steps, session, limits))
            }
        })
    }
}

impl Buffers {
    /// Releases the prepared operation: no retry follows.
    fn release(&mut self, builder: &OperationBuilder) {
        match self {
            Self::Change(buffers) => buffers.release(builder),
            Self::Rare(buffers) => buffers.release(builder),
            Self::Insert(_) | Self::Find(_) => {}
        }
    }

    fn prepare(&mut self, work: Work<'_>, number: u64) -> Prepared {
        let ready = match self {
            Self::Insert(buffers) => buffers.prepare(work),
            Self::Change(buffers) => buffers.prepare(work, number),
            Self::Find(buffers) => buffers.prepare(work, number),
            Self::Rare(buffers) => buffers.prepare(work, number),
        };
        if ready.is_some() { Prepared::Ready } else { Prepared::Exhausted }
    }

    fn discard(&mut self, builder: &OperationBuilder) {
        match self {
            Self::Insert(buffers) => buffers.discard(builder),
            Self::Change(buffers) => buffers.release(builder),
            Self::Rare(buffers) => buffers.discard(builder),
            Self::Find(_) => {}
        }
    }
}

impl Attempt {
    const fn of(attempts: u32) -> Self {
        if attempts <= 1 { Self::First } else { Self::Further }
    }
}

impl Target for Lean {
    type Lane = Lane;

    fn begin(&self, documents: Option<u64>) {
        self.builder.begin(documents);
    }

    async fn open(&self) -> Result<Lane, Box<dyn Error + Send + Sync>> {
        Ok(self.furnish(self.deployment.connect().await?)?)
    }

    fn prepare(&self, lane: &mut Lane, operation: usize, number: u64) -> Prepared {
        self.release(lane);
        lane.current = operation;
        lane.attempts = 0;
        lane.buffers[operation].prepare(self.work(operation), number)
    }

    async fn send(&self, lane: &mut Lane) -> Reply {
        lane.attempts += 1;
        let (work, connection) = (self.work(lane.current), &mut lane.connection);
        let reply = match &mut lane.buffers[lane.current] {
            Buffers::Insert(buffers) => buffers.send(connection, work, Attempt::of(lane.attempts)).await,
            Buffers::Change(buffers) => buffers.send(connection, work).await,
            Buffers::Find(buffers) => buffers.send(connection, work).await,
            // A future is as large as its largest part and is copied when it is created, so the large ones are boxed.
            Buffers::Rare(buffers) => Box::pin(buffers.send(connection, work)).await,
        };
        lane.misled = reply.outcome == Outcome::Rejected(Rejection::NotPrimary);
        reply
    }

    fn discard(&self, lane: &mut Lane) {
        lane.buffers[lane.current].discard(&self.builder);
    }

    fn carry(&self, lost: &mut Lane, fresh: &mut Lane) -> bool {
        let current = lost.current;
        std::mem::swap(&mut lost.buffers[current], &mut fresh.buffers[current]);
        (fresh.current, fresh.attempts) = (current, lost.attempts);
        true
    }

    fn tick(&self) {
        self.builder.ledger().flush();
    }

    fn first_errors(&self) -> Vec<OperationError> {
        self.builder.first_errors.take()
    }

    fn is_broken(&self, lane: &Lane) -> bool {
        lane.misled || lane.connection.is_broken()
    }

    async fn settle(&self, lane: &mut Lane) {
        self.release(lane);
        if !self.builder.setup.is_acknowledged() && !lane.connection.is_broken() {
            // The answer to a ping shows that everything before it has arrived; without an answer nothing is promised.
            lane.connection.ping().await.unwrap_or_default();
        }
    }
}
