//! Shares the acknowledged versions of some documents among the workers of a process, so that a worker can judge reads of documents that
//! another worker writes.
//!
//! A document has one owner, which alone changes it and knows its versions. The owner publishes the version
//! of every sampled document when it is acknowledged. It retracts the document before it sends a removal, or
//! a change without a version. A reader takes the published version as a lower bound when it sends a read,
//! and checks again when the answer arrives: if the document is retracted by then, the read proves nothing. A
//! second table holds the versions that reads at majority have shown. A later read of any worker from the
//! same primary or mongos must show no earlier version. An election forgets these versions, because a
//! replaced primary may answer for a while. No function waits: an entry is one atomic word.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_ledger::VERSION_MAX;
use plimsoll_load::mix::scramble;
use plimsoll_measure::random::{FNV_BASIS, fnv1a, mix};
use plimsoll_wire::{Address, Connection};

/// One document in this many is shared.
const SAMPLE: u64 = 16;
/// One read in this many goes to a document of another worker.
const READS: u64 = 32;
/// The number of places, each for one shared document: a newer document displaces an older document in its
/// place.
const PLACES: u64 = 1 << 12;
/// The bits of a version in a word. The bits above hold the document's number plus one; zero marks an empty place.
const VERSION_BITS: u32 = 24;
/// The bits of an origin in a word of the second table, above those of the version. The bits above the origin
/// hold the document's number divided by `SAMPLE × PLACES` (its round), plus one; the place gives the rest of the number.
const ORIGIN_BITS: u32 = 15;
/// Keeps the choice of reads independent of the choice of documents.
const READ_SALT: u64 = 0x5A_4ED;

/// The server that answers a read: a primary by its election, or a mongos by its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Unknown. A read of unknown origin raises only the bound that later linearizable reads must meet.
    #[default]
    Unknown,
    /// The low bits of the term, or of the hash of the address. Nearby elections differ in these bits.
    Known(u16),
}

impl Origin {
    const UNKNOWN: u64 = (1 << ORIGIN_BITS) - 1;

    /// The server behind a connection.
    pub fn of(connection: &Connection) -> Self {
        let hello = connection.hello();
        match hello.election_id {
            _ if hello.is_mongos => Self::of_mongos(connection.address()),
            Some(election) => Self::of_election(election),
            None => Self::Known(0),
        }
    }

    /// The primary that won an election.
    pub(crate) const fn of_election([_, _, _, _, term @ ..]: [u8; 12]) -> Self {
        Self::of_term(u64::from_be_bytes(term))
    }

    /// The mongos at an address.
    pub(crate) fn of_mongos(address: &Address) -> Self {
        let hash = fnv1a(fnv1a(FNV_BASIS, address.host.as_bytes()), &address.port.to_be_bytes());
        Self::of_term(mix(hash))
    }

    const fn of_term(term: u64) -> Self {
        Self::Known((term % Self::UNKNOWN) as u16)
    }

    const fn bits(self) -> u64 {
        match self {
            Self::Unknown => Self::UNKNOWN,
            Self::Known(bits) => bits as u64,
        }
    }
}

/// The table of shared versions.
#[derive(Debug)]
pub struct SharedBounds {
    places: Box<[AtomicU64]>,
    /// For each place, the highest version that a read has shown of a document in this place.
    shown: Box<[AtomicU64]>,
    /// Whether a change may touch any document, so that sharing has ended.
    is_closed: AtomicBool,
}

impl Default for SharedBounds {
    fn default() -> Self {
        let table = || (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Self { places: table(), shown: table(), is_closed: AtomicBool::new(false) }
    }
}

impl SharedBounds {
    /// The sampled numbers of a range.
    pub fn sampled(numbers: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
        (numbers.start.next_multiple_of(SAMPLE)..numbers.end).step_by(SAMPLE as usize)
    }

    /// Whether a document takes part.
    #[inline]
    pub const fn is_sampled(number: u64) -> bool {
        number.is_multiple_of(SAMPLE)
    }

