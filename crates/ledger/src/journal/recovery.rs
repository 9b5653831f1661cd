//! Reading the ledger of a crashed run: when in doubt, unknown.

use std::path::Path;
use std::{fs, io};

use super::error::Error;
use super::files::journal_path;
use super::header::Header;
use super::record::{Record, Scanned, scan};
use super::saved;
use crate::ledger::Ledger;
use crate::numbers::Deal;
use crate::pairs::{DOCUMENTS_PER_PAGE, Pairs};

/// A ledger read back from disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// The ledger.
    pub ledger: Ledger,
    /// What it was read from.
    pub source: Source,
    /// Bytes of the journals that are no record. A crash of the machine leaves the end of a journal torn,
    /// which harms nothing; more than a few pages mean that the disk damaged the journal.
    pub skipped_bytes: u64,
}

/// What a ledger was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The run ended in order and saved its ledger, which is exact.
    Saved,
    /// The run crashed: beyond what its journals tell, everything reserved is unknown.
    Journals,
}

/// Reads the ledger in a directory: the saved one, or else what the journals tell. There, a document is
/// `NotSent` only beyond its worker's reservation, and has an outcome only if that was flushed.
///
/// # Errors
/// When the directory holds no ledger, or a file of it is missing, unreadable, or damaged beyond doubt.
pub fn recover(dir: &Path) -> Result<Recovered, Error> {
    let header = Header::read(dir)?;
    if let Some(ledger) = saved::read(dir, &header)? {
        return Ok(Recovered { ledger, source: Source::Saved, skipped_bytes: 0 });
    }
    let mut ledger = Ledger::new(header.run, header.deal);
    // The journals tell what was sent, not what was changed.
    ledger.set_changes(None);
    let mut skipped_bytes = 0;
    for worker in header.kept.clone() {
        let bytes = read_journal(&journal_path(dir, worker))?;
        let replayed = replay(&bytes, header.salt(), &header.deal, worker);
        *ledger.pairs_mut(worker) = replayed.pairs;
        skipped_bytes += replayed.skipped_bytes;
    }
    Ok(Recovered { ledger, source: Source::Journals, skipped_bytes })
}

fn read_journal(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing { path: path.to_owned() },
        _ => Error::io("read", path, source),
    })
}

/// What one worker's journal tells.
#[derive(Default)]
struct Replayed {
    pairs: Pairs,
    reserved_until: u64,
    skipped_bytes: u64,
}

fn replay(bytes: &[u8], salt: u32, deal: &Deal, worker: u64) -> Replayed {
    let mut replayed = Replayed::default();
    let dealt = deal.dealt_to(worker);
    scan(bytes, salt).for_each(|scanned| replayed.step(scanned, worker, dealt));
    replayed.pairs.doubt(replayed.reserved_until);
    replayed
}

impl Replayed {
    /// A later page replaces an earlier one; a reservation only ever grows.
    fn step(&mut self, scanned: Scanned, worker: u64, dealt: u64) {
        match scanned {
            Scanned::Record(Record::Reservation { worker: w, until }) if u64::from(w) == worker => {
                self.reserved_until = self.reserved_until.max(until.min(dealt));
            }
            Scanned::Record(Record::Page { worker: w, until, page }) if u64::from(w) == worker => {
                self.reserved_until = self.reserved_until.max(until.min(dealt));
                if u64::from(page.index) * DOCUMENTS_PER_PAGE < self.reserved_until {
                    self.pairs.set_page(page.index as usize, page.words);
                }
            }
            Scanned::Record(_) => {}
            Scanned::Skipped(bytes) => self.skipped_bytes += bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::record::{put_page, put_reservation};
    use crate::pairs::State;

    const SALT: u32 = 1;
    const PAGE: u64 = DOCUMENTS_PER_PAGE;

    fn deal() -> Deal {
        Deal::new(1000, 1, Some(100_000)).unwrap()
    }

    /// What was written, and how far each half of the truth went when it was.
    struct Moment {
        bytes: usize,
        reserved: u64,
        sent: u64,
        flushed: u64,
    }

    /// Reserves 5000 at a time, sends 2000 and acknowledges them, flushes every other time.
    fn history() -> (Vec<u8>, Vec<Moment>) {
        let (mut bytes, mut moments, mut pairs) = (Vec::new(), Vec::new(), Pairs::default());
        let (mut reserved, mut flushed) = (0, 0);
        for round in 0..9_u64 {
            let sent = round * 2000;
            moments.push(Moment { bytes: bytes.len(), reserved, sent: sent.min(reserved), flushed });
            reserved = sent + 5000;
            put_reservation(&mut bytes, SALT, 0, reserved);
            pairs.fill(0..sent + 2000, State::Acknowledged as u64);
            if round % 4 == 3 {
                moments.push(Moment { bytes: bytes.len(), reserved, sent: sent + 2000, flushed });
                let page = pairs.copy_page(((sent + 1999) / PAGE) as usize);
                put_page(&mut bytes, SALT, 0, reserved, page.index, &page.words);
                flushed = sent + 2000;
            }
        }
        moments.push(Moment { bytes: bytes.len(), reserved, sent: 18_000, flushed });
        (bytes, moments)
    }

    fn check(pairs: &Pairs, moment: &Moment, cut: usize) {
        for at in (0..20_000).step_by(250).flat_map(|at| [at, at + 249]) {
            let state = pairs.state(at);
            let expected = match at {
                at if at < moment.flushed => State::Acknowledged,
                at if at < moment.reserved => State::Unknown,
                _ => State::NotSent,
            };
            assert!(at >= moment.sent || state != State::NotSent, "sent document {at}, cut at {cut}");
            assert_eq!(state, expected, "document {at}, cut at {cut}");
        }
    }

    #[test]
    fn any_prefix_of_a_journal_forgets_nothing_and_claims_nothing() {
        let (bytes, moments) = history();
        for cut in 0..=bytes.len() {
            let replayed = replay(&bytes[..cut], SALT, &deal(), 0);
            let moment = moments.iter().rfind(|moment| moment.bytes <= cut).unwrap();
            check(&replayed.pairs, moment, cut);
        }
    }

    #[test]
    fn a_flipped_byte_is_noticed_and_claims_nothing() {
        let (bytes, moments) = history();
        let last = moments.last().unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let replayed = replay(&damaged, SALT, &deal(), 0);
            assert!(replayed.skipped_bytes > 0, "byte {at}");
            let claimed = (0..20_000).rfind(|at| replayed.pairs.state(*at) == State::Acknowledged);
            assert!(claimed.is_none_or(|claimed| claimed < last.flushed), "byte {at}");
            let forgotten = replayed.pairs.state(last.sent - 1) == State::NotSent;
            assert!(
                !forgotten,
                "byte {at}: a reservation is told again by the pages and reservations after it"
            );
        }
    }

    #[test]
    fn what_lies_beyond_the_deal_is_left_out() {
        let mut bytes = Vec::new();
        put_reservation(&mut bytes, SALT, 0, u64::MAX);
        put_page(&mut bytes, SALT, 0, u64::MAX, u32::MAX, &[u64::MAX; 512]);
        let replayed = replay(&bytes, SALT, &deal(), 0);
        assert_eq!(replayed.pairs.counts().unknown, 100_000);
        assert_eq!(replay(&bytes, SALT, &deal(), 1).pairs.counts().sent(), 0);
    }
}
