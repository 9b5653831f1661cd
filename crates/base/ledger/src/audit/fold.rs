//! Folds states, sightings and marks to findings, a word (32 documents) at a time: the last step of the audit.

use super::findings::{EXAMPLES_MAX, Examples, Findings};
use super::{EXPLAINED, REPEATED, UNDONE};
use crate::intents::Intent;
use crate::ledger::Ledger;
use crate::numbers::Slot;
use crate::pairs::{DOCUMENTS_PER_PAGE, Pairs, State, first_of, lanes, occupied, offsets};
use crate::touched::Touched;
use crate::versions::Versions;

/// The findings of 32 documents. In each field, the low bit of a document's pair is set if the document has
/// that finding.
struct FindingBits {
    kept: u64,
    lost: u64,
    rejected: u64,
    phantoms: u64,
    unknown_present: u64,
    unknown_absent: u64,
    repeated: u64,
    deleted: u64,
    touched: u64,
    read_then_gone: u64,
}

/// The promises of the ledger, and the sightings of the scan.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub ledger: &'a Ledger,
    pub versions: &'a Versions,
    pub touched: &'a Touched,
    pub seen: &'a [Pairs],
    pub aside: &'a [Pairs],
}

/// Counts the findings that the bits encode, and returns examples.
pub(super) fn fold(known: Known<'_>, into: &mut Findings) -> Examples {
    let mut examples = Examples::default();
    for (worker, states) in known.ledger.workers().iter().enumerate() {
        let mut own = Examples::default();
        for page in 0..(states.span() / DOCUMENTS_PER_PAGE) as usize {
            fold_page(known, worker, page, into, &mut own);
        }
        examples.merge(&own);
    }
    examples
}

fn fold_page(known: Known<'_>, worker: usize, page: usize, into: &mut Findings, examples: &mut Examples) {
    let vanishing = known.ledger.unseen().contains(Intent::Remove);
    let states = known.ledger.workers()[worker].page(page);
    let seen = states.iter().zip(known.seen[worker].page(page));
    let known_words = known.touched.page(worker, page).iter().zip(known.aside[worker].page(page));
    for (word, ((state, seen), (touched, aside))) in seen.zip(known_words).enumerate() {
        let lanes = known.versions.lanes(worker, first_of(page, word));
        let deleted = lanes.deleted;
        let vanished = if vanishing { absent(*state, *seen, *aside) & !deleted } else { 0 };
        let left_out = *touched | lanes.doubtful | bits(*aside, EXPLAINED) | vanished;
        let mut bits = classify(*state, *seen, left_out, deleted);
        bits.read_then_gone = if vanishing { 0 } else { bits.unknown_absent & lanes.read };
        count(&bits, into);
        note(&bits, examples, |at| number_at(known.ledger, worker, first_of(page, word) + at));
    }
}

/// Acknowledged documents without any sighting, unless a removal may explain their absence.
#[inline]
fn absent(state: u64, seen: u64, aside: u64) -> u64 {
    lanes(state, State::Acknowledged as u64) & !occupied(seen) & !bits(aside, UNDONE)
}

/// The low bit of each pair that contains `bit`: the pair is `bit` itself, or both bits.
#[inline]
fn bits(word: u64, bit: u64) -> u64 {
    lanes(word, bit) | lanes(word, EXPLAINED | UNDONE)
}

#[inline]
fn classify(state: u64, seen: u64, touched: u64, deleted: u64) -> FindingBits {
    let present = occupied(seen);
    let gone = occupied(state) & deleted & !touched;
    let left_out = touched | gone;
    let acknowledged = lanes(state, State::Acknowledged as u64) & !left_out;
    let rejected = lanes(state, State::Rejected as u64) & !left_out;
    let unknown = lanes(state, State::Unknown as u64) & !left_out;
    FindingBits {
        kept: acknowledged & present,
        lost: acknowledged & !present,
        rejected,
        phantoms: (rejected | gone) & present,
        unknown_present: unknown & present,
        unknown_absent: unknown & !present,
        repeated: lanes(seen, REPEATED),
        deleted: gone,
        touched: occupied(state) & touched,
        read_then_gone: 0,
    }
}

#[inline]
fn count(bits: &FindingBits, into: &mut Findings) {
    let ones = |word: u64| u64::from(word.count_ones());
    into.acknowledged += ones(bits.kept | bits.lost);
    into.found += ones(bits.kept);
    into.lost += ones(bits.lost);
    into.rejected += ones(bits.rejected);
    into.phantom += ones(bits.phantoms);
    into.unknown_present += ones(bits.unknown_present);
    into.unknown_absent += ones(bits.unknown_absent);
    into.duplicated += ones(bits.repeated);
    into.deleted += ones(bits.deleted);
    into.not_audited += ones(bits.touched);
    into.read_then_gone += ones(bits.read_then_gone);
}

#[inline]
fn note(bits: &FindingBits, examples: &mut Examples, number: impl Fn(u64) -> u64) {
    let kinds = [
        (bits.lost, &mut examples.lost),
        (bits.phantoms, &mut examples.phantom),
        (bits.repeated, &mut examples.duplicated),
        (bits.read_then_gone, &mut examples.read_then_gone),
    ];
    for (word, numbers) in kinds {
        if word != 0 && numbers.len() < EXAMPLES_MAX {
            let room = EXAMPLES_MAX - numbers.len();
            numbers.extend(offsets(word).take(room).map(&number));
        }
    }
}

fn number_at(ledger: &Ledger, worker: usize, local: u64) -> u64 {
    let slot = Slot { worker: worker as u64, local };
    ledger.allocation().global(slot).expect("only allocated numbers have a state")
}

/// Joins sightings: a document in both was seen more than once.
pub(super) fn merge_seen(mine: &mut Pairs, theirs: &Pairs) {
    for (index, words) in theirs.pages() {
        let mut joined = Box::new(*mine.page(index));
        for (mine, theirs) in joined.iter_mut().zip(words) {
            let both = occupied(*mine) & occupied(*theirs);
            *mine |= theirs | both | both << 1;
        }
        mine.set_page(index, joined);
    }
}
