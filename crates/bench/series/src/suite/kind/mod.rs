//! Defines the kinds of tests. The rest of a suite uses only this interface.

mod measured;
mod pipeline;
mod scenario;

use std::fmt::Debug;
use std::path::Path;

use anyhow::bail;
use plimsoll_deployment::Namespace;
use plimsoll_measure::duration::Span;
use plimsoll_measure::inspection::Inspection;
use plimsoll_measure::suite::{self, Measured};
use plimsoll_mongo::scenario::Existing;

use super::topics::Topics;
use super::typed::{self, Row};
use crate::dry_run::DryRun;
use crate::isolation::Exclusive;
use crate::progress::Progress;
use plimsoll_run::server_provisioning::Choice;
use plimsoll_run::system::Registry;

/// The end of the name of a warm-up's collection.
const WARM_UP: &str = "_warm_up";

/// A kind of test.
pub trait Kind: Debug + Sync {
    /// Its name, which is that of its column.
    fn kind(&self) -> suite::Kind;

    /// A row's value in that column.
    fn named<'a>(&self, row: &'a Row) -> Option<&'a str>;

    /// The row with paths relative to `base` made absolute.
    fn settled(&self, row: Row, base: &Path) -> Row;

    /// The work of a row with absolute paths. Every invalid value is refused here, before a server is contacted.
    ///
    /// # Errors
    /// When a value is invalid. The error names the first.
    fn prepare(&self, row: &Row, registry: Registry) -> anyhow::Result<Job>;

    /// Describes a run of a row with absolute paths, without contacting a server.
    ///
    /// # Errors
    /// When a value is invalid. The error names the first.
    fn dry_run(&self, row: &Row, registry: Registry) -> anyhow::Result<DryRun>;

    /// Reads the progress of the run in `directory`.
    fn progress(&self, directory: &Path) -> Box<dyn Progress>;

    /// The result of the run in `directory`; `None` if it has none.
    fn ended(&self, directory: &Path) -> Option<Ended>;

    /// The inspections before and after the run in `directory`, if the run made them itself.
    fn states(&self, _directory: &Path) -> Option<(Inspection, Inspection)> {
        None
    }

    /// Reads back the documents of a run, if the destination supports it and the run does not do it itself.
    fn read_back(&self, _row: &Row, _reached: &Reached<'_>) -> Option<anyhow::Result<ReadBack>> {
        None
    }
}

/// The destination of an ended run.
#[derive(Clone, Copy, Debug)]
pub struct Reached<'a> {
    /// The directory of the fill, with the ledger of its records, if it has one.
    pub ledger: Option<&'a Path>,
    /// The server, unless the run's file names it.
    pub server: Option<&'a str>,
    /// The brokers, unless the run's file names them.
    pub brokers: Option<&'a str>,
    /// The total count of the run.
    pub total: u64,
}

/// The documents at the destination of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadBack {
    /// The number of documents that were read.
    pub read: u64,
    /// The number of missing documents.
    pub lost: u64,
    /// The reason why the destination is wrong, if it is.
    pub reason: Option<String>,
}

/// The work of a test.
#[derive(Clone, Debug)]
pub struct Job {
    /// The name of its scenario or pipeline.
    pub what: String,
    /// SHA-256 of the resolved scenario or pipeline, in hex.
    pub hash: String,
    /// This program's arguments for one run, without the server and the directory.
    pub arguments: Vec<String>,
    /// Its warm-up, if it has one.
    pub warm_up: Option<WarmUp>,
    /// The owner of the server.
    pub host: Host,
    /// The URIs of servers that the suite waits for before a run. Only this wait shows a message and ends at a stop request.
    pub awaited: Vec<String>,
    /// The exclusive data of each run on a running server.
    pub exclusive: Exclusive,
    /// The rule for a collection that is not empty.
    pub existing: Existing,
    /// Whether the suite never changes its server, because only a pipeline's file names it.
    pub is_theirs: bool,
    /// The storage engine's cache of a server that the suite starts, in bytes.
    pub cache_bytes: Option<u64>,
    /// The time limit of one answer of a server to the suite itself.
    pub patience: Span,
    /// Its Kafka topics, if it has any.
    pub topics: Option<Topics>,
    /// One sentence for each option of the servers' addresses without effect. The run's process says them in its log alone.
    pub warnings: Vec<String>,
}

/// A warm-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmUp {
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The key of its collection, if it writes to one.
    pub collection: Option<&'static str>,
    /// Its topics.
    pub topics: Vec<String>,
}

impl Job {
    /// The arguments of run `number`.
    pub fn arguments_of(&self, number: u32) -> Vec<String> {
        [&self.arguments[..], &self.exclusive.arguments(number)].concat()
    }

    /// The collection of run `number`, if the suite owns the server.
    pub fn namespace(&self, number: u32) -> Option<Namespace> {
        let Host::Suite(_, named) = &self.host else { return None };
        let own = self.exclusive.name(number).and_then(|name| name.parse().ok());
        Some(own.unwrap_or_else(|| named.clone()))
    }

