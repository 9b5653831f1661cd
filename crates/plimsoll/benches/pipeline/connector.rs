//! Runs the peer: Kafka Connect, standalone, with MongoDB's sink connector, in its own JVM.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use plimsoll_host::process;
use plimsoll_kafka::broker::{self, Jars};
use plimsoll_process::{Child, Lifetime, Program, log, port};
use tempfile::TempDir;

use crate::Failure;
use crate::testbed::{DB, Log, Store, Testbed};

/// The connector, its driver, and further files besides the broker's.
const JARS: Jars<'_> = Jars {
    what: "the MongoDB connector",
    directory: "mongo-kafka-connect-2.0.1",
    project: include_str!("connector/pom.xml"),
    list: include_str!("connector/jars.txt"),
};
/// The description of the peer.
pub(crate) const VERSIONS: &str =
    "Kafka Connect 4.1.0 standalone, mongo-kafka-connect 2.0.1, mongodb-driver-sync 4.7.2";
/// The JVM: a heap that never fills, and its default collector on a server.
const JAVA: [&str; 4] =
    ["-Xms512m", "-Xmx1g", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"];
/// The main class.
const STANDALONE: &str = "org.apache.kafka.connect.cli.ConnectStandalone";
/// The log file in its home.
const LOG: &str = "connect.log";
/// The number of tasks: the number of partitions, because further tasks would be idle.
const TASKS: u16 = crate::testbed::PARTITIONS;
/// Records that a task takes at once; the default of 500 is slower. A task writes them with one bulk
/// (`max.batch.size=0`).
const RECORDS_MAX: u32 = 2000;
/// Bytes that a task fetches from a partition at once: more than the bytes of these records, so that a bulk
/// is always full.
const FETCH_BYTES: u32 = 4 << 20;
/// The description of the connector's tuning.
pub(crate) const SETTINGS: &str = "the connector with a task a partition, unordered bulks of 2000, fetches of 4 MiB, no retries of \
                                   the driver (ours has none either), offsets once a minute (ours once a second)";

/// Fetches the connector into the cache, unless it is installed.
pub(crate) fn install(testbed: &Testbed) -> Result<(), Failure> {
    JARS.install(testbed.cache.root(), &mut |progress| eprintln!("connector: {:?}", progress.step))?;
    Ok(())
}

pub(crate) fn is_installed(testbed: &Testbed) -> bool {
    JARS.is_installed(testbed.cache.root())
}

/// The write mode.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writes {
    /// Replaces the document of a record, or inserts it: effectively once, as its guide recommends.
    Replace,
    /// Inserts, which costs less; a repeated record is an error.
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

/// A running connector. Dropping it ends its process.
pub(crate) struct Connector {
    // Fields are dropped in this order: the process must end before its home is removed.
    child: Child,
    home: TempDir,
}

impl Connector {
    /// Starts the connector; its `name` is also that of its group.
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
        let mut args = JAVA.map(OsString::from).to_vec();
        args.extend([OsString::from("-cp"), std::env::join_paths(classes)?, OsString::from(STANDALONE)]);
        args.extend([worker, sink].map(OsString::from));
        let (log, directory) = (home.path().join(LOG), home.path().to_owned());
        let java = Program {
            name: "Kafka Connect",
            path: "java".into(),
            args,
            log,
            directory,
            hidden_variables: &[],
        };
        Ok(Self { child: Child::spawn(&java, None, Lifetime::Bound)?, home })
    }

    /// The CPU time of its process so far, in nanoseconds.
    ///
    /// # Errors
    /// The end of its log, if it has ended.
    pub(crate) fn cpu_ns(&self) -> Result<u64, Failure> {
        if let Some(status) = self.child.ended() {
            let last = log::tail(&self.home.path().join(LOG));
            return Err(format!("Kafka Connect ended ({status}):\n{last}").into());
        }
        let usage = process::usage(self.child.pid()).ok_or("read the state of Kafka Connect")?;
        Ok(usage.cpu_ns)
    }
}

fn worker_properties(log: &Log, home: &Path) -> Result<String, Failure> {
    // Its REST interface cannot be disabled; it is not used.
    let [port] = port::free::<1>()?;
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

/// The connector gets unparsed strings: it makes one tree of the JSON, where a JSON converter would make
/// three. Replacing is idempotent, so the driver's own retries, which cost the server a record of each bulk,
/// are not needed for its guarantee.
fn sink_properties(topic: &str, store: &Store, collection: &str, name: &str, writes: Writes) -> String {
    const PACKAGE: &str = "com.mongodb.kafka.connect";
    format!(
        "name={name}\n\
         connector.class={PACKAGE}.MongoSinkConnector\n\
         tasks.max={TASKS}\n\
         topics={topic}\n\
         connection.uri={}&w=majority&journal=true&retryWrites=false\n\
         database={DB}\n\
         collection={collection}\n\
         document.id.strategy={PACKAGE}.sink.processor.id.strategy.KafkaMetaDataStrategy\n\
         writemodel.strategy={PACKAGE}.sink.writemodel.strategy.{}\n\
         bulk.write.ordered=false\n\
         max.batch.size=0\n\
         consumer.override.auto.offset.reset=earliest\n\
         consumer.override.max.poll.records={RECORDS_MAX}\n\
         consumer.override.max.partition.fetch.bytes={FETCH_BYTES}\n",
        store.uri(),
        writes.strategy(),
    )
}
