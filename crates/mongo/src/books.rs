//! One worker's documents: which numbers it may send, and what became of each.

use std::ops::Range;

use plimsoll_ledger::{Deal, Page, Share, State, Touched, WorkerLedger};

use crate::keeper::Reservations;

/// Documents reserved on disk ahead of what is sent: some seconds of the fastest load.
const AHEAD: u64 = 1 << 21;

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

    /// One document that was given out before, each as likely; nothing if there is none.
    pub fn pick(&self, draw: u64) -> Option<u64> {
        let taken = self.share.taken();
        // The high half of a 128-bit product scales the draw without bias that could be seen.
        let local = ((u128::from(draw) * u128::from(taken)) >> 64) as u64;
        let worker = self.share.worker();
        if taken == 0 { None } else { self.deal.global(plimsoll_ledger::Place { worker, local }) }
    }

    /// Whether a document was acknowledged and must be there.
    pub fn is_promised(&self, number: u64) -> bool {
        self.deal.locate(number).is_some_and(|place| self.ledger.state(place.local) == State::Acknowledged)
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
        assert_eq!(books.pick(7), None);
        books.take(10);
        books.take(5);
        let mut seen: Vec<_> = (0..1000u64).filter_map(|index| books.pick(index << 54)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (10..20).chain(30..35).collect::<Vec<_>>());
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
