//! Compares the instances of a store with the ledger, and asks why open instances wait.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use plimsoll_measure::clock::wall_ms;
use plimsoll_postgres::workflow::Postgres;
use plimsoll_stores::workflow::Mongo;
use plimsoll_workflow::audit;
use plimsoll_workflow::explain;
use plimsoll_workflow::file;
use plimsoll_workflow::instance::{State, Status};
use plimsoll_workflow::port::{Holder, Record, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::clients::{DEFINITION, SIGNALS};
use super::testbed::Address;

/// The number of partitions of each store.
pub const PARTITIONS: u16 = 16;
const CONNECTIONS: usize = 2;
/// The number of instances that one call loads from the store.
const PAGE: usize = 500;
/// The largest number of findings in a report.
const EXAMPLES_MAX: usize = 5;

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Started instances in the ledger.
    pub instances: u64,
    /// Signals in the ledger.
    pub signals: u64,
    /// Instances that ended.
    pub done: u64,
    /// Open instances with a reason.
    pub explained: u64,
    /// Instances, and signals, that the store lost.
    pub lost: u64,
    /// Signals that were applied again.
    pub duplicated: u64,
    /// Instances, and signals, that no client sent.
    pub strange: u64,
    /// Open instances without a reason.
    pub unexplained: u64,
    /// Broken invariants, and dead letters.
    pub broken: u64,
    /// The first faults, as sentences.
    pub examples: Vec<String>,
}

impl Found {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        let wrong = [self.lost, self.duplicated, self.strange, self.unexplained, self.broken];
        wrong == [0; 5] && self.signals > 0 && self.instances == self.done + self.explained
    }

    fn note(&mut self, words: String) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(words);
        }
    }
}

/// Deploys the definition into a new store.
///
/// # Errors
/// The store fails.
pub fn prepare(address: &Address) -> anyhow::Result<()> {
    let (definition, _) = file::read(DEFINITION)?;
    on(address, async |store| Ok(store.deploy(std::slice::from_ref(&definition), wall_ms()).await?))
}

/// The owners of the partitions.
///
/// # Errors
/// The store fails.
pub fn holders(address: &Address) -> anyhow::Result<Vec<Holder>> {
    on(address, async |store| Ok(store.holders().await?))
}

/// Audits a store at rest.
///
/// # Errors
/// The store fails.
pub fn compare(address: &Address, ledger: &BTreeMap<String, Vec<u64>>) -> anyhow::Result<Found> {
    on(address, async |store| store.compare(ledger).await)
}

/// A store of either kind.
enum Either {
    Mongodb(Box<Mongo>),
    Postgres(Box<Postgres>),
}

macro_rules! either {
    ($store:expr, $inner:ident => $work:expr) => {
        match $store {
            Either::Mongodb($inner) => $work,
            Either::Postgres($inner) => $work,
        }
    };
}

/// Opens the store for one piece of work: the server may have been killed since the last piece.
fn on<T>(address: &Address, work: impl AsyncFnOnce(&Either) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let runtime: Runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = match address {
            Address::Mongodb { uri, database } => {
                Either::Mongodb(Box::new(Mongo::open(uri, database, CONNECTIONS, PARTITIONS).await?))
            }
            Address::Postgres { uri } => {
                Either::Postgres(Box::new(Postgres::open(uri, CONNECTIONS, PARTITIONS).await?))
            }
        };
        work(&store).await
    })
}

impl Either {
    async fn deploy(
        &self,
        definitions: &[plimsoll_workflow::definition::Definition],
        now_ms: u64,
    ) -> plimsoll_workflow::port::Stored<()> {
        either!(self, store => store.deploy(definitions, now_ms).await)
    }

    async fn holders(&self) -> plimsoll_workflow::port::Stored<Vec<Holder>> {
        either!(self, store => store.holders().await)
    }

    async fn compare(&self, ledger: &BTreeMap<String, Vec<u64>>) -> anyhow::Result<Found> {
        either!(self, store => compared(&**store, ledger).await)
    }
}

/// Audits a store at rest.
///
/// # Errors
/// The store fails, or an instance failed.
pub async fn compared(store: &impl Store, ledger: &BTreeMap<String, Vec<u64>>) -> anyhow::Result<Found> {
    let report = audit::audit(store, wall_ms()).await?;
    let mut found = Found {
        instances: ledger.len() as u64,
        signals: ledger.values().map(|signals| signals.len() as u64).sum(),
        broken: report.findings.len() as u64 + report.findings_omitted + report.dead.values().sum::<u64>(),
        ..Found::default()
    };
    let stored: u64 = report.instances.values().sum();
    for finding in &report.findings {
        found.note(format!("{}: {}", finding.instance, finding.words));
    }
    let ids: Vec<_> = ledger.keys().cloned().collect();
    let mut known = 0;
    for page in ids.chunks(PAGE) {
        for (id, record) in page.iter().zip(store.load(page).await?) {
            let Some(record) = record else {
                found.lost += 1;
                found.note(format!("{id} was acknowledged and is missing"));
                continue;
            };
            known += 1;
            found.signals_of(&record, &ledger[id])?;
            found.reasons(store, &record).await?;
        }
    }
    found.strange += stored.saturating_sub(known);
    Ok(found)
}

impl Found {
    /// Compares the applied signals of an instance with its acknowledged signals.
    fn signals_of(&mut self, record: &Record, sent: &[u64]) -> anyhow::Result<()> {
        let state = State::decode(&record.body).context("read a state")?;
        let seen = state.data.get("seen").and_then(Value::as_array);
        let seen: Vec<u64> = seen.into_iter().flatten().filter_map(Value::as_u64).collect();
        let count = |signal: u64| seen.iter().filter(|one| **one == signal).count() as u64;
        let lost = sent.iter().filter(|signal| count(**signal) == 0).count() as u64;
        let again: u64 = sent.iter().map(|signal| count(*signal).saturating_sub(1)).sum();
        let strange = seen.iter().filter(|signal| !sent.contains(signal)).count() as u64;
        if lost + again + strange > 0 {
            self.note(format!("{}: sent {sent:?}, applied {seen:?}", record.id));
        }
        self.lost += lost;
        self.duplicated += again;
        self.strange += strange;
        let is_complete = sent.len() as u64 == SIGNALS;
        ensure!(record.status != Status::Failed, "{} failed: {:?}", record.id, state.error);
        if is_complete != record.status.is_ended() {
            self.broken += 1;
            self.note(format!("{}: {} after {} signals", record.id, record.status.name(), sent.len()));
        }
        self.done += u64::from(record.status.is_ended());
        Ok(())
    }

    /// Asks why an open instance waits.
    async fn reasons(&mut self, store: &impl Store, record: &Record) -> anyhow::Result<()> {
        if record.status.is_ended() {
            return Ok(());
        }
        let (_, program) = file::read(DEFINITION)?;
        let program = Some(&program).filter(|program| program.version == record.definition);
        let explained = explain::of(store, program, &record.id).await?;
        let reason = explained.and_then(|explained| explained.reasons.into_iter().next());
        if reason.is_some_and(|reason| reason.missing.as_deref() == Some("scan")) {
            self.explained += 1;
        } else {
            self.unexplained += 1;
            self.note(format!("{} is open without a reason", record.id));
        }
        Ok(())
    }
}
