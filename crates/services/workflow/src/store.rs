//! Opens the store in MongoDB or PostgreSQL, and counts its operations.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_postgres::workflow::Postgres;
use plimsoll_service::{Clock, redact};
use plimsoll_stores::workflow::Mongo;
use plimsoll_workflow::definition::Definition;
use plimsoll_workflow::instance::{DeadLetter, Signal, TaskRow};
use plimsoll_workflow::port::{
    Commit, Committed, Deployed, Due, Find, Holder, Inbox, Inserted, LeaseRequest, Leases, Postponed, Record,
    Redrive, SignalKey, Store as Port, Stored,
};
use plimsoll_workflow::worker::Registry;

use crate::metrics::Metrics;

/// The place of a store.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// One database of a MongoDB deployment.
    Mongo {
        /// The connection string.
        uri: String,
        /// The name of the database.
        database: String,
    },
    /// One database of a PostgreSQL server.
    Postgres {
        /// The connection string.
        uri: String,
    },
}

/// Redacts passwords.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mongo { uri, database } => write!(f, "{}, database {database}", redact::uri(uri)),
            Self::Postgres { uri } => f.write_str(&redact::uri(uri)),
        }
    }
}

/// The consequence of a missing store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The store is created.
    Create,
    /// A missing store is an error: readers create nothing.
    Refuse,
}

/// The size of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The maximum number of connections.
    pub connections: usize,
    /// The number of partitions of a new store. An existing store keeps its number.
    pub partitions: u16,
    /// The maximum number of partitions that this process holds.
    pub held_max: usize,
}

/// A store whose operations are counted.
#[derive(Debug)]
pub struct Store {
    kind: Kind,
    held_max: usize,
    clock: Clock,
    metrics: Arc<Metrics>,
    registry: Arc<Registry>,
    free: Mutex<Free>,
}

/// Partitions that no process holds.
#[derive(Debug, Default)]
struct Free {
    since_ms: Option<i64>,
    is_reported: bool,
}

impl Free {
    /// Notes the number of free partitions; returns whether a warning is due. Two leases suffice for every process to claim what it can.
    fn note(&mut self, count: usize, now_ms: i64, lease_ms: i64) -> bool {
        if count == 0 {
            *self = Self::default();
            return false;
        }
        let since_ms = *self.since_ms.get_or_insert(now_ms);
        let is_due = !self.is_reported && now_ms.saturating_sub(since_ms) > lease_ms.saturating_mul(2);
        self.is_reported |= is_due;
        is_due
    }
}

#[derive(Debug)]
enum Kind {
    Mongo(Box<Mongo>),
    Postgres(Box<Postgres>),
}

impl Store {
    /// Connects. A missing store is created or refused.
    ///
    /// # Errors
    ///
    /// If the server does not answer or refuses.
    pub async fn open(
        place: &Place,
        size: Size,
        missing: Missing,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Stored<Self> {
        let Size { connections, partitions, held_max } = size;
        let mongo = |mongo| Kind::Mongo(Box::new(mongo));
        let postgres = |postgres| Kind::Postgres(Box::new(postgres));
        let kind = match (place, missing) {
            (Place::Mongo { uri, database }, Missing::Create) => {
                mongo(Mongo::open(uri, database, connections, partitions).await?)
            }
            (Place::Mongo { uri, database }, Missing::Refuse) => {
                mongo(Mongo::open_existing(uri, database, connections).await?)
            }
            (Place::Postgres { uri }, Missing::Create) => {
                postgres(Postgres::open(uri, connections, partitions).await?)
            }
            (Place::Postgres { uri }, Missing::Refuse) => {
                postgres(Postgres::open_existing(uri, connections).await?)
            }
        };
        Ok(Self { kind, held_max, clock, metrics, registry: Arc::default(), free: Mutex::default() })
    }

    /// The compiled definitions of this process.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Loads and compiles all definitions, the latest deployed last. One that this program cannot read is left out.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn refresh(&self) -> Stored<Vec<Definition>> {
        let definitions = self.definitions().await?;
        self.registry.learn(&definitions);
        Ok(definitions.into_iter().filter_map(|deployed| deployed.definition.ok()).collect())
    }

    /// Whether this process hears at once of work from other processes.
    pub fn is_listening(&self) -> bool {
        match &self.kind {
            Kind::Mongo(mongo) => mongo.is_listening(),
            Kind::Postgres(postgres) => postgres.is_listening(),
        }
    }

    fn warn_about_free(&self, leases: &Leases, lease_ms: u64) {
        let (now_ms, lease_ms) = (self.clock.now_ms(), i64::try_from(lease_ms).unwrap_or(i64::MAX));
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.note(leases.free, now_ms, lease_ms) {
            tracing::warn!(
                partitions = leases.free,
                "no process holds these partitions, and their instances stand still: start a worker without a limit of partitions"
            );
        }
    }
}

/// Runs an operation on the kind of store, and counts it.
macro_rules! counted {
    ($store:ident, $operation:ident($($argument:expr),*)) => {{
        let _running = $store.metrics.operation_begins();
        let begun_ns = $store.clock.now_ns();
        let result = match &$store.kind {
            Kind::Mongo(mongo) => mongo.$operation($($argument),*).await,
            Kind::Postgres(postgres) => postgres.$operation($($argument),*).await,
        };
        let ns = $store.clock.now_ns().saturating_sub(begun_ns);
        $store.metrics.operation(stringify!($operation), ns, result.is_ok());
        result
    }};
}

