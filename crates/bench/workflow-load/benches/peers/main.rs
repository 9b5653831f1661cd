//! Compares the workflow engine with its peers in turns, on this machine, in one run.
//!
//! ```sh
//! cargo xtask bench workflow                 # or: cargo bench -p plimsoll-workflow-load --bench peers -- [OPTIONS]
//!     --rounds N       turns of each subject (3)
//!     --seconds S      the length of each load (8)
//!     --clients A,B    the numbers of clients (1,16,64)
//!     --units A,B      round-trip, steps, timer (round-trip)
//!     --only A,B       postgres, mongodb, service-postgres, service-mongodb, dbos, restate, temporal (those that are installed)
//!     --peers DIR      the directory with the peers' programs
//!     --program PATH   the program `plimsoll`, for the services
//! ```
//!
//! Each turn has a new server with empty storage, journaled and flushed at every commit. `postgres`, `mongodb` and `dbos` are libraries: the
//! client, the engine and the steps are one process, the database is another. `service-postgres` and `service-mongodb` are this engine as a
//! separate server over HTTP, which also runs the steps. `restate` and `temporal` are separate servers too, and the clients' process runs the
//! steps; the store of `temporal` is PostgreSQL.
//!
//! A client sends a signal only once the instance's wait is durable (for the peers: once the instance asks for the signal). Clients of a service
//! wait for each change of their instance.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile};
use plimsoll_postgres::server::{self, Server, Settings};
use plimsoll_postgres::workflow::Postgres;
use plimsoll_stores::workflow::Mongo;
use plimsoll_workflow::port::Store;
use plimsoll_workflow_load::embedded::Embedded;
use plimsoll_workflow_load::load::{Seen, closed};
use plimsoll_workflow_load::unit::Unit;
use tokio::runtime::Builder;

mod cpu;
mod service;
mod temporal;

type Failure = Box<dyn Error + Send + Sync>;

/// Partitions of a store.
const PARTITIONS: u16 = 16;
/// Connections of a store.
const CONNECTIONS: usize = 6;

/// The options.
#[derive(Clone, Debug)]
struct Arguments {
    rounds: usize,
    seconds: f64,
    clients: Vec<usize>,
    units: Vec<Unit>,
    only: Option<Vec<String>>,
    peers: Option<PathBuf>,
    program: Option<PathBuf>,
}

impl Arguments {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut all = Self {
            rounds: 3,
            seconds: 8.0,
            clients: vec![1, 16, 64],
            units: vec![Unit::RoundTrip],
            only: None,
            peers: None,
            program: None,
        };
        let mut words = words;
        while let Some(word) = words.next() {
            // Cargo adds these.
            if word == "--bench" || word == "--test" {
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            let list = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
            match word.as_str() {
                "--rounds" => all.rounds = value.parse()?,
                "--seconds" => all.seconds = value.parse()?,
                "--clients" => {
                    all.clients = list().iter().map(|one| one.parse()).collect::<Result<_, _>>()?
                }
                "--units" => all.units = list().iter().map(|one| unit(one)).collect::<Result<_, _>>()?,
                "--only" => all.only = Some(list()),
                "--peers" => all.peers = Some(value.into()),
                "--program" => all.program = Some(value.into()),
                _ => return Err(format!("{word} is unknown: see the top of benches/peers/main.rs").into()),
            }
        }
        Ok(all)
    }

    fn wants(&self, subject: Subject) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == subject.name()))
            && subject.peer().is_none_or(|name| self.peer(name).is_some_and(|path| path.is_file()))
            && (!subject.is_service() || self.program.as_ref().is_some_and(|path| path.is_file()))
    }

    fn peer(&self, name: &str) -> Option<PathBuf> {
        Some(self.peers.as_ref()?.join(name))
    }
}

fn unit(name: &str) -> Result<Unit, Failure> {
    let found = Unit::ALL.into_iter().find(|unit| unit.name() == name);
    found.ok_or_else(|| format!("{name} is no unit: choose round-trip, steps or timer").into())
}

/// A subject of the comparison: an engine on its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Postgres,
    Mongodb,
    ServicePostgres,
    ServiceMongodb,
    Dbos,
    Restate,
    Temporal,
}

