//! Writes the journals on its own thread, so that no worker waits for the disk.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::files::{FileLog, Log, journal_path, sync_dir};
use super::header::{self, FORMAT, Header};
use super::list::LISTED_MAX;
use super::record::{put_intents, put_list, put_page, put_reservation};
use crate::changes::Changed;
use crate::intents::Intents;
use crate::numbers::Allocation;
use crate::pairs::Page;
use crate::receipt::Run;

/// Writes the journals of one shard's workers, on its own thread.
#[derive(Debug)]
pub struct Journals<L = FileLog> {
    dir: PathBuf,
    header: Header,
    journals: Vec<Journal<L>>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Journal<L> {
    log: L,
    reserved_until: u64,
    intents: Intents,
}

impl Journals {
    /// Starts a ledger in a directory, which is created if it is missing. `kept` are the workers of this shard.
    ///
    /// # Errors
    /// The directory already holds a ledger, cannot be written, or is full.
    ///
    /// # Panics
    /// If the allocation has no such workers.
    pub fn create(dir: &Path, run: Run, allocation: Allocation, kept: Range<u64>) -> Result<Journals, Error> {
        assert!(kept.end <= allocation.workers(), "worker {} of {} workers", kept.end, allocation.workers());
        std::fs::create_dir_all(dir).map_err(|source| Error::write(dir, &allocation, dir, source))?;
        if header::path(dir).exists() {
            return Err(Error::Occupied { dir: dir.to_owned() });
        }
        let logs =
            kept.clone().map(|worker| create_log(dir, &allocation, worker)).collect::<Result<_, _>>()?;
        sync_dir(dir).map_err(|source| Error::write(dir, &allocation, dir, source))?;
        let header = Header { format: FORMAT, run, allocation, kept };
        // The header comes last: if it exists, no journal is missing.
        header.write(dir)?;
        Ok(Journals::over(dir, header, logs))
    }
}

impl<L: Log> Journals<L> {
    fn over(dir: &Path, header: Header, logs: Vec<L>) -> Journals<L> {
        let journals =
            logs.into_iter().map(|log| Journal { log, reserved_until: 0, intents: Intents::NONE }).collect();
        Journals { dir: dir.to_owned(), header, journals, buffer: Vec::new() }
    }

    /// Reserves a worker's documents up to local index `until`, durably. Then [`crate::WorkerLedger::grant`] may follow.
    ///
    /// # Errors
    /// The disk is full or fails. No document is reserved then; a retry is possible.
    ///
    /// # Panics
    /// If the worker belongs to another shard.
    pub fn reserve(&mut self, worker: u64, until: u64) -> Result<(), Error> {
        self.buffer.clear();
        put_reservation(&mut self.buffer, self.header.salt(), worker_u32(worker), until);
        self.append(worker)?;
        self.journal(worker).log.sync().map_err(|source| self.error(worker, source))?;
        let journal = self.journal(worker);
        journal.reserved_until = journal.reserved_until.max(until);
        Ok(())
    }

    /// Writes pages from [`crate::WorkerLedger::take_dirty`]. They are durable with the next reservation; a power failure
    /// before that leaves their documents unknown.
    ///
    /// # Errors
    /// The disk is full or fails. The pages are not written then; keep them, and retry.
    ///
    /// # Panics
    /// If the worker belongs to another shard.
    pub fn flush(&mut self, worker: u64, pages: &[Page]) -> Result<(), Error> {
        let salt = self.header.salt();
        let until = self.journal(worker).reserved_until;
        for page in pages {
            self.buffer.clear();
            put_page(&mut self.buffer, salt, worker_u32(worker), until, page.index, &page.words);
            self.append(worker)?;
        }
        Ok(())
    }

    /// Records durably the worker's intended changes of existing documents. The worker may make them afterwards.
    ///
    /// # Errors
    /// The disk is full or fails. The intents are not recorded then; a retry is possible.
    ///
    /// # Panics
    /// If the worker belongs to another shard.
    pub fn intend(&mut self, worker: u64, intents: Intents) -> Result<(), Error> {
        let intents = self.journal(worker).intents.or(intents);
        self.buffer.clear();
        put_intents(&mut self.buffer, self.header.salt(), worker_u32(worker), intents);
        self.append(worker)?;
        self.journal(worker).log.sync().map_err(|source| self.error(worker, source))?;
        self.journal(worker).intents = intents;
        Ok(())
    }

