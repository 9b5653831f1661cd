//! Saves and loads the ledger of a run that ended regularly: one file, two bits per document.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{fs, iter};

use super::changed;
use super::error::Error;
use super::files::{journal_path, journals, write_whole};
use super::header::{FORMAT, Header};
use super::record::{Record, Scanned, put_end, put_page, scan};
use crate::ledger::Ledger;
use crate::numbers::Allocation;
use crate::pairs::{DOCUMENTS_PER_PAGE, Page, Words};

fn path(dir: &Path) -> PathBuf {
    dir.join("ledger.pages")
}

/// Saves a complete ledger with its changes, exactly, and removes the journals that it replaces.
///
/// # Errors
/// When the directory has another run's ledger, cannot be written, or is full. Its journals remain then.
pub fn save(dir: &Path, ledger: &Ledger) -> Result<(), Error> {
    let allocation = ledger.allocation();
    fs::create_dir_all(dir).map_err(|source| Error::write(dir, &allocation, dir, source))?;
    let header = Header { format: FORMAT, run: ledger.run(), allocation, kept: ledger.kept() };
    refuse_another_run(dir, &header)?;
    changed::write(dir, &header, ledger)?;
    let path = path(dir);
    write_whole(&path, |file| write_pages(file, ledger, header.salt()))
        .map_err(|source| Error::write(dir, &allocation, &path, source))?;
    header.write(dir)?;
    remove_journals(dir).map_err(|source| Error::io("remove the journals in", dir, source))
}

/// Loads a saved ledger.
///
/// # Errors
/// The directory holds no saved ledger, or a damaged one.
pub fn load(dir: &Path) -> Result<Ledger, Error> {
    let header = Header::read(dir)?;
    read(dir, &header)?.ok_or_else(|| Error::Unsaved { dir: dir.to_owned() })
}

/// The saved ledger of a directory, if any.
pub(super) fn read(dir: &Path, header: &Header) -> Result<Option<Ledger>, Error> {
    let path = path(dir);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::io("read", &path, source)),
    };
    let ledger = from_bytes(&bytes, header);
    let mut ledger =
        ledger.ok_or_else(|| Error::damaged(&path, "a page is missing or has a wrong checksum"))?;
    changed::read(dir, header, &mut ledger)?;
    Ok(Some(ledger))
}

