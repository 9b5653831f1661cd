//! Opens the ledger of a load with its workers, and joins the workers' parts at the end.

use std::path::Path;

use anyhow::Context;
use plimsoll_consistency::Transaction;
use plimsoll_document::IdForm;
use plimsoll_ledger::{Ledger, OtherWriters, Touched};
use plimsoll_mongo::journal_writer::JournalWriter;
use plimsoll_mongo::setup::Command;
use plimsoll_mongo::worker_ledger::{Closed, WorkerLedger};

use super::Database;
use crate::client_engine::ClientEngine;
use plimsoll_run::exit::Outcome;
use plimsoll_run::system::RunContext;

/// The recorded state of the documents after the load.
#[derive(Debug)]
pub(super) struct Promised {
    /// The outcomes of all documents.
    pub(super) ledger: Ledger,
    /// The documents that other changes may have touched.
    pub(super) touched: Touched,
    /// The appends and reads of lists.
    pub(super) history: Vec<Transaction>,
}

impl Database {
    /// Starts the journal writer and the workers.
    pub(super) fn hire(&mut self, context: RunContext<'_>, ledger: &Path) -> Outcome<()> {
        let first = context.shard.index * self.workers.count as u64;
        let workers = first..first + self.workers.count as u64;
        let journal = JournalWriter::start(ledger, self.setup.run, self.allocation, workers.clone());
        let journal = journal.context("start the ledger")?;
        let ledgers = workers
            .map(|worker| WorkerLedger::new(self.allocation, worker, journal.reservations(worker)))
            .collect();
        let engine =
            ClientEngine::new(&self.setup, &self.place.routes(), ledgers, context.shard, self.workers.spin);
        self.engine = Some(engine.context("start the workers")?);
        self.journal = Some(journal);
        Ok(())
    }

    /// An empty ledger. A shard that shares its run ID with others is responsible for its own documents; the first shard also for
    /// foreign ones.
    pub(super) fn ledger(&self, closed: &[Closed]) -> Ledger {
        let (run, allocation) = (self.setup.run, self.allocation);
        let workers = closed.iter().map(|closed| closed.worker);
        match workers.clone().min().zip(workers.max()).filter(|_| self.knows_all) {
            Some((first, last)) => Ledger::of_shard(run, allocation, first..last + 1),
            None => Ledger::new(run, allocation),
        }
    }

    /// Whether the collection may hold documents of others.
    pub(super) fn other_writers(&self) -> OtherWriters {
        let upserts = |command: &Command| matches!(command, Command::Update { upsert: true, .. });
        let upserts = self.setup.commands.iter().any(upserts) || self.setup.appends_to_lists();
        let own = self.setup.id == IdForm::Own || upserts;
        let alone = self.before.documents == 0 && self.knows_all && !own;
        if alone { OtherWriters::Excluded } else { OtherWriters::Expected }
    }
}

pub(super) fn gather(mut ledger: Ledger, closed: Vec<Closed>) -> Promised {
    let (mut touched, mut history) = (Touched::None, Vec::new());
    for one in closed {
        touched.merge(&one.touched);
        ledger.adopt(one.worker, one.ledger);
        history.extend(one.history);
    }
    Promised { ledger, touched, history }
}
