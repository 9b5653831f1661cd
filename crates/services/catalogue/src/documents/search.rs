//! Makes the index of texts: the grams, three consecutive characters each, of a dataset and of a searched word.
//!
//! A dataset that contains a word has every gram of the word, so an index of grams finds all datasets with a word and some others. The
//! query then compares the texts themselves. It works on every server, and finds a word inside of another.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};

use crate::mixed::mixed;

/// The field of a stored dataset with its grams.
pub const GRAMS: &str = "searchGrams";
/// The fields that a search covers.
pub const SEARCHED: [&str; 4] = ["datasetName", "description", "keywords", "sourceFolder"];
/// The characters of a gram: the shortest word that the index finds.
pub const GRAM_CHARS: usize = 3;

/// The maximum number of grams of a dataset, and of the bytes of its texts.
const GRAMS_MAX: usize = 4_096;
const TEXT_BYTES_MAX: usize = 256 << 10;
/// The maximum number of grams of a word that a query names: each of them excludes most of the other datasets.
const WORD_GRAMS_MAX: usize = 3;
/// The bits of a character, and those of a gram.
const CHAR_BITS: u32 = 21;
const WINDOW: u64 = (1 << (CHAR_BITS * GRAM_CHARS as u32)) - 1;

/// The grams of a dataset, each once and in order. `None` for very long texts: every search then compares the texts of this dataset.
pub fn grams(dataset: &Document) -> Option<Vec<Bson>> {
    let (mut found, mut bytes) = (BTreeSet::new(), 0);
    for text in SEARCHED.iter().filter_map(|name| dataset.get(*name)).flat_map(texts) {
        bytes += text.len();
        if bytes > TEXT_BYTES_MAX {
            return None;
        }
        for gram in of_text(text) {
            found.insert(gram);
            if found.len() > GRAMS_MAX {
                return None;
            }
        }
    }
    Some(found.into_iter().map(Bson::Int32).collect())
}

/// The fields to read: those of a query, or all except the grams, which no answer shows.
pub fn shown(projection: Option<&Document>) -> Document {
    projection.cloned().unwrap_or_else(|| doc! {GRAMS: 0})
}

/// Some grams of a word, spread over it; none if it is shorter than a gram. The last one comes first: names often begin alike, and a
/// server may read the index by the first gram alone.
pub fn of_word(word: &str) -> Vec<i32> {
    let all: Vec<i32> = of_text(word).collect();
    let Some(last) = all.len().checked_sub(1) else { return Vec::new() };
    let parts = last.min(WORD_GRAMS_MAX - 1);
    let places: BTreeSet<usize> = (0..=parts).map(|part| last * part / parts.max(1)).collect();
    places.into_iter().rev().filter_map(|place| all.get(place).copied()).collect()
}

/// Whether a change of these fields changes the grams.
pub fn covers<'a>(mut fields: impl Iterator<Item = &'a String>) -> bool {
    fields.any(|name| SEARCHED.contains(&name.as_str()))
}

/// The texts of a field: itself, or the elements of a list.
fn texts(value: &Bson) -> Vec<&str> {
    match value {
        Bson::String(text) => vec![text],
        Bson::Array(items) => items.iter().filter_map(Bson::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The grams of a text, in the order of the text. Equal ones repeat.
fn of_text(text: &str) -> impl Iterator<Item = i32> {
    let (mut window, mut length) = (0_u64, 0);
    text.chars().filter_map(move |character| {
        window = (window << CHAR_BITS | u64::from(u32::from(folded(character)))) & WINDOW;
        length += 1;
        // The upper half of the hash: a number of four bytes takes less room than a text.
        (length >= GRAM_CHARS).then(|| (mixed(window) >> 32) as u32 as i32)
    })
}

/// A character without its case. Characters that a server takes for equal in any case must be equal here: Σ, σ and ς, or K and the
/// sign of Kelvin. Others may be: the texts are compared afterwards.
fn folded(character: char) -> char {
    let upper = single(character.to_uppercase()).unwrap_or(character);
    single(upper.to_lowercase()).unwrap_or(upper)
}

fn single(mut characters: impl Iterator<Item = char>) -> Option<char> {
    let first = characters.next()?;
    characters.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn has(dataset: &Document, word: &str) -> bool {
        let grams = grams(dataset).unwrap();
        of_word(word).into_iter().all(|gram| grams.contains(&Bson::Int32(gram)))
    }

    #[test]
    fn a_word_is_found_inside_of_texts_and_in_any_case() {
        let dataset = doc! {
            "datasetName": "Überlagerung ΣΟΦΟΣ", "keywords": ["x-ray", "scan_0042"], "sourceFolder": "/data/Kelvin",
            "description": "sample", "owner": "nobody",
        };
        for word in
            ["überlag", "LAGER", "σοφος", "σοφοσ", "scan_0042", "042", "/DATA/", "\u{212A}elvin", "ray"]
        {
            assert!(has(&dataset, word), "{word}");
        }
        for word in ["nobody", "042/", "rayscan", "sampel"] {
            assert!(!has(&dataset, word), "{word}");
        }
    }

    #[test]
    fn a_word_has_few_grams_and_the_last_one_first() {
        let grams = |text: &str| of_text(text).collect::<Vec<_>>();
        assert_eq!(of_word("ab"), [0; 0]);
        assert_eq!(of_word("abc"), grams("abc"));
        assert_eq!(of_word("abcd"), [grams("bcd"), grams("abc")].concat());
        assert_eq!(of_word("abcdefg"), [grams("efg"), grams("cde"), grams("abc")].concat());
        assert_eq!(of_word(&"x".repeat(256)).len(), WORD_GRAMS_MAX);
    }

    #[test]
    fn very_long_texts_have_no_grams() {
        let various: String = (0..6_000_u32).filter_map(|n| char::from_u32(0x4E00 + n)).collect();
        assert_eq!(grams(&doc! {"description": various}), None);
        assert_eq!(grams(&doc! {"description": "x".repeat(TEXT_BYTES_MAX + 1)}), None);
        assert_eq!(grams(&doc! {"description": "x".repeat(TEXT_BYTES_MAX)}).unwrap().len(), 1);
        assert_eq!(grams(&doc! {"description": 5, "keywords": [5]}), Some(vec![]));
    }

    proptest! {
        #[test]
        fn a_dataset_has_the_grams_of_each_part_of_its_texts(
            text in "\\PC{3,40}", from in 0_usize..40, length in 3_usize..20,
        ) {
            let characters: Vec<char> = text.chars().collect();
            let from = from.min(characters.len() - 3);
            let part: String = characters[from..].iter().take(length).collect();
            let dataset = doc! {"description": &text};
            prop_assert!(has(&dataset, &part));
        }
    }
}
