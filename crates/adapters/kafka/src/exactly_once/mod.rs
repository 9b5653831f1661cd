//! Writes a topic exactly once: records, dead letters and the source's offsets become visible together.
//!
//! A commit takes 10 to 20 ms, so batches are gathered, and two producers take turns: the next transaction is written while
//! one is committed. It is given up as a whole, with the one behind it, and their batches come again. What a crash leaves
//! open is ended by the next writers of the same names; readers must read what is committed only.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_pipeline::{Identity, Order, Promise, Sink, SinkError, SinkFactory};
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;

use crate::cluster::Cluster;
use crate::error::{Error, words};
use crate::membership::Membership;
use crate::scenario::{self, Placing};
use crate::sink::{Producer, Target, producer, target};

use commit_thread::CommitThread;
use transaction_buffer::Outlets;
use writer::{Rules, Writer};

mod writer;

mod commit;
mod commit_thread;
mod step;
mod transaction;
mod transaction_buffer;

/// How long one try to begin may take.
const TRY: Duration = Duration::from_secs(5);
/// Events that a pipeline has in flight if its file does not say. They stay until their transaction is committed: with fewer,
/// small ones wait for commits instead of the brokers.
pub const EVENTS_IN_FLIGHT: usize = 100_000;
/// Batches of one transaction at most.
const BATCHES_MAX: usize = 1024;

/// A topic that is written to in transactions.
pub struct Topic {
    cluster: Cluster,
    to: Target,
    letters: Option<Target>,
    transactional_id: String,
    membership: Arc<Membership>,
    rules: Rules,
    delivery_timeout: Duration,
    connect_limit: Duration,
}

impl Topic {
    /// The sink as typed, for the source that shares its membership; asks the cluster for its topics.
    ///
    /// # Errors
    /// [`Error::NoTopic`], [`Error::Unreachable`], and those of the settings.
    pub fn build(
        typed: &scenario::Sink,
        once: &scenario::ExactlyOnce,
        membership: Arc<Membership>,
    ) -> Result<Self, Error> {
        let cluster = Cluster::build(&typed.brokers, &typed.properties)?;
        let limit = Duration::from_nanos(typed.connect_limit.as_ns());
        let letters = once.dead_letters.as_ref();
        let letters = letters.map(|topic| target(&cluster, topic, Placing::Key, limit)).transpose()?;
        let rules =
            Rules { records_min: u64::from(once.records_min.max(1)), age_max_ns: once.age_max.as_ns() };
        Ok(Self {
            to: target(&cluster, &typed.topic, typed.placing, limit)?,
            letters,
            cluster,
            transactional_id: once.transactional_id.clone(),
            membership,
            rules,
            delivery_timeout: Duration::from_nanos(typed.delivery_timeout.as_ns()),
            connect_limit: limit,
        })
    }

    /// A producer that has ended what an earlier one of its name left open.
    fn producer(&self, id: &str) -> Result<Producer, Error> {
        let limits =
            [self.to.bytes_max, self.letters.as_ref().map_or(self.to.bytes_max, |letters| letters.bytes_max)];
        // A transaction may not be younger than its records may be old.
        let lives = (self.delivery_timeout + Duration::from_secs(60))
            .min(Duration::from_secs(900))
            .as_millis()
            .to_string();
        let more = [("transactional.id", id), ("transaction.timeout.ms", &lives)];
        let timeout = self.delivery_timeout.min(Duration::from_secs(840));
        let producer = producer(&self.cluster, &limits, timeout, &more)?;
        let began = clock::now();
        loop {
            let error = match producer.init_transactions(TRY.min(self.connect_limit)) {
                Ok(()) => return Ok(producer),
                Err(error) => error,
            };
            let passes = matches!(&error, KafkaError::Transaction(error) if error.is_retriable());
            if !passes || u128::from(clock::now().since(began)) >= self.connect_limit.as_nanos() {
                return Err(Error::Refused { action: format!("beginning as {id:?}"), reason: words(&error) });
            }
        }
    }
}

impl SinkFactory for Topic {
    fn promise(&self) -> Promise {
        Promise {
            durable: true,
            identity: Identity::Transaction,
            order: Order::Kept,
            writes_dead_letters: true,
        }
    }

    fn build(&self, worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        let refused = |error: &dyn std::fmt::Display| SinkError::Refused(error.to_string());
        let outlets = |id: &str| -> Result<Outlets, SinkError> {
            let producer = Arc::new(self.producer(id).map_err(|error| refused(&error))?);
            Ok(Outlets { producer, to: self.to.clone(), letters: self.letters.clone() })
        };
        let id = format!("{}-{worker}", self.transactional_id);
        // No worker's name ends like the second: none is taken for the first of another.
        let both = [outlets(&id)?, outlets(&format!("{id}.next"))?];
        let ender = CommitThread::start().map_err(|error| refused(&error))?;
        Ok(Box::new(Writer::new(both, ender, Arc::clone(&self.membership), self.rules)))
    }
}