impl Subject {
    const ALL: [Self; 7] = [
        Self::Postgres,
        Self::Mongodb,
        Self::ServicePostgres,
        Self::ServiceMongodb,
        Self::Dbos,
        Self::Restate,
        Self::Temporal,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mongodb => "mongodb",
            Self::ServicePostgres => "service-postgres",
            Self::ServiceMongodb => "service-mongodb",
            Self::Dbos => "dbos",
            Self::Restate => "restate",
            Self::Temporal => "temporal",
        }
    }

    /// Whether it is this engine as a separate server.
    const fn is_service(self) -> bool {
        matches!(self, Self::ServicePostgres | Self::ServiceMongodb)
    }

    /// The program with the clients, if they are not in this process.
    const fn peer(self) -> Option<&'static str> {
        match self {
            Self::Postgres | Self::Mongodb => None,
            Self::ServicePostgres | Self::ServiceMongodb => Some("plimsoll"),
            Self::Dbos => Some("dbos"),
            Self::Restate => Some("restate"),
            Self::Temporal => Some("temporal"),
        }
    }
}

/// The result of a turn.
#[derive(Clone, Debug, Default)]
struct Turn {
    seen: Seen,
    /// CPU of the database.
    database_cpu_s: f64,
    /// CPU of a separate engine.
    engine_cpu_s: f64,
    /// Flushes of the log by the database, if it counts them.
    flushes: Option<u64>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    // `cargo test --benches` only checks that the program starts.
    if std::env::args().any(|word| word == "--test") {
        return Ok(());
    }
    let arguments = Arguments::read(std::env::args().skip(1))?;
    let cache = Cache::locate()?;
    let mut turns: BTreeMap<(&str, usize, Subject), Vec<Turn>> = BTreeMap::new();
    for round in 0..arguments.rounds {
        for (unit, clients) in
            arguments.units.iter().flat_map(|unit| arguments.clients.iter().map(move |n| (*unit, *n)))
        {
            let mut subjects = Subject::ALL.to_vec();
            subjects.rotate_left(round % Subject::ALL.len());
            for subject in subjects.into_iter().filter(|subject| arguments.wants(*subject)) {
                let turn = turn(&arguments, &cache, subject, unit, clients)?;
                println!("{}", line(round, unit, clients, subject, &turn));
                turns.entry((unit.name(), clients, subject)).or_default().push(turn);
            }
        }
    }
    println!("\n{}", table(&turns));
    Ok(())
}

fn line(round: usize, unit: Unit, clients: usize, subject: Subject, turn: &Turn) -> String {
    let seen = &turn.seen;
    format!(
        "round {} {} c{clients} {}: {:.0}/s, signal to end {:.1} ms (p99 {:.1} ms), \
         CPU each: database {:.2} ms, engine {:.2} ms, client {:.2} ms, flushes {}",
        round + 1,
        unit.name(),
        subject.name(),
        seen.completed as f64 / seen.seconds,
        seen.signal_p50_ms,
        seen.signal_p99_ms,
        turn.database_cpu_s * 1e3 / seen.completed.max(1) as f64,
        turn.engine_cpu_s * 1e3 / seen.completed.max(1) as f64,
        seen.cpu_s * 1e3 / seen.completed.max(1) as f64,
        turn.flushes.map_or("-".to_owned(), |flushes| format!(
            "{:.2}",
            flushes as f64 / seen.completed.max(1) as f64
        )),
    )
}

