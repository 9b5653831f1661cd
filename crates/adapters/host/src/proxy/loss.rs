//! Drops runs of bytes from a stream at random positions.

use std::num::NonZeroU32;

use super::random::Random;

const MEBIBYTE: u64 = 1 << 20;

/// Drops bytes of a stream.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    gap_mean: u64,
    run: u64,
    /// Bytes that pass before the next run.
    gap_left: u64,
    /// Bytes of the current run that are still to be dropped.
    run_left: u64,
}

impl Loss {
    /// Drops runs of `bytes` bytes. The gap before each run is 2²⁰ ÷ `per_mebibyte` bytes on average,
    /// uniformly distributed between one byte and twice this mean.
    pub(super) fn new(per_mebibyte: NonZeroU32, bytes: NonZeroU32, random: &mut Random) -> Self {
        let gap_mean = (MEBIBYTE / u64::from(per_mebibyte.get())).max(1);
        let mut loss = Loss { gap_mean, run: bytes.get().into(), gap_left: 0, run_left: 0 };
        loss.gap_left = loss.gap(random);
        loss
    }

    /// Moves the surviving bytes of a chunk to its beginning; returns their number.
    pub(super) fn apply(&mut self, chunk: &mut [u8], random: &mut Random) -> usize {
        let (mut kept, mut at) = (0, 0);
        while at < chunk.len() {
            let passing = clamped(self.gap_left, chunk.len() - at);
            chunk.copy_within(at..at + passing, kept);
            (kept, at) = (kept + passing, at + passing);
            self.gap_left -= passing as u64;
            if self.gap_left == 0 && self.run_left == 0 {
                self.run_left = self.run;
            }
            let dropped = clamped(self.run_left, chunk.len() - at);
            at += dropped;
            self.run_left -= dropped as u64;
            if self.gap_left == 0 && self.run_left == 0 {
                self.gap_left = self.gap(random);
            }
        }
        kept
    }

    fn gap(&self, random: &mut Random) -> u64 {
        1 + random.below(2 * self.gap_mean - 1)
    }
}

fn clamped(number: u64, most: usize) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sifted(stream: &[u8], chunks: impl Fn(usize) -> usize, per_mebibyte: u32, bytes: u32) -> Vec<u8> {
        let mut random = Random::new(5, 5);
        let number = |number| NonZeroU32::new(number).unwrap();
        let mut loss = Loss::new(number(per_mebibyte), number(bytes), &mut random);
        let (mut rest, mut out) = (stream.to_vec(), Vec::new());
        while !rest.is_empty() {
            let mut chunk: Vec<u8> = rest.drain(..chunks(rest.len()).min(rest.len())).collect();
            let kept = loss.apply(&mut chunk, &mut random);
            out.extend_from_slice(&chunk[..kept]);
        }
        out
    }

    #[test]
    fn how_a_stream_is_chunked_does_not_matter() {
        let stream: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
        for (per_mebibyte, bytes) in [(1, 5), (100, 1), (300, 4000), (u32::MAX, 1)] {
            let whole = sifted(&stream, |_| usize::MAX, per_mebibyte, bytes);
            for len in [1, 7, 4096] {
                assert_eq!(
                    sifted(&stream, |_| len, per_mebibyte, bytes),
                    whole,
                    "{per_mebibyte}, {bytes}, {len}"
                );
            }
        }
    }

    #[test]
    fn the_number_of_lost_runs_matches_the_setting() {
        let stream = vec![0; 64 << 20];
        let passed = sifted(&stream, |_| 65_536, 16, 100);
        let runs = (stream.len() - passed.len()) as f64 / 100.0;
        let mebibytes = passed.len() as f64 / MEBIBYTE as f64;
        assert!((15.0..17.0).contains(&(runs / mebibytes)), "{runs} runs in {mebibytes} MiB");
    }
}
