//! Judges whether the seconds of a rate meet the objective of the load line.
//!
//! Each bound becomes an *excess*: the share of a second's due operations that broke it, divided by the share that it allows.
//! The bound holds on average while the mean excess is below one.

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::threshold::{Aggregate, Comparison, Threshold};

use crate::bottlenecks::SecondOfService;
use crate::due_second::{DueSecond, Latency, Limit};
use crate::rate_floor::ACHIEVED_MIN;
use crate::second::Second;

mod judge;

use judge::{errors_hold, judge_errors, latency_holds};

/// The unjudged start of a window, in seconds: queues fill to their steady length.
pub const SETTLE_S: u64 = 1;
/// The allowed share of seconds with an event that must never occur, such as an error or a latency over
/// `max`.
const RARE: f64 = 0.05;

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

    /// The latency that it measures, if it measures one.
    const fn latency(self) -> Option<Latency> {
        match self {
            Self::Response => Some(Latency::Response),
            Self::Service => Some(Latency::Service),
            Self::Errors => None,
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The excess of a second with an event that should occur in no second.
fn rare(happened: bool) -> f64 {
    if happened { 1.0 / RARE } else { 0.0 }
}

fn latency_excess(threshold: &Threshold, second: &DueSecond, limit: usize) -> f64 {
    match allowed(threshold) {
        Some(allowed) => share(second.over(limit), second.due) / allowed,
        None if threshold.aggregate == Aggregate::Avg => {
            let sum_ns = second.sum_ns.get(limit).copied().unwrap_or(0);
            let mean = share(sum_ns, second.ended) / threshold.bound.as_ns().max(1.0);
            // A failure is infinitely slow, so the mean is infinite too.
            mean.max(rare(second.not_answered() > 0))
        }
        None => rare(second.over(limit) > 0),
    }
}

/// The share of operations that a percentile allows over its bound.
fn allowed(threshold: &Threshold) -> Option<f64> {
    match threshold.aggregate {
        Aggregate::Percentile(percentile) => Some(1.0 - percentile / 100.0),
        Aggregate::Med => Some(0.5),
        _ => None,
    }
}

fn errors_excess(threshold: &Threshold, second: &DueSecond, window_s: f64) -> f64 {
    let failed = second.not_answered();
    let bound = threshold.bound.as_number().unwrap_or(0.0);
    let is_none = bound == 0.0 || (threshold.comparison == Comparison::Less && bound <= 1.0);
    match threshold.aggregate {
        Aggregate::Rate if bound > 0.0 => share(failed, second.due) / bound,
        Aggregate::Count if !is_none => failed as f64 * window_s / bound,
        _ => rare(failed > 0),
    }
}

fn latency_reason(metric: Metric, threshold: &Threshold, due: &[DueSecond], limit: usize) -> String {
    let all: u64 = due.iter().map(|second| second.due).sum();
    let over: u64 = due.iter().map(|second| second.over(limit)).sum();
    let (name, bound_ms) = (metric.name(), threshold.bound.as_ns() / 1e6);
    match allowed(threshold) {
        Some(allowed) => format!(
            "{:.2} % over {bound_ms} ms {name}, {} % allowed",
            share(over, all) * 100.0,
            (allowed * 1e6).round() / 1e4
        ),
        None if threshold.aggregate == Aggregate::Avg && failures(due) > 0 => not_sent(due),
        None if threshold.aggregate == Aggregate::Avg => {
            let ended: u64 = due.iter().map(|second| second.ended).sum();
            let sum_ns: u64 = due.iter().filter_map(|second| second.sum_ns.get(limit)).sum();
            format!("mean {name} {:.2} ms, {bound_ms} ms allowed", share(sum_ns, ended) / 1e6)
        }
        None => format!("{over} of {all} operations over {bound_ms} ms {name}"),
    }
}

fn failures(due: &[DueSecond]) -> u64 {
    due.iter().map(DueSecond::not_answered).sum()
}

fn not_sent(due: &[DueSecond]) -> String {
    format!("{} operations failed or were not sent in time", failures(due))
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

    /// The limits on the latency of each operation, in the order of the latency bounds.
    pub fn limits(&self) -> Vec<Limit> {
        let limit = |(metric, threshold): &(Metric, Threshold)| {
            let latency = metric.latency()?;
            let more = u64::from(threshold.comparison == Comparison::LessOrEqual);
            Some(Limit { latency, ns: threshold.bound.as_ns().max(0.0) as u64 + more })
        };
        self.bounds.iter().filter_map(limit).collect()
    }

    /// The excess of a second over each bound. A count of errors applies to a window of `window_s` seconds.
    pub fn excess(&self, second: &DueSecond, window_s: f64) -> Vec<f64> {
        let mut limits = 0..;
        let one = |(metric, threshold): &(Metric, Threshold)| match metric.latency() {
            Some(_) => latency_excess(threshold, second, limits.next().unwrap_or(0)),
            None => errors_excess(threshold, second, window_s),
        };
        self.bounds.iter().map(one).collect()
    }

    /// The bounds that a window broke, in sentences; `excess` has the mean of each.
    pub fn reasons(&self, excess: &[f64], due: &[DueSecond], window: &Window) -> Vec<String> {
        let mut limits = 0..;
        let mut reasons = Vec::new();
        for ((metric, threshold), excess) in self.bounds.iter().zip(excess) {
            let limit = metric.latency().and_then(|_| limits.next());
            if *excess < 1.0 {
                continue;
            }
            reasons.push(match limit {
                Some(limit) => latency_reason(*metric, threshold, due, limit),
                None => judge_errors(threshold, window).unwrap_or_else(|| not_sent(due)),
            });
        }
        reasons
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
}

impl Objective {
    /// Lists the broken bounds on errors, in sentences.
    pub(crate) fn judge_errors(&self, window: &Window) -> Vec<String> {
        let errors = self.bounds.iter().filter(|(metric, _)| *metric == Metric::Errors);
        errors.filter_map(|(_, threshold)| judge_errors(threshold, window)).collect()
    }

    /// Whether every bound holds in a short time: percentiles without a confidence bound and without a
    /// minimum of values. A failed operation counts as infinitely slow.
    pub fn holds_in(&self, tally: &Tally) -> bool {
        let holds = |(metric, threshold): &(Metric, Threshold)| match metric {
            Metric::Errors => errors_hold(threshold, tally),
            Metric::Response => latency_holds(threshold, &tally.response, tally.errors.total()),
            Metric::Service => latency_holds(threshold, &tally.service, tally.errors.total()),
        };
        tally.skipped == 0 && tally.count > 0 && self.bounds.iter().all(holds)
    }
}

/// A window of steady arrivals: the seconds after the settling ones, added up.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// All operations that ended in it.
    pub tally: Tally,
    /// For each second, how far the load fell behind: the growth of the queue divided by the growth that is allowed.
    pub behind: Vec<f64>,
    /// Its seconds, in nanoseconds from the phase's start.
    pub seconds: Vec<SecondOfService>,
    /// The length in nanoseconds.
    length_ns: u64,
    /// CPU of each worker, in nanoseconds.
    cpu_ns: Vec<u64>,
}

impl Window {
    /// Adds the next second of a phase, unless it belongs to the settling ones.
    pub fn add(&mut self, second: &Second) {
        if second.from_ns < SETTLE_S * SECOND_NS {
            return;
        }
        let mut sum = Tally::default();
        second.tallies.iter().for_each(|tally| sum.merge(tally));
        self.behind.push(behind(&sum));
        self.seconds.push(SecondOfService::new((second.from_ns, second.to_ns), &sum, &second.cpu_ns));
        self.length_ns += second.to_ns - second.from_ns;
        self.cpu_ns.resize(self.cpu_ns.len().max(second.cpu_ns.len()), 0);
        self.cpu_ns.iter_mut().zip(&second.cpu_ns).for_each(|(sum, part)| *sum += part);
        self.tally.merge(&sum);
    }

    /// The length in seconds.
    pub fn length_s(&self) -> f64 {
        self.length_ns as f64 / SECOND_NS as f64
    }

    /// CPU of the busiest worker, 0 to 1.
    pub fn client_cpu(&self) -> f64 {
        self.cpu_ns.iter().copied().max().unwrap_or(0) as f64 / self.length_ns.max(1) as f64
    }

    /// Completed ÷ due; 1 if nothing was due.
    pub fn achieved(&self) -> f64 {
        if self.tally.due == 0 { 1.0 } else { self.tally.completed() as f64 / self.tally.due as f64 }
    }

    /// The reason for a window that fell behind.
    pub fn not_reached(&self) -> String {
        format!("rate not reached: {:.1} % of the due operations were done", self.achieved() * 100.0)
    }
}

fn behind(second: &Tally) -> f64 {
    let missing = second.due as f64 - (second.completed() + second.skipped) as f64;
    missing / (second.due as f64).max(1.0) / (1.0 - ACHIEVED_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of 1,000 due operations.
    fn second(ended: u64, failed: u64, over: u64) -> DueSecond {
        DueSecond {
            due: 1000,
            ended,
            failed,
            over: vec![over],
            sum_ns: vec![ended * 2_000_000],
            ..DueSecond::default()
        }
    }

    fn excess(bounds: &[(Metric, &str)], second: &DueSecond) -> Vec<f64> {
        let bounds = bounds.iter().map(|(metric, text)| (*metric, text.parse().unwrap())).collect();
        Objective { bounds }.excess(second, 8.0).into_iter().map(|it| (it * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn a_percentile_allows_its_share_of_the_due_operations() {
        let response = [(Metric::Response, "p(99)<50ms")];
        assert_eq!(excess(&response, &second(1000, 0, 5)), [0.5]);
        assert_eq!(excess(&response, &second(1000, 0, 10)), [1.0]);
        assert_eq!(excess(&response, &second(980, 0, 0)), [2.0], "operations that never ended are over");
        assert_eq!(excess(&[(Metric::Response, "med<50ms")], &second(1000, 0, 250)), [0.5]);
        assert_eq!(excess(&[(Metric::Response, "avg<4ms")], &second(1000, 0, 0)), [0.5]);
        for failed in [second(1000, 1, 1), second(999, 0, 0)] {
            assert_eq!(
                excess(&[(Metric::Response, "avg<4ms")], &failed),
                [20.0],
                "a failure is infinitely slow"
            );
        }
        assert_eq!(excess(&[(Metric::Service, "max<1s")], &second(1000, 0, 1)), [20.0]);
    }

    #[test]
    fn errors_are_counted_by_window_or_by_share() {
        let errors = |text| excess(&[(Metric::Errors, text)], &second(1000, 2, 2))[0];
        assert_eq!((errors("count==0"), errors("count<1"), errors("rate<=0")), (20.0, 20.0, 20.0));
        assert_eq!((errors("count<=32"), errors("rate<0.004")), (0.5, 0.5));
        assert_eq!(excess(&[(Metric::Errors, "count==0")], &second(1000, 0, 900)), [0.0]);
        assert_eq!(excess(&[(Metric::Errors, "count==0")], &second(999, 0, 0)), [20.0], "one never ended");
    }

    #[test]
    fn the_limits_are_those_of_the_latency_bounds_in_order() {
        let bounds =
            [(Metric::Errors, "count==0"), (Metric::Response, "p(99)<50ms"), (Metric::Service, "p(50)<=2ms")];
        let bounds = bounds.iter().map(|(metric, text)| (*metric, text.parse().unwrap())).collect();
        let objective = Objective { bounds };
        let (response, service) = (Latency::Response, Latency::Service);
        let expected =
            [(response, 50_000_000), (service, 2_000_001)].map(|(latency, ns)| Limit { latency, ns });
        assert_eq!(objective.limits(), expected);
        let of =
            DueSecond { due: 100, ended: 100, over: vec![1, 50], sum_ns: vec![0, 0], ..DueSecond::default() };
        let excess = objective.excess(&of, 8.0);
        assert!(
            excess[0] == 0.0 && (excess[1] - 1.0).abs() < 1e-9 && (excess[2] - 1.0).abs() < 1e-9,
            "{excess:?}"
        );
    }

    #[test]
    fn a_broken_bound_says_by_how_much() {
        let objective = Objective::standard();
        let due = [second(1000, 0, 30), second(1000, 0, 10)];
        let reasons = objective.reasons(&[2.0, 0.0], &due, &Window::default());
        assert_eq!(reasons, ["2.00 % over 50 ms response, 1 % allowed"]);
        let unsent = objective.reasons(&[0.0, 20.0], &[second(990, 0, 0)], &Window::default());
        assert_eq!(unsent, ["10 operations failed or were not sent in time"]);
    }

    #[test]
    fn a_window_leaves_out_the_settling_second_and_sees_a_growing_queue() {
        let second = |from_s: u64, due, count| Second {
            from_ns: from_s * SECOND_NS,
            to_ns: (from_s + 1) * SECOND_NS,
            tallies: vec![Tally { due, count, ..Tally::default() }],
            cpu_ns: vec![SECOND_NS / 4, SECOND_NS / 2],
            ..Second::default()
        };
        let mut window = Window::default();
        [second(0, 1000, 0), second(1, 1000, 980), second(2, 1000, 1010)]
            .iter()
            .for_each(|it| window.add(it));
        let [first, second] = [window.behind[0], window.behind[1]];
        assert!((first - 2.0).abs() < 1e-9 && (second + 1.0).abs() < 1e-9, "{first} {second}");
        assert_eq!((window.length_s(), window.client_cpu(), window.achieved()), (2.0, 0.5, 0.995));
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
        assert_eq!(Objective::standard().describe(), ["response p(99)<50ms", "errors count==0"]);
    }
}