/// Medians, each with the smallest and the largest value.
fn table(turns: &BTreeMap<(&str, usize, Subject), Vec<Turn>>) -> String {
    let mut text = format!(
        "{:<11} {:>7} {:<16} {:>22} {:>10} {:>10} {:>12} {:>12} {:>12} {:>8}\n",
        "unit",
        "clients",
        "engine",
        "a second (least-most)",
        "p50 ms",
        "p99 ms",
        "database ms",
        "engine ms",
        "client ms",
        "flushes"
    );
    for ((unit, clients, subject), turns) in turns {
        let of = |part: &dyn Fn(&Turn) -> f64| {
            let mut all: Vec<f64> = turns.iter().map(part).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let middle = |part: &dyn Fn(&Turn) -> f64| median(&of(part));
        let rate = of(&|turn| turn.seen.completed as f64 / turn.seen.seconds);
        let each = |turn: &Turn, value: f64| value / turn.seen.completed.max(1) as f64;
        let (least, most) = (rate.first().copied().unwrap_or(0.0), rate.last().copied().unwrap_or(0.0));
        text.push_str(&format!(
            "{unit:<11} {clients:>7} {:<16} {:>22} {:>10.1} {:>10.1} {:>12.2} {:>12.2} {:>12.2} {:>8.2}\n",
            subject.name(),
            format!("{:.0} ({least:.0}-{most:.0})", median(&rate)),
            middle(&|turn| turn.seen.signal_p50_ms),
            middle(&|turn| turn.seen.signal_p99_ms),
            middle(&|turn| each(turn, turn.database_cpu_s * 1e3)),
            middle(&|turn| each(turn, turn.engine_cpu_s * 1e3)),
            middle(&|turn| each(turn, turn.seen.cpu_s * 1e3)),
            middle(&|turn| each(turn, turn.flushes.unwrap_or(0) as f64)),
        ));
    }
    text
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        _ if sorted.is_empty() => 0.0,
        1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

fn turn(
    arguments: &Arguments,
    cache: &Cache,
    subject: Subject,
    unit: Unit,
    clients: usize,
) -> Result<Turn, Failure> {
    match subject {
        Subject::Postgres => postgres(arguments, cache, unit, clients),
        Subject::Mongodb => mongodb(arguments, cache, unit, clients),
        Subject::ServicePostgres => service_postgres(arguments, cache, unit, clients),
        Subject::ServiceMongodb => service_mongodb(arguments, cache, unit, clients),
        Subject::Dbos => dbos(arguments, cache, unit, clients),
        Subject::Restate => restate(arguments, unit, clients),
        Subject::Temporal => temporal(arguments, cache, unit, clients),
    }
}

/// Our engine in this process.
fn embedded<S: Store>(
    arguments: &Arguments,
    unit: Unit,
    clients: usize,
    open: impl Future<Output = Result<S, Failure>>,
    server_cpu: impl Fn() -> f64,
) -> Result<Turn, Failure> {
    let length = Duration::from_secs_f64(arguments.seconds);
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let engine = Arc::new(Embedded::start(open.await?, &format!("bench-{}", std::process::id())).await?);
        engine.once(Unit::Steps, "warm").await?;
        let (mine, its) = (cpu::own(), server_cpu());
        let shared = engine.clone();
        let mut seen = closed(clients, length, move |id| {
            let engine = shared.clone();
            async move { engine.once(unit, &id).await }
        })
        .await?;
        seen.cpu_s = cpu::own() - mine;
        let turn = Turn { seen, database_cpu_s: server_cpu() - its, ..Turn::default() };
        if let Some(engine) = Arc::into_inner(engine) {
            engine.stop().await;
        }
        Ok(turn)
    })
}

fn start_postgres(cache: &Cache) -> Result<Server, Failure> {
    if !server::is_installed(cache.root()) {
        return Err("PostgreSQL is not installed: run `cargo xtask setup`".into());
    }
    Ok(Server::start(cache.root(), &Settings::default())?)
}

/// Flushes of the log since the server's start.
fn flushes(server: &Server) -> Result<u64, Failure> {
    // Each process of the server reports its counts at most once a second.
    std::thread::sleep(Duration::from_millis(1_500));
    Ok(Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(plimsoll_postgres::workflow::flushes(&server.uri()))?)
}

fn postgres(arguments: &Arguments, cache: &Cache, unit: Unit, clients: usize) -> Result<Turn, Failure> {
    let server = start_postgres(cache)?;
    let (uri, before) = (server.uri(), flushes(&server)?);
    let open = async { Ok(Postgres::open(&uri, CONNECTIONS, PARTITIONS).await?) };
    let turn = embedded(arguments, unit, clients, open, || cpu::tree(server.pid()))?;
    Ok(Turn { flushes: Some(flushes(&server)?.saturating_sub(before)), ..turn })
}

fn mongodb(arguments: &Arguments, cache: &Cache, unit: Unit, clients: usize) -> Result<Turn, Failure> {
    let server = start_mongodb(cache)?;
    let uri = format!("mongodb://{}/", server.address());
    let open = async { Ok(Mongo::open(&uri, "workflow", CONNECTIONS, PARTITIONS).await?) };
    embedded(arguments, unit, clients, open, || server.pid().map_or(0.0, cpu::tree))
}

fn start_mongodb(cache: &Cache) -> Result<plimsoll_host::Server, Failure> {
    Ok(embedded::start(cache, &Options { profile: Profile::Journaled, ..Options::default() })?)
}

fn service_postgres(
    arguments: &Arguments,
    cache: &Cache,
    unit: Unit,
    clients: usize,
) -> Result<Turn, Failure> {
    let server = start_postgres(cache)?;
    let before = flushes(&server)?;
    let store = service::Store::Postgres(server.uri());
    let turn = service(arguments, &store, unit, clients, || cpu::tree(server.pid()))?;
    Ok(Turn { flushes: Some(flushes(&server)?.saturating_sub(before)), ..turn })
}

fn service_mongodb(
    arguments: &Arguments,
    cache: &Cache,
    unit: Unit,
    clients: usize,
) -> Result<Turn, Failure> {
    let server = start_mongodb(cache)?;
    let store = service::Store::Mongodb(format!("mongodb://{}/", server.address()));
    service(arguments, &store, unit, clients, || server.pid().map_or(0.0, cpu::tree))
}

