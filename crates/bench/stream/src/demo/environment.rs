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

/// The topic, which the file names too.
pub const TOPIC: &str = "demo";
/// Its partitions.
pub const PARTITIONS: u16 = 3;
/// The collection, which the file names too.
pub const COLLECTION: &str = "plimsoll_demo.events";
/// How long the broker may take to make a topic.
const ADMIN_LIMIT: Duration = Duration::from_secs(60);
/// The heap of the broker: it shares this machine with all else.
const HEAP_BYTES: u64 = 256 << 20;

/// The servers, and the files of the two pipelines. All of it ends with this value.
pub struct Stage {
    /// The broker.
    pub broker: Broker,
    /// The MongoDB server.
    pub server: Server,
    /// The directory of it all.
    pub dir: PathBuf,
    /// The pipeline that fills the topic.
    pub filling: PathBuf,
    /// The pipeline that is shown.
    pub shown: PathBuf,
    /// Where messages go.
    pub console: &'static dyn Console,
}

/// Refuses to begin without what `cargo xtask setup` installs.
///
/// # Errors
/// What is missing, and what to do, in one sentence.
pub fn check_installed(cache: &Cache) -> anyhow::Result<()> {
    let missing = match (broker::is_installed(cache.root()), embedded::is_installed(cache)) {
        (true, true) => return Ok(()),
        (false, true) => "the broker is",
        (true, false) => "the embedded server is",
        (false, false) => "the broker and the embedded server are",
    };
    bail!("{missing} not installed: run `cargo xtask setup` in the folder of the sources, once")
}

impl Stage {
    /// Starts the servers, makes the topic and writes the files.
    ///
    /// # Errors
    /// What could not be started or written.
    pub fn set(cache: &Cache, dir: &Path, rate: u32, console: &'static dyn Console) -> anyhow::Result<Self> {
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

    /// The pipeline that is shown, as an audit reads it.
    ///
    /// # Errors
    /// When the file is gone.
    pub fn file(&self) -> anyhow::Result<PipelineFile> {
        Ok(read(&self.shown, &[])?.0)
    }
}

fn fill(brokers: &str, rate: u32) -> String {
    format!(
        "# Events for the demonstration: so many a second, until it is asked to end.\n\
         name: fill\n\
         guarantee: at-most-once\n\
         source: {{generator: {{partitions: {PARTITIONS}, rate: {rate}, payload: 200B, key: demo}}}}\n\
         sink: {{kafka: {{brokers: '{brokers}', topic: {TOPIC}, placing: same}}}}\n"
    )
}

fn pipeline(brokers: &str, uri: &str) -> String {
    format!(
        "# The pipeline that is shown: whatever is killed, each event counts once.\n\
         name: demo\n\
         guarantee: effectively-once\n\
         source:\n\
         \x20 kafka:\n\
         \x20   brokers: '{brokers}'\n\
         \x20   topic: {TOPIC}\n\
         \x20   group: demo\n\
         \x20   start: earliest\n\
         \x20   # A member that was killed is given up after so many milliseconds.\n\
         \x20   properties: {{session.timeout.ms: 6000}}\n\
         sink: {{insert: {{uri: '{uri}', collection: {COLLECTION}, form: full}}}}\n\
         dead_letters: {{insert: {{uri: '{uri}', collection: {COLLECTION}_dead, form: full}}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_pipelines_that_can_be_meant() {
        let (brokers, uri) = ("127.0.0.1:1", "mongodb://127.0.0.1:1/?directConnection=true");
        for text in [fill(brokers, 5), pipeline(brokers, uri)] {
            let file: PipelineFile = serde_saphyr::from_str(&text).unwrap();
            assert!(matches!(file.name.as_str(), "fill" | "demo"));
        }
    }
}
