//! Queries a running server for its facts and its counters.

use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::environment::ServerFacts;
use plimsoll_measure::sample::ServerSample;
use plimsoll_wire::{Address, ConnectOptions, Connection, Error};

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::machine::Disk;
use crate::process;

mod answers;
mod collection;
mod facts;
mod field;
mod normalise;
mod product;

pub use collection::CollectionStats;
pub use normalise::{Product, normalise};

/// A connection only for probing; no load uses it. It needs a tokio runtime with IO and time enabled.
#[derive(Debug)]
pub struct Probe {
    connection: Connection,
    build: RawDocumentBuf,
    product: Product,
    pid: Option<u32>,
    disk: Option<Disk>,
}

impl Probe {
    /// Connects and asks for the server's product. Connect again after a restart of the server.
    ///
    /// # Errors
    /// Those of [`Connection::connect`]; or the server does not answer `buildInfo`.
    pub async fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let mut connection = Connection::connect(options).await?;
        let build = connection.command("admin", &rawdoc! { "buildInfo": 1 }).await?;
        let product = Product::of(&build);
        let pid = local_process(&options.address);
        // The probe finds the storage among the process's open files, without asking the server.
        let disk = pid.and_then(process::storage).and_then(|storage| Disk::below(&storage));
        Ok(Probe { connection, build, product, pid, disk })
    }

    /// The server's process, if it runs on this machine, its address is the loopback, and this user may see
    /// it.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// The server's product, which decides how its counters are read.
    pub fn product(&self) -> Product {
        self.product
    }

    /// The server's facts by its own description. Facts that the server does not offer, or that this user may
    /// not request, are absent.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn facts(&mut self) -> Result<ServerFacts, Error> {
        let hello = match self.ask("admin", &rawdoc! { "hello": 1 }).await? {
            // Some products know only the former name.
            None => self.ask("admin", &rawdoc! { "isMaster": 1 }).await?,
            hello => hello,
        };
        let status = self.ask("admin", &status_request()).await?;
        let concern = self.ask("admin", &rawdoc! { "getDefaultRWConcern": 1 }).await?;
        let options = self.ask("admin", &rawdoc! { "getCmdLineOpts": 1 }).await?;
        let parameters = self.ask("admin", &facts::parameters_request()).await?;
        let answers =
            answers::Answers { build: Some(self.build.clone()), hello, status, concern, options, parameters };
        let mut facts = facts::facts(&answers, &self.connection.address().host);
        facts.addresses = vec![self.connection.address().to_string()];
        Ok(facts)
    }

    /// Reads the server's counters once; `at_ns` counts from the run's start to the request. A ping before it shows the round trip,
    /// because the counters take the server about a millisecond.
    ///
    /// # Errors
    /// The connection is lost, or this user may not ask for `serverStatus`.
    pub async fn sample(&mut self, run_start: Instant) -> Result<ServerSample, Error> {
        let pinged = clock::now();
        self.connection.command("admin", &rawdoc! { "ping": 1 }).await?;
        let asked = clock::now();
        let round_trip_ns = asked.since(pinged);
        let status = self.connection.command("admin", &status_request()).await?;
        let usage = self.pid.and_then(process::usage);
        Ok(ServerSample {
            at_ns: asked.since(run_start),
            round_trip_ns,
            cpu_ns: usage.map(|usage| usage.cpu_ns),
            rss_bytes: usage.and_then(|usage| usage.rss_bytes),
            process_read_bytes: usage.and_then(|usage| usage.disk_read_bytes),
            process_written_bytes: usage.and_then(|usage| usage.disk_written_bytes),
            disk_busy_ms: self.disk.as_ref().and_then(Disk::busy_ms),
            ..normalise(&status, self.product)
        })
    }

    /// The size of a collection; all values are absent if the collection is missing.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn collection_stats(
        &mut self,
        database: &str,
        collection: &str,
    ) -> Result<CollectionStats, Error> {
        let stats = self.ask(database, &rawdoc! { "collStats": collection }).await?;
        Ok(stats.map(|stats| collection::read(&stats, self.product)).unwrap_or_default())
    }

    /// Sends a command; none if the server refuses it.
    async fn ask(&mut self, database: &str, question: &RawDocument) -> Result<Option<RawDocumentBuf>, Error> {
        match self.connection.command(database, question).await {
            Ok(answer) => Ok(Some(answer)),
            Err(Error::Server(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A request for `serverStatus`. The whole status takes hundreds of kilobytes on a busy server, so the
/// request leaves out the large, unread sections. `repl` is small and contains the majority's lag; the state
/// of each member needs a second request, `replSetGetStatus`.
fn status_request() -> RawDocumentBuf {
    rawdoc! { "serverStatus": 1, "metrics": 0, "locks": 0, "tcmalloc": 0, "transactions": 0 }
}

fn local_process(address: &Address) -> Option<u32> {
    let ip = match address.host.as_str() {
        "localhost" => std::net::Ipv4Addr::LOCALHOST.into(),
        host => host.parse().ok()?,
    };
    process::listener(ip, address.port)
}
