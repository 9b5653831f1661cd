//! Summarises one attempted rate, with the server samples of its window.

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::host_sample::HostSample;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::line::Probe;
use plimsoll_measure::sample::{ServerSample, growth};

use super::{NOT_REPORTED, NotObserved, TOO_FEW_SAMPLES};

/// An attempted rate, and its server samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// The client's measurements.
    pub probe: Probe,
    /// Every server sample within the judged window, in order.
    pub samples: Vec<ServerSample>,
    /// Every sample of the server's machine within the judged window, in order.
    pub host: Vec<HostSample>,
    /// Every sample of the tool's own process within the judged window, in order.
    pub client: Vec<HostSample>,
    /// The seconds of the judged window.
    pub seconds: Vec<SecondOfService>,
}

/// The operations of one second, and the client's share in them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SecondOfService {
    /// Nanoseconds from the run's start to its start.
    pub from_ns: u64,
    /// Nanoseconds from the run's start to its end.
    pub to_ns: u64,
    /// Mean service time in nanoseconds.
    pub mean_ns: f64,
    /// CPU of the busiest worker, 0 to 1.
    pub client_cpu: f64,
    /// 99th percentile of the wake error, in nanoseconds.
    pub wake_ns: u64,
    /// 99th percentile of the response time, in nanoseconds.
    pub response_ns: u64,
    /// Whether the operations that were due in it broke the objective.
    pub is_slow: bool,
}

impl SecondOfService {
    /// A second of these operations, of workers with this CPU time; not judged yet.
    pub fn new((from_ns, to_ns): (u64, u64), tally: &Tally, cpu_ns: &[u64]) -> Self {
        let busiest_ns = cpu_ns.iter().copied().max().unwrap_or(0);
        Self {
            from_ns,
            to_ns,
            mean_ns: tally.service.mean(),
            client_cpu: busiest_ns as f64 / to_ns.saturating_sub(from_ns).max(1) as f64,
            wake_ns: tally.wake.at(99.0),
            response_ns: tally.response.at(99.0),
            is_slow: false,
        }
    }

    /// The same second of a phase that began `from_ns` nanoseconds into the run.
    #[must_use]
    pub fn since(self, from_ns: u64) -> Self {
        Self { from_ns: self.from_ns + from_ns, to_ns: self.to_ns + from_ns, ..self }
    }
}

impl Observation {
    /// The growth of a counter per second.
    ///
    /// # Errors
    /// The reason why the counter was not observed.
    pub fn per_s(&self, counter: impl Fn(&ServerSample) -> Option<u64>) -> Result<f64, NotObserved> {
        let samples = || self.samples.iter().filter(|sample| counter(sample).is_some());
        let (Some(first), Some(last)) = (samples().next(), samples().next_back()) else {
            return Err(NOT_REPORTED);
        };
        let seconds = last.at_ns.saturating_sub(first.at_ns) as f64 / SECOND_NS as f64;
        let grown = growth(&self.samples, &counter).filter(|_| seconds > 0.0).ok_or(TOO_FEW_SAMPLES)?;
        Ok(grown as f64 / seconds)
    }

    /// The mean of a gauge over all samples.
    ///
    /// # Errors
    /// No sample contains the gauge.
    pub fn mean(&self, gauge: impl Fn(&ServerSample) -> Option<f64>) -> Result<f64, NotObserved> {
        let seen: Vec<f64> = self.samples.iter().filter_map(gauge).collect();
        if seen.is_empty() { Err(NOT_REPORTED) } else { Ok(seen.iter().sum::<f64>() / seen.len() as f64) }
    }

    /// The largest value of a gauge in all samples.
    ///
    /// # Errors
    /// No sample contains the gauge.
    pub fn max(&self, gauge: impl Fn(&ServerSample) -> Option<f64>) -> Result<f64, NotObserved> {
        self.samples.iter().filter_map(gauge).reduce(f64::max).ok_or(NOT_REPORTED)
    }

    /// The average number of operations in service: Little's law over the window.
    pub fn in_service(&self) -> f64 {
        let service = &self.probe.service_ns;
        let total_s = service.mean.unwrap_or(0.0) * service.count as f64 / SECOND_NS as f64;
        total_s / self.probe.window_s.max(f64::MIN_POSITIVE)
    }

    /// The share of a microsecond counter, summed over threads, in the total service time.
    ///
    /// # Errors
    /// The reason why the counter was not observed.
    pub fn share_of_service(
        &self,
        microseconds: impl Fn(&ServerSample) -> Option<u64>,
    ) -> Result<f64, NotObserved> {
        let threads = self.per_s(microseconds)? / 1e6;
        Ok(threads / self.in_service().max(f64::MIN_POSITIVE))
    }

    /// Operations acknowledged per second.
    pub fn operations_per_s(&self) -> f64 {
        self.probe.service_ns.count as f64 / self.probe.window_s.max(f64::MIN_POSITIVE)
    }
}

/// Reads the same value at the baseline and at the knee.
///
/// # Errors
/// The value was not observed at one of them, so they cannot be compared.
pub fn both(
    (baseline, knee): (&Observation, &Observation),
    read: impl Fn(&Observation) -> Result<f64, NotObserved>,
) -> Result<(f64, f64), NotObserved> {
    Ok((read(baseline)?, read(knee)?))
}
