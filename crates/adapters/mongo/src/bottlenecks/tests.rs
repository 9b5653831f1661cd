//! Tests every rule at its limit and below it, and the list of bottlenecks with its resource.

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::host_sample::HostSample;
use plimsoll_measure::line::Probe;
use plimsoll_measure::sample::ServerSample;

use plimsoll_load::bottlenecks::{
    NOT_LOCAL, NOT_REPORTED, ObservedLoad, SecondOfService, TOO_FEW_SAMPLES, WithoutBaseline, examine,
};
use plimsoll_load::second::Second;
use plimsoll_measure::interval::Tally;

use super::*;

/// Length of the windows in seconds.
const WINDOW_S: u64 = 10;

fn probe(rate: f64, client_cpu: f64, wake_ns: u64, service_ns: f64, busy: f64, cores: Option<f64>) -> Probe {
    let count = rate as u64 * WINDOW_S;
    let latency = |mean, p99| Latency { count, mean: Some(mean), p99: Some(p99), ..Latency::default() };
    Probe {
        rate,
        window_s: WINDOW_S as f64,
        client_cpu,
        wake_ns: latency(0.0, wake_ns),
        service_ns: latency(service_ns, 0),
        connections_busy: busy,
        server_cores: cores,
        ..Probe::default()
    }
}

/// A knee where only the service time of 20 ms is unusual.
fn quiet() -> Probe {
    probe(900.0, 0.2, 60_000, 20e6, 0.6, Some(0.5))
}

/// A window with a sample each second; `change` sets the server's counters in second n.
fn side(probe: Probe, change: impl Fn(u64, &mut ServerSample)) -> Observation {
    let look = |second| {
        let mut sample = ServerSample { at_ns: second * SECOND_NS, ..ServerSample::default() };
        change(second, &mut sample);
        sample
    };
    let mean_ns = probe.service_ns.mean.unwrap_or_default();
    let second = |second| SecondOfService {
        from_ns: second * SECOND_NS,
        to_ns: (second + 1) * SECOND_NS,
        mean_ns,
        ..SecondOfService::default()
    };
    let samples: Vec<_> = (0..WINDOW_S).map(look).collect();
    let seconds = (0..WINDOW_S).map(second).collect();
    let host = host(probe.server_cores, probe.client_cpu, &samples);
    Observation { probe, samples, host, client: Vec::new(), seconds }
}

/// Ten samples a second of a machine with two cores and no other programs. A server that uses up to one core has one busy thread.
fn host(cores: Option<f64>, client_cpu: f64, samples: &[ServerSample]) -> Vec<HostSample> {
    let idle = |cores: f64| (2.0 - cores - client_cpu).max(0.0);
    let busy_ms = |it: &ServerSample| it.disk_busy_ms.map(|ms| ms as f64);
    let disk_busy = samples.first().and_then(busy_ms).zip(samples.last().and_then(busy_ms));
    let sample = |tenth: u64, cores: f64| HostSample {
        from_ns: tenth * SECOND_NS / 10,
        to_ns: (tenth + 1) * SECOND_NS / 10,
        cores_used: Some(cores),
        busiest_thread: Some(if cores <= 1.0 { cores } else { 0.8 }),
        threads_waiting: Some(if idle(cores) < 0.2 { 1.5 } else { 0.0 }),
        cores_allowed: Some(2.0),
        cores_idle: Some(idle(cores)),
        disk_busy: disk_busy.map(|(first, last)| (last - first) / 1e3 / (samples.len() - 1) as f64),
        ..HostSample::default()
    };
    cores.iter().flat_map(|cores| (0..WINDOW_S * 10).map(|tenth| sample(tenth, *cores))).collect()
}

fn baseline(change: impl Fn(u64, &mut ServerSample)) -> Observation {
    side(probe(100.0, 0.1, 60_000, 1e6, 0.1, Some(0.3)), change)
}

