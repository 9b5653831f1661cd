//! Measures the cost of a claim and of a timer while more and more instances wait.
//!
//! ```sh
//! cargo xtask bench workflow-backlog         # or: cargo bench -p plimsoll-workflow-load --bench backlog -- [OPTIONS]
//!     --sizes A,B      the numbers of waiting instances, growing (10,10000,1000000)
//!     --operations N   claims, and timers, of each size (500)
//!     --only A,B       postgres, mongodb (both)
//! ```
//!
//! Half of the instances wait for a signal, and half for a timer that is due tomorrow. Each instance also has a signal that is due tomorrow.
//! A claim is the search for due signals in all partitions, and the change that applies one. A timer is the search for due instances, and
//! the change. Claims and timers run one after the other, on a journaled server. The factor compares a median with that of the first size.

use std::error::Error;
use std::process::ExitCode;

use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile};
use plimsoll_measure::clock::{now, wall_ms};
use plimsoll_measure::matrix::Spread;
use plimsoll_postgres::server::{Server, Settings};
use plimsoll_postgres::workflow::Postgres;
use plimsoll_stores::workflow::Mongo;
use plimsoll_workflow::instance::{Signal, StartRequest};
use plimsoll_workflow::port::{Commit, Committed, Record, Store, partition_of};
use plimsoll_workflow::program::Program;
use plimsoll_workflow::step::start;
use plimsoll_workflow_load::unit::{SIGNAL, Unit};
use serde_json::Value;
use tokio::runtime::Builder;

type Failure = Box<dyn Error + Send + Sync>;

/// Partitions of a store.
const PARTITIONS: u16 = 16;
/// Connections of a store.
const CONNECTIONS: usize = 2;
/// Instances of one insert.
const BATCH: usize = 1_000;
/// The limit of a search: the same as a worker's.
const LIMIT: usize = 256;
/// The length of a day.
const DAY_MS: u64 = 86_400_000;
/// The largest allowed factor.
const FACTOR_MAX: f64 = 1.5;

/// The options.
#[derive(Clone, Debug)]
struct Arguments {
    sizes: Vec<usize>,
    operations: usize,
    only: Vec<String>,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let only = ["postgres", "mongodb"].map(str::to_owned).to_vec();
        let mut all = Self { sizes: vec![10, 10_000, 1_000_000], operations: 500, only };
        while let Some(word) = words.next() {
            // Cargo adds this.
            if word == "--bench" {
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            match word.as_str() {
                "--sizes" => all.sizes = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                "--operations" => all.operations = value.parse()?,
                "--only" => all.only = value.split(',').map(str::to_owned).collect(),
                _ => return Err(format!("{word} is unknown: see the top of benches/backlog/main.rs").into()),
            }
        }
        let is_valid = all.operations > 0 && all.sizes.is_sorted() && all.sizes.first() > Some(&0);
        if is_valid {
            Ok(all)
        } else {
            Err("--sizes must grow from 1, and --operations must be 1 or more".into())
        }
    }
}

/// Medians in microseconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    claim_us: f64,
    timer_us: f64,
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
    // Only `cargo bench` adds `--bench`: as a test it runs a small form.
    let is_test = !std::env::args().any(|word| word == "--bench");
    let words = std::env::args().skip(1).filter(|_| !is_test);
    let mut arguments = Arguments::read(words)?;
    if is_test {
        (arguments.sizes, arguments.operations) = (vec![10, 300], 5);
    }
    let cache = Cache::locate()?;
    for store in &arguments.only {
        match store.as_str() {
            "postgres" => postgres(&cache, &arguments)?,
            "mongodb" => mongodb(&cache, &arguments)?,
            _ => return Err(format!("{store} is no store: choose postgres or mongodb").into()),
        }
    }
    Ok(())
}

fn postgres(cache: &Cache, arguments: &Arguments) -> Result<(), Failure> {
    let server = Server::start(cache.root(), &Settings::default())?;
    let uri = server.uri();
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        measure("postgres", Postgres::open(&uri, CONNECTIONS, PARTITIONS).await?, arguments).await
    })
}

fn mongodb(cache: &Cache, arguments: &Arguments) -> Result<(), Failure> {
    let server = embedded::start(cache, &Options { profile: Profile::Journaled, ..Options::default() })?;
    let uri = format!("mongodb://{}/", server.address());
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        measure("mongodb", Mongo::open(&uri, "workflow", CONNECTIONS, PARTITIONS).await?, arguments).await
    })
}

