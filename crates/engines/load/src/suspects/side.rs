//! One of the two rates that are compared, with what the server said meanwhile.

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::line::Probe;
use plimsoll_measure::sample::{ServerSample, growth};

use super::{NOT_REPORTED, TOO_FEW_LOOKS, Unseen};

/// A rate that was tried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// What the client measured.
    pub probe: Probe,
    /// Every look at the server within the judged window, in order.
    pub samples: Vec<ServerSample>,
    /// The seconds of the judged window.
    pub seconds: Vec<SecondOfService>,
}

/// How long operations took in one second, from being sent to being done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SecondOfService {
    /// Nanoseconds from the run's start to its start.
    pub from_ns: u64,
    /// Nanoseconds from the run's start to its end.
    pub to_ns: u64,
    /// Mean service time in nanoseconds.
    pub mean_ns: f64,
}

impl Side {
    /// How fast a counter grew a second.
    pub(super) fn per_s(&self, counter: impl Fn(&ServerSample) -> Option<u64>) -> Result<f64, Unseen> {
        let looks = || self.samples.iter().filter(|sample| counter(sample).is_some());
        let (Some(first), Some(last)) = (looks().next(), looks().next_back()) else {
            return Err(NOT_REPORTED);
        };
        let seconds = last.at_ns.saturating_sub(first.at_ns) as f64 / SECOND_NS as f64;
        let grown = growth(&self.samples, &counter).filter(|_| seconds > 0.0).ok_or(TOO_FEW_LOOKS)?;
        Ok(grown as f64 / seconds)
    }

    /// The mean of what every look showed.
    pub(super) fn mean(&self, gauge: impl Fn(&ServerSample) -> Option<f64>) -> Result<f64, Unseen> {
        let seen: Vec<f64> = self.samples.iter().filter_map(gauge).collect();
        if seen.is_empty() { Err(NOT_REPORTED) } else { Ok(seen.iter().sum::<f64>() / seen.len() as f64) }
    }

    /// The most that any look showed.
    pub(super) fn max(&self, gauge: impl Fn(&ServerSample) -> Option<f64>) -> Result<f64, Unseen> {
        self.samples.iter().filter_map(gauge).reduce(f64::max).ok_or(NOT_REPORTED)
    }

    /// How many operations the server worked on at a time, on average: Little's law over the window.
    pub(super) fn in_service(&self) -> f64 {
        let service = &self.probe.service_ns;
        let total_s = service.mean.unwrap_or(0.0) * service.count as f64 / SECOND_NS as f64;
        total_s / self.probe.window_s.max(f64::MIN_POSITIVE)
    }

    /// Which share of all service time a counter of microseconds, added over threads, makes up.
    pub(super) fn share_of_service(
        &self,
        microseconds: impl Fn(&ServerSample) -> Option<u64>,
    ) -> Result<f64, Unseen> {
        let threads = self.per_s(microseconds)? / 1e6;
        Ok(threads / self.in_service().max(f64::MIN_POSITIVE))
    }

    /// Operations acknowledged a second.
    pub(super) fn operations_per_s(&self) -> f64 {
        self.probe.service_ns.count as f64 / self.probe.window_s.max(f64::MIN_POSITIVE)
    }
}

/// The same question at both rates; without an answer at one of them nothing can be compared.
pub(super) fn both(
    (baseline, knee): (&Side, &Side),
    ask: impl Fn(&Side) -> Result<f64, Unseen>,
) -> Result<(f64, f64), Unseen> {
    Ok((ask(baseline)?, ask(knee)?))
}
