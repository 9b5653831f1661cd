//! Sends the load over our own client: one file per operation.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_deployment::Deployment;
use plimsoll_load::retry::{Retry, is_retryable};
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::first_error::{FirstError, OperationError};
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_wire::{Connection, Hello, ReadPreference, RetryAdvice};

use crate::operation_builder::{OperationBuilder, Work};
use crate::outcome::of_unopened;
use crate::setup::{Command, Setup, Validity};
use crate::shared_bounds::Origin;
use crate::worker_ledger::{Closed, WorkerLedger};

mod insert;

mod change;
mod find_and_modify;
mod read_modify_write;

mod find;

mod aggregate;
mod cursor;
mod range;

mod list_append;
mod session;
mod transaction;

mod rare;

mod routes;

mod attempts;

use attempts::{Attempt, Attempts};
use find::ReadSettings;
use routes::{PRIMARY, Routes};
use session::{SessionId, session_id};

/// One worker's view of the server, over our own client.
#[derive(Debug)]
pub struct Lean {
    builder: Arc<OperationBuilder>,
    deployment: Arc<Deployment>,
    routes: Routes,
    /// Whether members for all routes were found once. Later, a missing member fails the reads that need it.
    has_routes: AtomicBool,
    /// The number of sessions so far. Each connection that retries writes has its own session.
    opened: AtomicU64,
    /// Whether the worker has targets for other servers too.
    is_one_of_many: bool,
}

/// A connection for each route, with buffers, one set for each operation of the plan.
#[derive(Debug)]
pub struct Lane {
    /// The first connection is the primary's. The next operation that needs a missing connection opens it.
    connections: Vec<Option<Connection>>,
    buffers: Vec<Buffers>,
    current: usize,
    /// Whether the server is no longer the primary: the connection must be reopened, perhaps to another member.
    misled: bool,
    /// The attempts of the prepared operation.
    attempts: Attempts,
    /// The retries that the server supports, according to its answer to `hello`.
    support: Support,
}

/// The retries that a server supports.
#[derive(Clone, Copy, Debug)]
struct Support {
    /// Whether the server executes a numbered write only once, even if it arrives twice.
    numbers: bool,
    /// Whether writes are retried by default.
    writes: bool,
    /// Whether reads are retried by default.
    reads: bool,
    /// The number of elections that were known when the server described itself.
    elections: u64,
}

/// The buffers for one operation of the plan on one connection.
#[derive(Debug)]
enum Buffers {
    Insert(Box<insert::Buffers>),
    Change(Box<change::Buffers>),
    Find(Box<find::Buffers>),
    Rare(rare::Buffers),
}

impl Lean {
    /// A target for one worker.
    pub fn new(setup: Arc<Setup>, deployment: Arc<Deployment>, ledger: WorkerLedger) -> Self {
        Self::of(Arc::new(OperationBuilder::new(setup, ledger)), deployment)
    }

    /// A target that shares its worker's documents with other targets. Its writes carry no number: routers of one cluster would
    /// get the same numbers for different writes.
    pub fn sharing(builder: Arc<OperationBuilder>, deployment: Arc<Deployment>) -> Self {
        Self { is_one_of_many: true, ..Self::of(builder, deployment) }
    }

    fn of(builder: Arc<OperationBuilder>, deployment: Arc<Deployment>) -> Self {
        let routes = Routes::of(&builder.setup, deployment.has_members());
        let (has_routes, opened) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { builder, deployment, routes, has_routes, opened, is_one_of_many: false }
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
        self.builder.ledger().reconnected();
        let commands = 0..self.builder.setup.commands.len();
        let buffers = commands.map(|operation| self.buffers(operation, connection.hello()));
        let buffers = buffers.collect::<Result<_, _>>()?;
        let support = self.support(connection.hello());
        let mut connections = vec![Some(connection)];
        connections.resize_with(self.routes.count(), || None);
        let attempts = Attempts::default();
        Ok(Lane { connections, buffers, current: 0, misled: false, attempts, support })
    }