    /// Writes the outcomes of a worker's changes, as durably as [`Journals::flush`].
    ///
    /// # Errors
    /// The disk is full or fails. Some of the documents are not written then; keep them, and retry.
    ///
    /// # Panics
    /// If the worker belongs to another shard.
    pub fn note(&mut self, worker: u64, changed: &[Changed]) -> Result<(), Error> {
        let salt = self.header.salt();
        let intents = self.journal(worker).intents;
        for listed in changed.chunks(LISTED_MAX) {
            self.buffer.clear();
            put_list(&mut self.buffer, salt, worker_u32(worker), intents, listed);
            self.append(worker)?;
        }
        Ok(())
    }

    fn append(&mut self, worker: u64) -> Result<(), Error> {
        let buffer = std::mem::take(&mut self.buffer);
        let appended = self.journal(worker).log.append(&buffer);
        self.buffer = buffer;
        appended.map_err(|source| self.error(worker, source))
    }

    fn journal(&mut self, worker: u64) -> &mut Journal<L> {
        assert!(self.header.kept.contains(&worker), "worker {worker} belongs to another shard");
        &mut self.journals[(worker - self.header.kept.start) as usize]
    }

    fn error(&self, worker: u64, source: io::Error) -> Error {
        Error::write(&self.dir, &self.header.allocation, &journal_path(&self.dir, worker), source)
    }
}

fn create_log(dir: &Path, allocation: &Allocation, worker: u64) -> Result<FileLog, Error> {
    let path = journal_path(dir, worker);
    FileLog::create(&path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Occupied { dir: dir.to_owned() },
        _ => Error::write(dir, allocation, &path, source),
    })
}

fn worker_u32(worker: u64) -> u32 {
    u32::try_from(worker).expect("an allocation has at most 65536 workers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Changes;
    use crate::intents::Intent;
    use crate::numbers::Slot;
    use crate::pairs::State;
    use crate::worker::WorkerLedger;

    const RUN: Run = Run { time_s: 1, tag: [1, 2, 3] };

    /// A disk with space for this number of bytes.
    struct Small {
        free: usize,
        syncs: usize,
    }

    impl Log for Small {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.free = self.free.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            self.syncs += 1;
            Ok(())
        }
    }

    fn small(free: usize) -> Journals<Small> {
        let header = Header {
            format: FORMAT,
            run: RUN,
            allocation: Allocation::new(10, 2, Some(1000)).unwrap(),
            kept: 1..2,
        };
        Journals::over(Path::new("runs/x"), header, vec![Small { free, syncs: 0 }])
    }

    fn dirty_pages() -> Vec<Page> {
        let mut ledger = WorkerLedger::unjournaled();
        ledger.set(0..20_000, State::Unknown);
        let mut pages = Vec::new();
        ledger.take_dirty(&mut pages);
        pages
    }

    #[test]
    fn a_full_disk_is_reported_with_the_remedy() {
        let expected = "no space left for the ledger in runs/x: free 1 MB or choose another place with --out";
        assert_eq!(small(31).reserve(1, 10).unwrap_err().to_string(), expected);
        assert_eq!(small(31).intend(1, Intents::NONE).unwrap_err().to_string(), expected);
        assert_eq!(small(5000).flush(1, &dirty_pages()).unwrap_err().to_string(), expected);
    }

    #[test]
    fn reservations_and_intents_are_durable_and_later_writes_do_not_wait() {
        let mut journals = small(100_000);
        journals.reserve(1, 10).unwrap();
        journals.flush(1, &dirty_pages()).unwrap();
        journals.note(1, &[Changes::default().at(Slot { worker: 1, local: 3 })]).unwrap();
        assert_eq!(journals.journals[0].log.syncs, 1);
        journals.intend(1, Intents::NONE.with(Intent::Alter)).unwrap();
        assert_eq!(journals.journals[0].log.syncs, 2);
    }

    #[test]
    fn a_second_ledger_in_one_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let allocation = Allocation::new(10, 2, None).unwrap();
        Journals::create(dir.path(), RUN, allocation, 0..2).unwrap();
        let again = Journals::create(dir.path(), RUN, allocation, 0..2);
        assert!(matches!(again, Err(Error::Occupied { .. })));
    }

    #[test]
    #[should_panic(expected = "belongs to another shard")]
    fn another_shards_worker_is_refused() {
        small(1000).reserve(0, 10).unwrap();
    }
}
