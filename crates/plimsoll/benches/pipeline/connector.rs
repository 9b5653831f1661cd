//! The peer: Kafka Connect, standalone, with MongoDB's sink connector. It is a Java machine of its own.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use plimsoll_kafka::broker::{self, Jars};
use plimsoll_server::process;
use tempfile::TempDir;

use crate::Failure;
use crate::place::{DB, Log, Place, Store};

/// The connector, its driver, and what both need besides the broker's files.
const JARS: Jars<'_> = Jars {
    what: "the MongoDB connector",
    directory: "mongo-kafka-connect-2.0.1",
    project: include_str!("connector/pom.xml"),
    list: include_str!("connector/jars.txt"),
};
/// What runs, in words.
pub(crate) const VERSIONS: &str =
    "Kafka Connect 4.1.0 standalone, mongo-kafka-connect 2.0.1, mongodb-driver-sync 4.7.2";
/// The Java machine: a heap that it never fills, and the collector that it takes by itself on a server.
const JAVA: [&str; 4] =
    ["-Xms512m", "-Xmx1g", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"];
/// Tasks: as many as there are partitions, more have nothing to do.
const TASKS: u16 = crate::place::PARTITIONS;
/// Records that a task takes at once; the default of 500 is slower.
const RECORDS_MAX: u32 = 2000;

/// Fetches it into the cache. Quick when it is there.
pub(crate) fn install(place: &Place) -> Result<(), Failure> {
    JARS.install(place.cache.root(), &mut |progress| eprintln!("connector: {:?}", progress.step))?;
    Ok(())
}

pub(crate) fn is_installed(place: &Place) -> bool {
    JARS.is_installed(place.cache.root())
}

/// How it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writes {
    /// Replaces the document of a record, or inserts it: effectively once, as its guide has it.
    Replace,
    /// Inserts, which costs less; a record that comes again is an error.
    Insert,
}

impl Writes {
    const fn strategy(self) -> &'static str {
        match self {
            Self::Replace => "ReplaceOneDefaultStrategy",
            Self::Insert => "InsertOneDefaultStrategy",
        }
    }
}

/// A connector at work. Dropping it ends its process.
pub(crate) struct Connector {
    child: Child,
    home: TempDir,
}

impl Connector {
    /// Starts it; its `name` is that of its group as well.
    pub(crate) fn start(
        cache: &Path,
        (log, topic): (&Log, &str),
        (store, collection): (&Store, &str),
        (name, writes): (&str, Writes),
    ) -> Result<Self, Failure> {
        let home = tempfile::tempdir()?;
        let (worker, sink) = (home.path().join("worker.properties"), home.path().join("sink.properties"));
        fs::write(&worker, worker_properties(log, home.path())?)?;
        fs::write(&sink, sink_properties(topic, store, collection, name, writes))?;
        let classes = [broker::directory(cache), JARS.directory(cache)].map(|jars| jars.join("*"));
        let output = File::create(home.path().join("connect.log"))?;
        let mut java = Command::new("java");
        java.args(JAVA).arg("-cp").arg(std::env::join_paths(classes)?);
        java.arg("org.apache.kafka.connect.cli.ConnectStandalone").arg(worker).arg(sink);
        java.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        Ok(Self { child: java.current_dir(home.path()).spawn()?, home })
    }

    /// CPU time of its process so far, in nanoseconds.
    ///
    /// # Errors
    /// The end of its log, if it has ended.
    pub(crate) fn cpu_ns(&mut self) -> Result<u64, Failure> {
        if let Some(status) = self.child.try_wait()? {
            let log = fs::read_to_string(self.home.path().join("connect.log")).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(20).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            return Err(format!("Kafka Connect ended ({status}):\n{}", last.join("\n")).into());
        }
        let usage = process::usage(self.child.id()).ok_or("Kafka Connect cannot be looked at")?;
        Ok(usage.cpu_ns)
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn worker_properties(log: &Log, home: &Path) -> Result<String, Failure> {
    // Its REST interface cannot be turned off; nobody asks there.
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    Ok(format!(
        "bootstrap.servers={}\n\
         key.converter=org.apache.kafka.connect.converters.ByteArrayConverter\n\
         value.converter=org.apache.kafka.connect.storage.StringConverter\n\
         offset.storage.file.filename={}\n\
         listeners=http://127.0.0.1:{port}\n\
         plugin.discovery=only_scan\n",
        log.brokers(),
        home.join("offsets").display(),
    ))
}

/// Strings go to the connector as they are: it makes BSON of JSON in one step, without the tree that a JSON converter would make.
fn sink_properties(topic: &str, store: &Store, collection: &str, name: &str, writes: Writes) -> String {
    const PACKAGE: &str = "com.mongodb.kafka.connect";
    format!(
        "name={name}\n\
         connector.class={PACKAGE}.MongoSinkConnector\n\
         tasks.max={TASKS}\n\
         topics={topic}\n\
         connection.uri={}&w=majority&journal=true\n\
         database={DB}\n\
         collection={collection}\n\
         document.id.strategy={PACKAGE}.sink.processor.id.strategy.KafkaMetaDataStrategy\n\
         writemodel.strategy={PACKAGE}.sink.writemodel.strategy.{}\n\
         bulk.write.ordered=false\n\
         consumer.override.auto.offset.reset=earliest\n\
         consumer.override.max.poll.records={RECORDS_MAX}\n",
        store.uri(),
        writes.strategy(),
    )
}
