//! Saves and loads the changes of a ledger: versions and marks, page by page.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::files::write_whole;
use super::grouped;
use super::header::Header;
use super::record::{
    Kind, Record, Scanned, put_all, put_end, put_intents, put_transactions, put_updates, put_words, scan,
};
use crate::changes::Changes;
use crate::intents::Intents;
use crate::kinds::KINDS_MAX;
use crate::ledger::Ledger;
use crate::numbers::Allocation;
use crate::pairs::DOCUMENTS_PER_PAGE;
use crate::touched::Touched;
use crate::versions::PER_PAGE;

fn path(dir: &Path) -> PathBuf {
    dir.join("ledger.changes")
}

/// The saved state: the changes, and the intents with possibly unrecorded changes.
type Saved = (Changes, Intents);

/// Saves the changes, if they are known. They are saved before the ledger, so a saved ledger always has its changes.
pub(super) fn write(dir: &Path, header: &Header, ledger: &Ledger) -> Result<(), Error> {
    let Some(changes) = ledger.changes() else { return Ok(()) };
    let path = path(dir);
    write_whole(&path, |file| write_records(file, (changes, ledger.unseen()), header.salt()))
        .map_err(|source| Error::write(dir, &header.allocation, &path, source))
}

/// Loads the saved changes of a directory. An older format saved none; they are unknown then.
pub(super) fn read(dir: &Path, header: &Header, ledger: &mut Ledger) -> Result<(), Error> {
    let path = path(dir);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            ledger.set_changes(None);
            return Ok(());
        }
        Err(source) => return Err(Error::io("read", &path, source)),
    };
    let (changes, unseen) = from_bytes(&bytes, header)
        .ok_or_else(|| Error::damaged(&path, "a page is missing or has a wrong checksum"))?;
    ledger.set_changes(Some(changes));
    ledger.set_unseen(unseen);
    Ok(())
}

fn write_records(file: &mut dyn Write, (changes, unseen): (&Changes, Intents), salt: u32) -> io::Result<()> {
    let (mut buffer, mut records) = (Vec::new(), 0);
    let marks = changes.touched.pages().map(|page| (Kind::Marks, page));
    let versions = changes.versions.pages().map(|(worker, index, words)| (worker, index, &**words));
    for (kind, (worker, index, words)) in marks.chain(versions.map(|page| (Kind::Versions, page))) {
        buffer.clear();
        put_words(&mut buffer, salt, kind, (worker as u32, index as u32), words);
        file.write_all(&buffer)?;
        records += 1;
    }
    for (kind, worker, index, words) in changes.kinds.pages() {
        buffer.clear();
        put_updates(&mut buffer, salt, kind, (worker as u32, index as u32), words);
        file.write_all(&buffer)?;
        records += 1;
    }
    for (count, words) in grouped::words(&changes.transactions) {
        buffer.clear();
        put_transactions(&mut buffer, salt, count, &words);
        file.write_all(&buffer)?;
        records += 1;
    }
    buffer.clear();
    if changes.touched == Touched::All {
        put_all(&mut buffer, salt);
        records += 1;
    }
    if unseen != Intents::NONE {
        put_intents(&mut buffer, salt, 0, unseen);
        records += 1;
    }
    put_end(&mut buffer, salt, records);
    file.write_all(&buffer)
}

fn from_bytes(bytes: &[u8], header: &Header) -> Option<Saved> {
    let (mut changes, mut unseen, mut read) = (Changes::default(), Intents::NONE, 0);
    let mut records = scan(bytes, header.salt());
    loop {
        match records.next()? {
            Scanned::Record(Record::End { pages }) => {
                return (pages == read && records.next().is_none()).then_some((changes, unseen));
            }
            Scanned::Record(Record::Intents { intents, .. }) => unseen = unseen.or(intents),
            Scanned::Record(record) => put(&mut changes, &header.allocation, record)?,
            Scanned::Skipped(_) => return None,
        }
        read += 1;
    }
}