    /// Connects the lane to the members that read preferences select.
    async fn open_readers(&self, lane: &mut Lane) -> Result<(), plimsoll_deployment::Error> {
        for route in 1..self.routes.count() {
            let is_known = self.has_routes.load(Ordering::Relaxed);
            let preference = self.routes.preference(route);
            lane.connections[route] = if is_known {
                self.deployment.try_connect_for(preference).await.ok()
            } else {
                Some(self.deployment.connect_for(preference).await?)
            };
        }
        self.has_routes.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Opens the connection of a route.
    async fn dial(&self, route: usize) -> Result<Connection, plimsoll_deployment::Error> {
        if route == PRIMARY {
            return self.deployment.connect().await;
        }
        self.deployment.connect_for(self.routes.preference(route)).await
    }

    /// The outcome of the prepared operation if no connection could be opened for it.
    fn unsent(&self, lane: &mut Lane, error: &plimsoll_deployment::Error) -> Reply {
        let outcome = of_unopened(error);
        self.work(lane.current).note(outcome, || FirstError::new(0, "", error));
        lane.attempts.advice = RetryAdvice { is_retryable: is_retryable(outcome), wrote_nothing: true };
        let attempt = lane.attempts.current();
        let documents = match &mut lane.buffers[lane.current] {
            Buffers::Insert(buffers) => buffers.unsent(&self.builder, attempt),
            Buffers::Rare(buffers) => buffers.unsent(&self.builder, outcome),
            Buffers::Change(_) | Buffers::Find(_) => 1,
        };
        lane.attempts.report(Reply::failed(outcome, documents))
    }

    fn support(&self, hello: &Hello) -> Support {
        let by_default = !self.is_one_of_many;
        Support {
            numbers: by_default && hello.numbers_writes() && self.builder.setup.is_acknowledged(),
            writes: by_default && self.deployment.retries_writes(hello),
            reads: by_default && self.deployment.retries_reads(hello),
            elections: self.deployment.elections(),
        }
    }

    /// Whether the lane's primary has been replaced by a later election.
    fn is_replaced(&self, lane: &Lane) -> bool {
        let primary = lane.connections[PRIMARY].as_ref();
        lane.support.elections != self.deployment.elections()
            && primary.is_some_and(|it| self.deployment.is_replaced(it.hello()))
    }

    /// Removes the violation from a read that a replaced primary has answered: MongoDB promises the newest
    /// majority-committed version only to a linearizable read.
    fn pardoned(&self, work: Work<'_>, hello: &Hello, reply: Reply) -> Reply {
        let is_old =
            matches!(reply.outcome, Outcome::Rejected(Rejection::StaleRead | Rejection::NonMonotonicRead));
        let may_be_old = self.builder.setup.validity(work.operation) != Validity::Ordered;
        if is_old && may_be_old && work.command.only_reads() && self.deployment.is_replaced(hello) {
            return Reply::acknowledged(1);
        }
        reply
    }

    pub(crate) const fn deployment(&self) -> &Arc<Deployment> {
        &self.deployment
    }

    /// Releases the prepared operation: no retry follows.
    pub(crate) fn release(&self, lane: &mut Lane) {
        lane.buffers[lane.current].release(&self.builder);
    }

    /// A session for the retryable writes of an operation, if it is retryable and the server remembers it. The scenario's `retry`
    /// counts more than the URI's `retryWrites`.
    fn retry_session(&self, operation: usize, hello: &Hello) -> Option<SessionId> {
        let (setup, support) = (&self.builder.setup, self.support(hello));
        let is_wanted = setup.retry.map_or(support.writes, |retry| retry != Retry::None);
        let is_possible = setup.commands[operation].may_repeat() && support.numbers;
        let next = || session_id(&self.builder, self.opened.fetch_add(1, Ordering::Relaxed));
        (is_wanted && is_possible).then(next)
    }

    /// The buffers of an operation for a server with this description.
    fn buffers(&self, operation: usize, hello: &Hello) -> Result<Buffers, plimsoll_wire::Error> {
        let (setup, limits) = (&self.builder.setup, &hello.limits);
        let concerns = &setup.concerns[operation];
        let write_concern = concerns.write.as_ref();
        let preference = || self.sent_preference(operation, hello);
        let settings = || ReadSettings { concerns, preference: preference() };
        let session = || self.retry_session(operation, hello);
        let command = &setup.commands[operation];
        Ok(match command {
            Command::Insert { ordered, .. } => Buffers::Insert(Box::new(insert::Buffers::new(
                setup,
                *ordered,
                write_concern,
                session(),
                limits,
            )?)),
            Command::Update { .. } | Command::Replace { .. } | Command::Delete { .. } => Buffers::Change(
                Box::new(change::Buffers::new(setup, command, write_concern, session(), limits)?),
            ),
            Command::Find { selection, shape } => {
                Buffers::Find(Box::new(find::Buffers::new(setup, selection, shape, settings(), limits)?))
            }
            Command::Range { .. } => Buffers::Rare(rare::Buffers::range(setup, preference(), limits)),
            Command::Count(_) | Command::Aggregate(_) => {
                Buffers::Rare(rare::Buffers::aggregate(setup, preference(), limits))
            }
            Command::FindAndModify { .. } => {
                Buffers::Rare(rare::Buffers::find_and_modify(setup, session(), limits))
            }
            Command::ReadModifyWrite { selection, .. } => Buffers::Rare(rare::Buffers::read_modify_write(
                setup,
                selection,
                command,
                settings(),
                session(),
                limits,
            )?),
            Command::Transaction { steps } => {
                let session = self.opened.fetch_add(1, Ordering::Relaxed);
                Buffers::Rare(rare::Buffers::transaction(&self.builder, steps, session, limits))
            }
            Command::ListAppend { .. } => {
                let session = self.opened.fetch_add(1, Ordering::Relaxed);
                Buffers::Rare(rare::Buffers::list_append(&self.builder, session, limits))
            }
        })
    }

    /// The read preference that an operation sends to a server with this description.
    fn sent_preference(&self, operation: usize, hello: &Hello) -> ReadPreference {
        let wanted = self.builder.setup.concerns[operation].preference.clone().unwrap_or_default();
        self.deployment.sent_preference(hello, &wanted)
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

    /// The retry advice that follows from the last answer.
    const fn advice(&self) -> RetryAdvice {
        match self {
            Self::Insert(buffers) => buffers.advice(),
            Self::Change(buffers) => buffers.advice(),
            Self::Find(buffers) => buffers.advice,
            Self::Rare(buffers) => buffers.advice(),
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

impl Target for Lean {
    type Lane = Lane;

    fn begin(&self, documents: Option<u64>) {
        self.builder.begin(documents);
    }

    async fn open(&self) -> Result<Lane, Box<dyn Error + Send + Sync>> {
        let mut lane = self.furnish(self.deployment.connect().await?)?;
        self.open_readers(&mut lane).await?;
        Ok(lane)
    }

    fn prepare(&self, lane: &mut Lane, operation: usize, number: u64) -> Prepared {
        self.release(lane);
        lane.current = operation;
        lane.attempts = Attempts::default();
        lane.buffers[operation].prepare(self.work(operation), number)
    }

    async fn send(&self, lane: &mut Lane) -> Reply {
        let attempt = lane.attempts.begin();
        let route = self.routes.of_operation(lane.current);
        let connection = match &mut lane.connections[route] {
            Some(connection) => connection,
            missing => match Box::pin(self.dial(route)).await {
                Ok(connection) => {
                    self.builder.ledger().reconnected();
                    missing.insert(connection)
                }
                Err(error) => return self.unsent(lane, &error),
            },
        };
        let work = Work { origin: Origin::of(connection), ..self.work(lane.current) };
        let reply = match &mut lane.buffers[lane.current] {
            Buffers::Insert(buffers) => buffers.send(connection, work, attempt).await,
            Buffers::Change(buffers) => buffers.send(connection, work).await,
            Buffers::Find(buffers) => buffers.send(connection, work).await,
            // A future is as large as its largest part and is copied when it is created, so the large parts
            // are boxed.
            Buffers::Rare(buffers) => Box::pin(buffers.send(connection, work)).await,
        };
        let reply = self.pardoned(work, connection.hello(), reply);
        lane.attempts.advice = lane.buffers[lane.current].advice();
        let is_misled = reply.outcome == Outcome::Rejected(Rejection::NotPrimary)
            || (self.deployment.has_several_members() && lane.attempts.may_be_an_election(&reply));
        if route == PRIMARY {
            lane.misled = is_misled;
        } else if is_misled || connection.is_broken() {
            lane.connections[route] = None;
        }
        lane.attempts.report(reply)
    }

    /// Where an election may happen, operations are retried as MongoDB's drivers do, unless the phase says
    /// otherwise. Drivers never retry a write without a number.
    fn retry(&self, lane: &Lane, asked: Option<Retry>) -> Retry {
        let (command, support) = (&self.builder.setup.commands[lane.current], &lane.support);
        let is_retried = if command.only_reads() { support.reads } else { support.writes && support.numbers };
        let by_default = if is_retried { Retry::Driver } else { Retry::None };
        let is_safe = command.may_repeat() && (command.only_reads() || support.numbers);
        match asked.unwrap_or(by_default) {
            Retry::Driver if !is_safe => Retry::None,
            retry => retry,
        }
    }

    fn is_retryable(&self, lane: &Lane, _outcome: Outcome) -> bool {
        lane.attempts.advice.is_retryable
    }

    fn discard(&self, lane: &mut Lane) {
        lane.buffers[lane.current].discard(&self.builder);
    }

    fn carry(&self, lost: &mut Lane, fresh: &mut Lane) -> bool {
        let current = lost.current;
        let is_numbered = lost.support.numbers && !self.builder.setup.commands[current].only_reads();
        if is_numbered && !fresh.support.numbers {
            return false;
        }
        std::mem::swap(&mut lost.buffers[current], &mut fresh.buffers[current]);
        (fresh.current, fresh.attempts) = (current, lost.attempts);
        true
    }

    fn hang_up(&self, lane: &mut Lane) {
        lane.connections.iter_mut().for_each(|connection| *connection = None);
        lane.misled = false;
    }

    fn tick(&self) {
        self.builder.ledger().flush();
    }

    fn first_errors(&self) -> Vec<OperationError> {
        self.builder.first_errors.take()
    }

    fn is_broken(&self, lane: &Lane) -> bool {
        lane.misled
            || self.is_replaced(lane)
            || lane.connections[PRIMARY].as_ref().is_some_and(Connection::is_broken)
    }

    async fn settle(&self, lane: &mut Lane) {
        self.release(lane);
        if self.builder.setup.is_acknowledged() {
            return;
        }
        let open = lane.connections[PRIMARY].as_mut().filter(|connection| !connection.is_broken());
        if let Some(connection) = open {
            // The answer to a ping shows that everything before it has arrived; without an answer nothing is promised.
            connection.ping().await.unwrap_or_default();
        }
    }
}
