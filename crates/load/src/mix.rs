//! Which operation comes next, by weight: a pure function of the operation's number.

/// A weighted choice among operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// (operation, share of all weights up to and including it, scaled to 2⁶⁴).
    upper: Vec<(usize, u64)>,
    seed: u64,
}

impl Mix {
    /// A mix of (operation, weight). Weights must be positive and finite; nothing comes of an empty or weightless list.
    pub fn new(weights: &[(usize, f64)], seed: u64) -> Option<Self> {
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let sound = weights.iter().all(|(_, weight)| weight.is_finite() && *weight > 0.0);
        if weights.is_empty() || !sound || !total.is_finite() {
            return None;
        }
        let mut sum = 0.0;
        let mut upper: Vec<_> = weights
            .iter()
            .map(|(operation, weight)| {
                sum += weight;
                (*operation, (sum / total * u64::MAX as f64) as u64)
            })
            .collect();
        if let Some(last) = upper.last_mut() {
            last.1 = u64::MAX;
        }
        Some(Self { upper, seed })
    }

    /// The operation with the plan-wide number `number`.
    pub fn pick(&self, number: u64) -> usize {
        if let [(only, _)] = self.upper[..] {
            return only;
        }
        let draw = scramble(self.seed, number);
        let index = self.upper.partition_point(|(_, upper)| *upper < draw);
        self.upper[index.min(self.upper.len() - 1)].0
    }
}

/// Random bits that follow from a seed and a number alone: the finaliser of SplitMix64
/// (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
pub const fn scramble(seed: u64, number: u64) -> u64 {
    let mut bits = seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_in_the_share_of_their_weights() {
        let mix = Mix::new(&[(3, 80.0), (5, 15.0), (9, 5.0)], 1).unwrap();
        let mut counts = [0u32; 10];
        (0..100_000).for_each(|number| counts[mix.pick(number)] += 1);
        assert!(counts[3].abs_diff(80_000) < 600, "{counts:?}");
        assert!(counts[5].abs_diff(15_000) < 600, "{counts:?}");
        assert_eq!(counts[3] + counts[5] + counts[9], 100_000);
    }

    #[test]
    fn weights_that_mean_nothing_are_refused() {
        for weights in [&[][..], &[(0, 0.0)], &[(0, -1.0), (1, 2.0)], &[(0, f64::INFINITY)]] {
            assert_eq!(Mix::new(weights, 0), None);
        }
    }
}
