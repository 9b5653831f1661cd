//! Counts latencies in HDR histograms: three significant digits, 1 ns to 1 h, merged by addition.
//!
//! Percentiles are read from merged histograms and are never averaged. A percentile is only given where enough
//! values lie beyond it (see [`supported`]).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};

/// The longest latency, in nanoseconds: one hour. Longer latencies count as one hour.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// The fewest values beyond a percentile. With fewer values, chance decides the percentile.
const BEYOND_MIN: f64 = 10.0;

/// Counts of latencies in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

/// An error in a serialised histogram.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not an HDR V2 histogram.
    #[error("not an HDR V2 histogram: {0}; the run directory is damaged, run the scenario again")]
    Format(String),
}

impl Default for Histogram {
    fn default() -> Self {
        Self::with_digits(3)
    }
}

impl Histogram {
    /// A histogram of `digits` significant digits, clamped to 1 to 5.
    pub fn with_digits(digits: u8) -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, LATENCY_NS_MAX, digits.clamp(1, 5));
        Self(counts.expect("constant bounds that satisfy low >= 1 and high >= 2 * low"))
    }

    /// Counts one latency in nanoseconds. Zero counts as 1 ns; more than an hour counts as an hour.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Counts `count` latencies of the same length, as [`Histogram::record`] does one.
    pub fn record_many(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns.max(1), count);
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.0.is_empty() {
            return;
        }
        self.0.add(&other.0).expect("all latency histograms share their bounds");
    }

    /// Forgets every count and keeps the memory.
    pub fn reset(&mut self) {
        if !self.0.is_empty() {
            self.0.reset();
        }
    }

    /// The number of recorded values.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The largest value in nanoseconds; zero if empty.
    pub fn max(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }

    /// The value in nanoseconds at `percentile` (0 to 100), regardless of its support.
    pub fn at(&self, percentile: f64) -> u64 {
        self.0.value_at_percentile(percentile).min(self.max())
    }

    /// As [`Self::at`]; nothing if too few values lie beyond it.
    pub fn supported_at(&self, percentile: f64) -> Option<u64> {
        supported(self.count(), percentile).then(|| self.at(percentile))
    }

    /// A percentile of the values and of `failed` infinitely large ones; none if the percentile lies among
    /// the failed ones.
    pub fn at_among(&self, percentile: f64, failed: u64) -> Option<u64> {
        let among_values = percentile * (self.count() + failed) as f64 / self.count() as f64;
        (among_values <= 100.0).then(|| self.at(among_values))
    }

    /// The numbers of the values and of `failed` infinitely large ones for a report.
    pub fn latency_among(&self, failed: u64) -> Latency {
        let count = self.count() + failed;
        let at = |percentile| self.at_among(percentile, failed).filter(|_| supported(count, percentile));
        Latency {
            count,
            mean: None,
            p50: at(50.0),
            p90: at(90.0),
            p95: at(95.0),
            p99: at(99.0),
            p99_9: at(99.9),
            max: None,
        }
    }

    /// The number of values up to `ns`.
    pub fn count_up_to(&self, ns: u64) -> u64 {
        self.0.count_between(0, ns.min(LATENCY_NS_MAX))
    }

    /// The arithmetic mean in nanoseconds; zero if empty.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The numbers for a report.
    pub fn latency(&self) -> Latency {
        Latency {
            count: self.count(),
            mean: (self.count() > 0).then(|| self.mean()),
            p50: self.supported_at(50.0),
            p90: self.supported_at(90.0),
            p95: self.supported_at(95.0),
            p99: self.supported_at(99.0),
            p99_9: self.supported_at(99.9),
            max: (self.count() > 0).then(|| self.max()),
        }
    }

    /// Every occupied bucket as (highest equivalent value in nanoseconds, count), in rising order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// The compressed HDR V2 form.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .expect("a Vec takes every byte and the counts fit the format");
        bytes
    }

    /// Reads the compressed HDR V2 form.
    ///
    /// # Errors
    /// [`DecodeError::Format`] when the bytes are not such a histogram.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::default().with(&counts(bytes)?)
    }

    /// Reads the compressed HDR V2 form of a histogram that [`Self::encode`] wrote, with all its digits.
    ///
    /// # Errors
    /// [`DecodeError::Format`] when the bytes are not such a histogram.
    pub fn restore(bytes: &[u8]) -> Result<Self, DecodeError> {
        let counts = counts(bytes)?;
        Self::with_digits(counts.sigfig()).with(&counts)
    }

    fn with(mut self, counts: &hdrhistogram::Histogram<u64>) -> Result<Self, DecodeError> {
        self.0.add(counts).map_err(|error| DecodeError::Format(error.to_string()))?;
        Ok(self)
    }
}

fn counts(mut bytes: &[u8]) -> Result<hdrhistogram::Histogram<u64>, DecodeError> {
    let read = hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes);
    read.map_err(|error| DecodeError::Format(error.to_string()))
}