#[track_caller]
fn check(baseline: &Observation, knee: &Observation, names: &[&str]) -> Examination {
    let examination = examine(&RULES, (baseline, knee), &[], 1);
    let found: Vec<_> = examination.bottlenecks.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(found, names, "{examination:?}");
    let all = [examination.bottlenecks.len(), examination.unmoved.len(), examination.unchecked.len()];
    assert_eq!(all.iter().sum::<usize>(), RULES.len(), "every resource is in exactly one list");
    let seen = examination.bottlenecks.iter().chain(&examination.unmoved);
    assert!(seen.clone().all(|it| !it.evidence.is_empty() && !it.readings.is_empty()));
    examination
}

/// Checks the findings from the client's own figures, against a server that reports nothing.
#[track_caller]
fn check_client(knee: Probe, names: &[&str]) {
    check(&baseline(|_, _| ()), &side(knee, |_, _| ()), names);
}

/// Checks the findings from the server's counters, with a client below its limit.
#[track_caller]
fn check_server(
    before: impl Fn(u64, &mut ServerSample),
    at: impl Fn(u64, &mut ServerSample),
    names: &[&str],
) -> Examination {
    check(&baseline(before), &side(quiet(), at), names)
}

fn evidence_of<'a>(examination: &'a Examination, name: &str) -> &'a str {
    let all = examination.bottlenecks.iter().chain(&examination.unmoved);
    &all.into_iter().find(|it| it.name == name).unwrap().evidence
}

#[test]
fn a_busy_worker_is_listed_first() {
    check_client(probe(900.0, 0.97, 9_000_000, 2e6, 0.5, Some(0.6)), &["client CPU", "wake"]);
}

#[test]
fn a_late_tool_is_listed_only_if_its_delay_is_a_relevant_part_of_the_response_time() {
    let late = |response_ms: u64| {
        let mut knee = probe(900.0, 0.3, 3_000_000, 20e6, 0.5, Some(0.6));
        knee.response_ns = Latency { count: 9000, p99: Some(response_ms * 1_000_000), ..Latency::default() };
        knee
    };
    check_client(late(20), &["wake"]);
    check_client(late(250), &[]);
}

#[test]
fn busy_connections_with_an_unchanged_service_time_are_listed() {
    check_client(probe(900.0, 0.3, 60_000, 1.2e6, 0.99, Some(0.6)), &["connections"]);
}

#[test]
fn connections_that_wait_for_a_long_way_to_the_server_name_the_network_first() {
    let check = |busy: f64, ping_ms: u64, names: &[&str]| {
        let ping = |_: u64, it: &mut ServerSample| it.round_trip_ns = ping_ms * 1_000_000;
        let before = side(probe(100.0, 0.1, 60_000, 21e6, 0.1, Some(0.3)), ping);
        check(&before, &side(probe(900.0, 0.3, 60_000, 22e6, busy, Some(0.6)), ping), names)
    };
    let examination = check(0.99, 20, &["network", "connections"]);
    let evidence = evidence_of(&examination, "network");
    assert!(evidence.starts_with("shortest ping 20.0 ms") && evidence.contains("22.0 ms"), "{evidence}");
    check(0.99, 2, &["connections"]);
    check(0.30, 20, &[]);
}

#[test]
fn a_ping_on_one_machine_is_no_network() {
    let ping = |_: u64, it: &mut ServerSample| it.round_trip_ns = 60_000;
    let before = side(probe(100.0, 0.1, 60_000, 0.09e6, 0.1, Some(0.3)), ping);
    check(&before, &side(probe(900.0, 0.3, 60_000, 0.1e6, 0.99, Some(0.6)), ping), &["connections"]);
}

#[test]
fn a_tool_that_a_quota_stops_names_the_client() {
    let stopped = |share: f64| {
        let sample = |tenth: u64| HostSample {
            from_ns: tenth * SECOND_NS / 10,
            to_ns: (tenth + 1) * SECOND_NS / 10,
            throttled: Some(share),
            ..HostSample::default()
        };
        let client = (0..WINDOW_S * 10).map(sample).collect();
        Observation { client, ..side(quiet(), |_, _| ()) }
    };
    let before = Observation { client: stopped(0.0).client, ..baseline(|_, _| ()) };
    let examination = check(&before, &stopped(0.6), &["client CPU"]);
    let evidence = evidence_of(&examination, "client CPU");
    assert!(evidence.contains("time stopped by a CPU quota 60 % (0 %)"), "{evidence}");
    check(&before, &stopped(0.05), &[]);
}

