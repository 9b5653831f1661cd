//! Measures the cost of a reading over HTTP, in batches or single: CPU of the service, of the server and of the load.
//!
//! `cargo run --release -p plimsoll-telemetry --example batches -- [batch=1000] [callers=4] [seconds=10] [rounds=5]
//! [sensors=10000] [ticks=360] [shape=turn|runs] [media=lines|json] [services=PROGRAM,PROGRAM] [set=YAML] [cache_mb=1024]
//! [relaxed]`
//!
//! It starts an embedded server and fills it with `ticks` readings of each sensor. Then it measures each of `services` in
//! turn, on the same database. The default is this program itself; an older build allows a comparison. `batch=1` sends single
//! readings. `shape=turn` sends all sensors in turn, the worst case for an index; `runs` sends a minute of each sensor. A data
//! point is one metric of a reading, and every reading here has four.
//!
//! Goal: the cost of a reading, and ratios within one run. Not a goal: latency; the load is closed.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![expect(clippy::disallowed_methods, reason = "a measured service shares no clock with Plimsoll")]

#[path = "../common/mod.rs"]
mod common;
mod load;
mod report;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::cpu_of;
use load::{Load, Media, Shape};
use mongodb::Client;
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server};
use plimsoll_telemetry::readings::{Readings, Settings};
use plimsoll_telemetry::settings::Typed;
use plimsoll_telemetry::workload::{Preload, Sensors, preload};
use report::{Cost, report};

const INTERVAL_MS: i64 = 10_000;
const HOUR_MS: i64 = 3_600_000;
/// The age of the oldest data: sent readings must not be in the future.
const BACK_MS: i64 = 400 * HOUR_MS;
const METRICS: u64 = 4;
const DATABASE: &str = "batches";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name));
    if let Some(uri) = text("serve=") {
        return serve(uri, text("set=").unwrap_or_default());
    }
    let number = |name: &str, otherwise| text(name).map_or(otherwise, |text| text.parse::<u64>().unwrap());
    let itself = std::env::current_exe().unwrap().display().to_string();
    let services: Vec<&str> = text("services=").unwrap_or(&itself).split(',').collect();
    let ticks = number("ticks=", 360);
    let sensors = Sensors {
        seed: 1,
        count: number("sensors=", 10_000),
        start_ms: now_ms() - BACK_MS,
        interval_ms: INTERVAL_MS,
    };
    let relaxed = args.iter().any(|arg| arg == "relaxed");
    let cache_bytes = text("cache_mb=").map(|text| text.parse::<u64>().unwrap() << 20);
    let server = start(if relaxed { Profile::Relaxed } else { Profile::Journaled }, cache_bytes);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(fill(&server, sensors, ticks));
    let mut load = Load {
        sensors,
        next: ticks * sensors.count,
        batch: number("batch=", 1000),
        callers: number("callers=", 4),
        shape: if text("shape=") == Some("runs") { Shape::Runs } else { Shape::Turn },
        media: if text("media=") == Some("json") { Media::Json } else { Media::Lines },
    };
    let time = Duration::from_secs(number("seconds=", 10));
    let mut costs = vec![Vec::new(); services.len()];
    for _ in 0..number("rounds=", 5) {
        for (place, program) in services.iter().enumerate() {
            let service = Service::start(program, &server, text("set=").unwrap_or_default());
            load.run(&runtime, &service.address, Duration::from_secs(2));
            let cost = measure(&mut load, &runtime, &service, &server, time);
            println!("{program}: {cost}");
            costs[place].push(cost);
        }
    }
    report(&services, &costs);
}

fn start(profile: Profile, cache_bytes: Option<u64>) -> Server {
    let options = Options { profile, cache_bytes, ..Options::default() };
    embedded::start(&Cache::locate().unwrap(), &options).unwrap()
}

async fn fill(server: &Server, sensors: Sensors, ticks: u64) {
    let begun = Instant::now();
    let database = Client::with_uri_str(uri(server)).await.unwrap().database(DATABASE);
    let readings = Readings::open(&database, Settings::default()).await.unwrap();
    let done = preload(&readings, &Preload { sensors, ticks }, |_| ()).await.unwrap().done;
    readings.close().await;
    println!("filled in {done} readings in {:.1?}", begun.elapsed());
}

fn measure(
    load: &mut Load,
    runtime: &tokio::runtime::Runtime,
    service: &Service,
    server: &Server,
    time: Duration,
) -> Cost {
    let pids = [service.child.id().to_string(), server.pid().unwrap().to_string(), "self".to_owned()];
    let now = || pids.each_ref().map(|pid| cpu_of(pid));
    let (begun, before) = (Instant::now(), now());
    let readings = load.run(runtime, &service.address, time);
    let (after, took) = (now(), begun.elapsed());
    let each = |place: usize| (after[place] - before[place]).as_nanos() as f64 / 1e3 / readings as f64;
    let points_per_s = (readings * METRICS) as f64 / took.as_secs_f64();
    Cost { points_per_s, service_us: each(0), server_us: each(1), load_us: each(2) }
}

fn uri(server: &Server) -> String {
    format!("mongodb://{}/?directConnection=true", server.address())
}

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A service in its own process. Dropping the value ends it.
struct Service {
    child: Child,
    address: String,
}

impl Service {
    fn start(program: &str, server: &Server, set: &str) -> Self {
        let mut child = Command::new(program)
            .args([format!("serve={}", uri(server)), format!("set={set}")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").to_owned();
        Service { child, address }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // No caller waits any more, and the exit status does not matter.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Serves until the process is killed.
fn serve(uri: &str, settings: &str) {
    let mut typed = Typed::read(settings).unwrap();
    typed.listen = "127.0.0.1:0".parse().unwrap();
    typed.database.uri = Some(uri.to_owned());
    typed.database.name = DATABASE.to_owned();
    let settings = typed.build(Path::new(".")).unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().max_blocking_threads(8).build().unwrap();
    let running = runtime.block_on(plimsoll_telemetry::serve::start(settings)).unwrap();
    println!("{}", running.address());
    runtime.block_on(std::future::pending::<()>());
}
