//! Chooses the next of a worker's documents: a pure choice among candidates.

use plimsoll_document::Ranks;

use crate::scenario;

/// A resolved way to choose a document.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Keys {
    /// Each document is equally likely.
    #[default]
    Uniform,
    /// By popularity, with the popular documents scattered over all candidates.
    Zipf(Ranks),
    /// By age; the newest document is the most likely.
    Latest(Ranks),
}

/// The exponent of `latest`: YCSB's.
const LATEST_EXPONENT: f64 = 0.99;

/// The documents to choose from, older documents first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The number of all documents.
    pub all: u64,
    /// The number of documents up to the newest acknowledged document.
    pub settled: u64,
}

impl Keys {
    /// Resolves a scenario's keys; `None` if the exponent is out of bounds.
    pub fn of(typed: scenario::Keys) -> Option<Self> {
        match typed {
            scenario::Keys::Uniform => Some(Self::Uniform),
            scenario::Keys::Zipf { exponent } => Ranks::new(exponent).map(Self::Zipf),
            scenario::Keys::Latest => Ranks::new(LATEST_EXPONENT).map(Self::Latest),
        }
    }

    /// The index of a candidate for a random word; `None` without candidates.
    #[inline]
    pub fn index(&self, candidates: Candidates, word: u64) -> Option<u64> {
        if candidates.all == 0 {
            return None;
        }
        Some(match self {
            // The high half of a 128-bit product scales the word with negligible bias.
            Self::Uniform => ((u128::from(word) * u128::from(candidates.all)) >> 64) as u64,
            Self::Zipf(ranks) => ranks.scattered(candidates.all, word),
            Self::Latest(ranks) => {
                let newest = if candidates.settled == 0 {
                    candidates.all
                } else {
                    candidates.settled.min(candidates.all)
                };
                newest - 1 - ranks.rank(newest, word)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_load::mix::scramble;

    const DRAWS: u64 = 200_000;

    fn counts(typed: scenario::Keys, candidates: Candidates, seed: u64) -> Vec<u64> {
        let keys = Keys::of(typed).unwrap();
        let mut counts = vec![0; candidates.all as usize];
        (0..DRAWS)
            .for_each(|draw| counts[keys.index(candidates, scramble(seed, draw)).unwrap() as usize] += 1);
        counts
    }

    fn candidates(all: u64) -> Candidates {
        Candidates { all, settled: all }
    }

    /// Each count lies within five standard deviations of its expected value.
    fn check(counts: &[u64], expected: impl Fn(usize) -> f64, seed: u64) {
        for (candidate, count) in counts.iter().enumerate() {
            let expected = expected(candidate);
            let off = (*count as f64 - expected).abs();
            assert!(
                off < 5.0 * expected.sqrt().max(1.0),
                "seed {seed}, candidate {candidate}: {count}, not {expected:.0}"
            );
        }
    }

    fn zipf(among: usize) -> Vec<f64> {
        let weights: Vec<f64> = (1..=among).map(|rank| (rank as f64).powf(-0.99)).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total * DRAWS as f64).collect()
    }

    #[test]
    fn uniform_keys_are_equally_likely() {
        for seed in [3, 4] {
            let counts = counts(scenario::Keys::Uniform, candidates(500), seed);
            check(&counts, |_| DRAWS as f64 / 500.0, seed);
        }
    }

    #[test]
    fn latest_keys_are_ranked_by_age_from_the_newest_settled_document() {
        for seed in [5, 6] {
            let counts = counts(scenario::Keys::Latest, Candidates { all: 1000, settled: 400 }, seed);
            let expected = zipf(400);
            check(&counts[..400], |candidate| expected[399 - candidate], seed);
            assert!(counts[400..].iter().all(|count| *count == 0));
        }
    }

    #[test]
    fn zipf_keys_have_the_shares_of_zipf_and_are_scattered() {
        for seed in [7, 8] {
            let mut counts = counts(scenario::Keys::Zipf { exponent: 0.99 }, candidates(1000), seed);
            let (first, tenth): (u64, u64) = (counts[..100].iter().sum(), DRAWS / 10);
            // Any tenth of the candidates gets about a tenth of the draws, except for a few favourites.
            assert!(first > tenth / 3 && first < tenth * 4, "seed {seed}: {first} of {DRAWS}");
            counts.sort_unstable();
            counts.reverse();
            let expected = zipf(1000);
            // Two ranks may fall on the same candidate, so a candidate has at least the share of its better rank.
            for (rank, expected) in expected.iter().enumerate().take(5) {
                let count = counts[rank] as f64;
                let bound = 5.0 * expected.sqrt();
                assert!(count > expected - bound, "seed {seed}, rank {rank}: {count}, not {expected:.0}");
            }
            assert!((counts[0] as f64) < expected[0] * 1.3, "seed {seed}: {}", counts[0]);
        }
    }

    #[test]
    fn no_candidates_give_no_choice_and_an_exponent_out_of_bounds_is_refused() {
        assert_eq!(Keys::Uniform.index(Candidates::default(), 7), None);
        for exponent in [0.0, -1.0, 101.0, f64::NAN] {
            assert_eq!(Keys::of(scenario::Keys::Zipf { exponent }), None);
        }
    }
}