#[test]
fn operations_that_wait_for_a_connection_long_before_all_are_in_use_are_listed() {
    let waiting = |busy: f64, wait_ms: u64, service_ms: u64| {
        let p99 = |ms: u64| Latency { count: 9000, p99: Some(ms * 1_000_000), ..Latency::default() };
        let knee = probe(900.0, 0.3, 60_000, 1.2e6, busy, Some(0.6));
        let service_ns = Latency { mean: knee.service_ns.mean, ..p99(service_ms) };
        Probe { wait_ns: p99(wait_ms), response_ns: p99(60), service_ns, ..knee }
    };
    let mut before = baseline(|_, _| ());
    before.probe.service_ns.p99 = Some(2_000_000);
    let named = |before: &Observation, knee| {
        let examination = examine(&RULES, (before, &side(knee, |_, _| ())), &[], 1);
        examination.bottlenecks.into_iter().map(|it| it.name).collect::<Vec<_>>()
    };
    let names = |knee| named(&before, knee);
    assert_eq!(names(waiting(0.5, 40, 3)), ["connections"]);
    assert!(names(waiting(0.5, 20, 3)).is_empty());
    assert!(names(waiting(0.5, 40, 30)).is_empty(), "the server was slow");
    assert!(names(waiting(0.2, 40, 3)).is_empty(), "the server stood still now and then");
    let mut as_long = before.clone();
    as_long.probe.wait_ns.p99 = Some(40_000_000);
    assert!(named(&as_long, waiting(0.5, 40, 3)).is_empty(), "it waited as long where the objective held");
}

#[test]
fn the_connections_are_not_blamed_for_a_slow_server() {
    check_client(probe(900.0, 0.3, 60_000, 20e6, 1.0, Some(1.65)), &["server CPU"]);
}

#[test]
fn a_single_threaded_server_is_saturated_at_one_core() {
    check_client(probe(900.0, 0.2, 60_000, 20e6, 1.0, Some(0.98)), &["server CPU"]);
}

#[test]
fn an_unreported_resource_counts_as_unchecked() {
    let examination = check(&baseline(|_, _| ()), &side(quiet(), |_, _| ()), &[]);
    let unchecked: Vec<_> =
        examination.unchecked.iter().map(|it| (it.name.as_str(), it.reason.as_str())).collect();
    let mut expected: Vec<_> = RULES[8..15].iter().map(|rule| (rule.name, NOT_REPORTED)).collect();
    let machine = [
        ("CPU quota", "not reported: no cgroup of the server counts the time that a quota stops it"),
        ("stolen CPU", "not readable: the kernel hides the server's CPUs from this user"),
        ("memory", "not reported: this kernel keeps no pressure stall information"),
    ];
    expected.splice(0..0, machine);
    expected.push(("disk", "not reported: the server's storage lies on no disk that the kernel counts"));
    assert_eq!(unchecked, expected);
    let remote = side(Probe { server_cores: None, ..quiet() }, |_, _| ());
    let examination = check(&remote, &remote, &[]);
    let remote: Vec<_> = examination.unchecked.iter().filter(|it| it.reason == NOT_LOCAL).collect();
    let names: Vec<_> = remote.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["server CPU", "CPU quota", "stolen CPU", "memory", "disk"]);
}

#[test]
fn a_counter_needs_two_samples() {
    let journal =
        |second, it: &mut ServerSample| (it.journal_syncs, it.journal_sync_us) = (Some(second), Some(second));
    let mut knee = side(quiet(), journal);
    knee.samples.truncate(1);
    let examination = check(&baseline(journal), &knee, &[]);
    let reason = examination.unchecked.iter().find(|it| it.name == "journal sync").unwrap();
    assert_eq!(reason.reason, TOO_FEW_SAMPLES);
}

/// Conflicts a second; the operations are 900/s at the knee and 100/s at the baseline.
fn conflicts(per_s: u64) -> impl Fn(u64, &mut ServerSample) + Copy {
    move |second, it| it.write_conflicts = Some(second * per_s)
}

