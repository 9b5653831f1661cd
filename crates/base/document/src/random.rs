//! Computes counter-based random words: each is a function of (seed, number, place, index). The number is the document's. The
//! place identifies a hole, which is a generated value in the template; the index counts the words of a hole. Documents share
//! no state, so any shard can make any document.

pub(crate) use plimsoll_measure::random::mix;
use plimsoll_measure::random::{FNV_BASIS, STEP, fnv1a};

use crate::Identity;

/// The argument for which [`mix`] returns `word`.
pub(crate) fn unmix(word: u64) -> u64 {
    let word = (word ^ (word >> 31) ^ (word >> 62)).wrapping_mul(0x3196_42B2_D24D_8EC3);
    let word = (word ^ (word >> 27) ^ (word >> 54)).wrapping_mul(0x96DE_1B17_3F11_9089);
    word ^ (word >> 30) ^ (word >> 60)
}

/// The place of a hole, from its path.
pub(crate) fn salt(path: &str) -> u64 {
    mix(fnv1a(FNV_BASIS, path.as_bytes()))
}

/// The distance between the places of an array's items.
pub(crate) fn stride(array_salt: u64) -> u64 {
    mix(array_salt ^ STEP) | 1
}

/// The seed for one version of every document. Version 0, the inserted one, keeps `seed`.
#[inline]
pub(crate) fn versioned(seed: u64, version: u32) -> u64 {
    if version == 0 { seed } else { mix(seed ^ mix(u64::from(version).wrapping_mul(STEP))) }
}

/// The start of a document's places.
#[inline]
pub(crate) fn base(seed: u64, number: u64) -> u64 {
    mix(mix(seed).wrapping_add(number.wrapping_mul(STEP)))
}

/// The inputs of a hole: its random words, the document's number, and the identity.
#[derive(Clone, Copy)]
pub(crate) struct Draw<'a> {
    pub(crate) place: u64,
    pub(crate) number: u64,
    pub(crate) identity: &'a Identity,
}

impl Draw<'_> {
    /// The hole's first word.
    #[inline]
    pub(crate) fn first(&self) -> u64 {
        mix(self.place)
    }

    /// The words after the first.
    #[inline]
    pub(crate) fn words(&self) -> Words {
        Words(self.first())
    }
}

/// An endless sequence of random words.
#[derive(Clone, Copy)]
pub(crate) struct Words(u64);

impl Words {
    /// The words of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// The next word.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }
}

/// A number below `span`; a span of 0 stands for 2^64.
///
/// D. Lemire, "Fast Random Integer Generation in an Interval", 2019, section 3, without the rejection: a value's probability has
/// a relative error of at most span ÷ 2^64.
#[inline]
pub(crate) fn below(word: u64, span: u64) -> u64 {
    if span == 0 {
        return word;
    }
    ((u128::from(word) * u128::from(span)) >> 64) as u64
}

/// A number strictly between 0 and 1, in steps of 2^-52.
#[inline]
pub(crate) fn unit(word: u64) -> f64 {
    ((word >> 12) as f64 + 0.5) * (1.0 / (1_u64 << 52) as f64)
}

/// A Bernoulli distribution: a probability as a threshold for random words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bernoulli(u64);

impl Bernoulli {
    /// `probability` from 0 to 1.
    pub(crate) fn new(probability: f64) -> Self {
        Self((probability * (1_u64 << 63) as f64) as u64)
    }

    /// Whether a random word lies below the threshold.
    #[inline]
    pub(crate) fn sample(self, word: u64) -> bool {
        (word >> 1) < self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_is_the_published_function() {
        // The first outputs of SplitMix64 with seed 1234567, as published with its reference code.
        let mut words = Words(1_234_567);
        assert_eq!(words.next(), 6_457_827_717_110_365_317);
        assert_eq!(words.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn unmix_reverses_mix() {
        for word in [0, 1, STEP, u64::MAX, 1 << 63, 0x0123_4567_89AB_CDEF] {
            assert_eq!((unmix(mix(word)), mix(unmix(word))), (word, word));
        }
    }

    #[test]
    fn each_version_has_its_own_seed_and_version_0_keeps_the_given_seed() {
        assert_eq!(versioned(7, 0), 7);
        let seeds: std::collections::HashSet<u64> =
            (0..100).flat_map(|seed| (0..100).map(move |version| versioned(seed, version))).collect();
        assert_eq!(seeds.len(), 10_000);
    }

    #[test]
    fn numbers_below_a_bound_reach_both_ends() {
        assert_eq!(below(0, 10), 0);
        assert_eq!(below(u64::MAX, 10), 9);
        assert_eq!(below(u64::MAX, 0), u64::MAX);
        assert_eq!(below(u64::MAX, 1), 0);
    }

    #[test]
    fn a_unit_number_is_never_0_or_1() {
        assert!(unit(0) > 0.0);
        assert!(unit(u64::MAX) < 1.0);
    }

    #[test]
    fn a_probability_of_0_never_holds_and_of_1_always_holds() {
        for word in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(!Bernoulli::new(0.0).sample(word));
            assert!(Bernoulli::new(1.0).sample(word));
        }
    }

    #[test]
    fn neighbouring_documents_share_no_words() {
        let words: std::collections::HashSet<u64> =
            (0..1000).flat_map(|seed| (0..100).map(move |number| base(seed, number))).collect();
        assert_eq!(words.len(), 100_000);
    }
}
