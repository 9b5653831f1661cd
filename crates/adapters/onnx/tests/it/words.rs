//! Tests that every word of a generator is one token.

use plimsoll_onnx::{Limits, Precision};
use plimsoll_pipeline::source::WORDS;

use crate::installed::{embed, embedder};

#[test]
fn every_word_of_a_generator_is_one_token() {
    let mut embedder = embedder(Precision::Int8, Limits::default());
    embed(&mut embedder, &WORDS);
    let counts = embedder.counts();
    // Each text has a special token at its begin and end.
    assert_eq!((counts.texts, counts.tokens), (WORDS.len() as u64, 3 * WORDS.len() as u64));
}