#[test]
fn a_tenth_of_the_operations_in_conflict_is_listed_unless_the_baseline_has_as_many_for_each_operation() {
    let examination = check_server(conflicts(0), conflicts(90), &["write conflicts"]);
    let evidence = evidence_of(&examination, "write conflicts");
    assert!(evidence.starts_with("write conflicts 90/s (0/s at 100/s)"), "{evidence}");
    check_server(conflicts(0), conflicts(89), &[]);
    check_server(conflicts(100), conflicts(900), &[]);
    check_server(conflicts(20), conflicts(900), &["write conflicts"]);
    check_at_limit(0, Some(0.5), conflicts(500), &["write conflicts"]);
    check_at_limit(0, Some(0.5), conflicts(5), &[]);
}

fn dirty(share: f64) -> impl Fn(u64, &mut ServerSample) {
    move |_, it| {
        it.cache_bytes_max = Some(1000);
        it.cache_bytes = Some(500);
        it.cache_dirty_bytes = Some((share * 1000.0) as u64);
    }
}

#[test]
fn a_cache_above_its_dirty_trigger_is_listed_with_both_shares() {
    let examination = check_server(dirty(0.04), dirty(0.24), &["WiredTiger cache"]);
    let evidence = evidence_of(&examination, "WiredTiger cache");
    assert_eq!(evidence, "dirty share of the cache 24 % (4 % at 100/s), used share of the cache 50 % (50 %)");
    check_server(dirty(0.04), dirty(0.19), &[]);
    // The cache is as dirty where the objective holds, so it did not break it.
    check_server(dirty(0.23), dirty(0.24), &[]);
}

#[test]
fn threads_that_evict_instead_of_serving_are_listed() {
    let evicting =
        |per_s| move |second, it: &mut ServerSample| it.cache_application_evictions = Some(second * per_s);
    check_server(evicting(0), evicting(400), &["WiredTiger cache"]);
    // Nine times the rate and nine times the pages: no more pages per operation.
    check_server(evicting(50), evicting(450), &[]);
    check_server(evicting(0), evicting(2), &[]);
}

#[test]
fn threads_that_wait_for_pages_are_listed_by_their_share_of_the_service_time() {
    // 900 operations of 20 ms a second: 18 run at a time, and 3.6 of them wait for pages.
    let waiting = |us_per_s| {
        move |second, it: &mut ServerSample| it.cache_application_read_us = Some(second * us_per_s)
    };
    let examination = check_server(waiting(10), waiting(3_600_000), &["WiredTiger cache"]);
    assert!(evidence_of(&examination, "WiredTiger cache").contains("20 %"), "{examination:?}");
    check_server(waiting(10), waiting(500_000), &[]);
}

#[test]
fn tickets_in_use_and_operations_that_wait_for_them_are_listed() {
    let tickets = |out, waiting| {
        move |_, it: &mut ServerSample| {
            (it.write_tickets_out, it.write_tickets_max) = (Some(out), Some(128));
            it.write_tickets_waiting = Some(waiting);
        }
    };
    check_server(tickets(4, 0), tickets(126, 0), &["tickets"]);
    check_server(tickets(4, 0), tickets(60, 7), &["tickets"]);
    check_server(tickets(4, 0), tickets(60, 0), &[]);
    // Read tickets alone suffice.
    let read = |out| {
        move |_, it: &mut ServerSample| (it.read_tickets_out, it.read_tickets_max) = (Some(out), Some(10))
    };
    check_server(read(1), read(10), &["tickets"]);
}

fn checkpointing(from: u64, to: u64) -> impl Fn(u64, &mut ServerSample) {
    move |second, it| {
        it.checkpoint_running = Some((from..to).contains(&second));
        it.checkpoints = Some(u64::from(second >= to));
        it.checkpoint_last_ms = Some(if second >= to { (to - from) * 1000 } else { 0 });
    }
}

