//! One worker's documents: which numbers it may send, and what became of each.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_ledger::{Deal, Page, Place, Share, State, Touched, WorkerLedger};

use crate::keeper::Reservations;
use crate::known::{Known, Part};

/// Documents reserved on disk ahead of what is sent: some seconds of the fastest load.
const AHEAD: u64 = 1 << 21;
/// Draws after which a document is taken that is not known to be there.
const DRAWS_MAX: u32 = 8;

/// One worker's numbers, ledger and touched documents.
#[derive(Debug)]
pub struct Books {
    deal: Deal,
    share: Share,
    ledger: WorkerLedger,
    reservations: Option<Reservations>,
    documents_left: Option<u64>,
    touched: Touched,
    pages: Vec<Page>,
    known: Arc<Known>,
}

/// What a worker leaves behind at the end of a run.
#[derive(Debug)]
pub struct Closed {
    /// The worker among all workers of all shards.
    pub worker: u64,
    /// What became of its documents.
    pub ledger: WorkerLedger,
    /// Documents that other operations may have changed or removed.
    pub touched: Touched,
}

impl Books {
    /// The books of worker `worker`; with `reservations`, every number is reserved on disk before it is given out.
    pub fn new(deal: Deal, worker: u64, reservations: Option<Reservations>) -> Self {
        let ledger = if reservations.is_some() { WorkerLedger::new() } else { WorkerLedger::unjournaled() };
        Self {
            deal,
            share: deal.share(worker),
            ledger,
            reservations,
            documents_left: None,
            touched: Touched::None,
            pages: Vec::new(),
            known: Arc::default(),
        }
    }

    /// From now on, at most this many documents are given out.
    pub fn limit(&mut self, documents: Option<u64>) {
        self.documents_left = documents;
    }

    /// Up to `count` numbers in a row for one operation, noted as unknown until their outcome is told. Nothing when
    /// the phase's share is used up, or the disk takes no further reservation.
    pub fn take(&mut self, count: u64) -> Option<Range<u64>> {
        let count = self.documents_left.map_or(count, |left| left.min(count));
        if count == 0 || !self.reserve(count) {
            return None;
        }
        let first = self.share.taken();
        let numbers = self.share.take(count)?;
        self.ledger.set(first..self.share.taken(), State::Unknown);
        self.documents_left = self.documents_left.map(|left| left - (numbers.end - numbers.start));
        Some(numbers)
    }

    /// Gives out numbers that nobody sends, so that operations by receipt have something to name: for a server that
    /// stores nothing.
    pub fn pretend(&mut self, count: u64) {
        let pretended = self.share.take(count);
        debug_assert!(pretended.is_some(), "there are 2^40 numbers");
    }

    /// Takes back numbers that were given out and not sent.
    pub fn give_back(&mut self, numbers: Range<u64>) {
        self.documents_left = self.documents_left.map(|left| left + (numbers.end - numbers.start));
        self.settle(numbers, State::NotSent);
    }

    /// Notes what became of documents; the numbers lie within one operation.
    pub fn settle(&mut self, numbers: Range<u64>, state: State) {
        if let Some(place) = self.deal.locate(numbers.start) {
            self.ledger.set(place.local..place.local + (numbers.end - numbers.start), state);
        }
    }

    /// What this worker has to tell the others before a phase.
    pub fn part(&self) -> Part {
        Part { worker: self.share.worker(), taken: self.share.taken(), ledger: self.ledger.clone() }
    }

    /// Learns what all workers have told.
    pub fn learn(&mut self, known: Arc<Known>) {
        self.known = known;
    }

    /// One document of those that this worker owns, each as likely; nothing if there is none. `draw` gives a random
    /// number for each attempt: documents that are not known to be there are passed over a few times.
    pub fn pick(&self, draw: impl Fn(u32) -> u64) -> Option<u64> {
        let worker = self.share.worker();
        let owned = self.known.owned(worker);
        let before = self.known.taken(worker);
        let space = owned + (self.share.taken() - before);
        let mut place = None;
        for attempt in 0..DRAWS_MAX {
            // The high half of a 128-bit product scales the draw without bias that could be seen.
            let index = ((u128::from(draw(attempt)) * u128::from(space)) >> 64) as u64;
            place = match index.checked_sub(owned) {
                None => self.known.place(worker, index),
                Some(_) if space == owned => None,
                Some(own) => Some(Place { worker, local: before + own }),
            };
            if place.is_none_or(|place| self.state(place) == State::Acknowledged) {
                break;
            }
        }
        self.deal.global(place?)
    }