    /// Publishes the acknowledged version of a document, if it is sampled.
    #[inline]
    pub fn publish(&self, number: u64, version: u32) {
        if Self::is_sampled(number) && version <= VERSION_MAX {
            self.place(number).store(word(number, version), Ordering::SeqCst);
        }
    }

    /// Withdraws a document before a removal, or before a change without a version, is sent.
    pub fn retract(&self, number: u64) {
        let place = self.place(number);
        let held = place.load(Ordering::SeqCst);
        if number_of(held) == Some(number) {
            // If another worker has just displaced the document, its word stays.
            let _ = place.compare_exchange(held, 0, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Withdraws all documents for good.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// The published version of a document; `None` if it was withdrawn or displaced.
    pub fn version(&self, number: u64) -> Option<u32> {
        let held = self.place(number).load(Ordering::SeqCst);
        let is_held = number_of(held) == Some(number) && !self.is_closed.load(Ordering::SeqCst);
        is_held.then_some(held as u32 & VERSION_MAX)
    }

    /// Raises the version that later reads of a document must show, if it is shared: a read from this origin has shown this version, which
    /// remains.
    #[inline]
    pub fn raise(&self, number: u64, version: u32, origin: Origin) {
        if Self::is_sampled(number) && version <= VERSION_MAX && self.version(number).is_some() {
            let (place, raised) = (&self.shown[index(number)], shown_word(number, version, origin));
            let is_news = |held: u64| held >> VERSION_BITS != raised >> VERSION_BITS || held < raised;
            // An update that loses a race is retried with the newer word.
            let _ = place
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |held| is_news(held).then_some(raised));
        }
    }

    /// The highest version of a document that a read from this origin has shown; without an origin, the
    /// version of the last origin. `None` if no read has shown the document, or another document displaced
    /// it.
    #[inline]
    pub fn shown(&self, number: u64, origin: Option<Origin>) -> Option<u32> {
        let held = self.shown[index(number)].load(Ordering::SeqCst);
        let wanted = shown_word(number, 0, origin.unwrap_or_default());
        let ignored = if origin.is_some() { VERSION_BITS } else { VERSION_BITS + ORIGIN_BITS };
        let is_held = held >> ignored == wanted >> ignored && !self.is_closed.load(Ordering::SeqCst);
        is_held.then_some(held as u32 & VERSION_MAX)
    }

    /// The shared document for the read with this random word. `None` for most reads.
    #[inline]
    pub fn draw(&self, random: u64) -> Option<u64> {
        let chosen = scramble(READ_SALT, random);
        if !chosen.is_multiple_of(READS) {
            return None;
        }
        let place = &self.places[(chosen / READS % PLACES) as usize];
        let number = number_of(place.load(Ordering::Relaxed))?;
        self.version(number).map(|_| number)
    }

    fn place(&self, number: u64) -> &AtomicU64 {
        &self.places[index(number)]
    }
}

/// The place of a document.
const fn index(number: u64) -> usize {
    (number / SAMPLE % PLACES) as usize
}

const fn word(number: u64, version: u32) -> u64 {
    (number + 1) << VERSION_BITS | version as u64
}

/// A word of the second table: the document's round, the origin and the version.
const fn shown_word(number: u64, version: u32, origin: Origin) -> u64 {
    let round = number / (SAMPLE * PLACES) + 1;
    (round << ORIGIN_BITS | origin.bits()) << VERSION_BITS | version as u64
}

/// The number in a word; `None` in an empty place.
const fn number_of(word: u64) -> Option<u64> {
    (word >> VERSION_BITS).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_version_is_read_until_it_is_retracted_or_displaced() {
        let shared = SharedBounds::default();
        shared.publish(32, 5);
        assert_eq!((shared.version(32), shared.version(48)), (Some(5), None));
        shared.publish(32, 6);
        assert_eq!(shared.version(32), Some(6));
        let displacing = 32 + SAMPLE * PLACES;
        shared.publish(displacing, VERSION_MAX);
        shared.retract(32);
        assert_eq!((shared.version(32), shared.version(displacing)), (None, Some(VERSION_MAX)));
        shared.retract(displacing);
        assert_eq!(shared.version(displacing), None);
        let last = (1 << 40) - SAMPLE;
        shared.publish(last, 1);
        assert_eq!(shared.version(last), Some(1));
        shared.close();
        assert_eq!(shared.version(last), None);
    }

    #[test]
    fn a_shown_version_only_grows_and_belongs_to_one_shared_document() {
        let shared = SharedBounds::default();
        let origin = Origin::of_term(1);
        let shown = |number| shared.shown(number, Some(origin));
        shared.raise(32, 5, origin);
        assert_eq!(shown(32), None, "it is not shared");
        shared.publish(32, 4);
        [5, 3, 6, 1].into_iter().for_each(|version| shared.raise(32, version, origin));
        assert_eq!((shown(32), shared.version(32)), (Some(6), Some(4)));
        let displacing = 32 + SAMPLE * PLACES;
        shared.publish(displacing, 1);
        shared.raise(displacing, 1, origin);
        shared.raise(32, 9, origin);
        assert_eq!((shown(32), shown(displacing)), (None, Some(1)));
        let last = (1 << 40) - SAMPLE;
        shared.publish(last, 7);
        shared.raise(last, 8, origin);
        assert_eq!(shown(last), Some(8));
        shared.close();
        assert_eq!(shown(last), None);
    }

    #[test]
    fn an_election_forgets_the_versions_that_reads_have_shown_but_for_linearizable_ones() {
        let shared = SharedBounds::default();
        shared.publish(32, 1);
        let [first, second] = [1, 2].map(Origin::of_term);
        shared.raise(32, 5, first);
        assert_eq!((shared.shown(32, Some(first)), shared.shown(32, Some(second))), (Some(5), None));
        assert_eq!(shared.shown(32, None), Some(5));
        shared.raise(32, 4, second);
        assert_eq!((shared.shown(32, Some(first)), shared.shown(32, Some(second))), (None, Some(4)));
        shared.raise(32, 6, Origin::Unknown);
        assert_eq!((shared.shown(32, Some(second)), shared.shown(32, None)), (None, Some(6)));
        assert_ne!(Origin::of_term(Origin::UNKNOWN).bits(), Origin::UNKNOWN);
    }

    #[test]
    fn of_versions_that_several_workers_show_at_once_the_highest_stays() {
        let shared = SharedBounds::default();
        shared.publish(48, 0);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let shared = &shared;
                let origin = Origin::of_term(1);
                scope.spawn(move || (0..1000).for_each(|step| shared.raise(48, step * 4 + worker, origin)));
            }
        });
        assert_eq!(shared.shown(48, Some(Origin::of_term(1))), Some(3999));
    }

    #[test]
    fn only_sampled_documents_are_shared() {
        let shared = SharedBounds::default();
        shared.publish(33, 1);
        assert_eq!(shared.version(33), None);
        assert_eq!(SharedBounds::sampled(15..33).collect::<Vec<_>>(), [16, 32]);
        assert_eq!(SharedBounds::sampled(17..32).count(), 0);
    }

    #[test]
    fn a_share_of_the_reads_draws_each_shared_document() {
        let shared = SharedBounds::default();
        (0..PLACES * SAMPLE).step_by(SAMPLE as usize).for_each(|number| shared.publish(number, 0));
        let draws = 1_000_000;
        let mut drawn: Vec<u64> = (0..draws).filter_map(|random| shared.draw(random)).collect();
        assert!(drawn.len().abs_diff(draws as usize / READS as usize) < 1000, "{}", drawn.len());
        drawn.sort_unstable();
        drawn.dedup();
        assert!(drawn.len() as u64 > PLACES * 9 / 10, "{}", drawn.len());
    }
}
