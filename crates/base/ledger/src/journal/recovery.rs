//! Recovers the ledger of a crashed run; documents in doubt are unknown.

use std::path::Path;
use std::{fs, io};

use super::error::Error;
use super::files::journal_path;
use super::header::Header;
use super::replay::replay;
use super::saved;
use crate::changes::Changes;
use crate::intents::{Intent, Intents};
use crate::ledger::Ledger;
use crate::touched::Touched;

/// A ledger read back from disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// The ledger.
    pub ledger: Ledger,
    /// The source of the ledger.
    pub source: Source,
    /// Bytes of the journals that are not records. A machine crash leaves the end of a journal torn, which is harmless. More
    /// than a few pages mean that the disk damaged the journal.
    pub skipped_bytes: u64,
}

/// The source of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The run ended regularly and saved its ledger, which is exact.
    Saved,
    /// The run crashed: every reserved document without another recorded state is unknown.
    Journals,
}

/// Reads the ledger in a directory: the saved one, or else the journals. After a crash a document is `NotSent` only beyond its
/// worker's reservation, and has an outcome only if that was flushed. For the time since the last flush only the possible kinds
/// of change are known: [`Ledger::unseen`].
///
/// # Errors
/// When the directory has no ledger, or a file of it is missing, unreadable, or too damaged.
pub fn recover(dir: &Path) -> Result<Recovered, Error> {
    let header = Header::read(dir)?;
    if let Some(ledger) = saved::read(dir, &header)? {
        return Ok(Recovered { ledger, source: Source::Saved, skipped_bytes: 0 });
    }
    let mut ledger = Ledger::of_shard(header.run, header.allocation, header.kept.clone());
    let (mut changes, mut unseen, mut skipped_bytes) = (Changes::default(), Intents::NONE, 0);
    for worker in header.kept.clone() {
        let bytes = read_journal(&journal_path(dir, worker))?;
        let replayed = replay(&bytes, header.salt(), &header.allocation, worker);
        *ledger.pairs_mut(worker) = replayed.pairs;
        changes.merge(&replayed.changes);
        unseen = unseen.or(replayed.intents);
        skipped_bytes += replayed.skipped_bytes;
    }
    if unseen.contains(Intent::Any) {
        changes.touched = Touched::All;
    }
    ledger.set_changes(header.tells_changes().then_some(changes));
    ledger.set_unseen(unseen);
    Ok(Recovered { ledger, source: Source::Journals, skipped_bytes })
}

fn read_journal(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing { path: path.to_owned() },
        _ => Error::io("read", path, source),
    })
}