#[test]
fn a_checkpoint_is_named_where_operations_are_slow_while_it_runs() {
    let slow = |from, to| {
        let mut knee = side(quiet(), checkpointing(3, 6));
        knee.seconds[from..to].iter_mut().for_each(|second| second.mean_ns *= 8.0);
        knee
    };
    let examination = check(&baseline(checkpointing(99, 99)), &slow(3, 6), &["checkpoint"]);
    let evidence = evidence_of(&examination, "checkpoint");
    assert!(evidence.starts_with("share of the time under a checkpoint 33 % (0 % at 100/s)"), "{evidence}");
    assert!(evidence.contains("160 ms") && evidence.contains("20.0 ms"), "{evidence}");
    // Operations were slow at another time, or not slow at all: the checkpoint is a coincidence.
    check(&baseline(checkpointing(99, 99)), &slow(7, 9), &[]);
    check(&baseline(checkpointing(99, 99)), &slow(0, 0), &[]);
    check(&baseline(checkpointing(99, 99)), &side(quiet(), checkpointing(99, 99)), &[]);
}

#[test]
fn checkpoints_without_a_pause_are_listed() {
    check(&baseline(checkpointing(3, 4)), &side(quiet(), checkpointing(0, 10)), &["checkpoint"]);
    // A checkpoint during half of a window of a few seconds says nothing about the surrounding minute.
    check(&baseline(checkpointing(3, 4)), &side(quiet(), checkpointing(2, 7)), &[]);
    let one_after_another = |second, it: &mut ServerSample| {
        (it.checkpoints, it.checkpoint_last_ms) = (Some(second / 3), Some(2000));
    };
    check(&baseline(checkpointing(3, 4)), &side(quiet(), one_after_another), &["checkpoint"]);
}

#[test]
fn slow_or_continuous_journal_syncs_are_listed() {
    let syncs = |per_s, us_per_s| {
        move |second, it: &mut ServerSample| {
            (it.journal_syncs, it.journal_sync_us) = (Some(second * per_s), Some(second * us_per_s));
        }
    };
    let examination = check_server(syncs(100, 100_000), syncs(50, 600_000), &["journal sync"]);
    let evidence = evidence_of(&examination, "journal sync");
    assert_eq!(
        evidence,
        "mean journal sync 12.0 ms (1.00 ms at 100/s), share of the time spent syncing 60 % (10 %), journal syncs 50/s (100/s)"
    );
    check_server(syncs(100, 100_000), syncs(900, 950_000), &["journal sync"]);
    check_server(syncs(100, 100_000), syncs(400, 800_000), &[]);
    check_server(syncs(100, 100_000), syncs(0, 0), &[]);
    // One slow sync a second, as in the background.
    check_server(syncs(0, 0), syncs(1, 60_000), &[]);
}

#[test]
fn flow_control_and_a_lagging_majority_are_listed() {
    let flow = |us_per_s, lagged_us_per_s| {
        move |second, it: &mut ServerSample| {
            it.flow_control_us = Some(second * us_per_s);
            it.flow_control_lagged_us = Some(second * lagged_us_per_s);
        }
    };
    check_server(flow(10, 0), flow(3_000_000, 0), &["flow control"]);
    check_server(flow(10, 0), flow(10, 400_000), &["flow control"]);
    check_server(flow(10, 0), flow(90, 0), &[]);
    let lag = |ms| move |_, it: &mut ServerSample| it.replication_lag_ms = Some(ms);
    check_server(lag(0), lag(4000), &["replication lag"]);
    // One second may be only rounding of the server's clock.
    check_server(lag(0), lag(1000), &[]);
}

#[test]
fn a_disk_that_is_never_idle_is_listed() {
    let busy = |ms_per_s| {
        move |second, it: &mut ServerSample| {
            it.disk_busy_ms = Some(second * ms_per_s);
            it.process_written_bytes = Some(second * 1_048_576);
        }
    };
    let examination = check_server(busy(150), busy(980), &["disk"]);
    let evidence = evidence_of(&examination, "disk");
    assert_eq!(
        evidence,
        "time at its limit 100 % (0 % at 100/s), disk busy 98 % (15 %), written by the server 1.00 MiB/s (1.00 MiB/s)"
    );
    check_server(busy(150), busy(700), &[]);
}

