//! Selects a bit whose flip changes a document's content and keeps the document valid.

use std::ops::Range;

use plimsoll_element::{DEPTH_MAX, kind, valid};
use plimsoll_measure::random::{STEP, mix};

/// The most bytes examined; a longer document is flipped near its beginning.
const CANDIDATES_MAX: usize = 4096;

/// Selects, by `number`, the byte and the bit (as a mask) to flip in a document; `None` if the document has
/// no content but its `_id`.
pub(crate) fn choose(document: &[u8], number: u64) -> Option<(usize, u8)> {
    let mut candidates = Vec::new();
    collect(document, 0..document.len(), 0, &mut candidates);
    let mixed = scramble(number);
    let count = u64::try_from(candidates.len()).ok().filter(|&count| count > 0)?;
    let (byte, kind) = candidates[usize::try_from(mixed % count).ok()?];
    let mask = match kind {
        Kind::Low => 1,
        Kind::Any => 1 << ((mixed >> 32) % 8),
    };
    Some((byte, mask))
}

/// The bits of a byte that may be flipped.
#[derive(Clone, Copy)]
enum Kind {
    /// The lowest bit: booleans stay booleans, and ASCII stays ASCII.
    Low,
    /// Any bit, of numbers and raw bytes.
    Any,
}

type Candidates = Vec<(usize, Kind)>;

fn collect(bytes: &[u8], document: Range<usize>, depth: usize, found: &mut Candidates) {
    for element in valid(&bytes[document]) {
        let is_id = depth == 0 && element.key == b"_id";
        if is_id || found.len() >= CANDIDATES_MAX || depth > DEPTH_MAX {
            continue;
        }
        let value = element.value_in(bytes);
        match element.kind {
            kind::DOCUMENT | kind::ARRAY => collect(bytes, value, depth + 1, found),
            kind::BOOLEAN => add(value, Kind::Low, found),
            0x01 | 0x07 | 0x09 | 0x10 | 0x11 | 0x12 | 0x13 => add(value, Kind::Any, found),
            kind::STRING => add_text(bytes, value, found),
            kind::BINARY => add(value.start + 5..value.end, Kind::Any, found),
            _ => {}
        }
    }
}

fn add(places: Range<usize>, kind: Kind, found: &mut Candidates) {
    let room = CANDIDATES_MAX.saturating_sub(found.len());
    found.extend(places.take(room).map(|position| (position, kind)));
}

/// Adds the bytes of a text, between its length and its NUL, that stay ASCII and do not become NUL.
fn add_text(bytes: &[u8], value: Range<usize>, found: &mut Candidates) {
    let room = CANDIDATES_MAX.saturating_sub(found.len());
    let text = value.start + 4..value.end - 1;
    found.extend(
        text.filter(|&position| (0x02..0x80).contains(&bytes[position]))
            .take(room)
            .map(|position| (position, Kind::Low)),
    );
}

/// Mixes a number, so that consecutive numbers give unrelated results.
pub(super) const fn scramble(number: u64) -> u64 {
    mix(number.wrapping_add(STEP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, doc};

    fn rich() -> Document {
        doc! {
            "_id": 5, "text": "häß\u{1}lich", "yes": true, "number": 7, "ratio": 0.5, "long": 9_i64,
            "nested": {"list": [1, "zwei", {"_id": 3}]},
            "raw": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0, 255] },
        }
    }

    #[test]
    fn a_flipped_document_is_valid_keeps_its_id_and_its_keys_and_differs() {
        let bytes = rich().to_vec().unwrap();
        for number in 0..5000 {
            let mut flipped = bytes.clone();
            let (byte, mask) = choose(&bytes, number).unwrap();
            flipped[byte] ^= mask;
            let read = Document::from_reader(flipped.as_slice()).unwrap();
            assert_eq!(read.get("_id"), rich().get("_id"));
            assert!(read.keys().eq(rich().keys()));
            assert_eq!(mask.count_ones(), 1);
        }
    }

    #[test]
    fn the_choice_follows_from_the_number() {
        let bytes = rich().to_vec().unwrap();
        assert_eq!(choose(&bytes, 77), choose(&bytes, 77));
        let places: std::collections::BTreeSet<_> =
            (0..5000).filter_map(|number| choose(&bytes, number)).collect();
        assert!(places.len() > 100, "only {} places", places.len());
    }

    #[test]
    fn a_document_that_is_only_its_id_cannot_be_flipped() {
        assert_eq!(choose(&doc! {"_id": 5}.to_vec().unwrap(), 1), None);
        assert_eq!(
            choose(&doc! {"_id": 5, "nothing": bson::Bson::Null, "empty": ""}.to_vec().unwrap(), 1),
            None
        );
    }
}
