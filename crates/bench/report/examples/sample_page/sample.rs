//! Makes SAMPLE DATA: invented runs whose numbers agree with each other. Nothing in this file was measured.

use std::collections::BTreeMap;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::environment::{Environment, ServerFacts, ServerKind};
use plimsoll_measure::event::Interval;
use plimsoll_measure::histogram::{Histogram, Latency};
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::interval::{IntervalLine, Spread};
use plimsoll_measure::ladder::{Ladder, Rung};
use plimsoll_measure::ladder::{Peak, Point, Scalability};
use plimsoll_measure::line::{Candidate, Line, Probe, Reading, Stage, Unchecked};
use plimsoll_measure::run::{
    Client, Expectation, FaultFacts, Operation, PhaseFacts, Run, ScenarioFacts, SecondsSpread, ServerCost,
    Verdict, WarmUp,
};
use plimsoll_measure::sample::ServerSample;
use plimsoll_report::page::{Distribution, Page};

/// Owns the content of a page.
pub struct Sample {
    pub run: Run,
    pub intervals: Vec<Interval>,
    pub server: Vec<ServerSample>,
    pub distributions: BTreeMap<String, Distribution>,
}

impl Sample {
    /// Borrows the content in the form that the page takes.
    pub fn page(&self) -> Page<'_> {
        let Self { run, intervals, server, distributions } = self;
        Page { run, intervals, server, distributions }
    }
}

