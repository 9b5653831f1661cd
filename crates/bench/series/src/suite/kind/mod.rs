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

use super::progress::Progress;
use super::topics::Topics;
use super::typed::{self, Row};
use crate::isolation::Own;
use plimsoll_run::server_provisioning::Choice;
use plimsoll_run::system::Registry;

/// What a warm-up's collection is called, behind the run's own.
const WARM_UP: &str = "_warm_up";

/// A kind of test.
pub trait Kind: Debug + Sync {
    /// Its name, which is the column that says what is run.
    fn kind(&self) -> suite::Kind;

    /// What a row says in that column.
    fn named<'a>(&self, row: &'a Row) -> Option<&'a str>;

    /// The row with everything in it that is relative to `base` made whole, so that it means the same from anywhere.
    fn settled(&self, row: Row, base: &Path) -> Row;

    /// What is to be done for a row that is settled. Everything that cannot be meant is refused here, before a server is
    /// looked for.
    ///
    /// # Errors
    /// The first thing that cannot be meant.
    fn prepare(&self, row: &Row, registry: Registry) -> anyhow::Result<Job>;

    /// How far the run in `directory` is.
    fn progress(&self, directory: &Path) -> Box<dyn Progress>;

    /// What the run in `directory` came to; nothing where it did not end by itself.
    fn ended(&self, directory: &Path) -> Option<Ended>;

    /// What was there before and after the run in `directory`, where the run itself looked at what only it could reach.
    fn states(&self, _directory: &Path) -> Option<(Inspection, Inspection)> {
        None
    }

    /// Whether what a run of a row moved is where it was to go, where that can be read back and the run does not do it itself.
    fn read_back(&self, _row: &Row, _reached: &Reached<'_>) -> Option<anyhow::Result<ReadBack>> {
        None
    }
}

/// What a run that has ended reached.
#[derive(Clone, Copy, Debug)]
pub struct Reached<'a> {
    /// The server, where it is another than its file says.
    pub server: Option<&'a str>,
    /// The brokers, likewise.
    pub brokers: Option<&'a str>,
    /// How much it counted.
    pub total: u64,
}

/// What was found where a run wrote to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadBack {
    /// Documents that were read.
    pub read: u64,
    /// What should be there and is not.
    pub lost: u64,
    /// What speaks against it, if anything does.
    pub reason: Option<String>,
}

/// What is to be done for a test.
#[derive(Clone, Debug)]
pub struct Job {
    /// What is run, by its name.
    pub what: String,
    /// SHA-256 of that as resolved, in hex.
    pub hash: String,
    /// Words for this program that make one run, without those that say where the server is and where the run goes.
    pub words: Vec<String>,
    /// What makes a warm-up, likewise; nothing where there is none.
    pub warm_up: Option<WarmUp>,
    /// Who has the server.
    pub host: Host,
    /// What each run has to itself on a server that stays, so that what became of one is not in the way of another.
    pub own: Own,
    /// What happens to a collection that is not empty.
    pub existing: Existing,
    /// Whether nothing is touched on its server, whatever is said: only a pipeline's file names it.
    pub is_theirs: bool,
    /// The storage engine's cache of a server that is started, in bytes.
    pub cache_bytes: Option<u64>,
    /// How long the server may take for one answer to the suite itself.
    pub patience: Span,
    /// What is done with topics of Kafka, where there are any.
    pub topics: Option<Topics>,
}

/// A warm-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmUp {
    /// Words that make it.
    pub words: Vec<String>,
    /// Where they say which collection it writes to, if it writes to one.
    pub collection: Option<&'static str>,
    /// The topics that it writes to.
    pub topics: Vec<String>,
}

impl Job {
    /// Words that make run `number`.
    pub fn words_of(&self, number: u32) -> Vec<String> {
        let own = self.own.word(number).map(|word| ["--set".to_owned(), word]);
        self.words.iter().cloned().chain(own.into_iter().flatten()).collect()
    }

    /// The collection that run `number` writes to, where the suite has the server.
    pub fn namespace(&self, number: u32) -> Option<Namespace> {
        let Host::Suite(_, named) = &self.host else { return None };
        let own = self.own.name(number).and_then(|name| name.parse().ok());
        Some(own.unwrap_or_else(|| named.clone()))
    }

