//! Sums up a load second by second for the rules.

use plimsoll_measure::host_sample::HostSample;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::line::Probe;
use plimsoll_measure::sample::ServerSample;

use super::{Observation, SecondOfService};
use crate::second::Second;

/// The shortest load that reaches a steady level, in seconds.
pub const WINDOW_S_MIN: f64 = 3.0;

/// The sums of a load that the rules need.
#[derive(Clone, Debug, Default)]
pub struct ObservedLoad {
    whole: Tally,
    seconds: Vec<SecondOfService>,
    cpu_ns: Vec<u64>,
    length_ns: u64,
}

impl ObservedLoad {
    /// Adds a second of a phase that began `from_ns` nanoseconds into the run.
    pub fn add(&mut self, from_ns: u64, second: &Second) {
        let mut tally = Tally::default();
        second.tallies.iter().for_each(|part| tally.merge(part));
        let of_phase = SecondOfService::new((second.from_ns, second.to_ns), &tally, &second.cpu_ns);
        self.seconds.push(of_phase.since(from_ns));
        self.whole.merge(&tally);
        self.cpu_ns.resize(self.cpu_ns.len().max(second.cpu_ns.len()), 0);
        self.cpu_ns.iter_mut().zip(&second.cpu_ns).for_each(|(sum, part)| *sum += part);
        self.length_ns += second.to_ns - second.from_ns;
    }

    /// The length in seconds.
    pub fn length_s(&self) -> f64 {
        self.length_ns as f64 / 1e9
    }

    /// Completed ÷ due; 1 if nothing was due.
    pub fn achieved(&self) -> f64 {
        if self.whole.due == 0 { 1.0 } else { self.whole.completed() as f64 / self.whole.due as f64 }
    }

    /// The measurements, with the samples of the server, of its machine and of the tool of that time, and the cores that the
    /// server used.
    pub fn observation(
        &self,
        samples: &[ServerSample],
        (host, client): (&[HostSample], &[HostSample]),
        server_cores: Option<f64>,
    ) -> Observation {
        let ends = self.seconds.first().zip(self.seconds.last());
        let (from_ns, to_ns) = ends.map_or((0, 0), |(first, last)| (first.from_ns, last.to_ns));
        let inside = |sample: &&ServerSample| (from_ns..=to_ns).contains(&sample.at_ns);
        let within = |all: &[HostSample]| {
            all.iter().filter(|it| it.from_ns >= from_ns && it.to_ns <= to_ns).copied().collect()
        };
        let busiest_ns = self.cpu_ns.iter().copied().max().unwrap_or(0);
        let probe = Probe {
            from_ns,
            window_s: self.length_s(),
            response_ns: self.whole.response.latency(),
            service_ns: self.whole.service.latency(),
            wake_ns: self.whole.wake.latency(),
            client_cpu: busiest_ns as f64 / self.length_ns.max(1) as f64,
            server_cores,
            ..Probe::default()
        };
        Observation {
            probe,
            samples: samples.iter().filter(inside).cloned().collect(),
            host: within(host),
            client: within(client),
            seconds: self.seconds.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::clock::SECOND_NS;

    use super::*;

    #[test]
    fn the_achieved_share_is_completed_over_due_operations() {
        let mut load = ObservedLoad::default();
        assert_eq!(load.achieved(), 1.0);
        for (index, (due, count)) in [(1_000, 1_000), (1_000, 0)].into_iter().enumerate() {
            let (from_ns, to_ns) = (index as u64 * SECOND_NS, (index as u64 + 1) * SECOND_NS);
            let tallies = vec![Tally { due, count, ..Tally::default() }];
            load.add(0, &Second { from_ns, to_ns, tallies, ..Second::default() });
        }
        assert_eq!((load.achieved(), load.length_s()), (0.5, 2.0));
    }
}
