//! Fits the scalability law to a ladder of closed loads.

use plimsoll_measure::interval::Tally;
use plimsoll_measure::ladder::{Ladder, Rung};

use crate::scalability::fit;
use crate::second::Second;

/// The unit of a ladder's throughputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Acknowledged documents.
    Documents,
    /// Acknowledged operations.
    Operations,
    /// Operations that a service acknowledged.
    Requests,
}

impl Unit {
    /// The name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Documents => "documents/s",
            Self::Operations => "operations/s",
            Self::Requests => "requests/s",
        }
    }
}

/// The throughput of a closed load of `writers` writers over `seconds`, which contain no settling seconds.
pub fn rung(writers: u32, seconds: &[Second], unit: Unit) -> Rung {
    let mut whole = Tally::default();
    seconds.iter().flat_map(|second| &second.tallies).for_each(|tally| whole.merge(tally));
    let window_ns: u64 = seconds.iter().map(|second| second.to_ns - second.from_ns).sum();
    let window_s = window_ns as f64 / 1e9;
    let done = if unit == Unit::Documents { whole.documents } else { whole.count };
    Rung {
        writers,
        window_s,
        throughput: done as f64 / window_s.max(f64::MIN_POSITIVE),
        response_ns: whole.response.latency(),
        errors: whole.errors.total(),
    }
}

/// Fits the law to the rungs, or reports why none fits.
pub fn ladder(mut rungs: Vec<Rung>, unit: Unit) -> Ladder {
    rungs.sort_by_key(|rung| rung.writers);
    let points: Vec<_> = rungs.iter().map(|rung| (f64::from(rung.writers), rung.throughput)).collect();
    let fitted = fit(&points);
    Ladder {
        unit: unit.name().to_owned(),
        rungs,
        note: fitted.as_ref().err().map(ToString::to_string),
        scalability: fitted.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_measure::clock::{Instant, SECOND_NS};
    use plimsoll_measure::interval::{Instants, Reply};

    fn seconds(operations: u64) -> Vec<Second> {
        let mut tally = Tally::default();
        let at = Instant::default();
        let instants = Instants { due: at, awake: at, sent: at, done: at + 1_000_000 };
        (0..operations).for_each(|_| tally.record(&instants, &Reply::acknowledged(10)));
        vec![Second { to_ns: SECOND_NS, tallies: vec![tally], ..Second::default() }; 2]
    }

    #[test]
    fn rungs_that_grow_evenly_follow_the_law_without_a_peak() {
        let rungs =
            [8, 1, 4, 2].map(|writers| rung(writers, &seconds(100 * u64::from(writers)), Unit::Documents));
        let ladder = ladder(rungs.to_vec(), Unit::Documents);
        assert_eq!(ladder.rungs.iter().map(|rung| rung.writers).collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert_eq!((ladder.rungs[3].throughput, ladder.rungs[3].window_s), (8_000.0, 2.0));
        let law = ladder.scalability.unwrap();
        assert!((law.lambda - 1_000.0).abs() < 1e-3 && law.peak.is_none(), "{law:?}");
    }

    #[test]
    fn too_few_rungs_explain_the_missing_law() {
        let ladder = ladder(vec![rung(1, &seconds(5), Unit::Operations)], Unit::Operations);
        assert_eq!((ladder.unit.as_str(), ladder.scalability), ("operations/s", None));
        assert!(ladder.note.unwrap().starts_with("no fit: 1 different concurrencies"));
    }
}
