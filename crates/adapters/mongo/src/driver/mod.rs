//! Sends the same load over the official driver, so that the driver's cost can be measured.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::options::{CollectionOptions, ReadConcern};
use mongodb::{Client, ClientSession, Collection};
use plimsoll_deployment::concern::Concerns;
use plimsoll_deployment::{Deployment, driver_options};
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::first_error::{FirstError, OperationError};
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome};

use crate::operation_builder::{OperationBuilder, OperationTarget, PendingWrite, Work};
use crate::setup::{Command, Purpose, Setup};
use crate::worker_ledger::{Closed, WorkerLedger};

mod insert;

mod change;

mod find;

mod transaction;

mod topology;

mod outcome;

use topology::Topology;

/// One worker's view of the server, over the official driver.
#[derive(Debug)]
pub struct Driver {
    builder: OperationBuilder,
    deployment: Arc<Deployment>,
    /// One client per worker, created on the worker's runtime, with the pool that users have.
    client: Mutex<Option<Client>>,
    topology: Topology,
    /// Whether members for all read preferences were found once. Later, a missing member fails the reads that
    /// need it.
    has_members: AtomicBool,
}

/// One operation in flight over the worker's client.
#[derive(Debug)]
pub struct Lane {
    client: Client,
    /// The collection with the concerns of each operation of the plan.
    collections: Vec<Collection<RawDocumentBuf>>,
    /// Started by the first transaction.
    session: Option<ClientSession>,
    ready: Ready,
    operation: usize,
}

/// The prepared operation.
#[derive(Debug)]
enum Ready {
    Nothing,
    Insert(insert::Ready),
    /// An operation that needs only a filter and a document, such as a find.
    Named(Named),
    Aggregate(Vec<Document>),
    Transaction(transaction::Ready),
}

/// An operation on the documents of a filter.
#[derive(Debug)]
struct Named {
    filter: Document,
    /// The update or the replacement; empty for operations without either.
    update: RawDocumentBuf,
    /// Documents of a range.
    limit: u32,
    aim: OperationTarget,
    pending: Option<PendingWrite>,
}

impl Driver {
    /// A target for one worker.
    pub fn new(setup: Arc<Setup>, deployment: Arc<Deployment>, ledger: WorkerLedger) -> Self {
        let builder = OperationBuilder::new(setup, ledger);
        let (client, topology, has_members) = Default::default();
        Self { builder, deployment, client, topology, has_members }
    }

    /// This worker's operation builder.
    pub const fn builder(&self) -> &OperationBuilder {
        &self.builder
    }

    /// Ends the target and returns its ledger.
    pub fn close(self) -> Closed {
        self.builder.close()
    }

