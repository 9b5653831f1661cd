//! Asks a running server for its facts and its counters.

use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::environment::ServerFacts;
use plimsoll_measure::sample::ServerSample;
use plimsoll_wire::{Address, ConnectOptions, Connection, Error};

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::machine::Disk;
use crate::process;

mod collection;
mod facts;
mod field;
mod normalise;

pub use collection::CollectionStats;
pub use normalise::{Maker, normalise};

/// A connection for probing only: no load uses it. Must be used on a tokio runtime with IO and time enabled.
#[derive(Debug)]
pub struct Probe {
    connection: Connection,
    build: RawDocumentBuf,
    maker: Maker,
    pid: Option<u32>,
    disk: Option<Disk>,
}

impl Probe {
    /// Connects and asks who made the server. After the server was restarted, connect anew.
    ///
    /// # Errors
    /// Those of [`Connection::connect`]; or the server does not answer `buildInfo`.
    pub async fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let mut connection = Connection::connect(options).await?;
        let build = connection.command("admin", &rawdoc! { "buildInfo": 1 }).await?;
        let maker = Maker::of(&build);
        let pid = local_process(&options.address);
        // The storage is found among the process's open files, without asking the server.
        let disk = pid.and_then(process::storage).and_then(|storage| Disk::below(&storage));
        Ok(Probe { connection, build, maker, pid, disk })
    }

    /// The server's process, if it runs on this machine, was addressed by the loopback, and this user may see it.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// The server's product, which decides how its counters are read.
    pub fn maker(&self) -> Maker {
        self.maker
    }

    /// The server's facts by its own description. A fact that it does not offer, or that this user may not ask for, is absent.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn facts(&mut self) -> Result<ServerFacts, Error> {
        let hello = self.ask("admin", &rawdoc! { "hello": 1 }).await?;
        let status = self.ask("admin", &status_request()).await?;
        let concern = self.ask("admin", &rawdoc! { "getDefaultRWConcern": 1 }).await?;
        let options = self.ask("admin", &rawdoc! { "getCmdLineOpts": 1 }).await?;
        let parameters = self.ask("admin", &facts::parameters_request()).await?;
        let said =
            facts::Said { build: Some(self.build.clone()), hello, status, concern, options, parameters };
        let mut facts = facts::facts(&said);
        facts.addresses = vec![self.connection.address().to_string()];
        Ok(facts)
    }

    /// One look at the server's counters, `at_ns` counted from the run's start to the moment of asking.
    ///
    /// # Errors
    /// The connection is lost, or this user may not ask for `serverStatus`.
    pub async fn sample(&mut self, run_start: Instant) -> Result<ServerSample, Error> {
        let asked = clock::now();
        let status = self.connection.command("admin", &status_request()).await?;
        let round_trip_ns = clock::now().since(asked);
        let usage = self.pid.and_then(process::usage);
        Ok(ServerSample {
            at_ns: asked.since(run_start),
            round_trip_ns,
            cpu_ns: usage.map(|usage| usage.cpu_ns),
            rss_bytes: usage.and_then(|usage| usage.rss_bytes),
            process_read_bytes: usage.and_then(|usage| usage.disk_read_bytes),
            process_written_bytes: usage.and_then(|usage| usage.disk_written_bytes),
            disk_busy_ms: self.disk.as_ref().and_then(Disk::busy_ms),
            ..normalise(&status, self.maker)
        })
    }

    /// The size of a collection; all is absent if there is none.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn collection_stats(
        &mut self,
        database: &str,
        collection: &str,
    ) -> Result<CollectionStats, Error> {
        let stats = self.ask(database, &rawdoc! { "collStats": collection }).await?;
        Ok(stats.map(|stats| collection::read(&stats, self.maker)).unwrap_or_default())
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

/// The whole status is hundreds of kilobytes on a busy server; these sections are large and not read. `repl` is small and
/// tells how far the majority lies behind; what each member does is in `replSetGetStatus`, which is a second question.
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