    /// Whether a document was acknowledged and must be there.
    pub fn is_promised(&self, number: u64) -> bool {
        self.deal.locate(number).is_some_and(|place| self.state(place) == State::Acknowledged)
    }

    fn state(&self, place: Place) -> State {
        if place.worker == self.share.worker() {
            self.ledger.state(place.local)
        } else {
            self.known.state(place)
        }
    }

    /// What is known of a document that this worker inserts.
    pub fn state_of(&self, number: u64) -> State {
        self.deal.locate(number).map_or(State::NotSent, |place| self.ledger.state(place.local))
    }

    /// Notes that another operation may change or remove a document.
    pub fn touch(&mut self, number: u64) {
        self.touched.mark(&self.deal, number..number + 1);
    }

    /// Notes that another operation may change or remove any document.
    pub fn touch_all(&mut self) {
        self.touched = Touched::All;
    }

    /// Hands what was noted since the last time to the keeper.
    pub fn flush(&mut self) {
        let Some(reservations) = &self.reservations else { return };
        self.ledger.take_dirty(&mut self.pages);
        if !self.pages.is_empty() {
            reservations.flush(std::mem::take(&mut self.pages));
        }
    }

    /// Ends the books.
    pub fn close(self) -> Closed {
        Closed { worker: self.share.worker(), ledger: self.ledger, touched: self.touched }
    }

    /// Makes sure that the next `count` numbers are reserved; false if the disk refuses.
    fn reserve(&mut self, count: u64) -> bool {
        let Some(reservations) = &self.reservations else { return true };
        let needed = self.share.taken() + count;
        let (next, ahead) = (self.share.taken(), AHEAD.max(2 * count));
        if self.ledger.wants(next, ahead).is_some() {
            self.ledger.grant(reservations.granted());
            self.ledger.wants(next, ahead).into_iter().for_each(|until| reservations.ask(until));
        }
        if self.ledger.reserved_until() < needed {
            self.ledger.grant(reservations.wait(needed));
        }
        self.ledger.reserved_until() >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books(limit: Option<u64>) -> Books {
        let mut books = Books::new(Deal::new(10, 2, None).unwrap(), 1, None);
        books.limit(limit);
        books
    }

    #[test]
    fn a_limit_is_kept_to_the_document() {
        let mut books = books(Some(25));
        let taken: Vec<_> = std::iter::from_fn(|| books.take(8)).collect();
        assert_eq!(taken, [10..18, 18..20, 30..38, 38..40, 50..55]);
    }

    #[test]
    fn what_is_given_back_was_never_sent_and_does_not_count() {
        let mut books = books(Some(10));
        let numbers = books.take(10).unwrap();
        books.give_back(numbers);
        assert_eq!(books.take(10), Some(30..40));
        let closed = books.close();
        assert_eq!(closed.ledger.counts().unknown, 10);
    }

    #[test]
    fn only_documents_given_out_are_picked_and_all_of_them() {
        let mut books = books(None);
        assert_eq!(books.pick(|_| 7), None);
        books.take(10);
        books.take(5);
        let mut seen: Vec<_> = (0..1000u64).filter_map(|index| books.pick(|_| index << 54)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (10..20).chain(30..35).collect::<Vec<_>>());
    }

    #[test]
    fn documents_of_other_workers_are_shared_out_and_those_in_flight_passed_over() {
        let deal = Deal::new(10, 2, None).unwrap();
        let (mut first, mut second) = (Books::new(deal, 0, None), Books::new(deal, 1, None));
        let inserted = first.take(4).unwrap();
        first.settle(inserted, State::Acknowledged);
        let known = Arc::new(Known::of(vec![first.part(), second.part()]));
        first.learn(known.clone());
        second.learn(known);
        let picks = |books: &Books| {
            let mut seen: Vec<_> = (0..64u64).filter_map(|index| books.pick(|_| index << 58)).collect();
            seen.dedup();
            seen
        };
        assert_eq!((picks(&first), picks(&second)), (vec![0, 2], vec![1, 3]));
        second.take(1);
        let last = |attempt| if attempt == 0 { u64::MAX } else { 0 };
        assert_eq!(second.pick(last), Some(1));
        assert!(second.is_promised(1) && !second.is_promised(10));
    }

    #[test]
    fn an_acknowledged_document_is_promised() {
        let mut books = books(None);
        let numbers = books.take(2).unwrap();
        assert!(!books.is_promised(numbers.start));
        books.settle(numbers.clone(), State::Acknowledged);
        assert!(books.is_promised(numbers.start));
    }
}