    /// The arguments of the warm-up of run `number`, and its collection, if it has one.
    pub fn warm_up_of(&self, number: u32) -> Option<(Vec<String>, Option<Namespace>)> {
        let warm_up = self.warm_up.as_ref()?;
        let apart = self.namespace(number).filter(|_| warm_up.collection.is_some());
        let apart = apart.map(|Namespace { db, collection }| {
            let collection = format!("{collection}{WARM_UP}");
            Namespace { db, collection }
        });
        let key = warm_up.collection.zip(apart.as_ref());
        let own = key.map(|(path, namespace)| ["--set".to_owned(), format!("{path}={namespace}")]);
        Some((warm_up.arguments.iter().cloned().chain(own.into_iter().flatten()).collect(), apart))
    }

    /// Whether each run has its own collection.
    pub fn has_own(&self) -> bool {
        self.exclusive != Exclusive::Nothing
    }

    /// Replaces the rule of the row, unless the suite must not change the server.
    pub fn rule(&mut self, existing: typed::Existing) {
        if !self.is_theirs {
            self.existing = existing.into();
        }
        if let Some(topics) = self.topics.as_mut().filter(|topics| topics.rule != Existing::Append) {
            topics.rule = existing.into();
        }
        if self.has_own() && matches!(self.host, Host::Run(_)) {
            self.arguments.extend(["--set".to_owned(), format!("existing={}", existing.name())]);
        }
    }
}

/// The owner of the server of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// The suite, which inspects the collection before and after.
    Suite(Choice, Namespace),
    /// The run itself, at this address or its scenario's. Used for faults of the server's process, for several servers, and
    /// for no server.
    Run(Option<String>),
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// Its figures; absent without a load.
    pub measured: Option<Measured>,
    /// Whether it ended early.
    pub interrupted: bool,
    /// Whether every acknowledged document was read back.
    pub intact: bool,
    /// Reasons for a negative judgement.
    pub reasons: Vec<String>,
}

/// Every kind.
static KINDS: [&dyn Kind; 2] = [&scenario::Scenario, &pipeline::Pipeline];

/// The absolute path of a file relative to `base`; a name without a file stays the same.
fn settled_path(named: Option<&str>, base: &Path) -> Option<String> {
    let file = named.map(|name| base.join(name)).filter(|path| path.is_file());
    let whole = file.map(|path| path.canonicalize().unwrap_or(path).to_string_lossy().into_owned());
    whole.or_else(|| named.map(str::to_owned))
}

/// The arguments of a command with overrides.
fn arguments(command: &[&str], overrides: &[String]) -> Vec<String> {
    let sets = overrides.iter().flat_map(|set| ["--set".to_owned(), set.clone()]);
    command.iter().map(|word| (*word).to_owned()).chain(sets).collect()
}

/// The kind of a row, by its filled column.
///
/// # Errors
/// When no column is filled, or several are.
pub fn of(row: &Row) -> anyhow::Result<&'static dyn Kind> {
    let mut filled = KINDS.iter().filter(|kind| kind.named(row).is_some());
    match (filled.next(), filled.next()) {
        (Some(kind), None) => Ok(*kind),
        (None, _) => {
            bail!(
                "it names no scenario: fill the column `scenario`, or `pipeline`, with a file or the name of a shipped one"
            )
        }
        (Some(one), Some(other)) => {
            bail!("it names a {} and a {}: leave one of them out", one.kind().name(), other.kind().name())
        }
    }
}

impl From<typed::Existing> for Existing {
    fn from(existing: typed::Existing) -> Self {
        match existing {
            typed::Existing::Refuse => Self::Refuse,
            typed::Existing::Drop => Self::Drop,
        }
    }
}

/// The kinds of systems for tests.
#[cfg(test)]
pub(crate) const TEST_REGISTRY: Registry =
    &[&plimsoll_systems::DatabaseKind, &plimsoll_systems::HttpKind(&[])];

#[cfg(test)]
mod tests {
    use super::*;

    fn job(server: &str, existing: &str) -> Job {
        let mut row = Row::default();
        for (column, text) in
            [("scenario", "bulk-baseline"), ("server", server), ("existing", existing), ("warm_up", "2s")]
        {
            row.put(column, text).unwrap();
        }
        of(&row).unwrap().prepare(&row, TEST_REGISTRY).unwrap()
    }

    #[test]
    fn on_a_running_server_each_run_has_its_own_collection_unless_its_row_drops_it() {
        for (server, existing, is_own, collection) in [
            ("mongodb://h", "", true, "plimsoll.bulk_baseline_7"),
            ("mongodb://h", "drop", false, "plimsoll.bulk_baseline"),
            ("embedded", "", false, "plimsoll.bulk_baseline"),
        ] {
            let mut job = job(server, existing);
            // Another rule of a resumed suite does not move a run to another collection.
            for rule in [None, Some(typed::Existing::Drop)] {
                rule.into_iter().for_each(|rule| job.rule(rule));
                let word = format!("collection={collection}");
                assert_eq!(job.arguments_of(7).contains(&word), is_own, "{server} {existing} {rule:?}");
                assert_eq!(job.namespace(7).unwrap().to_string(), collection);
                let (warm_up, apart) = job.warm_up_of(7).unwrap();
                assert_eq!(apart.unwrap().to_string(), format!("{collection}_warm_up"));
                assert_eq!(warm_up.last().unwrap(), &format!("{word}_warm_up"));
            }
        }
    }
}
