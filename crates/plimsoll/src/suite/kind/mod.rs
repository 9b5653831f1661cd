//! What a test can be: one file a kind. Everything else in a suite knows only what is said here.

mod pipeline;
mod scenario;

use std::fmt::Debug;
use std::path::Path;

use anyhow::bail;
use plimsoll_measure::suite::{self, Measured};
use plimsoll_mongo::scenario::Existing;
use plimsoll_mongo::setup::Namespace;

use super::progress::Progress;
use super::typed::Row;
use crate::place::Choice;

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
    fn prepare(&self, row: &Row) -> anyhow::Result<Job>;

    /// How far the run in `directory` is.
    fn progress(&self, directory: &Path) -> Box<dyn Progress>;

    /// What the run in `directory` came to; nothing where it did not end by itself.
    fn ended(&self, directory: &Path) -> Option<Ended>;
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
    /// Words that make a warm-up, and the collection that it writes to; nothing where there is none.
    pub warm_up: Option<(Vec<String>, Namespace)>,
    /// Who has the server.
    pub host: Host,
    /// What happens to a collection that is not empty.
    pub existing: Existing,
    /// The storage engine's cache of a server that is started, in bytes.
    pub cache_bytes: Option<u64>,
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

/// The kind of a row: the one whose column is filled.
///
/// # Errors
/// When none is, or several are.
pub fn of(row: &Row) -> anyhow::Result<&'static dyn Kind> {
    let mut filled = KINDS.iter().filter(|kind| kind.named(row).is_some());
    match (filled.next(), filled.next()) {
        (Some(kind), None) => Ok(*kind),
        (None, _) => {
            bail!("it names no scenario: fill the column `scenario` with a file or the name of a shipped one")
        }
        (Some(one), Some(other)) => {
            bail!("it names a {} and a {}: leave one of them out", one.kind().name(), other.kind().name())
        }
    }
}
