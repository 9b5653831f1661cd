//! Judges whether a measured window meets the objective of the load line.

use plimsoll_measure::interval::Tally;
use plimsoll_measure::threshold::{Aggregate, Comparison, Threshold};

use crate::rate_floor::ACHIEVED_MIN;
use crate::second::Second;

mod judge;

use judge::{errors_hold, judge_bound, judge_errors, latency_holds};

/// The unjudged start of a window, in seconds: queues fill to their steady length.
pub const SETTLE_S: u64 = 1;
/// A mean waiting time below this, in nanoseconds, is not a sign of a queue.
const WAIT_NOISE_NS: f64 = 1e6;
/// The largest factor between the waiting times of both halves without a growing queue.
const WAIT_GROWTH_MAX: f64 = 2.0;

/// The measurement that a bound limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Response time.
    Response,
    /// Service time.
    Service,
    /// Operations that failed.
    Errors,
}

/// All bounds that must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// The metrics and their bounds.
    pub bounds: Vec<(Metric, Threshold)>,
}

/// An objective that cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` cannot be judged in a search: {problem}")]
pub struct Error {
    name: String,
    problem: &'static str,
}

impl Metric {
    /// The name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Service => "service",
            Self::Errors => "errors",
        }
    }
}

impl Objective {
    /// p99 response under 50 ms, and no errors.
    pub fn standard() -> Self {
        let below = |aggregate, comparison, bound| Threshold { aggregate, comparison, bound };
        use plimsoll_measure::threshold::Bound::{Nanoseconds, Plain};
        Self {
            bounds: vec![
                (Metric::Response, below(Aggregate::Percentile(99.0), Comparison::Less, Nanoseconds(50e6))),
                (Metric::Errors, below(Aggregate::Count, Comparison::Equal, Plain(0.0))),
            ],
        }
    }

    /// Checks that every bound can be judged within a window.
    ///
    /// # Errors
    /// The first bound that cannot be judged.
    pub fn check(&self) -> Result<(), Error> {
        self.bounds.iter().try_for_each(|(metric, threshold)| {
            let fail =
                |problem| Err(Error { name: format!("{}: {}", metric.name(), threshold.aggregate), problem });
            match (metric, threshold.aggregate) {
                (Metric::Errors, Aggregate::Count | Aggregate::Rate) => Ok(()),
                (Metric::Errors, _) => fail("use count or rate (share of all operations) for errors"),
                (_, Aggregate::Percentile(p)) if p >= 100.0 => fail("use max instead of p(100)"),
                (_, Aggregate::Count | Aggregate::Rate | Aggregate::Value) => {
                    fail("use p(N), med, avg or max for a latency")
                }
                (_, Aggregate::Min) => fail("the smallest latency says nothing about load"),
                _ => Ok(()),
            }
        })
    }

    /// The operations that a window needs so that ten values lie above each percentile.
    pub fn operations_min(&self) -> u64 {
        let needed = |threshold: &Threshold| match threshold.aggregate {
            Aggregate::Percentile(p) => (10.0 / (1.0 - p / 100.0)).ceil() as u64,
            _ => 100,
        };
        self.bounds.iter().map(|(_, threshold)| needed(threshold)).max().unwrap_or(100)
    }

    /// Each bound as text: `response p(99)<50ms`.
    pub fn describe(&self) -> Vec<String> {
        use plimsoll_measure::threshold::Bound;
        let bound = |metric, bound: Bound| match (metric, bound) {
            (Metric::Errors, Bound::Plain(number)) => number.to_string(),
            _ => format!("{}ms", bound.as_ns() / 1e6),
        };
        self.bounds
            .iter()
            .map(|(metric, t)| {
                format!("{} {}{}{}", metric.name(), t.aggregate, t.comparison, bound(*metric, t.bound))
            })
            .collect()
    }

    /// Lists every broken bound of a window, in sentences; the rate holds if the list is empty.
    pub fn judge(&self, window: &Window) -> Vec<String> {
        let bounds =
            self.bounds.iter().filter_map(|(metric, threshold)| judge_bound(*metric, threshold, window));
        let skipped =
            (window.tally.skipped > 0).then(|| format!("{} operations were skipped", window.tally.skipped));
        bounds.chain(skipped).chain(window.not_reached()).chain(window.growing()).collect()
    }
}

impl Objective {
    /// Lists the broken bounds on errors, in sentences.
    pub(crate) fn judge_errors(&self, window: &Window) -> Vec<String> {
        let errors = self.bounds.iter().filter(|(metric, _)| *metric == Metric::Errors);
        errors.filter_map(|(_, threshold)| judge_errors(threshold, window)).collect()
    }

    /// Whether every bound holds in a short time: percentiles without a confidence bound and without a
    /// minimum of values.
    pub fn holds_in(&self, tally: &Tally) -> bool {
        let holds = |(metric, threshold): &(Metric, Threshold)| match metric {
            Metric::Errors => errors_hold(threshold, tally),
            Metric::Response => latency_holds(threshold, &tally.response),
            Metric::Service => latency_holds(threshold, &tally.service),
        };
        tally.skipped == 0 && tally.count > 0 && self.bounds.iter().all(holds)
    }
}

/// A window of steady arrivals.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// All operations together.
    pub tally: Tally,
    /// The mean waiting time of the first and second half, in nanoseconds.
    pub wait_ns: (f64, f64),
    /// The length in seconds.
    pub length_s: f64,
    /// CPU of the busiest worker, 0 to 1.
    pub client_cpu: f64,
}