    async fn client(&self) -> Result<Client, Box<dyn StdError + Send + Sync>> {
        let known = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let mut options = driver_options(self.deployment.uri()).await?;
        // Every operation has its own concerns.
        (options.write_concern, options.read_concern, options.selection_criteria) = (None, None, None);
        options.retry_writes = Some(false);
        options.retry_reads = Some(false);
        options.sdam_event_handler = Some(self.topology.handler());
        let pool = self.builder.setup.connections;
        options.min_pool_size = pool.min.or(options.min_pool_size);
        options.max_idle_time =
            pool.max_idle.map(|span| Duration::from_nanos(span.as_ns())).or(options.max_idle_time);
        options.max_pool_size = pool.max.or(options.max_pool_size);
        // Without a limit by the user, the pool has a connection for every writer.
        options.max_pool_size.get_or_insert(plimsoll_load::arrivals::CONNECTIONS_MAX);
        let client = Client::with_options(options)?;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    /// The time limit of an operation: the scenario's, or the URI's if the scenario's is the default.
    fn limit(&self) -> Duration {
        self.deployment.timeout().unwrap_or(self.builder.setup.timeout)
    }

    /// Finds a member for each read preference, so that a missing member is reported before the load. The
    /// driver would wait for it in every operation.
    async fn find_members(&self) -> Result<(), plimsoll_deployment::Error> {
        if self.deployment.has_members() && !self.has_members.load(Ordering::Relaxed) {
            for preference in self.builder.setup.read_preferences() {
                self.deployment.connect_for(preference).await?;
            }
        }
        self.has_members.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn ready(&self, operation: usize, number: u64) -> Option<Ready> {
        let command = &self.builder.setup.commands[operation];
        match command {
            Command::Insert { batch, ordered } => {
                insert::Ready::new(&self.builder, *batch, *ordered).map(Ready::Insert)
            }
            Command::Count(pipeline) | Command::Aggregate(pipeline) => {
                Some(Ready::Aggregate(find::stages(&self.builder, pipeline, number)))
            }
            Command::Transaction { steps, .. } => {
                transaction::Ready::new(&self.builder, steps, operation, number).map(Ready::Transaction)
            }
            // The setup refuses it for this client.
            Command::ListAppend { .. } => None,
            _ => {
                let aim = self.builder.aim(operation, number)?;
                Some(Ready::Named(Named::new(&self.builder, command, aim)))
            }
        }
    }

    async fn run(&self, lane: &mut Lane, ready: &mut Ready) -> Reply {
        let (work, topology) = (self.builder.work(lane.operation), &self.topology);
        let work = Work { origin: topology.origin(work.concerns().preference.as_ref()), ..work };
        let collection = &lane.collections[lane.operation];
        match (ready, work.command) {
            (Ready::Nothing, _) => Reply::acknowledged(0),
            (Ready::Insert(ready), _) => ready.send(work, collection).await,
            (Ready::Aggregate(stages), _) => find::aggregate(work, collection, stages).await,
            (Ready::Transaction(ready), _) => {
                if lane.session.is_none() {
                    lane.session = lane.client.start_session().await.ok();
                }
                ready.send((work, topology), collection, lane.session.as_mut()).await
            }
            (Ready::Named(named), Command::Find { .. } | Command::Range { .. }) => {
                find::find((work, topology), collection, named).await
            }
            (Ready::Named(named), Command::FindAndModify { .. }) => {
                change::find_and_modify((work, topology), collection, named).await
            }
            (Ready::Named(named), Command::ReadModifyWrite { .. }) => {
                change::read_modify_write((work, topology), collection, named).await
            }
            (Ready::Named(named), _) => change::change(work, collection, named).await,
        }
    }
}

impl Ready {
    /// The number of its documents.
    fn documents(&self) -> u64 {
        match self {
            Self::Insert(ready) => ready.documents(),
            Self::Transaction(ready) => ready.documents(),
            _ => 1,
        }
    }

    /// Records a missing answer: the noted changes are in doubt.
    fn doubt(&mut self, builder: &OperationBuilder) {
        let late = Outcome::Unknown(Doubt::Timeout);
        match self {
            Self::Named(named) => builder.conclude(&mut named.pending, late, false),
            Self::Transaction(ready) => ready.doubt(builder),
            _ => {}
        }
    }

    /// Withdraws a refused change.
    fn release(&mut self, builder: &OperationBuilder) {
        if let Self::Named(named) = self {
            builder.release(&mut named.pending);
        }
    }

    fn discard(&mut self, builder: &OperationBuilder) {
        match self {
            Self::Insert(ready) => ready.discard(builder),
            Self::Named(named) => builder.release(&mut named.pending),
            Self::Transaction(ready) => ready.discard(builder),
            Self::Nothing | Self::Aggregate(_) => {}
        }
    }
}

impl Named {
    fn new(builder: &OperationBuilder, command: &Command, aim: OperationTarget) -> Self {
        let filter = match command {
            Command::Range { .. } => document(|out| builder.write_lower_bound(out, aim)),
            _ => document(|out| builder.write_filter(out, command, aim)),
        };
        let updates = matches!(command.purpose(), Purpose::Replace | Purpose::Touch);
        let update =
            if updates { raw(|out| builder.write_update(out, command, aim)) } else { RawDocumentBuf::new() };
        let limit =
            if let Command::Range { limit, .. } = command { builder.limit(*limit, aim.number) } else { 0 };
        Self { filter, update, limit, aim, pending: aim.pending() }
    }

    /// The update in the driver's form.
    fn update(&self) -> Document {
        Document::try_from(self.update.as_ref()).unwrap_or_default()
    }
}

/// A transaction carries its concerns itself.
fn collection_options(command: &Command, concerns: &Concerns) -> CollectionOptions {
    let mut options = CollectionOptions::default();
    if matches!(command, Command::Transaction { .. }) {
        return options;
    }
    options.write_concern = concerns.write.as_ref().map(outcome::write_concern);
    options.read_concern = concerns.read.as_deref().map(ReadConcern::custom);
    options.selection_criteria = concerns.preference.as_ref().map(outcome::selection_criteria);
    options
}

fn raw(write: impl FnOnce(&mut Vec<u8>)) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    write(&mut bytes);
    // Our own bytes form a complete document; the server would refuse an invalid one.
    RawDocumentBuf::from_bytes(bytes).unwrap_or_default()
}

fn document(write: impl FnOnce(&mut Vec<u8>)) -> Document {
    Document::try_from(raw(write).as_ref()).unwrap_or_default()
}

impl Target for Driver {
    type Lane = Lane;

