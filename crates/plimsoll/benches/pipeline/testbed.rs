//! Provides the machine, the server and the broker that the rows share.

use std::cell::{OnceCell, RefCell};
use std::env;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server, machine};
use plimsoll_kafka::broker::{self, Broker, Settings};
use plimsoll_kafka::topic::{Admin, Extent, Topic};
use plimsoll_kafka::{Cluster, bench};
use plimsoll_measure::clock;
use plimsoll_measure::environment::Environment;
use plimsoll_wire::{ConnectOptions, Connection};
use tokio::runtime::Runtime;

use crate::{Failure, connector};

/// The database of all rows.
pub(crate) const DB: &str = "plimsoll_bench";
/// The number of partitions of every topic.
pub(crate) const PARTITIONS: u16 = 4;
/// The time limit of every part of a row.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);
/// The time limit for the last documents.
const PATIENCE: Duration = Duration::from_secs(30);
/// The server's cache: more than all documents of a turn, so that the server never evicts.
const CACHE_BYTES: u64 = 1 << 30;
/// The broker's heap: more than it needs.
const HEAP_BYTES: u64 = 768 << 20;

/// The environment of the measurements.
pub(crate) struct Testbed {
    /// The cache with the installed programs.
    pub(crate) cache: Cache,
    /// The machine of the clients.
    pub(crate) machine: Environment,
    log: OnceCell<Rc<Log>>,
    store: OnceCell<Rc<RefCell<Store>>>,
}

impl Testbed {
    pub(crate) fn find() -> Result<Self, Failure> {
        let machine = machine::environment(&env::temp_dir());
        Ok(Self { cache: Cache::locate()?, machine, log: OnceCell::new(), store: OnceCell::new() })
    }

    /// The conditions of the figures, each with its name.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let Environment { cpu, cores, memory_bytes, kernel, os, disk, plimsoll, optimised, .. } =
            &self.machine;
        let build = if *optimised { "" } else { "; NOT optimised: these figures mean nothing" };
        let memory = memory_bytes.unwrap_or_default() >> 30;
        vec![
            (
                "machine",
                format!("{}, {cores} cores, {memory} GiB, {}, Linux {}", or(cpu), or(os), or(kernel)),
            ),
            ("disk", or(disk)),
            ("plimsoll", format!("{plimsoll} {}{build}", said("git", &["rev-parse", "--short=12", "HEAD"]))),
            ("built by", said("rustc", &["--version"])),
            ("server", format!("SecantusDB {}, {} profile", embedded::VERSION, Profile::Relaxed.name())),
            ("broker", format!("Apache Kafka {}, librdkafka {}", broker::VERSION, bench::library())),
            ("peer", format!("{}, {}", connector::VERSIONS, said("java", &["--version"]))),
        ]
    }

    /// The server, started when a row first needs it.
    pub(crate) fn server(&self) -> Result<Rc<RefCell<Store>>, Failure> {
        if let Some(store) = self.store.get() {
            return Ok(Rc::clone(store));
        }
        let options =
            Options { profile: Profile::Relaxed, cache_bytes: Some(CACHE_BYTES), ..Options::default() };
        let store = Rc::new(RefCell::new(Store::of(embedded::start(&self.cache, &options)?)?));
        Ok(Rc::clone(self.store.get_or_init(|| store)))
    }

    /// The broker, started when a row first needs it.
    pub(crate) fn broker(&self) -> Result<Rc<Log>, Failure> {
        if let Some(log) = self.log.get() {
            return Ok(Rc::clone(log));
        }
        // Old segments are deleted often, for the steady run.
        let properties = [("log.retention.check.interval.ms".to_owned(), "5000".to_owned())].into();
        let settings = Settings { heap_bytes_max: HEAP_BYTES, properties, ..Settings::default() };
        let log = Rc::new(Log { broker: Broker::start(self.cache.root(), settings)? });
        Ok(Rc::clone(self.log.get_or_init(|| log)))
    }
}

/// The first line that a program prints.
fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().map_or_else(|| format!("{program}: unknown"), str::to_owned)
}

/// A broker with its topics.
pub(crate) struct Log {
    broker: Broker,
}

impl Log {
    pub(crate) fn brokers(&self) -> String {
        self.broker.bootstrap()
    }

    pub(crate) fn cluster(&self) -> Cluster {
        Cluster::at(self.brokers())
    }

    /// Recreates a topic.
    pub(crate) fn reset(&self, topic: &Topic) -> Result<(), Failure> {
        Ok(Admin::of(&self.cluster(), LIMIT)?.reset(topic)?)
    }

    /// The begin and end of each partition of a topic.
    pub(crate) fn extents(&self, topic: &str) -> Result<Vec<Extent>, Failure> {
        Ok(Admin::of(&self.cluster(), LIMIT)?.describe(topic)?)
    }

    /// Creates a topic and fills it; `make` appends the payload of each record.
    pub(crate) fn fill(
        &self,
        name: &str,
        records: u64,
        make: &mut dyn FnMut(u64, &mut Vec<u8>),
    ) -> Result<(), Failure> {
        self.reset(&Topic::new(name, PARTITIONS))?;
        bench::produce(&self.cluster(), name, records, make)?;
        Ok(())
    }
}

/// A server, and a connection for rare commands.
pub(crate) struct Store {
    server: Server,
    runtime: Runtime,
    connection: Connection,
}

impl Store {
    fn of(server: Server) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let options = ConnectOptions::new(server.address().to_string().parse()?);
        let connection = runtime.block_on(Connection::connect(&options))?;
        Ok(Self { server, runtime, connection })
    }

    pub(crate) fn address(&self) -> String {
        self.server.address().to_string()
    }

    pub(crate) fn uri(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address())
    }

    /// Drops a collection, so that every turn starts alike.
    pub(crate) fn drop_collection(&mut self, name: &str) -> Result<(), Failure> {
        self.ask(&rawdoc! {"drop": name})?;
        Ok(())
    }

    /// The number of documents in a collection.
    fn count(&mut self, name: &str) -> Result<u64, Failure> {
        let reply = self.ask(&rawdoc! {"count": name})?;
        number(&reply, "n")
    }

    /// Waits until a collection has exactly this many documents.
    pub(crate) fn wait_for_count(&mut self, name: &str, expected: u64) -> Result<(), Failure> {
        let began = clock::now();
        loop {
            let count = self.count(name)?;
            if count == expected {
                return Ok(());
            }
            if count > expected || u128::from(clock::now().since(began)) > PATIENCE.as_nanos() {
                return Err(format!("{count} documents exist, and {expected} are expected").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The mean BSON size of a collection's documents.
    pub(crate) fn document_bytes(&mut self, name: &str) -> Result<f64, Failure> {
        let reply = self.ask(&rawdoc! {"collStats": name})?;
        Ok(number(&reply, "size")? as f64 / number(&reply, "count")?.max(1) as f64)
    }

    /// Runs a command on the database.
    pub(crate) fn ask(&mut self, command: &RawDocument) -> Result<RawDocumentBuf, Failure> {
        Ok(self.runtime.block_on(self.connection.command(DB, command))?)
    }
}

/// An integer of any BSON type.
fn number(reply: &RawDocument, name: &str) -> Result<u64, Failure> {
    let value = reply.get(name)?.ok_or_else(|| format!("the server's answer has no {name}"))?;
    let whole = value.as_i64().or_else(|| value.as_i32().map(i64::from));
    let whole = whole.or_else(|| value.as_f64().map(|value| value as i64));
    Ok(u64::try_from(whole.ok_or_else(|| format!("{name} is not a number"))?)?)
}
