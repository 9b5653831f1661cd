//! Checks the client: its CPU, its punctuality and its connections.

use plimsoll_measure::histogram::Latency;
use plimsoll_measure::line::Probe;

use super::reading::{partial, reading, share};
use super::{DEPARTURE, Finding, Level, NotObserved, Observation, RISE, SecondOfService};

/// A worker above this share of its core misses arrivals: the kernel and other threads use the rest.
const CPU_MAX: f64 = 0.85;
/// A p99 wake error above this, in milliseconds, is the tool's fault: under load a good timer is within 50
/// µs.
const WAKE_MS_MAX: f64 = 1.0;
/// A wake error below this share of the response time does not break an objective.
const WAKE_SHARE_MIN: f64 = 0.10;
/// Connections that are in use for more than this share of the time are the limit: an operation rarely finds
/// a free connection.
const BUSY_MAX: f64 = 0.90;
/// From this share of the response time on, the wait for a connection decides whether the objective holds.
const WAIT_SHARE_MIN: f64 = 0.50;
/// Below this use of the connections, waits come from moments in which the server stands still.
const BUSY_MIN: f64 = 0.40;

/// Finds a worker that has no CPU left.
pub(super) fn cpu(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let (before, at) = (baseline.probe.client_cpu, knee.probe.client_cpu);
    let readings = vec![share("busiest worker's share of a core", (before, at))];
    Ok(Finding { departed: at >= CPU_MAX && at > before, readings })
}

/// The seconds in which a worker had no CPU left.
pub(super) fn cpu_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    Ok(levels(side, |second| second.client_cpu >= CPU_MAX))
}

/// The seconds in which the tool was late.
pub(super) fn wake_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    let is_late = |second: &SecondOfService| {
        let (wake, response) = (second.wake_ns as f64, second.response_ns as f64);
        wake > WAKE_MS_MAX * 1e6 && wake >= response * WAKE_SHARE_MIN
    };
    Ok(levels(side, is_late))
}

fn levels(side: &Observation, is_at_limit: impl Fn(&SecondOfService) -> bool) -> Vec<Level> {
    side.seconds.iter().map(|it| Level::new((it.from_ns, it.to_ns), is_at_limit(it))).collect()
}

/// Finds a wake error that is a relevant part of the response time.
pub(super) fn wake(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let wake = both_p99_ms((baseline, knee), |probe| &probe.wake_ns);
    let response = both_p99_ms((baseline, knee), |probe| &probe.response_ns);
    let at = wake.1.ok_or("n too small for a p99 of the wake error")?;
    let grew = at > WAKE_MS_MAX && at > wake.0.unwrap_or(0.0) * DEPARTURE;
    let counts = response.1.is_none_or(|response| at >= response * WAKE_SHARE_MIN);
    let readings = vec![partial("p99 wake error", "ms", wake), partial("p99 response time", "ms", response)];
    Ok(Finding { departed: grew && counts, readings })
}

fn both_p99_ms(
    (baseline, knee): (&Observation, &Observation),
    of: fn(&Probe) -> &Latency,
) -> (Option<f64>, Option<f64>) {
    let p99_ms = |side: &Observation| of(&side.probe).p99.map(|ns| ns as f64 / 1e6);
    (p99_ms(baseline), p99_ms(knee))
}

/// Finds too few connections: operations wait for one although none takes longer than at the baseline. Random arrivals come in
/// bursts, so they wait long before all connections are always in use.
pub(super) fn connections(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let sides = (baseline, knee);
    let mean_ms = |side: &Observation| {
        side.probe.service_ns.mean.map(|ns| ns / 1e6).ok_or("no operation had an answer")
    };
    let service = (mean_ms(baseline)?, mean_ms(knee)?);
    let busy = (baseline.probe.connections_busy, knee.probe.connections_busy);
    let wait = both_p99_ms(sides, |probe| &probe.wait_ns);
    let response = both_p99_ms(sides, |probe| &probe.response_ns);
    let rose = |at: f64| at > 0.0 && wait.0.is_none_or(|before| at >= before * RISE);
    let waits = wait.1.zip(response.1).is_some_and(|(wait, all)| rose(wait) && wait >= all * WAIT_SHARE_MIN);
    let slower = |before: f64, at: f64| at > 0.0 && at >= before * DEPARTURE;
    let p99 = both_p99_ms(sides, |probe| &probe.service_ns);
    let is_slower =
        slower(service.0, service.1) || p99.0.zip(p99.1).is_some_and(|(before, at)| slower(before, at));
    let readings = vec![
        share("connections in use", busy),
        partial("p99 wait for a connection", "ms", wait),
        reading("mean service time", "ms", service),
    ];
    Ok(Finding { departed: (busy.1 >= BUSY_MAX || waits && busy.1 >= BUSY_MIN) && !is_slower, readings })
}