fn refuse_another_run(dir: &Path, header: &Header) -> Result<(), Error> {
    match Header::read(dir) {
        Ok(there) if there.run == header.run && there.allocation == header.allocation => Ok(()),
        Ok(_) => Err(Error::Occupied { dir: dir.to_owned() }),
        Err(Error::Absent { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn write_pages(file: &mut dyn Write, ledger: &Ledger, salt: u32) -> io::Result<()> {
    let mut buffer = Vec::new();
    let mut pages = 0;
    for (worker, index, words) in sent_pages(ledger) {
        buffer.clear();
        put_page(&mut buffer, salt, worker, 0, index, words);
        file.write_all(&buffer)?;
        pages += 1;
    }
    buffer.clear();
    put_end(&mut buffer, salt, pages);
    file.write_all(&buffer)
}

/// The pages with sent documents.
fn sent_pages(ledger: &Ledger) -> impl Iterator<Item = (u32, u32, &Words)> {
    let workers = (0_u32..).zip(ledger.workers());
    let pages = workers.flat_map(|(worker, pairs)| iter::repeat(worker).zip(pairs.pages()));
    pages
        .filter(|(_, (_, words))| words.iter().any(|word| *word != 0))
        .map(|(worker, (index, words))| (worker, index as u32, words))
}

fn from_bytes(bytes: &[u8], header: &Header) -> Option<Ledger> {
    let mut ledger = Ledger::of_shard(header.run, header.allocation, header.kept.clone());
    let mut pages = 0;
    let mut records = scan(bytes, header.salt());
    loop {
        match records.next()? {
            Scanned::Record(Record::Page { worker, page, .. }) => {
                put(&mut ledger, &header.allocation, u64::from(worker), page)?;
                pages += 1;
            }
            Scanned::Record(Record::End { pages: all }) => {
                return (all == pages && records.next().is_none()).then_some(ledger);
            }
            _ => return None,
        }
    }
}

fn put(ledger: &mut Ledger, allocation: &Allocation, worker: u64, page: Page) -> Option<()> {
    let start = u64::from(page.index) * DOCUMENTS_PER_PAGE;
    (start < allocation.allocated_to(worker))
        .then(|| ledger.pairs_mut(worker).set_page(page.index as usize, page.words))
}

fn remove_journals(dir: &Path) -> io::Result<()> {
    journals(dir)?.into_iter().try_for_each(|worker| fs::remove_file(journal_path(dir, worker)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Journals, Source, recover};
    use crate::pairs::State;
    use crate::receipt::Run;
    use crate::worker::WorkerLedger;

    const RUN: Run = Run { time_s: 1, tag: [1, 2, 3] };

    fn ledger(allocation: Allocation) -> Ledger {
        let mut ledger = Ledger::new(RUN, allocation);
        for worker in 0..allocation.workers() {
            let mut own = WorkerLedger::unjournaled();
            let allocated = allocation.allocated_to(worker);
            own.set(0..allocated, State::Acknowledged);
            own.set(allocated / 3..allocated / 2, State::NotSent);
            own.set(allocated / 2..allocated / 2 + 5, State::Rejected);
            own.set(allocated - 5..allocated, State::Unknown);
            ledger.adopt(worker, own);
        }
        ledger
    }

    #[test]
    fn a_saved_ledger_is_loaded_exactly() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = ledger(Allocation::new(1000, 3, Some(200_000)).unwrap());
        save(dir.path(), &ledger).unwrap();
        assert_eq!(load(dir.path()).unwrap(), ledger);
    }

    #[test]
    fn the_ledger_of_a_shard_is_loaded_as_a_shard() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::of_shard(RUN, Allocation::new(1000, 3, Some(200_000)).unwrap(), 1..2);
        let mut own = WorkerLedger::unjournaled();
        own.set(0..500, State::Acknowledged);
        ledger.adopt(1, own);
        save(dir.path(), &ledger).unwrap();
        let loaded = load(dir.path()).unwrap();
        assert_eq!((loaded.kept(), &loaded), (1..2, &ledger));
    }

    #[test]
    fn the_saved_ledger_replaces_the_journals() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = ledger(Allocation::new(1000, 3, Some(200_000)).unwrap());
        Journals::create(dir.path(), RUN, ledger.allocation(), 0..3).unwrap();
        assert!(matches!(load(dir.path()), Err(Error::Unsaved { .. })));
        save(dir.path(), &ledger).unwrap();
        assert_eq!(journals(dir.path()).unwrap(), []);
        let recovered = recover(dir.path()).unwrap();
        assert_eq!((recovered.ledger, recovered.source), (ledger, Source::Saved));
    }

    #[test]
    fn another_runs_ledger_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let allocation = Allocation::new(1000, 1, Some(3000)).unwrap();
        save(dir.path(), &ledger(allocation)).unwrap();
        save(dir.path(), &ledger(allocation)).unwrap();
        let other = Ledger::new(Run { time_s: 2, ..RUN }, allocation);
        assert!(matches!(save(dir.path(), &other), Err(Error::Occupied { .. })));
        assert_eq!(load(dir.path()).unwrap(), ledger(allocation));
    }

    #[test]
    fn a_saved_ledger_that_was_cut_or_changed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &ledger(Allocation::new(1000, 1, Some(30_000)).unwrap())).unwrap();
        let path = path(dir.path());
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(61) {
            fs::write(&path, &whole[..at]).unwrap();
            assert!(matches!(load(dir.path()), Err(Error::Damaged { .. })), "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&path, &changed).unwrap();
            assert!(matches!(load(dir.path()), Err(Error::Damaged { .. })), "changed at {at}");
        }
    }

    #[test]
    fn a_saved_ledger_without_one_of_its_pages_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &ledger(Allocation::new(1000, 1, Some(30_000)).unwrap())).unwrap();
        let path = path(dir.path());
        let mut bytes = fs::read(&path).unwrap();
        bytes.drain(..32 + 4096);
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(load(dir.path()), Err(Error::Damaged { .. })));
    }

    #[test]
    fn a_hundred_million_documents_take_25_mb_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let allocation = Allocation::new(1000, 4, Some(10_000_000)).unwrap();
        save(dir.path(), &ledger(allocation)).unwrap();
        let bytes = fs::metadata(path(dir.path())).unwrap().len();
        assert!(bytes * 10 < 25_400_000, "{bytes} bytes for a tenth of the documents");
    }
}