#[test]
fn several_bottlenecks_keep_their_order() {
    let all = |second, it: &mut ServerSample| {
        dirty(0.5)(second, it);
        it.disk_busy_ms = Some(second * 990);
        it.replication_lag_ms = Some(9000);
    };
    let none = |second, it: &mut ServerSample| {
        dirty(0.02)(second, it);
        it.disk_busy_ms = Some(second * 20);
        it.replication_lag_ms = Some(0);
    };
    check_server(none, all, &["WiredTiger cache", "replication lag", "disk"]);
}

/// Ten seconds of a load of 100 operations a second, of 20 ms each.
fn steady_load(cpu_ns: u64) -> ObservedLoad {
    let mut load = ObservedLoad::default();
    for second in 0..10 {
        let mut tally = Tally { due: 100, count: 100, ..Tally::default() };
        tally.service.record_many(20_000_000, 100);
        let (from_ns, to_ns) = (second * SECOND_NS, (second + 1) * SECOND_NS);
        let tallies = vec![tally];
        load.add(0, &Second { from_ns, to_ns, tallies, cpu_ns: vec![cpu_ns], ..Second::default() });
    }
    load
}

fn samples(change: impl Fn(u64, &mut ServerSample)) -> Vec<ServerSample> {
    let sample = |second| {
        let mut sample = ServerSample { at_ns: second * SECOND_NS, ..ServerSample::default() };
        change(second, &mut sample);
        sample
    };
    (0..10).map(sample).collect()
}

#[track_caller]
fn check_at_limit(
    cpu_ns: u64,
    cores: Option<f64>,
    change: impl Fn(u64, &mut ServerSample),
    names: &[&str],
) -> Examination {
    let samples = samples(change);
    let host = host(cores, cpu_ns as f64 / SECOND_NS as f64, &samples);
    let examination = at_limit(&steady_load(cpu_ns).observation(&samples, (&host, &[]), cores));
    let found: Vec<_> = examination.bottlenecks.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(found, names, "{examination:?}");
    let all = [examination.bottlenecks.len(), examination.unmoved.len(), examination.unchecked.len()];
    assert_eq!(
        all.iter().sum::<usize>(),
        RULES.iter().filter(|rule| rule.without_baseline == WithoutBaseline::Compared).count()
    );
    examination
}

#[test]
fn a_load_without_a_baseline_lists_saturated_resources() {
    let examination = check_at_limit(SECOND_NS / 10, Some(1.95), |_, _| (), &["server CPU"]);
    let evidence = &examination.bottlenecks[0].evidence;
    assert!(
        evidence.starts_with(
            "time without CPU left 100 %, used by the server 1.95 cores, available to it 1.95 cores"
        ),
        "{evidence}"
    );
    check_at_limit(SECOND_NS / 100 * 97, Some(0.5), |_, _| (), &["client CPU"]);
    check_at_limit(SECOND_NS / 10, Some(0.5), |_, _| (), &[]);
}

#[test]
fn the_servers_counters_are_compared_with_their_limits() {
    let disk = |ms_per_s| move |second: u64, it: &mut ServerSample| it.disk_busy_ms = Some(second * ms_per_s);
    check_at_limit(0, Some(0.5), disk(980), &["disk"]);
    check_at_limit(0, Some(0.5), disk(300), &[]);
    let dirty = |bytes| {
        move |_: u64, it: &mut ServerSample| {
            (it.cache_bytes_max, it.cache_bytes, it.cache_dirty_bytes) = (Some(1000), Some(500), Some(bytes));
        }
    };
    check_at_limit(0, Some(0.5), dirty(250), &["WiredTiger cache"]);
    check_at_limit(0, Some(0.5), dirty(100), &[]);
    let syncs = |us: u64| {
        move |second: u64, it: &mut ServerSample| {
            (it.journal_syncs, it.journal_sync_us) = (Some(second * 100), Some(second * us));
        }
    };
    check_at_limit(0, Some(0.5), syncs(950_000), &["journal sync"]);
    check_at_limit(0, Some(0.5), syncs(100_000), &[]);
}

