//! Compares the storage designs on an embedded server: single readings, batches, statistics.
//!
//! `cargo run --release -p plimsoll-telemetry --example designs -- [relaxed] [seconds=5] [sensors=10000] [design=bucket]
//! [committers=1] [gather_ms=2]`
//!
//! Goal: figures that rank the designs. Not a goal: absolute latencies. The load is closed and shares the machine with the
//! server, so it hides the latencies of an open load; scenarios measure those.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![expect(clippy::disallowed_methods, reason = "a measured service shares no clock with Plimsoll")]

mod common;

use std::time::{Duration, Instant};

use common::cpu_of;
use futures_util::future::join_all;
use mongodb::Client;
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server};
use plimsoll_service::Reservation;
use plimsoll_telemetry::readings::{BucketSettings, Design, Detail, Readings, Settings, StatisticsQuery};
use plimsoll_telemetry::workload::{Preload, Sensors, preload};

const START_MS: i64 = 1_789_999_200_000;
const HOUR_MS: i64 = 3_600_000;
const INTERVAL_MS: i64 = 10_000;
/// The number of callers, each with one reading in flight.
const CALLERS: u64 = 200;
/// The number of callers, each with a batch in flight, and the number of readings of a batch.
const BATCH_CALLERS: u64 = 4;
const BATCH: u64 = 1000;

#[derive(Clone, Copy)]
struct Plan {
    profile: Profile,
    time: Duration,
    sensors: u64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)?.parse::<u64>().ok());
    let plan = Plan {
        profile: if args.iter().any(|arg| arg == "relaxed") { Profile::Relaxed } else { Profile::Journaled },
        time: Duration::from_secs(number("seconds=").unwrap_or(5)),
        sensors: number("sensors=").unwrap_or(10_000),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let wanted = args.iter().find_map(|arg| arg.strip_prefix("design=")).unwrap_or_default();
    let base = Settings::default();
    let base = Settings {
        committers: number("committers=").map_or(base.committers, |count| count as usize),
        gather_max: number("gather_ms=").map_or(base.gather_max, Duration::from_millis),
        ..base
    };
    let design = |design| Settings { design, ..base.clone() };
    let bucket = |minutes| {
        let bucket = BucketSettings { minutes, ..BucketSettings::default() };
        Settings { bucket, ..design(Design::Bucket) }
    };
    let named = [
        ("document", design(Design::Document)),
        ("bucket of 60 min", bucket(60)),
        ("bucket of 10 min", bucket(10)),
        ("time series", design(Design::TimeSeries)),
    ];
    println!("server: {}, {} sensors, {:?} each", plan.profile.name(), plan.sensors, plan.time);
    for (name, settings) in named.into_iter().filter(|(name, _)| name.starts_with(wanted)) {
        runtime.block_on(measure(name, settings, plan));
    }
}

async fn measure(name: &str, settings: Settings, plan: Plan) {
    let server = embedded::start(
        &Cache::locate().unwrap(),
        &Options { profile: plan.profile, cache_bytes: Some(1 << 30), ..Options::default() },
    )
    .unwrap();
    let uri = format!("mongodb://{}/?directConnection=true&w=majority", server.address());
    let database = Client::with_uri_str(uri).await.unwrap().database("designs");
    let readings = Readings::open(&database, settings).await.unwrap();
    println!("{name}");
    fill(&readings, &server, plan).await;
    open_load(&readings, &server, plan).await;
    singles(&readings, &server, plan).await;
    batches(&readings, &server, plan).await;
    for detail in [Detail::Percentiles, Detail::Summary] {
        statistics(&readings, plan, detail).await;
    }
    latest(&readings, plan).await;
    println!("  on disk {} MiB", disk_bytes(&server) >> 20);
}

fn sensors(plan: Plan) -> Sensors {
    Sensors { seed: 1, count: plan.sensors, start_ms: START_MS, interval_ms: INTERVAL_MS }
}

/// Stores an hour of readings of every sensor.
async fn fill(readings: &Readings, server: &Server, plan: Plan) {
    let (start, cpu) = (Instant::now(), Cpu::now(server));
    let done = preload(readings, &Preload { sensors: sensors(plan), ticks: 360 }, |_| ()).await.unwrap().done;
    row("fill", done, start.elapsed(), &cpu, server, &[]);
}

/// Sends the readings after the hour, one per request: each tick of all sensors, then the next tick.
async fn singles(readings: &Readings, server: &Server, plan: Plan) {
    let (start, cpu) = (Instant::now(), Cpu::now(server));
    let caller = |caller: u64| async move {
        let mut took = Vec::new();
        let mut number = 360 * plan.sensors + caller;
        while start.elapsed() < plan.time {
            let sent = Instant::now();
            readings.ingest(sensors(plan).number(number)).await.unwrap();
            took.push(sent.elapsed());
            number += CALLERS;
        }
        took
    };
    let calls = (0..CALLERS).map(caller);
    let took = join_all(calls).await.concat();
    row("single", took.len() as u64, start.elapsed(), &cpu, server, &took);
}