/// Fills a store up to each size, and prints the cost.
async fn measure(name: &str, store: impl Store, arguments: &Arguments) -> Result<(), Failure> {
    let mut filled = 0;
    let mut first: Option<Cost> = None;
    for size in &arguments.sizes {
        fill(&store, filled, *size).await?;
        filled = *size;
        let cost = cost(&store, *size, arguments.operations).await?;
        let base = *first.get_or_insert(cost);
        let (claim, timer) = (cost.claim_us / base.claim_us, cost.timer_us / base.timer_us);
        let verdict = if claim.max(timer) <= FACTOR_MAX { "within" } else { "OVER" };
        println!(
            "{name:<9} {size:>9} waiting: claim {:>8.0} us (factor {claim:.2}), timer {:>8.0} us (factor {timer:.2}), {verdict} {FACTOR_MAX}",
            cost.claim_us, cost.timer_us
        );
    }
    Ok(())
}

/// A record of a round trip, or of a timer if `due_ms` gives its moment.
fn record(id: &str, version: u64, due_ms: Option<u64>) -> Result<Record, Failure> {
    let unit = if due_ms.is_some() { Unit::Timer } else { Unit::RoundTrip };
    let program = Program::compile(&unit.definition()).map_err(|problems| problems[0].words.clone())?;
    let request = StartRequest {
        id: id.to_owned(),
        definition: unit.name().to_owned(),
        key: None,
        parent: None,
        depth: 0,
        input: Value::Null,
    };
    let record = Record::of(&start(&program, request, wall_ms())?, PARTITIONS, version, 1)?;
    Ok(Record { due_ms, partition: partition_of(id, PARTITIONS), ..record })
}

fn id(number: usize) -> String {
    format!("waiting-{number}")
}

/// The moment at which an instance's timer is due. `None` for an instance that waits for a signal.
fn moment(number: usize) -> Option<u64> {
    number.is_multiple_of(2).then(|| wall_ms() + DAY_MS)
}

fn signal(instance: &str, id: &str, due_ms: u64) -> Signal {
    Signal { due_ms, ..Signal::named(instance, id, SIGNAL, Value::Null, wall_ms()) }
}

async fn fill(store: &impl Store, from: usize, until: usize) -> Result<(), Failure> {
    let numbers: Vec<_> = (from..until).collect();
    for numbers in numbers.chunks(BATCH) {
        let records = numbers.iter().map(|number| record(&id(*number), 1, moment(*number)));
        store.start(&records.collect::<Result<Vec<_>, _>>()?).await?;
        let tomorrow = wall_ms() + DAY_MS;
        let signals: Vec<_> = numbers.iter().map(|number| signal(&id(*number), "late", tomorrow)).collect();
        store.publish(&signals).await?;
    }
    Ok(())
}

async fn cost(store: &impl Store, size: usize, operations: usize) -> Result<Cost, Failure> {
    let (mut claims, mut timers) = (Vec::new(), Vec::new());
    for number in 0..operations {
        let name = format!("active-{size}-{number}");
        store.start(&[record(&name, 1, None)?]).await?;
        store.publish(&[signal(&name, "now", 0)]).await?;
        claims.push(step(store, &name, vec!["now".into()], record(&name, 2, None)?).await?);
        let name = format!("timer-{size}-{number}");
        store.start(&[record(&name, 1, Some(wall_ms()))?]).await?;
        timers.push(step(store, &name, Vec::new(), record(&name, 2, Some(wall_ms() + DAY_MS))?).await?);
    }
    Ok(Cost { claim_us: median(claims), timer_us: median(timers) })
}

/// Finds the only due work and changes its instance; returns the time in microseconds.
async fn step(store: &impl Store, name: &str, consumed: Vec<String>, record: Record) -> Result<f64, Failure> {
    let partitions: Vec<_> = (0..PARTITIONS).collect();
    let begin = now();
    let due = store.due(&partitions, wall_ms(), LIMIT).await?;
    let is_signal = !consumed.is_empty();
    let committed = store.commit(&[Commit { consumed, ..Commit::of(record) }]).await?;
    let took_ns = now().since(begin);
    let found = if is_signal {
        due.signals.iter().map(|signal| signal.instance.clone()).collect::<Vec<_>>()
    } else {
        due.records.iter().map(|record| record.id.clone()).collect()
    };
    if found != [name] || committed != [Committed::Won] {
        return Err(format!("{name} is not the only due work: {found:?}, {committed:?}").into());
    }
    Ok(took_ns as f64 / 1e3)
}

fn median(all: Vec<f64>) -> f64 {
    Spread::of(all).map_or(0.0, |spread| spread.median)
}