fn put(changes: &mut Changes, allocation: &Allocation, record: Record) -> Option<()> {
    let allocated = |worker: u32, start: u64| start < allocation.allocated_to(u64::from(worker));
    match record {
        Record::Marks { worker, page } => {
            allocated(worker, u64::from(page.index) * DOCUMENTS_PER_PAGE).then(|| {
                changes.touched.set_page(allocation, worker as usize, page.index as usize, page.words);
            })
        }
        Record::Versions { worker, page } => allocated(worker, u64::from(page.index) * PER_PAGE)
            .then(|| changes.versions.set_page(worker as usize, page.index as usize, page.words)),
        Record::Updates { kind, worker, page } => {
            let kind = u8::try_from(kind).ok().filter(|kind| *kind < KINDS_MAX)?;
            allocated(worker, u64::from(page.index) * PER_PAGE)
                .then(|| changes.kinds.set_page(kind, worker as usize, page.index as usize, page.words))
        }
        Record::AllTouched => {
            changes.touched = Touched::All;
            Some(())
        }
        Record::Transactions { count, words } => {
            grouped::read(&words, count, allocation).map(|read| changes.transactions.merge(&read))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intents::Intent;
    use crate::journal::header::FORMAT;
    use crate::numbers::Slot;
    use crate::receipt::Run;
    use crate::transactions::Span;

    fn header() -> Header {
        let allocation = Allocation::new(1000, 3, None).unwrap();
        Header { format: FORMAT, run: Run { time_s: 1, tag: [1, 2, 3] }, allocation, kept: 0..3 }
    }

    fn changes(marked: u64, replaced: u64) -> Changes {
        let mut changes = Changes::default();
        changes.touched.mark(&header().allocation, 0..marked);
        for local in 0..replaced {
            let slot = Slot { worker: local % 3, local: local * 11 };
            changes.versions.replace(slot);
            if local % 2 == 0 {
                changes.versions.acknowledge(slot);
            }
        }
        changes
    }

    fn bytes(changes: &Changes, unseen: Intents) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_records(&mut bytes, (changes, unseen), header().salt()).unwrap();
        bytes
    }

    #[test]
    fn changes_are_read_as_written() {
        let all = Changes { touched: Touched::All, ..changes(0, 10) };
        let mut grouped = changes(0, 10);
        let span = |local| Span { first: Slot { worker: 1, local }, count: 3 };
        (0..500).for_each(|local| grouped.transactions.add(vec![span(local), span(local + 900)]));
        grouped.transactions.add_unchecked(7);
        for kind in [0, 3, 7] {
            assert!(grouped.kinds.send(kind, Slot { worker: 2, local: 900 * u64::from(kind) }));
        }
        grouped.versions.read(Slot { worker: 1, local: 11 });
        let pages = [Changes::default(), changes(0, 3000), changes(50_000, 0), changes(50, 3000)];
        for changes in pages.into_iter().chain([all, grouped]) {
            for unseen in [Intents::NONE, Intents::NONE.with(Intent::Remove)] {
                let read = from_bytes(&bytes(&changes, unseen), &header());
                assert_eq!(read, Some((changes.clone(), unseen)));
            }
        }
    }

    #[test]
    fn a_cut_or_a_flipped_bit_is_detected() {
        let whole = bytes(&changes(20_000, 300), Intents::NONE.with(Intent::Any));
        for at in (0..whole.len()).step_by(97) {
            assert_eq!(from_bytes(&whole[..at], &header()), None, "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 4;
            assert_eq!(from_bytes(&changed, &header()), None, "changed at {at}");
        }
    }

    #[test]
    fn a_directory_without_changes_reports_them_as_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::new(header().run, header().allocation);
        read(dir.path(), &header(), &mut ledger).unwrap();
        assert_eq!(ledger.changes(), None);
        write(dir.path(), &header(), &Ledger::new(header().run, header().allocation)).unwrap();
        read(dir.path(), &header(), &mut ledger).unwrap();
        assert_eq!(ledger.changes(), Some(&Changes::default()));
    }
}