/// A repeatable number between 0 and 1 for `index`.
fn noise(index: u64) -> f64 {
    let mixed = (index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

/// A latency in nanoseconds around `median_ns` with a long tail.
fn latency(median_ns: f64, index: u64) -> u64 {
    let tail = 1.0 / (1.0 - noise(index)).max(1e-4);
    (median_ns * (0.6 + 0.25 * tail.powf(0.62) + 0.3 * noise(index + 77))) as u64
}

/// A run of `seconds` seconds of open load with `names` as operations, a stall every minute and one lost second.
pub fn load(seconds: u64, names: &[&str]) -> Sample {
    let mut distributions: BTreeMap<String, Distribution> = BTreeMap::new();
    let intervals: Vec<_> = (0..seconds)
        .filter(|second| *second != 41)
        .map(|second| interval(second, names, &mut distributions))
        .collect();
    let server = (0..seconds).map(|second| look(second, 14_000.0)).collect();
    let mut run = facts("run", "batches of inserts and reads at 12,000 documents/s");
    run.duration_s = seconds as f64;
    run.phases = vec![phase(seconds as f64)];
    run.operations = names
        .iter()
        .map(|name| ((*name).to_owned(), operation(name, &intervals, &distributions[*name])))
        .collect();
    run.expectations = expectations(&run);
    run.integrity = Some(integrity(run.operations.values().map(|operation| operation.documents).sum()));
    finish(run, intervals, server, distributions)
}

fn finish(
    mut run: Run,
    intervals: Vec<Interval>,
    server: Vec<ServerSample>,
    distributions: BTreeMap<String, Distribution>,
) -> Sample {
    run.conclusions = plimsoll_report::conclusions(&run);
    Sample { run, intervals, server, distributions }
}

fn interval(second: u64, names: &[&str], distributions: &mut BTreeMap<String, Distribution>) -> Interval {
    let (from_ns, worker_cpu) = (second * SECOND_NS, vec![0.42, 0.4]);
    let mut interval = Interval { from_ns, length_ns: SECOND_NS, worker_cpu, ..Interval::default() };
    for (index, name) in (0..).zip(names) {
        let whole = distributions.entry((*name).to_owned()).or_default();
        interval.operations.insert((*name).to_owned(), operations(second, index, whole));
    }
    interval
}

/// One second of the operation number `index`, counted into `whole` as well.
fn operations(second: u64, index: u64, whole: &mut Distribution) -> IntervalLine {
    let stalled = second % 60 == 58;
    let count = (120.0 * (0.97 + 0.06 * noise(second + index))) as u64 / if stalled { 4 } else { 1 };
    let (mut response, mut service) = (Vec::new(), Vec::new());
    for number in 0..count {
        let took = latency(900_000.0 * (1.0 + index as f64), second * 1000 + number * 7 + index);
        let took = took + if stalled { 25_000_000 } else { 0 };
        service.push(took);
        response.push(took + if stalled { (number + 1) * 3_000_000 } else { 40_000 });
    }
    response.iter().for_each(|ns| whole.response.record(*ns));
    service.iter().for_each(|ns| whole.service.record(*ns));
    let documents = count * (100 / (1 + 3 * index));
    let (response, service) = (spread(response), spread(service));
    IntervalLine { due: count, count, documents, response, service, ..IntervalLine::default() }
}

fn spread(mut values: Vec<u64>) -> Spread {
    values.sort_unstable();
    let at = |percentile: usize| values.get((values.len() * percentile).div_ceil(100) - 1).copied();
    Spread { p50: at(50), p99: at(99), max: at(100) }
}

/// A sample of the server. Every minute a checkpoint takes some seconds, and the journal is slow meanwhile.
/// Between checkpoints the dirty share of the cache grows.
fn look(second: u64, documents_per_s: f64) -> ServerSample {
    let grown = second.min(240) * 3_000_000;
    let at = |per_s: f64| (second as f64 * per_s) as u64;
    let (checkpoints, into) = ((second + 10) / 60, (second + 10) % 60);
    // The length of the latest checkpoint, which may still run.
    let length_s = 3 + checkpoints % 3;
    let is_running = checkpoints > 0 && into < length_s;
    let finished = checkpoints.saturating_sub(u64::from(is_running));
    // Seconds under a checkpoint so far.
    let under = (1..=checkpoints).map(|number| 3 + number % 3).sum::<u64>()
        - if is_running { length_s - into } else { 0 };
    let dirty_s = if is_running { 50 + (length_s - into) * 2 } else { into };
    ServerSample {
        at_ns: second * SECOND_NS + 3_000_000,
        round_trip_ns: 400_000,
        connections: Some(9),
        inserts: Some(at(documents_per_s)),
        queries: Some(at(118.0)),
        updates: Some(0),
        deletes: Some(0),
        commands: Some(at(3.0)),
        network_in_bytes: Some(at(4_400_000.0) + (9e5 * noise(second)) as u64),
        network_out_bytes: Some(at(610_000.0)),
        cache_bytes: Some(180_000_000 + grown),
        cache_bytes_max: Some(1_073_741_824),
        cache_dirty_bytes: Some(20_000_000 + dirty_s * 4_300_000),
        cache_application_evictions: Some(under * 140),
        cache_application_wait_us: Some(under * 61_000),
        cache_application_read_us: Some(at(900.0)),
        cache_application_write_us: Some(under * 24_000),
        cache_read_bytes: Some(at(70_000.0)),
        cache_written_bytes: Some(at(800_000.0) + under * 41_000_000),
        write_tickets_out: Some(2 + (5.0 * noise(second + 5)) as u64 + if is_running { 9 } else { 0 }),
        write_tickets_max: Some(24),
        write_tickets_waiting: Some(if is_running { 2 } else { 0 }),
        read_tickets_out: Some((3.0 * noise(second + 9)) as u64),
        read_tickets_max: Some(24),
        read_tickets_waiting: Some(0),
        checkpoints: Some(finished),
        checkpoint_last_ms: Some(if finished > 0 { (3 + finished % 3) * 1000 - 140 } else { 0 }),
        checkpoint_running: Some(is_running),
        journal_syncs: Some(at(117.0) - under * 40),
        journal_sync_us: Some(at(260_000.0) + under * 310_000),
        journal_bytes: Some(at(3_600_000.0)),
        disk_written_bytes: Some(at(4_100_000.0) + under * 38_000_000),
        flow_control_us: Some(0),
        flow_control_lagged_us: Some(0),
        cpu_ns: Some((second as f64 * 1.31e9 + 3e8 * noise(second) + under as f64 * 4e8) as u64),
        rss_bytes: Some(420_000_000 + grown),
        process_read_bytes: Some(at(70_000.0)),
        process_written_bytes: Some(at(8_000_000.0) + under * 38_000_000),
        disk_busy_ms: Some(at(180.0) + under * 640),
        ..ServerSample::default()
    }
}

fn facts(command: &str, title: &str) -> Run {
    Run {
        format: 1,
        id: "5a3ed00dc0ffee".into(),
        command: command.into(),
        started: "2026-03-22T16:36:59Z".into(),
        started_ms: 1_774_197_419_960,
        verdict: Verdict::Pass,
        scenario: ScenarioFacts {
            name: "sample-data".into(),
            title: format!("SAMPLE DATA, nothing measured: {title}"),
            hash: "9f2b6c1d".repeat(8),
            seed: 42,
            shard: "0/1".into(),
            client: "lean".into(),
            collections: vec!["plimsoll.vip".into()],
        },
        server: server(),
        environment: machine(),
        client: client(),
        server_cost: ServerCost {
            cpu_us_per_operation: Some(8190.0),
            cpu_us_per_document: Some(81.9),
            cores: Some(1.31),
            rss_bytes_max: Some(1_140_000_000),
            written_bytes_per_document: Some(412.0),
            journal_bytes_per_document: Some(301.0),
        },
        ..Run::default()
    }
}

fn server() -> ServerFacts {
    ServerFacts {
        kind: ServerKind::Mongod,
        addresses: vec!["127.0.0.1:27017".into()],
        open: true,
        profile: Some("journaled".into()),
        version: Some("8.0.0".into()),
        product: None,
        storage_engine: Some("wiredTiger".into()),
        topology: Some("replica set sample".into()),
        default_write_concern: Some(r#"{"w":"majority","wtimeout":0}"#.into()),
        parameters: BTreeMap::from([("wiredTigerCacheSizeGB".into(), "1".into())]),
    }
}

fn machine() -> Environment {
    Environment {
        cpu: Some("Sample CPU with 4 cores".into()),
        cores: 4,
        memory_bytes: Some(16 << 30),
        kernel: Some("6.1.0".into()),
        os: Some("Debian 12".into()),
        disk: Some("nvme0n1, ext4".into()),
        plimsoll: "0.1.0".into(),
        optimised: true,
        governor: None,
    }
}

fn client() -> Client {
    Client {
        workers: 2,
        connections: 8,
        cpu_us_per_operation: Some(112.0),
        cpu_us_per_document: Some(1.12),
        cpu_busiest_worker: 0.42,
        rss_bytes_max: 38_000_000,
        null_server_per_s: Some(212_000.0),
        headroom: Some(12.6),
        floor_ns: Some(Latency {
            count: 9_000,
            p50: Some(182_000),
            p99: Some(1_310_000),
            ..Latency::default()
        }),
        floor_bound_ns: Some(50_000_000),
        limited: false,
        spin: true,
        reconnects: 0,
        calibration_ping_ns: vec![61_000, 64_000],
        calibration_null_per_s: vec![9_100.0, 8_950.0],
        server_clock: None,
        switches_per_operation: Some(1.07),
        wire_bytes_per_document: Some(655.0),
    }
}

fn phase(to_s: f64) -> PhaseFacts {
    PhaseFacts {
        name: "load".into(),
        arrivals: BTreeMap::from([("insert".into(), "constant 120/s".into())]),
        open: true,
        from_s: 0.0,
        to_s,
        ended_by: "duration".into(),
        warm_up: WarmUp::Steady { from_s: 1.4 },
        checkpoints: Some(to_s as u64 / 60),
        ..PhaseFacts::default()
    }
}

fn operation(name: &str, intervals: &[Interval], distribution: &Distribution) -> Operation {
    let lines = intervals.iter().filter_map(|interval| interval.operations.get(name));
    let mut seconds: Vec<u64> = lines.map(|line| line.documents).collect();
    seconds.sort_unstable();
    let documents: u64 = seconds.iter().sum();
    let at = |share: f64| seconds[((seconds.len() - 1) as f64 * share) as usize] as f64;
    let count = distribution.response.count();
    let [per_s, documents_per_s] = [count, documents].map(|amount| amount as f64 / seconds.len() as f64);
    let spread = SecondsSpread {
        seconds: seconds.len() as u64,
        min: at(0.0),
        p1: at(0.01),
        p50: at(0.5),
        max: at(1.0),
    };
    let mut wake = Histogram::default();
    (0..2000).for_each(|index| wake.record(latency(9_000.0, index)));
    Operation {
        count,
        documents,
        due: count,
        rate_per_s: per_s,
        documents_per_s,
        steady_documents_per_s: Some(documents_per_s * 1.01),
        documents_in_a_second: Some(spread),
        achieved: Some(0.9993),
        response_ns: distribution.response.latency(),
        service_ns: distribution.service.latency(),
        wake_ns: wake.latency(),
        wait_ns: wake.latency(),
        bytes_sent: documents * 310,
        bytes_received: documents * 64,
        ..Operation::default()
    }
}

fn expectations(run: &Run) -> Vec<Expectation> {
    let p99 = run.operations.get("insert").and_then(|operation| operation.response_ns.p99);
    let expectation = |metric: &str, expression: &str, value, held| Expectation {
        metric: metric.into(),
        expression: expression.into(),
        value,
        held,
        ..Expectation::default()
    };
    vec![
        expectation("insert.response", "p(99)<500ms", p99.map(|ns| ns as f64), true),
        expectation("integrity.lost", "count==0", Some(0.0), true),
    ]
}

fn integrity(documents: u64) -> Integrity {
    Integrity {
        write_concern: r#"{"w":"majority","j":true}"#.into(),
        acknowledged: documents,
        found: documents,
        audit_s: 4.2,
        ..Integrity::default()
    }
}

/// A run of two phases with closed arrivals and many problems.
pub fn broken() -> Sample {
    let mut sample = load(45, &["insert"]);
    let run = &mut sample.run;
    run.scenario.title = "SAMPLE DATA, nothing measured: a run with many problems".into();
    (run.verdict, run.interrupted) = (Verdict::Fail, true);
    run.reasons = vec!["insert.response p(99)<2ms did not hold".into(), "3 documents are lost".into()];
    (run.client.headroom, run.client.limited) = (Some(1.3), true);
    let closed = |name: &str, from_s, to_s| PhaseFacts {
        name: name.into(),
        open: false,
        from_s,
        to_s,
        arrivals: BTreeMap::from([("insert".into(), "closed, 8 writers".into())]),
        warm_up: WarmUp::NotSteady { reason: "throughput fell to the end".into() },
        checkpoints: Some(0),
        ended_by: "interrupted".into(),
        ..PhaseFacts::default()
    };
    run.phases = vec![closed("fill", 0.0, 20.0), closed("churn", 20.0, 45.0)];
    let kill = FaultFacts {
        name: "kill".into(),
        phase: "churn".into(),
        from_s: 27.0,
        to_s: Some(31.5),
        ..FaultFacts::default()
    };
    run.faults = vec![kill];
    for operation in run.operations.values_mut() {
        operation.errors = BTreeMap::from([("timeout".into(), 12), ("duplicate_key".into(), 3)]);
    }
    for expectation in &mut run.expectations {
        expectation.held = false;
        match expectation.metric.as_str() {
            "integrity.lost" => expectation.value = Some(3.0),
            _ => expectation.expression = "p(99)<2ms".into(),
        }
    }
    if let Some(integrity) = &mut run.integrity {
        (integrity.lost, integrity.unknown_present, integrity.unknown_absent) = (3, 700, 500);
        integrity.found -= 3;
    }
    run.conclusions = plimsoll_report::conclusions(run);
    sample
}

/// A search for the load line.
pub fn search() -> Sample {
    let trials = trials();
    let seconds: f64 = trials.iter().map(|(_, _, window_s)| window_s + UNJUDGED_S).sum();
    let mut sample = load(seconds as u64, &["insert"]);
    let run = &mut sample.run;
    run.line = Some(Line {
        confidence: Some(0.9),
        arrivals: Some("poisson".into()),
        rate: Some(18_640.0),
        low: Some(17_950.0),
        high: Some(19_210.0),
        load: "insert".into(),
        unit: "documents/s".into(),
        documents_per_operation: 1.0,
        objective: vec!["response p(99)<50ms".into(), "errors count==0".into()],
        bottlenecks: bottlenecks(),
        unmoved: unmoved(),
        unchecked: vec![Unchecked { name: "replication lag".into(), reason: "not reported".into() }],
        probes: probes(&trials),
        notes: vec!["two full checkpoints fell into the search".into()],
        ..Line::default()
    });
    run.command = "line".into();
    run.scenario.title = "SAMPLE DATA, nothing measured: the load line of single inserts".into();
    run.expectations.clear();
    run.conclusions = plimsoll_report::conclusions(run);
    sample
}

/// The load line of the sample, in documents per second.
const LINE: f64 = 18_600.0;
/// The time between the judged windows of two trials, in seconds.
const UNJUDGED_S: f64 = 1.6;

/// The stage, the rate and the judged seconds of every trial: a climb, two bisections, and trials around the estimate.
fn trials() -> Vec<(Stage, f64, f64)> {
    let mut trials = vec![(Stage::WarmUp, 8_000.0, 8.0)];
    let climb = [6_000.0, 8_400.0, 11_760.0, 16_464.0, 23_050.0, 23_050.0];
    trials.extend(climb.map(|rate| (Stage::Climb, rate, 2.0)));
    trials.extend([19_480.0, 17_909.0].map(|rate| (Stage::Bisect, rate, 3.0)));
    trials.extend((0..15).map(|index| {
        let place = (0.5 + f64::from(index) * 0.618).fract();
        match index % 4 {
            3 => (Stage::Reference, 0.94 * LINE, 8.0),
            _ => (Stage::Estimate, LINE * (0.91 + 0.15 * place), 8.0),
        }
    }));
    trials
}

fn probes(trials: &[(Stage, f64, f64)]) -> Vec<Probe> {
    let mut from_s = 0.0;
    let probe = |(index, (stage, rate, window_s)): (u64, &(Stage, f64, f64))| {
        let from_ns = (from_s * SECOND_NS as f64) as u64;
        from_s += window_s + UNJUDGED_S;
        Probe { from_ns, window_s: *window_s, ..probe(index, *stage, *rate) }
    };
    (0..).zip(trials).map(probe).collect()
}

/// Closed loads with more and more writers.
pub fn ladder() -> Sample {
    let mut sample = load(60, &["insert"]);
    let run = &mut sample.run;
    let law = law();
    let rung = |point: &Point| Rung {
        writers: point.concurrency as u32,
        window_s: 8.0,
        throughput: point.throughput,
        ..Rung::default()
    };
    let rungs = law.points.iter().map(rung).collect();
    run.ladder = Some(Ladder { unit: "documents/s".into(), rungs, scalability: Some(law), note: None });
    run.command = "ladder".into();
    run.scenario.title = "SAMPLE DATA, nothing measured: single inserts by more and more writers".into();
    run.expectations.clear();
    run.conclusions = plimsoll_report::conclusions(run);
    sample
}

fn candidate(name: &str, evidence: &str, readings: &[(&str, &str, f64, f64)]) -> Candidate {
    let reading = |(what, unit, baseline, knee): &(&str, &str, f64, f64)| Reading {
        what: (*what).into(),
        unit: (*unit).into(),
        baseline: Some(*baseline),
        knee: Some(*knee),
    };
    let readings = readings.iter().map(reading).collect();
    Candidate { name: name.into(), evidence: evidence.into(), readings, ..Candidate::default() }
}

fn bottlenecks() -> Vec<Candidate> {
    vec![
        candidate(
            "server CPU",
            "used by the server 3.97 cores (0.43 cores at 6000/s)",
            &[("used by the server", "cores", 0.43, 3.97), ("available to it", "cores", 3.9, 4.0)],
        ),
        candidate(
            "WiredTiger cache",
            "dirty share of the cache 23 % (4 % at 6000/s)",
            &[
                ("dirty share of the cache", "%", 4.1, 23.4),
                ("used share of the cache", "%", 61.0, 80.2),
                ("pages evicted by application threads", "/s", 0.0, 132.0),
                ("share of the service time spent on pages", "%", 0.1, 14.0),
            ],
        ),
    ]
}

fn unmoved() -> Vec<Candidate> {
    vec![
        candidate("client CPU", "", &[("busiest worker's share of a core", "%", 5.0, 48.0)]),
        candidate("wake", "", &[("p99 wake error", "ms", 0.021, 0.034)]),
        candidate(
            "connections",
            "",
            &[("connections in use", "%", 9.0, 88.0), ("mean service time", "ms", 0.6, 5.1)],
        ),
        candidate(
            "tickets",
            "",
            &[
                ("write tickets in use", "%", 12.0, 61.0),
                ("waiting for a write ticket", "operations", 0.0, 0.4),
            ],
        ),
        candidate("checkpoint", "", &[("share of the time under a checkpoint", "%", 0.0, 22.0)]),
        candidate(
            "journal sync",
            "",
            &[("mean journal sync", "ms", 1.9, 2.4), ("journal syncs", "/s", 118.0, 402.0)],
        ),
        candidate(
            "flow control",
            "",
            &[("share of the service time spent waiting for flow control", "%", 0.0, 0.0)],
        ),
        candidate(
            "disk",
            "",
            &[("disk busy", "%", 11.0, 64.0), ("written by the server", "MiB/s", 3.1, 41.7)],
        ),
    ]
}

/// A scalability law that fits the made-up server, with measured points near its curve.
fn law() -> Scalability {
    let law = Scalability {
        lambda: 995.0,
        sigma: 0.0267,
        kappa: 0.00077,
        r_squared: 0.996,
        ..Scalability::default()
    };
    let marks = [1.0, 2.0, 4.0, 8.0, 16.0, 24.0].iter().enumerate();
    let points = marks.map(|(index, concurrency)| Point {
        concurrency: *concurrency,
        throughput: law.at(*concurrency) * (0.97 + 0.06 * noise(index as u64)),
    });
    let points = points.collect();
    let peak = Some(Peak { concurrency: 35.5, throughput: law.at(35.5) });
    Scalability { points, peak, ..law }
}

/// A trial: beyond the load line more than a hundredth of the operations take 50 ms or longer.
fn probe(index: u64, stage: Stage, rate: f64) -> Probe {
    const OPERATIONS: u64 = 20_000;
    let load = (rate / LINE).min(0.98);
    let late = (0.01 * (rate / LINE).powf(40.0) * (2.2 * noise(index * 31) - 1.1).exp()).min(1.0);
    let (mut response, mut service) = (Histogram::default(), Histogram::default());
    for number in 0..OPERATIONS {
        let took = latency(400_000.0 / (1.0 - load * 0.8), index * 100_000 + number);
        let queued = if noise(index * 70_000 + number) < late { 48e6 + 160e6 * noise(number) } else { 0.0 };
        service.record(took);
        response.record(took + queued as u64);
    }
    let over = OPERATIONS - response.count_up_to(50_000_000);
    let excess = over as f64 / OPERATIONS as f64 / 0.01;
    let achieved_ratio = (LINE * 1.06 / rate).min(0.9996);
    let percent = excess.min(100.0);
    let reason = format!(
        "{percent:.2} % of the operations had a response time of 50 ms or more, or failed; 1.00 % may"
    );
    Probe {
        stage,
        rate,
        achieved: rate * achieved_ratio,
        achieved_ratio,
        response_ns: response.latency(),
        service_ns: service.latency(),
        client_cpu: load * 0.5,
        server_cores: Some(4.0 * load),
        connections_busy: load,
        excess: (stage != Stage::WarmUp).then_some(excess),
        held: excess < 1.0,
        reasons: if excess < 1.0 { Vec::new() } else { vec![reason] },
        ..Probe::default()
    }
}
