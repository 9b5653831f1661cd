//! Replays one journal, also a damaged one.

use super::list;
use super::record::{Record, Scanned, scan};
use crate::changes::Changes;
use crate::intents::Intents;
use crate::numbers::Allocation;
use crate::pairs::{DOCUMENTS_PER_PAGE, Pairs};

/// The state that one worker's journal describes.
#[derive(Default)]
pub(super) struct Replayed {
    pub pairs: Pairs,
    pub changes: Changes,
    pub intents: Intents,
    pub skipped_bytes: u64,
    reserved_until: u64,
}

/// Reads every complete record.
pub(super) fn replay(bytes: &[u8], salt: u32, allocation: &Allocation, worker: u64) -> Replayed {
    let mut replayed = Replayed::default();
    scan(bytes, salt).for_each(|scanned| replayed.step(scanned, worker, allocation));
    replayed.pairs.doubt(replayed.reserved_until);
    replayed
}

impl Replayed {
    /// A later page, or a later list entry of a document, replaces an earlier one. Reservations and intents only grow.
    fn step(&mut self, scanned: Scanned, worker: u64, allocation: &Allocation) {
        match scanned {
            Scanned::Record(Record::Reservation { worker: w, until }) if u64::from(w) == worker => {
                self.reserve(until, worker, allocation);
            }
            Scanned::Record(Record::Page { worker: w, until, page }) if u64::from(w) == worker => {
                self.reserve(until, worker, allocation);
                if u64::from(page.index) * DOCUMENTS_PER_PAGE < self.reserved_until {
                    self.pairs.set_page(page.index as usize, page.words);
                }
            }
            Scanned::Record(Record::Intents { worker: w, intents }) if u64::from(w) == worker => {
                self.intents = self.intents.or(intents);
            }
            Scanned::Record(Record::List { worker: w, intents, count, words }) if u64::from(w) == worker => {
                self.intents = self.intents.or(intents);
                list::read(&words, count, allocation)
                    .for_each(|changed| self.changes.put(allocation, &changed));
            }
            Scanned::Record(_) => {}
            Scanned::Skipped(bytes) => self.skipped_bytes += bytes,
        }
    }

