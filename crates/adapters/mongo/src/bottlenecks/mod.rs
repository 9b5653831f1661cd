//! Finds the resources that limit the rate of a MongoDB server, from its own counters.

mod cache;
mod checkpoint;
mod conflicts;
mod durability;
mod tickets;

use plimsoll_load::bottlenecks::{
    self, CLIENT_CPU, CONNECTIONS, CPU_QUOTA, DISK, Examination, MEMORY, NETWORK, Observation, Rule,
    SERVER_CPU, STOLEN_CPU, WAKE,
};
use plimsoll_measure::host_sample::HostSample;
use plimsoll_measure::line::Probe;
use plimsoll_measure::sample::ServerSample;

/// From this share of the service time on, a wait shows in a percentile.
const WAIT_SHARE_MAX: f64 = 0.10;

/// The order is from the client to the disk: of several saturated resources, an earlier resource relieves the
/// later resources.
pub const RULES: [Rule; 16] = [
    CLIENT_CPU,
    WAKE,
    NETWORK,
    CONNECTIONS,
    SERVER_CPU,
    CPU_QUOTA,
    STOLEN_CPU,
    MEMORY,
    Rule::new("WiredTiger cache", cache::check, cache::levels),
    Rule::new("tickets", tickets::check, tickets::levels),
    Rule::new("write conflicts", conflicts::check, conflicts::levels),
    Rule::new("checkpoint", checkpoint::check, checkpoint::levels),
    Rule::new("journal sync", durability::journal, durability::journal_levels).intermittent(),
    Rule::new("flow control", durability::flow_control, durability::flow_control_levels),
    Rule::new("replication lag", durability::replication_lag, durability::replication_lag_levels),
    DISK,
];

/// Finds saturated resources of a load without a lower rate for comparison.
pub fn at_limit(load: &Observation) -> Examination {
    bottlenecks::at_limit(&RULES, &idle(load), load)
}

/// The same server without a load, but with the same service time and evictions: only another load can show whether these are
/// high.
fn idle(load: &Observation) -> Observation {
    let probe = Probe {
        window_s: load.probe.window_s,
        service_ns: load.probe.service_ns.clone(),
        server_cores: load.probe.server_cores.map(|_| 0.0),
        ..Probe::default()
    };
    let ends = load.samples.first().zip(load.samples.last());
    let samples = ends.map(|(first, last)| {
        let evictions = last.cache_application_evictions;
        let later =
            ServerSample { at_ns: last.at_ns, cache_application_evictions: evictions, ..idle_sample(first) };
        vec![idle_sample(first), later]
    });
    let host = load.host.iter().map(HostSample::idle).collect();
    let client = load.client.iter().map(HostSample::idle).collect();
    Observation { probe, samples: samples.unwrap_or_default(), host, client, seconds: Vec::new() }
}

/// A sample of an idle server: counters keep their value, gauges are zero.
fn idle_sample(sample: &ServerSample) -> ServerSample {
    let none = |gauge: Option<u64>| gauge.map(|_| 0);
    ServerSample {
        cache_bytes: none(sample.cache_bytes),
        cache_dirty_bytes: none(sample.cache_dirty_bytes),
        read_tickets_out: none(sample.read_tickets_out),
        read_tickets_waiting: none(sample.read_tickets_waiting),
        write_tickets_out: none(sample.write_tickets_out),
        write_tickets_waiting: none(sample.write_tickets_waiting),
        checkpoint_running: sample.checkpoint_running.map(|_| false),
        replication_lag_ms: none(sample.replication_lag_ms),
        ..sample.clone()
    }
}

#[cfg(test)]
mod tests;
