//! Numbers that look random and follow from others: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).

/// How far one step of the sequence goes: 2⁶⁴ by the golden ratio.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser: each bit of `number` moves half of the bits.
pub(crate) const fn mix(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_published_generator() {
        let numbers: Vec<u64> =
            (1..=3_u64).map(|step| mix(1_234_567_u64.wrapping_add(STEP.wrapping_mul(step)))).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