/// Our engine as a separate server.
fn service(
    arguments: &Arguments,
    store: &service::Store,
    unit: Unit,
    clients: usize,
    database_cpu: impl Fn() -> f64,
) -> Result<Turn, Failure> {
    let program = arguments.program.as_ref().ok_or("name the program with --program")?;
    let service = service::Running::start(program, store)?;
    let (engine, database) = (cpu::tree(service.pid()), database_cpu());
    let seen = peer(arguments, "plimsoll", &service.uri(), unit, clients)?;
    let engine_cpu_s = cpu::tree(service.pid()) - engine;
    Ok(Turn { seen, database_cpu_s: database_cpu() - database, engine_cpu_s, flushes: None })
}

fn dbos(arguments: &Arguments, cache: &Cache, unit: Unit, clients: usize) -> Result<Turn, Failure> {
    let server = start_postgres(cache)?;
    let (before, cpu) = (flushes(&server)?, cpu::tree(server.pid()));
    let seen = peer(arguments, "dbos", &format!("{}?sslmode=disable", server.uri()), unit, clients)?;
    let database_cpu_s = cpu::tree(server.pid()) - cpu;
    let flushes = Some(flushes(&server)?.saturating_sub(before));
    Ok(Turn { seen, database_cpu_s, flushes, ..Turn::default() })
}

/// Runs a peer's program against its server.
fn peer(arguments: &Arguments, name: &str, uri: &str, unit: Unit, clients: usize) -> Result<Seen, Failure> {
    let program = arguments.peer(name).ok_or("name the peers' directory with --peers")?;
    let output = Command::new(program)
        .args(["-uri", uri, "-unit", unit.name(), "-clients", &clients.to_string()])
        .args(["-seconds", &arguments.seconds.to_string()])
        .output()?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn restate(arguments: &Arguments, unit: Unit, clients: usize) -> Result<Turn, Failure> {
    let program = arguments.peer("restate-server").ok_or("name the peers' directory with --peers")?;
    let server = Restate::start(&program)?;
    let before = cpu::tree(server.pid());
    let seen = peer(arguments, "restate", &server.uri(), unit, clients)?;
    Ok(Turn { seen, engine_cpu_s: cpu::tree(server.pid()) - before, ..Turn::default() })
}

fn temporal(arguments: &Arguments, cache: &Cache, unit: Unit, clients: usize) -> Result<Turn, Failure> {
    let program = arguments.peer("temporal-server").ok_or("name the peers' directory with --peers")?;
    let database = start_postgres(cache)?;
    let server = temporal::Server::start(&program, &database.uri())?;
    let before = flushes(&database)?;
    let (engine, its) = (cpu::tree(server.pid()), cpu::tree(database.pid()));
    let seen = peer(arguments, "temporal", server.address(), unit, clients)?;
    let (engine_cpu_s, database_cpu_s) = (cpu::tree(server.pid()) - engine, cpu::tree(database.pid()) - its);
    let flushes = Some(flushes(&database)?.saturating_sub(before));
    Ok(Turn { seen, database_cpu_s, engine_cpu_s, flushes })
}

/// A Restate server with empty storage. It ends with this value.
struct Restate {
    child: std::process::Child,
    ports: [u16; 3],
    _storage: tempfile::TempDir,
}

impl Restate {
    fn start(program: &Path) -> Result<Self, Failure> {
        let (storage, ports) = (tempfile::tempdir()?, plimsoll_process::port::free::<3>()?);
        let [ingress, admin, node] = ports;
        let child = Command::new(program)
            .arg("--base-dir")
            .arg(storage.path())
            .args(["--node-name", "bench", "--no-logo", "--listen-mode", "tcp", "--bind-ip", "127.0.0.1"])
            .args(["--bind-port", &node.to_string()])
            .env("RESTATE_INGRESS__BIND_ADDRESS", format!("127.0.0.1:{ingress}"))
            .env("RESTATE_ADMIN__BIND_ADDRESS", format!("127.0.0.1:{admin}"))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()?;
        let server = Self { child, ports, _storage: storage };
        server.wait()?;
        Ok(server)
    }

    /// Waits until both ports are open.
    fn wait(&self) -> Result<(), Failure> {
        let is_open = |port: u16| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        for _ in 0..600 {
            if is_open(self.ports[0]) && is_open(self.ports[1]) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err("Restate does not listen within 30 s".into())
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn uri(&self) -> String {
        format!("http://127.0.0.1:{},http://127.0.0.1:{}", self.ports[0], self.ports[1])
    }
}

impl Drop for Restate {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().and_then(|()| self.child.wait().map(drop)).unwrap_or_default();
    }
}
