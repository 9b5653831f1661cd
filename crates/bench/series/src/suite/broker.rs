//! Finds or starts the brokers of one run, inspects their topics, and recreates topics by rule.

use std::time::Duration;

use anyhow::{Context, anyhow};
use plimsoll_kafka::broker::{Broker as Process, Settings};
use plimsoll_kafka::topic::{Admin, Topic};
use plimsoll_kafka::{Cluster, Error, group};
use plimsoll_measure::inspection::{self, Extent};
use plimsoll_mongo::scenario::Existing;
use plimsoll_report::suite as report;

use super::topics::{Broker, PARTITIONS, Topics};
use crate::cpus::{Cpus, pinned};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provisioning;

/// The time limit of one answer of the brokers to the suite. It is longer than 45 s, the default time after
/// which brokers forget a killed member.
const LIMIT: Duration = Duration::from_mins(1);

/// The brokers of one run.
pub struct Brokers {
    /// The broker that the suite started. Dropping this value ends it.
    process: Option<Process>,
    address: String,
    cluster: Cluster,
    admin: Admin,
}

impl Brokers {
    /// Finds or starts the brokers.
    ///
    /// # Errors
    /// When the brokers are not installed, or cannot be started.
    pub fn open(topics: &Topics, cpus: Option<&Cpus>) -> Outcome<Self> {
        let process = match &topics.broker {
            Broker::At(_) => None,
            Broker::Installed => Some(start(cpus)?),
        };
        let address = match (&process, &topics.broker) {
            (Some(process), _) => process.bootstrap(),
            (None, Broker::At(address)) => address.clone(),
            (None, Broker::Installed) => String::new(),
        };
        let properties = serde_json::from_value(topics.properties.clone()).unwrap_or_default();
        let cluster = Cluster::build(&address, &properties).deserves(Exit::Usage)?;
        let admin = Admin::of(&cluster, LIMIT).deserves(Exit::Server)?;
        Ok(Self { process, address, cluster, admin })
    }

    /// Their address for clients.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The process ID of the broker that the suite started. Empty for brokers that were running.
    pub fn pids(&self) -> Vec<u32> {
        self.process.iter().map(Process::pid).collect()
    }

    /// Inspects topics, which may be missing.
    ///
    /// # Errors
    /// When the brokers do not answer.
    pub fn look(&self, names: &[&str]) -> anyhow::Result<Vec<inspection::Topic>> {
        names.iter().map(|name| self.topic(name)).collect()
    }

    fn topic(&self, name: &str) -> anyhow::Result<inspection::Topic> {
        let partitions = match self.admin.describe(name) {
            Ok(extents) => extents,
            Err(Error::NoTopic { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let partitions: Vec<_> = partitions
            .into_iter()
            .map(|it| Extent { partition: it.partition, begin: it.begin, end: it.end })
            .collect();
        Ok(inspection::Topic { name: name.to_owned(), exists: !partitions.is_empty(), partitions })
    }

    /// Creates a topic, or recreates it by the rule. Returns a message if it contained events.
    ///
    /// # Errors
    /// When it is not empty and must not be recreated, or the brokers refuse.
    pub fn make(&self, name: &str, topics: &Topics) -> Outcome<Option<String>> {
        let was = self.topic(name).deserves(Exit::Server)?;
        match (was.exists, topics.rule) {
            (false, _) => self.create(name, topics).deserves(Exit::Server)?,
            (true, Existing::Drop) => self.reset(name, topics).deserves(Exit::Server)?,
            (true, _) if was.offsets() > 0 => return Err(in_the_way(&was)).deserves(Exit::Usage),
            (true, _) => {}
        }
        Ok((was.offsets() > 0).then(|| report::made_anew(name, was.offsets())))
    }

    fn create(&self, name: &str, topics: &Topics) -> Result<(), Error> {
        self.admin.create(&Topic::new(name, count(topics.partitions.unwrap_or(PARTITIONS))))
    }

    /// Recreates a topic with its settings, without its events. Only the row can change the number of
    /// partitions.
    fn reset(&self, name: &str, topics: &Topics) -> Result<(), Error> {
        let was = self.admin.as_made(name)?;
        let partitions = topics.partitions.map_or(was.partitions, count);
        self.admin.reset(&Topic { partitions, ..was })
    }

    /// Moves the groups of the run to the start of the topic.
    ///
    /// # Errors
    /// When the brokers refuse, for example because a group still has members.
    pub fn rewind(&self, topics: &Topics) -> Outcome<()> {
        let Some(read) = &topics.read else { return Ok(()) };
        for name in topics.reset_groups() {
            let extents = self.admin.describe(read).deserves(Exit::Server)?;
            group::rewind(&self.cluster, &name, read, &extents, LIMIT).deserves(Exit::Server)?;
        }
        Ok(())
    }

    /// Removes a topic.
    ///
    /// # Errors
    /// When the brokers refuse.
    pub fn remove(&self, name: &str) -> anyhow::Result<()> {
        Ok(self.admin.delete(name)?)
    }
}

fn start(cpus: Option<&Cpus>) -> Outcome<Process> {
    let cache = server_provisioning::cache()?;
    let started =
        pinned(cpus, || Process::start(cache.root(), Settings::default())).deserves(Exit::Failed)?;
    started.context("start the broker").deserves(Exit::Server)
}

fn count(partitions: u32) -> u16 {
    u16::try_from(partitions).unwrap_or(u16::MAX)
}

fn in_the_way(topic: &inspection::Topic) -> anyhow::Error {
    anyhow!(
        "the topic {} is not empty ({} offsets): name another with overrides, or use existing drop to recreate it before the \
         test",
        topic.name,
        topic.offsets()
    )
}
