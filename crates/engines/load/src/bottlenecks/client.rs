//! Checks the client: its CPU, its punctuality, its connections and its round trip to the server.

use plimsoll_measure::histogram::Latency;
use plimsoll_measure::host_sample::HostSample;
use plimsoll_measure::line::Probe;

use super::reading::{partial, reading, share};
use super::{
    DEPARTURE, Finding, Level, NotObserved, Observation, RISE, SecondOfService, TOO_FEW_SAMPLES, departs,
};

/// A worker above this share of its core misses arrivals: the kernel and other threads use the rest.
const CPU_MAX: f64 = 0.85;
/// A CPU quota that stops the tool for this share of the time or more limits the client.
const THROTTLED_MAX: f64 = 0.10;
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
/// From this share of an operation on, the round trip to the server decides how long the operation takes.
const TRIP_SHARE_MIN: f64 = 0.50;
/// The shortest round trip, in milliseconds, that larger batches or more connections could hide; on one
/// machine a ping takes less.
const TRIP_MS_MIN: f64 = 0.25;

/// Finds a worker that has no CPU left, or a CPU quota that stops the tool.
pub(super) fn cpu(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let (before, at) = (baseline.probe.client_cpu, knee.probe.client_cpu);
    let mut readings = vec![share("busiest worker's share of a core", (before, at))];
    let stopped = throttled(&baseline.client).zip(throttled(&knee.client));
    readings.extend(stopped.map(|stopped| share("time stopped by a CPU quota", stopped)));
    let is_stopped = stopped.is_some_and(|(before, at)| departs(before, at, THROTTLED_MAX));
    Ok(Finding { departed: at >= CPU_MAX && at > before || is_stopped, readings })
}

/// The seconds in which a worker had no CPU left, or a quota stopped the tool.
pub(super) fn cpu_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    let is_stopped = |second: &SecondOfService| {
        let within = |it: &&HostSample| it.from_ns < second.to_ns && it.to_ns > second.from_ns;
        let samples: Vec<_> = side.client.iter().filter(within).copied().collect();
        throttled(&samples).is_some_and(|share| share >= THROTTLED_MAX)
    };
    Ok(levels(side, |second| second.client_cpu >= CPU_MAX || is_stopped(second)))
}

/// The mean share of the time in which a CPU quota stopped the tool; none if no cgroup counts it.
fn throttled(samples: &[HostSample]) -> Option<f64> {
    let shares: Vec<_> = samples.iter().filter_map(|it| it.throttled).collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
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
    let service = (mean_service_ms(baseline)?, mean_service_ms(knee)?);
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

/// Finds a round trip to the server that takes most of an operation's time, if operations wait for
/// connections because of it. The shortest ping contains little else than the round trip.
pub(super) fn network(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let trip_ms = |side: &Observation| {
        let shortest_ns = side.samples.iter().map(|sample| sample.round_trip_ns).min();
        shortest_ns.map(|ns| ns as f64 / 1e6).ok_or(TOO_FEW_SAMPLES)
    };
    let trip = (trip_ms(baseline)?, trip_ms(knee)?);
    let service = (mean_service_ms(baseline)?, mean_service_ms(knee)?);
    let decides = trip.1 >= TRIP_MS_MIN && trip.1 >= service.1 * TRIP_SHARE_MIN;
    let readings = vec![reading("shortest ping", "ms", trip), reading("mean service time", "ms", service)];
    Ok(Finding { departed: decides && connections(baseline, knee)?.departed, readings })
}

fn mean_service_ms(side: &Observation) -> Result<f64, NotObserved> {
    side.probe.service_ns.mean.map(|ns| ns / 1e6).ok_or("no operation had an answer")
}
