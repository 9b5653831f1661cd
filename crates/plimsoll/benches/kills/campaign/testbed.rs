//! Runs a real broker and a real server, which are killed and restarted.

use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server};
use plimsoll_kafka::Cluster;
use plimsoll_kafka::broker::{Broker, Settings};
use plimsoll_kafka::topic::{Admin, Topic};

/// The time limit of the broker's answers.
const LIMIT: Duration = Duration::from_secs(60);
/// The number of partitions of every topic.
pub const PARTITIONS: u16 = 3;

/// The broker and the server of the pipelines.
pub struct Testbed {
    broker: Broker,
    server: Server,
}

impl Testbed {
    /// Starts the broker and the server.
    pub fn start() -> anyhow::Result<Self> {
        let cache = Cache::locate().context("find the cache")?;
        let settings = Settings {
            heap_bytes_max: 256 << 20,
            // The group notices a killed member after four seconds instead of the default: a campaign has
            // many.
            properties: [("group.min.session.timeout.ms".to_owned(), "1000".to_owned())].into(),
            ..Settings::default()
        };
        let broker = Broker::start(cache.root(), settings).context("start the broker")?;
        Ok(Self { broker, server: serve(Profile::Journaled)? })
    }

    /// The broker's address.
    pub fn brokers(&self) -> String {
        self.broker.bootstrap()
    }

    /// The server's URI.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.server.address())
    }

    /// Ensures a server of this profile: a new, empty one if necessary.
    pub fn promise(&mut self, profile: Profile) -> anyhow::Result<()> {
        if self.server.profile() != Some(profile) {
            self.server = serve(profile)?;
        }
        Ok(())
    }

    /// Creates an empty topic.
    pub fn topic(&self, name: &str) -> anyhow::Result<()> {
        let admin = Admin::of(&Cluster::at(self.brokers()), LIMIT)?;
        Ok(admin.reset(&Topic::new(name, PARTITIONS))?)
    }

    /// Kills the broker, and restarts it after a time.
    pub fn kill_broker(&mut self, down: Duration) -> anyhow::Result<()> {
        self.broker.kill()?;
        thread::sleep(down);
        self.broker.restart().context("start the broker again")
    }

    /// Kills the server, and restarts it after a time.
    pub fn kill_server(&mut self, down: Duration) -> anyhow::Result<()> {
        self.server.kill()?;
        thread::sleep(down);
        self.server.restart().context("start the server again")
    }
}

fn serve(profile: Profile) -> anyhow::Result<Server> {
    let cache = Cache::locate().context("find the cache")?;
    ensure!(embedded::is_installed(&cache), "the embedded server is missing: run `cargo xtask setup` first");
    let options = Options { profile, cache_bytes: Some(128 << 20), ..Options::default() };
    embedded::start(&cache, &options).context("start the server")
}
