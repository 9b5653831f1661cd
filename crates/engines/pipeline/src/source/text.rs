//! Generates texts of a given number of words.

use plimsoll_measure::random;

/// Common English words, each one token of the usual tokenizers: a text of n words has n tokens plus the special ones.
pub const WORDS: [&str; 64] = [
    "the", "load", "line", "of", "a", "ship", "is", "where", "water", "may", "reach", "rate", "time",
    "system", "under", "one", "two", "three", "four", "five", "north", "south", "red", "green", "blue",
    "river", "mountain", "light", "energy", "field", "sample", "data", "east", "west", "white", "black",
    "house", "road", "city", "book", "music", "film", "school", "church", "war", "world", "year", "day",
    "night", "morning", "summer", "winter", "king", "queen", "party", "team", "game", "player", "club",
    "station", "bridge", "island", "sea", "land",
];

/// The length of the longest word with its blank, in bytes.
pub(super) const WORD_BYTES_MAX: usize = 9;

/// Appends the text of a number. The same number always has the same text.
pub(super) fn push_text(arena: &mut Vec<u8>, words: usize, seed: u64, number: u64) {
    let mut state = mixed(seed).wrapping_add(number);
    for at in 0..words {
        if at > 0 {
            arena.push(b' ');
        }
        state = mixed(state);
        arena.extend_from_slice(WORDS[(state >> 58) as usize].as_bytes());
    }
}

/// The next state of the text's random sequence.
const fn mixed(state: u64) -> u64 {
    random::mix(state.wrapping_add(random::STEP))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn text(words: usize, number: u64) -> String {
        let mut arena = Vec::new();
        push_text(&mut arena, words, 7, number);
        String::from_utf8(arena).unwrap()
    }

    #[test]
    fn each_number_has_its_own_text_of_the_given_length() {
        let texts: BTreeSet<_> = (0..1000).map(|number| text(14, number)).collect();
        assert_eq!(texts.len(), 1000);
        assert!(texts.iter().all(|text| text.split(' ').count() == 14), "{texts:?}");
        assert_eq!(text(14, 3), text(14, 3));
        assert_eq!(text(0, 3), "");
    }

    #[test]
    fn words_are_unique_and_within_the_length_limit() {
        assert!(WORDS.iter().all(|word| word.len() < WORD_BYTES_MAX));
        assert_eq!(WORDS.iter().collect::<BTreeSet<_>>().len(), WORDS.len());
    }
}
