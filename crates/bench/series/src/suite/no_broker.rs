//! Stands in for brokers in a build without Kafka.

use plimsoll_measure::inspection;

use super::cpus::Cpus;
use super::topics::Topics;
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// Brokers that cannot be.
pub enum Brokers {}

impl Brokers {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: &Topics, _: Option<&Cpus>) -> Outcome<Self> {
        Err(anyhow::anyhow!("this program was built without Kafka: build it with the feature `kafka`"))
            .deserves(Exit::Usage)
    }

    /// How clients reach them.
    pub fn address(&self) -> &str {
        match *self {}
    }

    /// The process that we started.
    pub fn pids(&self) -> Vec<u32> {
        match *self {}
    }

    /// Looks at topics.
    ///
    /// # Errors
    /// Never: there are none.
    pub fn look(&self, _: &[&str]) -> anyhow::Result<Vec<inspection::Topic>> {
        match *self {}
    }

    /// Makes a topic.
    ///
    /// # Errors
    /// Never: there are none.
    pub fn make(&self, _: &str, _: &Topics) -> Outcome<Option<String>> {
        match *self {}
    }

    /// Lets groups read a topic from its beginning.
    ///
    /// # Errors
    /// Never: there are none.
    pub fn rewind(&self, _: &Topics) -> Outcome<()> {
        match *self {}
    }

    /// Removes a topic.
    ///
    /// # Errors
    /// Never: there are none.
    pub fn remove(&self, _: &str) -> anyhow::Result<()> {
        match *self {}
    }
}