    fn begin(&self, documents: Option<u64>) {
        self.builder.begin(documents);
    }

    async fn open(&self) -> Result<Lane, Box<dyn StdError + Send + Sync>> {
        self.find_members().await?;
        let client = self.client().await?;
        let namespace = &self.builder.setup.namespace;
        client.database("admin").run_command(mongodb::bson::doc! {"ping": 1}).await?;
        let database = client.database(&namespace.db);
        let collection = |options| database.collection_with_options(&namespace.collection, options);
        let collections = self.builder.setup.commands.iter().zip(&self.builder.setup.concerns);
        let collections = collections
            .map(|(command, concerns)| collection(collection_options(command, concerns)))
            .collect();
        Ok(Lane { client, collections, session: None, ready: Ready::Nothing, operation: 0 })
    }

    fn prepare(&self, lane: &mut Lane, operation: usize, number: u64) -> Prepared {
        let Some(ready) = self.ready(operation, number) else { return Prepared::Exhausted };
        (lane.ready, lane.operation) = (ready, operation);
        Prepared::Ready
    }

    async fn send(&self, lane: &mut Lane) -> Reply {
        let mut ready = std::mem::replace(&mut lane.ready, Ready::Nothing);
        let documents = ready.documents();
        let limit = self.limit();
        let sent = tokio::time::timeout(limit, self.run(lane, &mut ready)).await;
        match sent {
            Ok(reply) => {
                // The driver never resends the operation.
                ready.release(&self.builder);
                reply
            }
            Err(_) => {
                ready.doubt(&self.builder);
                ready.release(&self.builder);
                // After an unfinished transaction the next one needs another session.
                lane.session = None;
                let outcome = Outcome::Unknown(Doubt::Timeout);
                let late = || FirstError::new(0, "", format_args!("no answer within {limit:?}"));
                self.builder.work(lane.operation).note(outcome, late);
                Reply::failed(outcome, documents)
            }
        }
    }

    fn discard(&self, lane: &mut Lane) {
        std::mem::replace(&mut lane.ready, Ready::Nothing).discard(&self.builder);
    }

    fn tick(&self) {
        self.builder.ledger().flush();
    }

    fn first_errors(&self) -> Vec<OperationError> {
        self.builder.first_errors.take()
    }

    /// The driver's pool reconnects by itself.
    fn is_broken(&self, _lane: &Lane) -> bool {
        false
    }

    async fn settle(&self, _lane: &mut Lane) {}
}