/// Runs an open load: one reading every millisecond, timed from its due time, and an hour's statistics every
/// 50 ms.
async fn open_load(readings: &Readings, server: &Server, plan: Plan) {
    let (start, cpu) = (Instant::now(), Cpu::now(server));
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    for tick in 0..plan.time.as_millis() as u64 {
        let due = start + Duration::from_millis(tick);
        tokio::time::sleep_until(due.into()).await;
        let (caller, reading) = (readings.clone(), sensors(plan).number(1440 * plan.sensors + tick));
        writes.push(tokio::spawn(async move {
            caller.ingest(reading).await.unwrap();
            due.elapsed()
        }));
        if tick % 50 == 0 {
            let (caller, query) = (readings.clone(), hour(tick * 7919 % plan.sensors, Detail::Percentiles));
            reads.push(tokio::spawn(async move {
                caller.statistics(&query, &Reservation::unlimited()).await.unwrap();
                due.elapsed()
            }));
        }
    }
    let writes: Vec<_> = join_all(writes).await.into_iter().map(Result::unwrap).collect();
    let reads: Vec<_> = join_all(reads).await.into_iter().map(Result::unwrap).collect();
    row("open", writes.len() as u64, start.elapsed(), &cpu, server, &writes);
    println!("  open, statistics: {}", quantiles(&reads));
}

async fn batches(readings: &Readings, server: &Server, plan: Plan) {
    let (start, cpu) = (Instant::now(), Cpu::now(server));
    let caller = |caller: u64| async move {
        let mut took = Vec::new();
        let mut number = (720 * plan.sensors).next_multiple_of(BATCH) + caller * BATCH;
        while start.elapsed() < plan.time {
            let batch = (number..number + BATCH).map(|number| sensors(plan).number(number)).collect();
            let sent = Instant::now();
            assert!(readings.ingest_many(batch).await.unwrap().iter().all(Result::is_ok));
            took.push(sent.elapsed());
            number += BATCH_CALLERS * BATCH;
        }
        took
    };
    let took = join_all((0..BATCH_CALLERS).map(caller)).await.concat();
    row("batch", took.len() as u64 * BATCH, start.elapsed(), &cpu, server, &took);
}

/// Reads the full hour of one sensor after the other, one query at a time.
async fn statistics(readings: &Readings, plan: Plan, detail: Detail) {
    let start = Instant::now();
    let mut took = Vec::new();
    while start.elapsed() < plan.time && took.len() < 2000 {
        // A step that is coprime to the number of sensors.
        let sensor = took.len() as u64 * 7919 % plan.sensors;
        let query = hour(sensor, detail);
        let sent = Instant::now();
        let found = readings.statistics(&query, &Reservation::unlimited()).await.unwrap();
        assert!(found[0].intervals[0].metrics[0].1.count >= 360);
        took.push(sent.elapsed());
    }
    println!("  statistics of an hour ({detail:?}): {}", quantiles(&took));
}

fn hour(sensor: u64, detail: Detail) -> StatisticsQuery {
    StatisticsQuery {
        sensors: vec![format!("sensor-{sensor}")],
        from_ms: START_MS + 5,
        to_ms: START_MS + HOUR_MS + 5,
        interval_ms: None,
        detail,
    }
}

async fn latest(readings: &Readings, plan: Plan) {
    let mut took = Vec::new();
    for number in 0..500 {
        let sent = Instant::now();
        assert!(
            readings.latest(&format!("sensor-{}", number * 7919 % plan.sensors)).await.unwrap().is_some()
        );
        took.push(sent.elapsed());
    }
    println!("  latest: {}", quantiles(&took));
}

fn row(name: &str, done: u64, elapsed: Duration, cpu: &Cpu, server: &Server, took: &[Duration]) {
    let rate = done as f64 / elapsed.as_secs_f64();
    let Cpu { own, server } = Cpu::now(server).since(cpu);
    let each = |cpu: Duration| cpu.as_micros() as f64 / done as f64;
    println!(
        "  {name}: {done} readings, {rate:.0}/s = {:.0} points/s; CPU a reading {:.1} µs here, {:.1} µs server; {}",
        4.0 * rate,
        each(own),
        each(server),
        quantiles(took)
    );
}

fn quantiles(took: &[Duration]) -> String {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| sorted.get((sorted.len() as f64 * share) as usize).or(sorted.last());
    match (at(0.5), at(0.99), sorted.last()) {
        (Some(p50), Some(p99), Some(max)) => format!("p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}"),
        _ => String::new(),
    }
}

/// Processor time so far.
#[derive(Clone, Copy)]
struct Cpu {
    own: Duration,
    server: Duration,
}

impl Cpu {
    fn now(server: &Server) -> Self {
        Cpu { own: cpu_of("self"), server: cpu_of(&server.pid().unwrap().to_string()) }
    }

    fn since(self, before: &Cpu) -> Cpu {
        Cpu { own: self.own - before.own, server: self.server - before.server }
    }
}

fn disk_bytes(server: &Server) -> u64 {
    let mut directories = vec![server.storage().to_owned()];
    let mut bytes = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => directories.push(entry.path()),
                Ok(found) => bytes += found.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}
