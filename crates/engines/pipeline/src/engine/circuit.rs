//! Keeps workers from knocking at a sink that is away.

use plimsoll_measure::clock::Instant;

use super::retry::Retry;

/// Whether a batch may be submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It may.
    Go,
    /// Not before this moment.
    Wait(Instant),
}

/// The memory of a pipeline's failures in a row, shared by its workers.
///
/// After each failure everybody pauses, longer with each in a row. When it counts as open, one batch tries after the
/// pause, and the others wait for what becomes of it.
#[derive(Clone, Copy, Debug)]
pub struct Circuit {
    retry: Retry,
    failures: u32,
    paused_until: Instant,
    /// The probe that is under way may be given up at this moment.
    probe_until: Option<Instant>,
}

/// A probe that did not come back by then is forgotten, in nanoseconds: its sink bounds its waiting by less.
const PROBE_NS_MAX: u64 = 60_000_000_000;

impl Circuit {
    /// A closed circuit.
    pub const fn new(retry: Retry) -> Self {
        Self { retry, failures: 0, paused_until: Instant::from_ns(0), probe_until: None }
    }

    /// Asks for leave to submit a batch at `now`.
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

    /// A batch was written.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.probe_until = None;
        self.paused_until = Instant::from_ns(0);
    }

    /// A batch came back, and nobody asked the sink: if it was the one that tries, another one may.
    pub fn give_back(&mut self) {
        self.probe_until = None;
    }

    /// A batch failed at `now`; says whether this opened the circuit.
    pub fn failed(&mut self, now: Instant, chance: f64) -> bool {
        let was_open = self.is_open();
        // What was under way together fails together: it counts once a pause.
        if now >= self.paused_until {
            self.failures = self.failures.saturating_add(1);
            self.paused_until = now + self.retry.pause_ns(self.failures, chance);
        }
        self.probe_until = None;
        !was_open && self.is_open()
    }

    /// Whether it counts as open.
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
    fn after_a_failure_everybody_pauses() {
        let mut circuit = circuit();
        assert_eq!(circuit.permit(at(1)), Permit::Go);
        assert!(!circuit.failed(at(10), 1.0));
        assert_eq!(circuit.permit(at(50)), Permit::Wait(at(110)));
        assert_eq!(circuit.permit(at(110)), Permit::Go);
        assert_eq!(circuit.permit(at(110)), Permit::Go, "closed: nobody waits for another");
    }

    #[test]
    fn what_fails_together_counts_once() {
        let mut circuit = circuit();
        assert!(!circuit.failed(at(10), 1.0));
        assert!(!circuit.failed(at(20), 1.0));
        assert!(!circuit.is_open());
    }

    #[test]
    fn an_open_circuit_lets_one_try_and_closes_with_its_success() {
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
    fn a_try_that_is_given_back_is_another_ones_at_once() {
        let mut circuit = circuit();
        circuit.failed(at(10), 1.0);
        circuit.failed(at(110), 1.0);
        assert_eq!(circuit.permit(at(310)), Permit::Go);
        circuit.give_back();
        assert_eq!(circuit.permit(at(311)), Permit::Go);
        assert_eq!(circuit.permit(at(312)), Permit::Wait(at(412)), "it is open all the same");
    }
}
