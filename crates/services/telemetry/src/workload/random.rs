//! Computes pseudo-random numbers from their arguments, without state.

/// Mixes parts into 64 bits: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014) after each.
pub(super) fn hash(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// A number from 0 to just below 1.
pub(super) fn unit(parts: &[u64]) -> f64 {
    // A double has 53 bits of precision.
    (hash(parts) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number from `least` to just below `most`, with two decimals, which compress well (advice of MongoDB).
pub(super) fn between(least: f64, most: f64, parts: &[u64]) -> f64 {
    round(least + unit(parts) * (most - least))
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_spread_evenly_and_follow_from_their_parts() {
        let below = (0..10_000).filter(|n| unit(&[7, *n]) < 0.1).count();
        assert!((900..1100).contains(&below), "{below}");
        assert_eq!(hash(&[1, 2]), hash(&[1, 2]));
        assert_ne!(hash(&[1, 2]), hash(&[2, 1]));
    }
}