#[test]
fn a_rule_that_needs_a_comparison_is_skipped_without_a_baseline() {
    // A thousand pages a second may be many or few.
    let evicting = |second: u64, it: &mut ServerSample| {
        it.cache_application_evictions = Some(second * 1000);
    };
    check_at_limit(0, Some(0.5), evicting, &[]);
    let examination = check_at_limit(0, None, |_, _| (), &[]);
    assert!(examination.unchecked.iter().any(|it| it.name == "server CPU"), "{examination:?}");
    assert!(!examination.unmoved.iter().any(|it| it.name == "connections"));
}

/// A knee of ten seconds, of which the second half is slow.
fn half_slow(change: impl Fn(u64, &mut ServerSample)) -> Observation {
    let mut knee = side(quiet(), change);
    knee.seconds[5..].iter_mut().for_each(|second| second.is_slow = true);
    knee
}

/// Examines a knee whose resource is as high at the baseline, with twelve trials like the knee.
fn examined_in_time(change: impl Fn(u64, &mut ServerSample) + Copy) -> Examination {
    let knee = half_slow(change);
    examine(&RULES, (&baseline(change), &knee), &[&knee; 12], 1)
}

#[test]
fn every_server_resource_that_is_at_its_limit_in_slow_seconds_only_is_named() {
    let slow = |second: u64| second > 5;
    type Change = fn(second: u64, is_slow: bool, &mut ServerSample);
    let cases: [(&str, Change); 6] = [
        ("WiredTiger cache", |_, slow, it| dirty(if slow { 0.3 } else { 0.05 })(0, it)),
        ("tickets", |_, slow, it| it.write_tickets_waiting = Some(if slow { 9 } else { 0 })),
        ("write conflicts", |second, slow, it| {
            it.write_conflicts = Some(if slow { 800 * (second - 5) } else { 0 } + 9 * second);
        }),
        ("journal sync", |second, slow, it| {
            let syncing_ms = if slow { 990 * (second - 5) + 500 } else { 100 * second };
            (it.journal_syncs, it.journal_sync_us) = (Some(second * 500), Some(syncing_ms * 1000));
        }),
        ("flow control", |second, slow, it| {
            let waited_s = if slow { 9 * (second - 5) + 5 } else { second / 10 };
            it.flow_control_us = Some(waited_s * 1_000_000);
        }),
        ("replication lag", |_, slow, it| it.replication_lag_ms = Some(if slow { 4000 } else { 0 })),
    ];
    for (name, change) in cases {
        let examination = examined_in_time(|second, it| change(second, slow(second), it));
        let timing = |it: &plimsoll_measure::line::Candidate| it.timing.clone();
        let found = examination.bottlenecks.iter().find(|it| it.name == name);
        let timing = found.and_then(timing).unwrap_or_else(|| panic!("{name}: {examination:?}"));
        assert!(timing.slow > 0.7 && timing.calm < 0.1 && timing.p < Some(0.01), "{name}: {timing:?}");
    }
}

#[test]
fn the_resource_that_explains_most_of_the_slow_time_comes_first() {
    let both = |second: u64, it: &mut ServerSample| {
        dirty(if second > 7 { 0.3 } else { 0.05 })(second, it);
        it.replication_lag_ms = Some(if second > 5 { 4000 } else { 0 });
    };
    let examination = examined_in_time(both);
    let names: Vec<_> = examination.bottlenecks.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["replication lag", "WiredTiger cache"], "{examination:?}");
}

#[test]
fn a_resource_that_departs_but_is_at_its_limit_as_often_in_calm_seconds_is_not_named() {
    let disk = |share: f64| {
        move |second: u64, it: &mut ServerSample| {
            dirty(if second.is_multiple_of(2) { share } else { 0.05 })(second, it);
        }
    };
    let knee = half_slow(disk(0.3));
    let before = baseline(disk(0.05));
    let named = |trials: &[&Observation]| {
        let examination = examine(&RULES, (&before, &knee), trials, 1);
        examination.bottlenecks.iter().any(|it| it.name == "WiredTiger cache")
    };
    assert!(named(&[]), "without trials only the departure counts");
    // Each trial has five slow seconds. Three of them are dirty in one half of the trials, and two in the other half.
    let mut other = half_slow(disk(0.3));
    other.seconds.iter_mut().for_each(|second| second.is_slow ^= true);
    assert!(!named(&[&knee, &other, &knee, &other, &knee, &other]));
}