impl Window {
    /// Adds up the seconds of a window.
    pub fn of(seconds: &[Second]) -> Self {
        let half = seconds.len() / 2;
        let (first, second) = (sum(&seconds[..half]), sum(&seconds[half..]));
        let wait_ns = (first.wait.mean(), second.wait.mean());
        let mut tally = first;
        tally.merge(&second);
        let length_ns: u64 = seconds.iter().map(|second| second.to_ns - second.from_ns).sum();
        Self { tally, wait_ns, length_s: length_ns as f64 / 1e9, client_cpu: busiest(seconds, length_ns) }
    }

    /// Completed ÷ due; 1 if nothing was due.
    pub fn achieved(&self) -> f64 {
        if self.tally.due == 0 { 1.0 } else { self.tally.completed() as f64 / self.tally.due as f64 }
    }

    fn not_reached(&self) -> Option<String> {
        let achieved = self.achieved();
        (achieved < ACHIEVED_MIN)
            .then(|| format!("rate not reached: {:.1} % of the due operations were done", achieved * 100.0))
    }

    fn growing(&self) -> Option<String> {
        let (first, second) = self.wait_ns;
        let grows = second > WAIT_NOISE_NS && second > first * WAIT_GROWTH_MAX;
        grows.then(|| format!("waiting grows: {:.1} ms, then {:.1} ms on average", first / 1e6, second / 1e6))
    }
}

fn sum(seconds: &[Second]) -> Tally {
    let mut sum = Tally::default();
    seconds.iter().flat_map(|second| &second.tallies).for_each(|tally| sum.merge(tally));
    sum
}

fn busiest(seconds: &[Second], length_ns: u64) -> f64 {
    let workers = seconds.iter().map(|second| second.cpu_ns.len()).max().unwrap_or(0);
    let used = |worker| seconds.iter().filter_map(|second| second.cpu_ns.get(worker)).sum::<u64>();
    (0..workers).map(used).max().unwrap_or(0) as f64 / length_ns.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_measure::clock::{Instant, SECOND_NS};
    use plimsoll_measure::interval::{Instants, Reply};
    use plimsoll_measure::outcome::{Outcome, Rejection};

    /// A window of `count` operations whose latencies and waits are functions of their number.
    fn window(count: u64, response_ns: impl Fn(u64) -> u64, wait_ns: impl Fn(u64) -> u64) -> Window {
        let second = |range: std::ops::Range<u64>, from_ns| {
            let mut tally = Tally::default();
            for number in range {
                let due = Instant::from_ns(number);
                let sent = due + wait_ns(number);
                tally.due += 1;
                let at = Instants { due, awake: due, sent, done: (due + response_ns(number)).max(sent) };
                tally.record(&at, &Reply::acknowledged(1));
            }
            Second { from_ns, to_ns: from_ns + SECOND_NS, tallies: vec![tally], ..Second::default() }
        };
        Window::of(&[second(0..count / 2, 0), second(count / 2..count, SECOND_NS)])
    }

    fn check(window: &Window, reason: Option<&str>) {
        let reasons = Objective::standard().judge(window);
        match reason {
            None => assert!(reasons.is_empty(), "{reasons:?}"),
            Some(part) => assert!(reasons.iter().any(|reason| reason.contains(part)), "{part}: {reasons:?}"),
        }
    }

    #[test]
    fn a_fast_window_holds() {
        check(&window(2000, |_| 3_000_000, |_| 0), None);
    }

    #[test]
    fn a_percentile_just_under_its_bound_does_not_hold_with_confidence() {
        // 0.9 % of the operations are slow: p99 itself is fast, the upper end of its interval is slow.
        let slow = |number: u64| if number % 1000 < 9 { 80_000_000 } else { 3_000_000 };
        check(&window(2000, slow, |_| 0), Some("response p(99) is 80"));
        let few = |number: u64| if number % 1000 < 4 { 80_000_000 } else { 3_000_000 };
        check(&window(2000, few, |_| 0), None);
    }

    #[test]
    fn too_few_operations_are_inconclusive() {
        check(&window(900, |_| 3_000_000, |_| 0), Some("n = 900 is too small"));
    }

    #[test]
    fn a_growing_queue_does_not_hold_even_within_the_bound() {
        check(&window(2000, |_| 40_000_000, |number| number * 10_000), Some("waiting grows"));
    }

    #[test]
    fn a_rate_under_99_percent_is_not_reached() {
        let mut slow = window(2000, |_| 3_000_000, |_| 0);
        slow.tally.due += 30;
        check(&slow, Some("rate not reached: 98.5 %"));
    }

    #[test]
    fn one_error_and_one_skipped_operation_are_too_many() {
        let mut failed = window(2000, |_| 3_000_000, |_| 0);
        let at = Instants {
            due: Instant::default(),
            awake: Instant::default(),
            sent: Instant::default(),
            done: Instant::default(),
        };
        failed.tally.record(&at, &Reply::failed(Outcome::Rejected(Rejection::Overload), 1));
        failed.tally.skipped = 1;
        check(&failed, Some("1 errors: 1 overload"));
        check(&failed, Some("1 operations were skipped"));
    }

    #[test]
    fn bounds_that_cannot_be_judged_are_refused() {
        for (metric, text, part) in [
            (Metric::Errors, "p(99)<1", "count or rate"),
            (Metric::Response, "count<1", "p(N), med, avg or max"),
            (Metric::Response, "p(100)<1", "use max"),
            (Metric::Service, "min<1", "says nothing"),
        ] {
            let objective = Objective { bounds: vec![(metric, text.parse().unwrap())] };
            assert!(objective.check().unwrap_err().to_string().contains(part), "{text}");
        }
        assert_eq!(Objective::standard().check(), Ok(()));
        assert_eq!(Objective::standard().operations_min(), 1000);
        assert_eq!(Objective::standard().describe(), ["response p(99)<50ms", "errors count==0"]);
    }
}