    fn reserve(&mut self, until: u64, worker: u64, allocation: &Allocation) {
        self.reserved_until = self.reserved_until.max(until.min(allocation.allocated_to(worker)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intents::Intent;
    use crate::journal::record::{put_intents, put_list, put_page, put_reservation};
    use crate::numbers::Slot;
    use crate::pairs::State;

    const SALT: u32 = 1;
    const PAGE: u64 = DOCUMENTS_PER_PAGE;

    fn allocation() -> Allocation {
        Allocation::new(1000, 1, Some(100_000)).unwrap()
    }

    /// The state after some writes: documents reserved, sent and flushed, and their recorded changes.
    struct Moment {
        bytes: usize,
        reserved: u64,
        sent: u64,
        flushed: u64,
        /// The kinds of change that were announced, and those that were made.
        intents: Intents,
        done: Intents,
        listed: Changes,
    }

    /// A simulated worker and its journal.
    #[derive(Default)]
    struct Story {
        bytes: Vec<u8>,
        moments: Vec<Moment>,
        pairs: Pairs,
        changes: Changes,
        reserved: u64,
        sent: u64,
        flushed: u64,
        intents: Intents,
        done: Intents,
        listed: Changes,
    }

    impl Story {
        /// In each round reserves 5000 documents ahead, sends 2000 and acknowledges them, and changes two. Flushes after every
        /// fourth round. Later rounds have more kinds of changes.
        fn tell() -> Self {
            let mut story = Story::default();
            story.remember();
            for round in 0..9 {
                story.send(round * 2000);
                match round {
                    2 => story.intend(Intent::Replace),
                    5 => story.intend(Intent::Alter),
                    _ => {}
                }
                story.change(round);
                if round % 4 == 3 {
                    story.flush();
                }
            }
            story
        }

        fn remember(&mut self) {
            self.moments.push(Moment {
                bytes: self.bytes.len(),
                reserved: self.reserved,
                sent: self.sent,
                flushed: self.flushed,
                intents: self.intents,
                done: self.done,
                listed: self.listed.clone(),
            });
        }

        fn send(&mut self, from: u64) {
            self.reserved = from + 5000;
            put_reservation(&mut self.bytes, SALT, 0, self.reserved);
            self.sent = from + 2000;
            self.pairs.fill(0..self.sent, State::Acknowledged as u64);
            self.remember();
        }

        fn intend(&mut self, intent: Intent) {
            self.intents = self.intents.with(intent);
            put_intents(&mut self.bytes, SALT, 0, self.intents);
            self.remember();
        }

        fn change(&mut self, round: u64) {
            self.done = self.intents;
            for local in [round, 7].map(|local| local * 100) {
                if self.intents.contains(Intent::Replace) {
                    self.changes.versions.replace(Slot { worker: 0, local });
                    self.changes.versions.acknowledge(Slot { worker: 0, local });
                }
                if self.intents.contains(Intent::Alter) {
                    self.changes.touched.mark(&allocation(), local + 1..local + 2);
                }
            }
            self.remember();
        }

        fn flush(&mut self) {
            let page = self.pairs.copy_page(((self.sent - 1) / PAGE) as usize);
            put_page(&mut self.bytes, SALT, 0, self.reserved, page.index, &page.words);
            self.flushed = self.sent;
            self.remember();
            let changed = (0..9).flat_map(|round| [round * 100, round * 100 + 1]);
            let listed: Vec<_> = changed.map(|local| self.changes.at(Slot { worker: 0, local })).collect();
            put_list(&mut self.bytes, SALT, 0, self.intents, &listed);
            listed.iter().for_each(|changed| self.listed.put(&allocation(), changed));
            self.remember();
        }
    }

    fn check(replayed: &Replayed, moment: &Moment, cut: usize) {
        for at in (0..20_000).step_by(250).flat_map(|at| [at, at + 249]) {
            let state = replayed.pairs.state(at);
            let expected = match at {
                at if at < moment.flushed => State::Acknowledged,
                at if at < moment.reserved => State::Unknown,
                _ => State::NotSent,
            };
            assert!(at >= moment.sent || state != State::NotSent, "sent document {at}, cut at {cut}");
            assert_eq!(state, expected, "document {at}, cut at {cut}");
        }
        assert_eq!(replayed.changes, moment.listed, "cut at {cut}");
        assert_eq!(replayed.intents, moment.intents, "cut at {cut}");
        assert_eq!(
            replayed.intents.or(moment.done),
            replayed.intents,
            "every change was announced, cut at {cut}"
        );
    }

    #[test]
    fn any_prefix_of_a_journal_loses_no_document_and_adds_no_claim() {
        let Story { bytes, moments, .. } = Story::tell();
        for cut in 0..=bytes.len() {
            let replayed = replay(&bytes[..cut], SALT, &allocation(), 0);
            let moment = moments.iter().rfind(|moment| moment.bytes <= cut).unwrap();
            check(&replayed, moment, cut);
        }
    }

    #[test]
    fn a_flipped_byte_is_detected_and_adds_no_claim() {
        let Story { bytes, moments, .. } = Story::tell();
        let last = moments.last().unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let replayed = replay(&damaged, SALT, &allocation(), 0);
            assert!(replayed.skipped_bytes > 0, "byte {at}");
            let claimed = (0..20_000).rfind(|at| replayed.pairs.state(*at) == State::Acknowledged);
            assert!(claimed.is_none_or(|claimed| claimed < last.flushed), "byte {at}");
            let forgotten = replayed.pairs.state(last.sent - 1) == State::NotSent;
            assert!(!forgotten, "byte {at}: later pages and reservations repeat a reservation");
            assert_eq!(replayed.intents, last.intents, "byte {at}: later lists repeat the intents");
            let slots = (0..1000).map(|local| Slot { worker: 0, local });
            let newer = |slot: &Slot| {
                replayed.changes.versions.at(*slot).sent() > last.listed.versions.at(*slot).sent()
            };
            assert_eq!(slots.clone().find(newer), None, "byte {at}");
        }
    }

    #[test]
    fn documents_outside_the_allocation_are_ignored() {
        let mut bytes = Vec::new();
        put_reservation(&mut bytes, SALT, 0, u64::MAX);
        put_page(&mut bytes, SALT, 0, u64::MAX, u32::MAX, &[u64::MAX; 512]);
        let beyond = Changes::default().at(Slot { worker: 0, local: 100_000 });
        put_list(
            &mut bytes,
            SALT,
            0,
            Intents::NONE,
            &[beyond, Changes::default().at(Slot { worker: 7, local: 0 })],
        );
        let replayed = replay(&bytes, SALT, &allocation(), 0);
        assert_eq!((&replayed.changes, replayed.skipped_bytes), (&Changes::default(), 0));
        assert_eq!(replayed.pairs.counts().unknown, 100_000);
        assert_eq!(replay(&bytes, SALT, &allocation(), 1).pairs.counts().sent(), 0);
    }
}
