//! Encodes the list of changed documents in a journal: 16 bytes each, up to 256 per record.
//!
//! A saved ledger has whole pages of versions and marks. In a journal, whole pages would cost a page for each
//! document, because the changes of one second may be in any page.

use crate::changes::Changed;
use crate::numbers::{Allocation, Slot};
use crate::pairs::{PAGE_BYTES, Words};
use crate::versions::Version;

/// Documents of one record.
pub(super) const LISTED_MAX: usize = PAGE_BYTES / 16;
/// The bits of a local index: there are 2^40 numbers.
pub(super) const LOCAL_BITS: u32 = 40;
/// Marks a touched document; the bits below are its worker and its local index.
const TOUCHED: u64 = 1 << 63;

/// The words of a record of these documents; the rest is 0.
///
/// # Panics
/// If there are more than [`LISTED_MAX`].
pub(super) fn words(listed: &[Changed]) -> Box<Words> {
    assert!(listed.len() <= LISTED_MAX, "{} documents in one record", listed.len());
    let mut words = Box::new([0; PAGE_BYTES / 8]);
    for (pair, changed) in words.chunks_exact_mut(2).zip(listed) {
        let touched = if changed.touched { TOUCHED } else { 0 };
        pair.copy_from_slice(&[packed(changed.slot) | touched, changed.version.word()]);
    }
    words
}

/// The documents of a record. Documents outside the allocation are ignored.
pub(super) fn read<'a>(
    words: &'a Words,
    count: u32,
    allocation: &'a Allocation,
) -> impl Iterator<Item = Changed> + 'a {
    let pairs = words.chunks_exact(2).take(count as usize);
    pairs.map(|pair| of(pair[0], pair[1])).filter(|changed| allocation.global(changed.slot).is_some())
}

fn of(slot: u64, version: u64) -> Changed {
    Changed { slot: unpacked(slot & !TOUCHED), version: Version::of(version), touched: slot & TOUCHED != 0 }
}

/// A slot in one word; the highest bit is free.
pub(super) const fn packed(slot: Slot) -> u64 {
    slot.worker << LOCAL_BITS | slot.local
}

/// The slot of a word.
pub(super) const fn unpacked(word: u64) -> Slot {
    Slot { worker: word >> LOCAL_BITS, local: word & ((1 << LOCAL_BITS) - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::WORKERS_MAX;

    fn changed(worker: u64, local: u64, touched: bool) -> Changed {
        Changed { slot: Slot { worker, local }, version: Version::of(worker << 33 | local & 7), touched }
    }

    #[test]
    fn a_list_is_read_as_written() {
        let allocation = Allocation::new(1000, WORKERS_MAX, None).unwrap();
        let last = allocation.allocated_to(WORKERS_MAX - 1) - 1;
        let mut listed: Vec<_> = (0..250).map(|at| changed(at, at * 999, at % 2 == 0)).collect();
        listed.push(changed(WORKERS_MAX - 1, last, true));
        let words = words(&listed);
        assert_eq!(read(&words, listed.len() as u32, &allocation).collect::<Vec<_>>(), listed);
        assert_eq!(read(&words, 3, &allocation).count(), 3);
        assert_eq!(
            read(&words, u32::MAX, &allocation).count(),
            LISTED_MAX,
            "the rest reads as the first document"
        );
    }

    #[test]
    fn documents_outside_the_allocation_are_ignored() {
        let allocation = Allocation::new(10, 2, Some(25)).unwrap();
        let listed = [changed(0, 14, false), changed(0, 15, false), changed(1, 9, true), changed(2, 0, true)];
        let kept: Vec<_> = read(&words(&listed), 4, &allocation).collect();
        assert_eq!(kept, [listed[0], listed[2]]);
    }
}
