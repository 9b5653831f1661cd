//! Refuses brokers in a build without Kafka.

use plimsoll_measure::inspection;

use super::topics::Topics;
use crate::cpus::Cpus;
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// Brokers, which this build does not support.
pub enum Brokers {}

impl Brokers {
    /// Refuses brokers.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: &Topics, _: Option<&Cpus>) -> Outcome<Self> {
        Err(anyhow::anyhow!("this program was built without Kafka: build it with the feature `kafka`"))
            .deserves(Exit::Usage)
    }

    /// Their address for clients.
    pub fn address(&self) -> &str {
        match *self {}
    }

    /// The process ID of the broker that the suite started.
    pub fn pids(&self) -> Vec<u32> {
        match *self {}
    }

    /// Inspects topics.
    ///
    /// # Errors
    /// Never: there are no brokers.
    pub fn look(&self, _: &[&str]) -> anyhow::Result<Vec<inspection::Topic>> {
        match *self {}
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// Never: there are no brokers.
    pub fn make(&self, _: &str, _: &Topics) -> Outcome<Option<String>> {
        match *self {}
    }

    /// Moves groups to the start of a topic.
    ///
    /// # Errors
    /// Never: there are no brokers.
    pub fn rewind(&self, _: &Topics) -> Outcome<()> {
        match *self {}
    }

    /// Removes a topic.
    ///
    /// # Errors
    /// Never: there are no brokers.
    pub fn remove(&self, _: &str) -> anyhow::Result<()> {
        match *self {}
    }
}