    /// Words that make the warm-up of run `number`, and the collection that it writes to, if it writes to one.
    pub fn warm_up_of(&self, number: u32) -> Option<(Vec<String>, Option<Namespace>)> {
        let warm_up = self.warm_up.as_ref()?;
        let apart = self.namespace(number).filter(|_| warm_up.collection.is_some());
        let apart = apart.map(|Namespace { db, collection }| {
            let collection = format!("{collection}{WARM_UP}");
            Namespace { db, collection }
        });
        let said = warm_up.collection.zip(apart.as_ref());
        let own = said.map(|(path, namespace)| ["--set".to_owned(), format!("{path}={namespace}")]);
        Some((warm_up.words.iter().cloned().chain(own.into_iter().flatten()).collect(), apart))
    }

    /// Whether runs have collections of their own.
    pub fn has_own(&self) -> bool {
        self.own != Own::Nothing
    }

    /// Whatever its row says, this is done with a collection that is not empty, unless it is not the suite's to touch.
    pub fn rule(&mut self, existing: typed::Existing) {
        if !self.is_theirs {
            self.existing = existing.into();
        }
        if let Some(topics) = self.topics.as_mut().filter(|topics| topics.rule != Existing::Append) {
            topics.rule = existing.into();
        }
        if self.has_own() && matches!(self.host, Host::Run(_)) {
            self.words.extend(["--set".to_owned(), format!("existing={}", existing.name())]);
        }
    }
}

/// Who finds or starts the server of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// The suite, which looks at the collection before and after.
    Suite(Choice, Namespace),
    /// The run itself, as its scenario or this word says: something is done to the server's process, or there are several of
    /// them, or none.
    Run(Option<String>),
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// What it measured; nothing where it had no load.
    pub measured: Option<Measured>,
    /// Whether it was ended early.
    pub interrupted: bool,
    /// Whether everything that was acknowledged was read back, and is there.
    pub intact: bool,
    /// What speaks against it.
    pub reasons: Vec<String>,
}

/// Every kind.
static KINDS: [&dyn Kind; 2] = [&scenario::Scenario, &pipeline::Pipeline];

/// A file that is named relative to `base`, made whole; a name that is no file stays what it is.
fn settled_path(named: Option<&str>, base: &Path) -> Option<String> {
    let file = named.map(|name| base.join(name)).filter(|path| path.is_file());
    let whole = file.map(|path| path.canonicalize().unwrap_or(path).to_string_lossy().into_owned());
    whole.or_else(|| named.map(str::to_owned))
}

/// The kind of a row: the one whose column is filled.
///
/// # Errors
/// When none is, or several are.
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

/// The kinds of systems that tests load.
#[cfg(test)]
pub(crate) const TEST_REGISTRY: Registry =
    &[&plimsoll_run::system::DatabaseKind, &plimsoll_run::system::ServiceKind];

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
    fn on_a_server_that_stays_each_run_has_a_collection_of_its_own_unless_its_row_drops_what_is_there() {
        for (server, existing, is_own, collection) in [
            ("mongodb://h", "", true, "plimsoll.bulk_baseline_7"),
            ("mongodb://h", "drop", false, "plimsoll.bulk_baseline"),
            ("embedded", "", false, "plimsoll.bulk_baseline"),
        ] {
            let mut job = job(server, existing);
            // Where a suite is gone on with by another rule, no run goes to another collection.
            for rule in [None, Some(typed::Existing::Drop)] {
                rule.into_iter().for_each(|rule| job.rule(rule));
                let word = format!("collection={collection}");
                assert_eq!(job.words_of(7).contains(&word), is_own, "{server} {existing} {rule:?}");
                assert_eq!(job.namespace(7).unwrap().to_string(), collection);
                let (warm_up, apart) = job.warm_up_of(7).unwrap();
                assert_eq!(apart.unwrap().to_string(), format!("{collection}_warm_up"));
                assert_eq!(warm_up.last().unwrap(), &format!("{word}_warm_up"));
            }
        }
    }
}
