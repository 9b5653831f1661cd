//! Holds the numbers of a distribution from a tool or its samples.

use plimsoll_measure::histogram::Histogram;
use serde::{Serialize, Serializer};

/// The numbers of a distribution. Unknown numbers are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// The number of values.
    pub count: Option<u64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Standard deviation.
    pub deviation: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Percentiles in rising order.
    pub percentiles: Vec<Percentile>,
    /// The source of the percentiles.
    pub source: Source,
    /// The histogram to three digits, if the file holds samples of times: pairs of a bucket's largest value and count.
    #[serde(rename = "buckets", serialize_with = "buckets", skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
}

/// The source of the percentiles of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Stated by the file.
    #[default]
    #[serde(rename = "said")]
    Stated,
    /// Exactly from all samples, with linear interpolation.
    Samples,
    /// From a histogram of all samples, to three digits, because the samples are too many to keep.
    Histogram,
}

/// One percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentile {
    /// The percentile, 0 to 100.
    pub percentile: f64,
    /// The value at the percentile.
    pub value: f64,
}

impl Distribution {
    /// The value at `percentile` (0 to 100), if it is among those known.
    pub fn at(&self, percentile: f64) -> Option<f64> {
        self.percentiles.iter().find(|known| known.percentile == percentile).map(|known| known.value)
    }

    /// Sets the value at `percentile` and keeps the order.
    pub(super) fn set(&mut self, percentile: f64, value: f64) {
        let place = self.percentiles.binary_search_by(|known| known.percentile.total_cmp(&percentile));
        match place {
            Ok(same) => self.percentiles[same].value = value,
            Err(at) => self.percentiles.insert(at, Percentile { percentile, value }),
        }
    }

    /// The same numbers in another unit: each times `factor`.
    pub(super) fn times(mut self, factor: f64) -> Self {
        let numbers = [&mut self.mean, &mut self.deviation, &mut self.min, &mut self.max];
        numbers.into_iter().flatten().for_each(|number| *number *= factor);
        self.percentiles.iter_mut().for_each(|known| known.value *= factor);
        self
    }
}

fn buckets<S: Serializer>(histogram: &Option<Histogram>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(histogram.iter().flat_map(Histogram::buckets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_stay_in_rising_order_and_the_last_value_counts() {
        let mut numbers = Distribution::default();
        for (percentile, value) in [(99.0, 3.0), (50.0, 1.0), (90.0, 2.0), (50.0, 1.5)] {
            numbers.set(percentile, value);
        }
        let found: Vec<_> = numbers.percentiles.iter().map(|known| (known.percentile, known.value)).collect();
        assert_eq!(found, [(50.0, 1.5), (90.0, 2.0), (99.0, 3.0)]);
        assert_eq!((numbers.times(2.0).at(90.0)), Some(4.0));
    }
}