impl Port for Store {
    fn partitions(&self) -> u16 {
        match &self.kind {
            Kind::Mongo(mongo) => mongo.partitions(),
            Kind::Postgres(postgres) => postgres.partitions(),
        }
    }

    async fn deploy(&self, definitions: &[Definition], now_ms: u64) -> Stored<()> {
        counted!(self, deploy(definitions, now_ms))
    }

    async fn definitions(&self) -> Stored<Vec<Deployed>> {
        counted!(self, definitions())
    }

    async fn deployed(&self) -> Stored<u64> {
        counted!(self, deployed())
    }

    async fn start(&self, records: &[Record]) -> Stored<Vec<Inserted>> {
        let inserted = counted!(self, start(records))?;
        self.metrics.started(&inserted);
        Ok(inserted)
    }

    async fn publish(&self, signals: &[Signal]) -> Stored<Vec<Inserted>> {
        let inserted = counted!(self, publish(signals))?;
        self.metrics.published(&inserted);
        Ok(inserted)
    }

    async fn lease(&self, request: &LeaseRequest) -> Stored<Leases> {
        let want = request.want.min(self.held_max);
        let request = LeaseRequest { want, ..request.clone() };
        let leases = counted!(self, lease(&request))?;
        self.metrics.leased(&leases);
        self.warn_about_free(&leases, request.ttl_ms);
        Ok(leases)
    }

    async fn holders(&self) -> Stored<Vec<Holder>> {
        counted!(self, holders())
    }

    async fn due(&self, partitions: &[u16], until_ms: u64, limit: usize) -> Stored<Due> {
        counted!(self, due(partitions, until_ms, limit))
    }

    async fn load(&self, ids: &[String]) -> Stored<Vec<Option<Record>>> {
        counted!(self, load(ids))
    }

    async fn commit(&self, commits: &[Commit]) -> Stored<Vec<Committed>> {
        let results = counted!(self, commit(commits))?;
        self.metrics.committed(commits, &results);
        Ok(results)
    }

    async fn forget(&self, partitions: &[u16], before_ms: u64) -> Stored<()> {
        counted!(self, forget(partitions, before_ms))
    }

    async fn remove(&self, signals: &[SignalKey]) -> Stored<()> {
        counted!(self, remove(signals))
    }

    async fn postpone(&self, signals: &[Postponed]) -> Stored<()> {
        counted!(self, postpone(signals))
    }

    async fn bury(&self, letters: &[DeadLetter]) -> Stored<()> {
        counted!(self, bury(letters))?;
        self.metrics.buried(letters);
        Ok(())
    }

    async fn dead(&self, after: Option<&SignalKey>, limit: usize) -> Stored<Vec<DeadLetter>> {
        counted!(self, dead(after, limit))
    }

    async fn redrive(&self, redrives: &[Redrive]) -> Stored<usize> {
        counted!(self, redrive(redrives))
    }

    async fn redriven(&self, limit: usize) -> Stored<Vec<Redrive>> {
        counted!(self, redriven(limit))
    }

    async fn write_tasks(&self, rows: &[TaskRow]) -> Stored<()> {
        counted!(self, write_tasks(rows))
    }

    async fn tasks(&self, inbox: &Inbox) -> Stored<Vec<TaskRow>> {
        counted!(self, tasks(inbox))
    }

    async fn find(&self, find: &Find) -> Stored<Vec<Record>> {
        counted!(self, find(find))
    }

    async fn list(&self, find: &Find) -> Stored<Vec<Record>> {
        counted!(self, list(find))
    }

    fn announce(&self, partitions: &[u16]) {
        match &self.kind {
            Kind::Mongo(mongo) => mongo.announce(partitions),
            Kind::Postgres(postgres) => postgres.announce(partitions),
        }
    }

    async fn news(&self) -> Vec<u16> {
        let partitions = match &self.kind {
            Kind::Mongo(mongo) => mongo.news().await,
            Kind::Postgres(postgres) => postgres.news().await,
        };
        self.metrics.heard();
        partitions
    }

    async fn backlog(&self, now_ms: u64, limit: usize) -> Stored<usize> {
        let count = counted!(self, backlog(now_ms, limit))?;
        self.metrics.waiting(count);
        Ok(count)
    }

    async fn known(&self, signals: &[SignalKey]) -> Stored<Vec<bool>> {
        counted!(self, known(signals))
    }

    async fn signals_of(&self, instance: &str, limit: usize) -> Stored<Vec<Signal>> {
        counted!(self, signals_of(instance, limit))
    }

    async fn signals(&self, after: Option<&SignalKey>, limit: usize) -> Stored<Vec<Signal>> {
        counted!(self, signals(after, limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_partitions_are_reported_once_after_two_leases() {
        let mut free = Free::default();
        let told: Vec<_> = [0, 15, 31, 46].map(|now_ms| free.note(3, now_ms, 15)).into();
        assert_eq!(told, [false, false, true, false]);
        assert!(!free.note(0, 50, 15) && !free.note(3, 60, 15));
        assert!(free.note(3, 91, 15));
    }
}
