//! Defines a ladder: throughput at rising concurrency, and the universal scalability law that it follows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Latency;

/// Closed loads with more and more writers, and the law that they follow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ladder {
    /// `documents/s`, `operations/s`, or `requests/s` of a service.
    pub unit: String,
    /// By rising concurrency.
    pub rungs: Vec<Rung>,
    /// The scalability law, if the rungs follow it.
    pub scalability: Option<Scalability>,
    /// Why no law fits; absent if a law fits.
    pub note: Option<String>,
}

/// One step of a ladder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rung {
    /// Writers: operations in flight.
    pub writers: u32,
    /// Length of the judged part, in seconds.
    pub window_s: f64,
    /// Documents or operations per second.
    pub throughput: f64,
    /// Response time; closed, so it is the service time.
    pub response_ns: Latency,
    /// Operations that failed.
    pub errors: u64,
}

/// A fit of the universal scalability law, X(N) = λN ÷ (1 + σ(N−1) + κN(N−1)), to measured throughputs.
///
/// Source: N. J. Gunther, *Guerrilla Capacity Planning* (Springer, 2007), chapters 4 to 6; with λ as a separate
/// parameter as in N. J. Gunther, P. Puglia, K. Tomasette, *Hadoop Superlinear Scalability* (ACM Queue 13(5), 2015).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scalability {
    /// λ: throughput of one client alone, in the points' unit.
    pub lambda: f64,
    /// σ: the share that is done one after another (contention); 0 is none.
    pub sigma: f64,
    /// κ: the cost of keeping every pair of clients consistent (coherency); 0 is none.
    pub kappa: f64,
    /// The share of the throughputs' variance that the fit explains, at most 1.
    pub r_squared: f64,
    /// The highest throughput; absent if throughput never falls.
    pub peak: Option<Peak>,
    /// The bound of a throughput that never falls: λ ÷ σ.
    pub bound: Option<f64>,
    /// The measured points, by rising concurrency.
    pub points: Vec<Point>,
}

/// The highest throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Peak {
    /// √((1−σ) ÷ κ), at least 1. It is a prediction beyond the largest measured concurrency.
    pub concurrency: f64,
    /// The throughput there.
    pub throughput: f64,
}

/// A throughput that was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Clients or connections at work at the same time.
    pub concurrency: f64,
    /// Operations or documents per second.
    pub throughput: f64,
}

impl Scalability {
    /// The throughput that the law gives at a concurrency.
    pub fn at(&self, concurrency: f64) -> f64 {
        let others = concurrency - 1.0;
        self.lambda * concurrency / (1.0 + self.sigma * others + self.kappa * concurrency * others)
    }

    /// The largest concurrency that was measured.
    pub fn concurrency_max(&self) -> f64 {
        self.points.iter().map(|point| point.concurrency).fold(0.0, f64::max)
    }

    /// Whether the peak lies beyond the measured range.
    pub fn is_peak_beyond(&self) -> bool {
        self.peak.is_some_and(|peak| peak.concurrency > self.concurrency_max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_alone_reaches_lambda() {
        let law = Scalability { lambda: 995.0, sigma: 0.03, kappa: 1e-4, ..Scalability::default() };
        assert_eq!(law.at(1.0), 995.0);
        assert!((law.at(32.0) - 995.0 * 32.0 / (1.0 + 0.03 * 31.0 + 1e-4 * 32.0 * 31.0)).abs() < 1e-9);
    }

    #[test]
    fn a_peak_beyond_the_largest_concurrency_was_not_seen() {
        let point = Point { concurrency: 16.0, throughput: 100.0 };
        let peak = |concurrency| Some(Peak { concurrency, throughput: 120.0 });
        let law = Scalability { points: vec![point], peak: peak(40.0), ..Scalability::default() };
        assert!(law.is_peak_beyond());
        assert!(!Scalability { peak: peak(9.0), ..law }.is_peak_beyond());
    }
}
