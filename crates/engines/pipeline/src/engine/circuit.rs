//! Stops workers from retrying all at once while the sink is unavailable.

use plimsoll_measure::clock::Instant;

use super::retry::Retry;

/// Whether a batch may be submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Submit it.
    Go,
    /// Wait until this time.
    Wait(Instant),
}

/// The consecutive failures of a pipeline, shared by its workers.
///
/// After each failure all workers pause, longer with each consecutive failure. Once the circuit is open, one
/// batch, the probe, is tried after each pause while the others wait for its result.
#[derive(Clone, Copy, Debug)]
pub struct Circuit {
    retry: Retry,
    failures: u32,
    paused_until: Instant,
    /// The time at which the probe in flight counts as lost.
    probe_until: Option<Instant>,
}

/// The time after which a probe without result is forgotten, in nanoseconds. Every sink waits for less time
/// than this.
const PROBE_NS_MAX: u64 = 60_000_000_000;

impl Circuit {
    /// A closed circuit.
    pub const fn new(retry: Retry) -> Self {
        Self { retry, failures: 0, paused_until: Instant::from_ns(0), probe_until: None }
    }

    /// Whether a batch may be submitted at `now`.
    pub fn permit(&mut self, now: Instant) -> Permit {
        if now < self.paused_until {
            return Permit::Wait(self.paused_until);
        }
        if !self.is_open() {
            return Permit::Go;
        }
        match self.probe_until {
            Some(until) if now < until => Permit::Wait(until.min(now + self.retry.pause_ns_min)),
            _ => {
                self.probe_until = Some(now + PROBE_NS_MAX);
                Permit::Go
            }
        }
    }

    /// Notes a success.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.probe_until = None;
        self.paused_until = Instant::from_ns(0);
    }

    /// Notes that a batch came back untried. If it was the probe, another batch may be tried.
    pub fn give_back(&mut self) {
        self.probe_until = None;
    }

    /// Notes a failure at `now`. Returns whether it opened the circuit.
    pub fn failed(&mut self, now: Instant, jitter: f64) -> bool {
        let was_open = self.is_open();
        // Batches in flight together fail together: they count once per pause.
        if now >= self.paused_until {
            self.failures = self.failures.saturating_add(1);
            self.paused_until = now + self.retry.pause_ns(self.failures, jitter);
        }
        self.probe_until = None;
        !was_open && self.is_open()
    }

    /// Whether the circuit is open.
    pub const fn is_open(&self) -> bool {
        self.failures >= self.retry.opens_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuit() -> Circuit {
        let retry = Retry { pause_ns_min: 100, pause_ns_max: 1000, opens_after: 2, ..Retry::default() };
        Circuit::new(retry)
    }

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn all_workers_pause_after_a_failure() {
        let mut circuit = circuit();
        assert_eq!(circuit.permit(at(1)), Permit::Go);
        assert!(!circuit.failed(at(10), 1.0));
        assert_eq!(circuit.permit(at(50)), Permit::Wait(at(110)));
        assert_eq!(circuit.permit(at(110)), Permit::Go);
        assert_eq!(circuit.permit(at(110)), Permit::Go, "closed: no batch waits for another");
    }

    #[test]
    fn simultaneous_failures_count_once() {
        let mut circuit = circuit();
        assert!(!circuit.failed(at(10), 1.0));
        assert!(!circuit.failed(at(20), 1.0));
        assert!(!circuit.is_open());
    }

    #[test]
    fn an_open_circuit_permits_one_probe_and_closes_on_success() {
        let mut circuit = circuit();
        circuit.failed(at(10), 1.0);
        assert!(circuit.failed(at(110), 1.0), "the second in a row opens it");
        assert_eq!(circuit.permit(at(310)), Permit::Go);
        assert_eq!(circuit.permit(at(310)), Permit::Wait(at(410)));
        circuit.succeeded();
        assert_eq!(circuit.permit(at(310)), Permit::Go);
        assert_eq!(circuit.permit(at(310)), Permit::Go);
    }

    #[test]
    fn a_returned_probe_permits_another_at_once() {
        let mut circuit = circuit();
        circuit.failed(at(10), 1.0);
        circuit.failed(at(110), 1.0);
        assert_eq!(circuit.permit(at(310)), Permit::Go);
        circuit.give_back();
        assert_eq!(circuit.permit(at(311)), Permit::Go);
        assert_eq!(circuit.permit(at(312)), Permit::Wait(at(412)), "the circuit is still open");
    }
}
