//! What holds the rate back: the first thing that departs from its own baseline at the knee, with the evidence.

use plimsoll_measure::line::{Probe, Suspect};

/// A worker above this share of its core leaves arrivals unnoticed.
const CLIENT_CPU_MAX: f64 = 0.85;
/// A p99 wake error above this is the tool's own fault, in nanoseconds.
const WAKE_NS_MAX: u64 = 1_000_000;
/// A baseline is departed from when a value grows by this factor.
const DEPARTURE: f64 = 3.0;
/// Connections above this share of their time in use are the limit.
const BUSY_MAX: f64 = 0.90;
/// A server within this share of all cores, or of whole cores, has no CPU left.
const SERVER_CPU_MAX: f64 = 0.90;

/// What else ran on the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Cores that the server could use.
    pub cores: u32,
    /// Worker threads of ours.
    pub workers: u32,
}

/// The suspects at the knee, most likely first. `baseline` is a probe well below the knee, `knee` the lowest rate that
/// failed.
pub fn suspects(baseline: &Probe, knee: &Probe, machine: Machine) -> Vec<Suspect> {
    [
        client_cpu(baseline, knee),
        wake(baseline, knee),
        connections(baseline, knee),
        server_cpu(baseline, knee, machine),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn client_cpu(baseline: &Probe, knee: &Probe) -> Option<Suspect> {
    (knee.client_cpu >= CLIENT_CPU_MAX).then(|| Suspect {
        name: "client CPU".into(),
        evidence: format!(
            "the busiest worker used {:.0} % of a core, {:.0} % at {:.0}/s",
            knee.client_cpu * 100.0,
            baseline.client_cpu * 100.0,
            baseline.rate
        ),
    })
}

fn wake(baseline: &Probe, knee: &Probe) -> Option<Suspect> {
    let (before, at) = (baseline.wake_ns.p99.unwrap_or(0), knee.wake_ns.p99?);
    (at > WAKE_NS_MAX && at as f64 > before as f64 * DEPARTURE).then(|| Suspect {
        name: "wake".into(),
        evidence: format!("p99 wake error {:.2} ms, {:.2} ms at {:.0}/s", ms(at), ms(before), baseline.rate),
    })
}

/// Connections are the limit where they are all in use though each operation takes no longer than before.
fn connections(baseline: &Probe, knee: &Probe) -> Option<Suspect> {
    let slower = knee.service_ns.mean? / baseline.service_ns.mean?.max(1.0);
    (knee.connections_busy >= BUSY_MAX && slower < DEPARTURE).then(|| Suspect {
        name: "connections".into(),
        evidence: format!(
            "connections were in use {:.0} % of the time while service time grew only {slower:.1}-fold",
            knee.connections_busy * 100.0
        ),
    })
}

fn server_cpu(baseline: &Probe, knee: &Probe, machine: Machine) -> Option<Suspect> {
    let (before, at) = (baseline.server_cores.unwrap_or(0.0), knee.server_cores?);
    let left = (f64::from(machine.cores) - knee.client_cpu * f64::from(machine.workers)).max(0.5);
    // A server with one busy thread is at its limit at a whole core, however many there are.
    let whole = at.round().max(1.0);
    let at_limit = at >= left * SERVER_CPU_MAX || (at >= whole * SERVER_CPU_MAX && at <= whole * 1.05);
    (at_limit && at > before).then(|| Suspect {
        name: "server CPU".into(),
        evidence: format!(
            "the server used {at:.2} cores, {before:.2} at {:.0}/s; the load itself left {left:.2} of {} cores",
            baseline.rate, machine.cores
        ),
    })
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_measure::histogram::Latency;

    fn probe(
        rate: f64,
        client_cpu: f64,
        wake_ns: u64,
        service_ns: f64,
        busy: f64,
        cores: Option<f64>,
    ) -> Probe {
        let latency =
            |mean, p99| Latency { count: 5000, mean: Some(mean), p99: Some(p99), ..Latency::default() };
        Probe {
            rate,
            client_cpu,
            wake_ns: latency(0.0, wake_ns),
            service_ns: latency(service_ns, 0),
            connections_busy: busy,
            server_cores: cores,
            ..Probe::default()
        }
    }

    fn check(knee: &Probe, names: &[&str]) {
        let baseline = probe(100.0, 0.1, 60_000, 1e6, 0.1, Some(0.3));
        let found = suspects(&baseline, knee, Machine { cores: 2, workers: 1 });
        assert_eq!(found.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), names);
        assert!(found.iter().all(|it| !it.evidence.is_empty()));
    }

    #[test]
    fn a_busy_worker_is_named_first() {
        check(&probe(900.0, 0.97, 9_000_000, 2e6, 0.5, Some(0.6)), &["client CPU", "wake"]);
    }

    #[test]
    fn busy_connections_with_an_unmoved_service_time_are_named() {
        check(&probe(900.0, 0.3, 60_000, 1.2e6, 0.99, Some(0.6)), &["connections"]);
    }

    #[test]
    fn a_slow_server_is_not_blamed_on_the_connections() {
        check(&probe(900.0, 0.3, 60_000, 20e6, 1.0, Some(1.65)), &["server CPU"]);
    }

    #[test]
    fn a_server_of_one_thread_is_at_its_limit_at_one_core() {
        check(&probe(900.0, 0.2, 60_000, 20e6, 1.0, Some(0.98)), &["server CPU"]);
    }

    #[test]
    fn nothing_conspicuous_is_nothing_found() {
        check(&probe(900.0, 0.2, 60_000, 20e6, 0.6, Some(0.5)), &[]);
        check(&probe(900.0, 0.2, 60_000, 20e6, 0.6, None), &[]);
    }
}