/// As base64 of the compressed HDR V2 form, which keeps the digits.
impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self.encode()))
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text.as_ref()).map_err(D::Error::custom)?;
        Self::restore(&bytes).map_err(D::Error::custom)
    }
}

/// Whether `count` values support `percentile` (0 to 100): at least ten must lie beyond it.
pub fn supported(count: u64, percentile: f64) -> bool {
    // A product such as 1000 × (1 − 0.99) falls slightly below 10 in floating point.
    count as f64 * (100.0 - percentile) / 100.0 >= BEYOND_MIN - 1e-9
}

/// The numbers of a latency histogram for a report, in nanoseconds. Unknown values are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Number of values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median; absent when fewer than ten values lie beyond it.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 95th percentile.
    pub p95: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p99_9: Option<u64>,
    /// Largest value.
    pub max: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repeatable stream of latencies between 1 ns and about 4 s, spread over many orders of magnitude.
    fn latencies(seed: u64, count: usize) -> Vec<u64> {
        let mut state = seed;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                1 + (state >> 32) % (1 << (1 + (state >> 8) % 31))
            })
            .collect()
    }

    #[test]
    fn percentiles_agree_with_exact_sorting_to_three_digits() {
        let mut values = latencies(7, 100_000);
        let mut histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.record(value));
        values.sort_unstable();
        for percentile in [1.0, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0] {
            let rank = (percentile / 100.0 * values.len() as f64).ceil() as usize;
            let exact = values[rank - 1] as f64;
            let read = histogram.at(percentile) as f64;
            assert!((read - exact).abs() <= exact * 0.001 + 1.0, "p{percentile}: {read} against {exact}");
        }
    }

    #[test]
    fn merged_parts_equal_the_whole() {
        let values = latencies(11, 10_000);
        let mut whole = Histogram::default();
        let mut parts = vec![Histogram::default(); 7];
        for (index, &value) in values.iter().enumerate() {
            whole.record(value);
            parts[index % 7].record(value);
        }
        let mut merged = Histogram::default();
        parts.iter().for_each(|part| merged.merge(part));
        assert_eq!(merged, whole);
    }

    #[test]
    fn a_failure_moves_every_percentile_up_and_the_last_ones_to_infinity() {
        let mut histogram = Histogram::default();
        (1..=9_880).for_each(|ms| histogram.record(ms * 1_000_000));
        let all = histogram.latency_among(120);
        let ms = |ns: Option<u64>| ns.map(|ns| ns.div_ceil(1_000_000) / 10);
        assert_eq!([ms(all.p50), ms(all.p95)], [Some(500), Some(950)]);
        assert_eq!((all.count, all.p99, all.p99_9, all.max), (10_000, None, None, None));
        assert_eq!([ms(histogram.latency().p50), ms(histogram.latency().p99)], [Some(494), Some(979)]);
        assert_eq!(histogram.latency_among(0).p99, histogram.latency().p99);
        assert_eq!(
            (Histogram::default().at_among(50.0, 0), Histogram::default().at_among(50.0, 9)),
            (None, None)
        );
    }

    #[test]
    fn a_percentile_needs_ten_values_beyond_it() {
        assert!(supported(1000, 99.0));
        assert!(!supported(999, 99.0));
        assert!(supported(20, 50.0));
        assert!(!supported(19, 50.0));
    }

    #[test]
    fn an_encoded_histogram_reads_back_equal() {
        let mut histogram = Histogram::default();
        latencies(3, 1000).into_iter().for_each(|value| histogram.record(value));
        assert_eq!(Histogram::decode(&histogram.encode()).unwrap(), histogram);
        assert!(Histogram::decode(b"not one").is_err());
    }

    #[test]
    fn a_histogram_reads_back_to_the_digit_and_adds_up_as_before() {
        for digits in [2, 3] {
            let mut halves = [Histogram::with_digits(digits), Histogram::with_digits(digits)];
            let mut whole = Histogram::with_digits(digits);
            for (index, value) in latencies(5, 2000).into_iter().enumerate() {
                halves[index % 2].record(value);
                whole.record(value);
            }
            let mut sum = Histogram::with_digits(digits);
            for half in &halves {
                let text = serde_json::to_string(half).unwrap();
                sum.merge(&serde_json::from_str(&text).unwrap());
            }
            assert_eq!(sum, whole);
            for percentile in [50.0, 99.0, 99.9, 100.0] {
                assert_eq!(sum.at(percentile), whole.at(percentile), "{digits} digits");
            }
        }
        assert!(serde_json::from_str::<Histogram>("\"AAAA\"").is_err());
    }

    #[test]
    fn values_outside_the_range_are_clamped_and_counted() {
        let mut histogram = Histogram::default();
        histogram.record(0);
        histogram.record(u64::MAX);
        assert_eq!(histogram.count(), 2);
        assert!(histogram.max() >= LATENCY_NS_MAX);
    }
}
