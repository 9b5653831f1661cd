//! Encodes and parses the records of journals and saved ledgers, each with checksums, in units of 32 bytes.
//!
//! A record is a head of 32 bytes, and for a page the 4096 bytes of its words. All numbers are
//! little-endian:
//!
//! | bytes | content |
//! | --- | --- |
//! | 0..4 | `PLL1` |
//! | 4..8 | the worker |
//! | 8..12 | kind: 1 reservation, 2 page, 3 end, 4 page of marks, 5 page of versions, 6 everything is marked, 7 intents, 8 list of changed documents, 9 transactions of unknown outcome, 10 page of updates of a kind |
//! | 12..16 | the page's index; for a list, its number of documents; for transactions, their number; 0 for others |
//! | 16..24 | reservation and page: the reservation's end, a local index; end: the pages before it; intents and list: the changes that the worker intends; updates of a kind: the kind |
//! | 24..28 | checksum of the page's words; 0 for others |
//! | 28..32 | checksum of the run and the bytes before |

use super::list;
use crate::changes::Changed;
use crate::intents::Intents;
use crate::pairs::{PAGE_BYTES, Page, Words};

const MAGIC: [u8; 4] = *b"PLL1";
const HEAD_BYTES: usize = 32;

/// One entry of a journal or a saved ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// Every document below `until` may be sent.
    Reservation { worker: u32, until: u64 },
    /// The states of a page, and the reservation at that time.
    Page { worker: u32, until: u64, page: Page },
    /// The end of a saved ledger, after this number of pages.
    End { pages: u64 },
    /// The touched documents of a page.
    Marks { worker: u32, page: Page },
    /// The versions of a page's documents.
    Versions { worker: u32, page: Page },
    /// The updates of a kind, of the documents of a page.
    Updates { kind: u64, worker: u32, page: Page },
    /// Every document may have been touched.
    AllTouched,
    /// The intents of a worker from now on.
    Intents { worker: u32, intents: Intents },
    /// Changed documents, and the worker's intents at that time.
    List { worker: u32, intents: Intents, count: u32, words: Box<Words> },
    /// Transactions of unknown outcome.
    Transactions { count: u32, words: Box<Words> },
}

/// The meaning of a page's words, in a file of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Marks = 4,
    Versions = 5,
}

/// The content at a position of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scanned {
    /// A whole record.
    Record(Record),
    /// This number of bytes that are not a record.
    Skipped(u64),
}

/// Appends a reservation to a buffer.
pub(super) fn put_reservation(into: &mut Vec<u8>, salt: u32, worker: u32, until: u64) {
    put_head(into, salt, [worker, 1, 0], until, 0);
}

/// Appends a page to a buffer.
pub(super) fn put_page(into: &mut Vec<u8>, salt: u32, worker: u32, until: u64, index: u32, words: &Words) {
    put_paged(into, salt, [worker, 2, index], until, words);
}

/// Appends a page of marks or versions of a worker to a buffer.
pub(super) fn put_words(
    into: &mut Vec<u8>,
    salt: u32,
    kind: Kind,
    (worker, index): (u32, u32),
    words: &Words,
) {
    put_paged(into, salt, [worker, kind as u32, index], 0, words);
}

/// Appends a page of a worker's updates of a kind to a buffer.
pub(super) fn put_updates(
    into: &mut Vec<u8>,
    salt: u32,
    kind: u8,
    (worker, index): (u32, u32),
    words: &Words,
) {
    put_paged(into, salt, [worker, 10, index], u64::from(kind), words);
}

/// Appends the record that every document may have been touched.
pub(super) fn put_all(into: &mut Vec<u8>, salt: u32) {
    put_head(into, salt, [0, 6, 0], 0, 0);
}

/// Appends the changes that a worker intends.
pub(super) fn put_intents(into: &mut Vec<u8>, salt: u32, worker: u32, intents: Intents) {
    put_head(into, salt, [worker, 7, 0], intents.bits(), 0);
}

/// Appends documents that were changed, at most [`list::LISTED_MAX`] of them.
pub(super) fn put_list(into: &mut Vec<u8>, salt: u32, worker: u32, intents: Intents, listed: &[Changed]) {
    put_paged(into, salt, [worker, 8, listed.len() as u32], intents.bits(), &list::words(listed));
}

/// Appends transactions of unknown outcome, as many as [`grouped::words`] put into one record.
pub(super) fn put_transactions(into: &mut Vec<u8>, salt: u32, count: u32, words: &Words) {
    put_paged(into, salt, [0, 9, count], 0, words);
}

fn put_paged(into: &mut Vec<u8>, salt: u32, fields: [u32; 3], number: u64, words: &Words) {
    let head = into.len();
    into.resize(head + HEAD_BYTES, 0);
    words.iter().for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
    let crc = crc32fast::hash(&into[head + HEAD_BYTES..]);
    let mut bytes = Vec::with_capacity(HEAD_BYTES);
    put_head(&mut bytes, salt, fields, number, crc);
    into[head..head + HEAD_BYTES].copy_from_slice(&bytes);
}

/// Appends the end of a saved ledger to a buffer.
pub(super) fn put_end(into: &mut Vec<u8>, salt: u32, pages: u64) {
    put_head(into, salt, [0, 3, 0], pages, 0);
}

