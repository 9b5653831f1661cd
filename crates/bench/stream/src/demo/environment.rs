//! Starts a broker with a topic and a MongoDB server, and writes two pipeline files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use plimsoll_host::{Cache, Profile, Server, embedded};
use plimsoll_kafka::Cluster;
use plimsoll_kafka::broker::{self, Broker};
use plimsoll_kafka::topic::{Admin, Topic};

use crate::{PipelineFile, read};
use plimsoll_run::console::Console;
use plimsoll_run::run_dir::write_private;

/// The topic, as in the pipeline files.
pub const TOPIC: &str = "demo";
/// The partitions of the topic.
pub const PARTITIONS: u16 = 3;
/// The collection, as in the pipeline files.
pub const COLLECTION: &str = "plimsoll_demo.events";
/// The time limit of the broker for creating a topic.
const ADMIN_LIMIT: Duration = Duration::from_secs(60);
/// The broker's heap: it shares this machine with all other processes.
const HEAP_BYTES: u64 = 256 << 20;

/// The servers, and the files of the two pipelines. Dropping it ends the servers.
pub struct Environment {
    /// The broker.
    pub broker: Broker,
    /// The MongoDB server.
    pub server: Server,
    /// The directory of the demonstration.
    pub dir: PathBuf,
    /// The pipeline that fills the topic.
    pub filling: PathBuf,
    /// The demonstrated pipeline.
    pub shown: PathBuf,
    /// The console for messages.
    pub console: &'static dyn Console,
}

/// Fails unless `cargo xtask setup` has installed everything.
///
/// # Errors
/// The missing programs, and the remedy.
pub fn check_installed(cache: &Cache) -> anyhow::Result<()> {
    let missing = match (broker::is_installed(cache.root()), embedded::is_installed(cache)) {
        (true, true) => return Ok(()),
        (false, true) => "the broker is",
        (true, false) => "the embedded server is",
        (false, false) => "the broker and the embedded server are",
    };
    bail!("{missing} not installed: run `cargo xtask setup` in the folder of the sources, once")
}

impl Environment {
    /// Starts the servers, creates the topic and writes the files.
    ///
    /// # Errors
    /// A server cannot be started, or a file cannot be written.
    pub fn start(
        cache: &Cache,
        dir: &Path,
        rate: u32,
        console: &'static dyn Console,
    ) -> anyhow::Result<Self> {
        let settings = broker::Settings { heap_bytes_max: HEAP_BYTES, ..broker::Settings::default() };
        let broker = Broker::start(cache.root(), settings).context("start the broker")?;
        let options = embedded::Options { profile: Profile::Journaled, ..embedded::Options::default() };
        let server = embedded::start(cache, &options).context("start the embedded server")?;
        let brokers = broker.bootstrap();
        let admin = Admin::of(&Cluster::at(&brokers), ADMIN_LIMIT)?;
        admin.create(&Topic::new(TOPIC, PARTITIONS)).context("make the topic")?;
        let uri = format!("mongodb://{}/?directConnection=true", server.address());
        let (filling, shown) = (dir.join("fill.yaml"), dir.join("pipeline.yaml"));
        write_private(&filling, &fill(&brokers, rate))?;
        write_private(&shown, &pipeline(&brokers, &uri))?;
        Ok(Self { broker, server, dir: dir.to_owned(), filling, shown, console })
    }

    /// The demonstrated pipeline, for the audit.
    ///
    /// # Errors
    /// The file is missing.
    pub fn file(&self) -> anyhow::Result<PipelineFile> {
        Ok(read(&self.shown, &[])?.0)
    }
}

fn fill(brokers: &str, rate: u32) -> String {
    format!(
        "# Events for the demonstration, at a constant rate until it is stopped.\n\
         name: fill\n\
         guarantee: at-most-once\n\
         source: {{generator: {{partitions: {PARTITIONS}, rate: {rate}, payload: 200B, key: demo}}}}\n\
         sink: {{kafka: {{brokers: '{brokers}', topic: {TOPIC}, placing: same}}}}\n"
    )
}

fn pipeline(brokers: &str, uri: &str) -> String {
    format!(
        "# The demonstrated pipeline: whatever is killed, each event counts once.\n\
         name: demo\n\
         guarantee: effectively-once\n\
         source:\n\
         \x20 kafka:\n\
         \x20   brokers: '{brokers}'\n\
         \x20   topic: {TOPIC}\n\
         \x20   group: demo\n\
         \x20   start: earliest\n\
         \x20   # A killed member leaves the group after this many milliseconds.\n\
         \x20   properties: {{session.timeout.ms: 6000}}\n\
         sink: {{insert: {{uri: '{uri}', collection: {COLLECTION}, form: full}}}}\n\
         dead_letters: {{insert: {{uri: '{uri}', collection: {COLLECTION}_dead, form: full}}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_valid_pipelines() {
        let (brokers, uri) = ("127.0.0.1:1", "mongodb://127.0.0.1:1/?directConnection=true");
        for text in [fill(brokers, 5), pipeline(brokers, uri)] {
            let file: PipelineFile = serde_saphyr::from_str(&text).unwrap();
            assert!(matches!(file.name.as_str(), "fill" | "demo"));
        }
    }
}