fn put_head(into: &mut Vec<u8>, salt: u32, fields: [u32; 3], number: u64, payload_crc: u32) {
    let start = into.len();
    into.extend_from_slice(&MAGIC);
    fields.iter().for_each(|field| into.extend_from_slice(&field.to_le_bytes()));
    into.extend_from_slice(&number.to_le_bytes());
    into.extend_from_slice(&payload_crc.to_le_bytes());
    let crc = salted_crc(salt, &into[start..]);
    into.extend_from_slice(&crc.to_le_bytes());
}

/// Reads a file's bytes record by record. After invalid bytes it continues at the next record, so that damage affects only the
/// damaged records.
pub(super) fn scan(bytes: &[u8], salt: u32) -> impl Iterator<Item = Scanned> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((record, length)) = read(rest, salt) {
            rest = &rest[length..];
            return Some(Scanned::Record(record));
        }
        let skipped = rest.len().min(HEAD_BYTES);
        rest = &rest[skipped..];
        Some(Scanned::Skipped(skipped as u64))
    })
}

/// The record at the start of the bytes and its length, if it is complete and valid.
fn read(bytes: &[u8], salt: u32) -> Option<(Record, usize)> {
    let head = bytes.first_chunk::<HEAD_BYTES>()?;
    let number = u64::from_le_bytes(*head[16..].first_chunk()?);
    if head[..4] != MAGIC || field(head, 28) != salted_crc(salt, &head[..28]) {
        return None;
    }
    let worker = field(head, 4);
    match field(head, 8) {
        1 => Some((Record::Reservation { worker, until: number }, HEAD_BYTES)),
        2 => {
            let words = read_words(&bytes[HEAD_BYTES..], field(head, 24))?;
            let page = Page { index: field(head, 12), words };
            Some((Record::Page { worker, until: number, page }, HEAD_BYTES + PAGE_BYTES))
        }
        3 => Some((Record::End { pages: number }, HEAD_BYTES)),
        kind @ (4 | 5) => {
            let words = read_words(&bytes[HEAD_BYTES..], field(head, 24))?;
            let page = Page { index: field(head, 12), words };
            let record = match kind {
                4 => Record::Marks { worker, page },
                _ => Record::Versions { worker, page },
            };
            Some((record, HEAD_BYTES + PAGE_BYTES))
        }
        6 => Some((Record::AllTouched, HEAD_BYTES)),
        7 => Some((Record::Intents { worker, intents: Intents::of_bits(number) }, HEAD_BYTES)),
        8 => {
            let words = read_words(&bytes[HEAD_BYTES..], field(head, 24))?;
            let (intents, count) = (Intents::of_bits(number), field(head, 12));
            Some((Record::List { worker, intents, count, words }, HEAD_BYTES + PAGE_BYTES))
        }
        9 => {
            let words = read_words(&bytes[HEAD_BYTES..], field(head, 24))?;
            Some((Record::Transactions { count: field(head, 12), words }, HEAD_BYTES + PAGE_BYTES))
        }
        10 => {
            let words = read_words(&bytes[HEAD_BYTES..], field(head, 24))?;
            let page = Page { index: field(head, 12), words };
            Some((Record::Updates { kind: number, worker, page }, HEAD_BYTES + PAGE_BYTES))
        }
        _ => None,
    }
}

fn read_words(bytes: &[u8], crc: u32) -> Option<Box<Words>> {
    let payload = bytes.first_chunk::<PAGE_BYTES>()?;
    if crc32fast::hash(payload) != crc {
        return None;
    }
    let mut words = Box::new([0; PAGE_BYTES / 8]);
    for (word, bytes) in words.iter_mut().zip(payload.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Some(words)
}

fn field(head: &[u8; HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

/// The CRC-32 of `bytes`, continued from the checksum `salt`.
fn salted_crc(salt: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u32 = 7;

    fn page(index: u32) -> Page {
        let mut words = Box::new([0; PAGE_BYTES / 8]);
        (0..).zip(words.iter_mut()).for_each(|(at, word): (u64, &mut u64)| *word = at << 40 | at);
        Page { index, words }
    }

    fn three_records() -> (Vec<u8>, Vec<Record>) {
        let mut bytes = Vec::new();
        put_reservation(&mut bytes, SALT, 3, 1 << 39);
        put_page(&mut bytes, SALT, 3, 1 << 39, 9, &page(9).words);
        put_end(&mut bytes, SALT, 1);
        let records = vec![
            Record::Reservation { worker: 3, until: 1 << 39 },
            Record::Page { worker: 3, until: 1 << 39, page: page(9) },
            Record::End { pages: 1 },
        ];
        (bytes, records)
    }

    fn records(bytes: &[u8], salt: u32) -> Vec<Record> {
        let record = |scanned| match scanned {
            Scanned::Record(record) => Some(record),
            Scanned::Skipped(_) => None,
        };
        scan(bytes, salt).filter_map(record).collect()
    }

    #[test]
    fn records_are_read_as_written() {
        let (bytes, expected) = three_records();
        assert_eq!(bytes.len(), 3 * HEAD_BYTES + PAGE_BYTES);
        assert_eq!(records(&bytes, SALT), expected);
    }

    #[test]
    fn another_runs_records_are_skipped() {
        assert_eq!(records(&three_records().0, SALT + 1), []);
    }

    #[test]
    fn damage_affects_only_the_damaged_record() {
        let (bytes, expected) = three_records();
        for (at, hit) in [(5, 0), (HEAD_BYTES, 1), (HEAD_BYTES + 17, 1), (2000, 1), (bytes.len() - 1, 2)] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            let mut left = expected.clone();
            left.remove(hit);
            assert_eq!(records(&damaged, SALT), left, "byte {at}");
        }
    }
}
