//! Writes a topic exactly once: records, dead letters and the source's offsets become visible together.
//!
//! A commit takes 10 to 20 ms, so batches are collected, and two producers take turns: the next transaction
//! is written while one is committed. A failed transaction is aborted as a whole, together with the next
//! transaction, and the batches of both are written again. Writers with the same names abort transactions
//! that a crash left open. Readers must read only committed records.

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
use crate::sink::{Producer, Reports, Target, producer, target};

use commit_thread::CommitThread;
use transaction_buffer::Outlets;
use writer::{Rules, Writer};

mod writer;

mod commit;
mod commit_thread;
mod step;
mod transaction;
mod transaction_buffer;

/// The time limit of one attempt to begin a transaction.
const TRY: Duration = Duration::from_secs(5);
/// The default limit of events in flight. Events stay in flight until their transaction is committed: with a lower limit, small
/// events would wait for commits instead of brokers.
pub const EVENTS_IN_FLIGHT: usize = 100_000;
/// The limit of batches in one transaction.
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
    /// Builds the sink, which shares the membership of its source. Checks in the cluster that the sink's topics exist.
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

    /// Creates a producer, which aborts the open transaction of an earlier producer with the same name.
    fn producer(&self, id: &str) -> Result<Producer, Error> {
        let limits =
            [self.to.bytes_max, self.letters.as_ref().map_or(self.to.bytes_max, |letters| letters.bytes_max)];
        // A transaction must outlive its records' timeout.
        let lives = (self.delivery_timeout + Duration::from_secs(60))
            .min(Duration::from_secs(900))
            .as_millis()
            .to_string();
        let more = [("transactional.id", id), ("transaction.timeout.ms", &lives)];
        let timeout = self.delivery_timeout.min(Duration::from_secs(840));
        let producer = producer(&self.cluster, &limits, timeout, &more, Reports::default())?;
        let began = clock::now();
        loop {
            let error = match producer.init_transactions(TRY.min(self.connect_limit)) {
                Ok(()) => return Ok(producer),
                Err(error) => error,
            };
            let passes = matches!(&error, KafkaError::Transaction(error) if error.is_retriable());
            if !passes || u128::from(clock::now().since(began)) >= self.connect_limit.as_nanos() {
                return Err(Error::Refused {
                    action: format!("registering the transactional producer {id:?}"),
                    reason: words(&error),
                });
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
        // No worker's name ends with `.next`, so no name is used twice.
        let both = [outlets(&id)?, outlets(&format!("{id}.next"))?];
        let commit_thread = CommitThread::start().map_err(|error| refused(&error))?;
        Ok(Box::new(Writer::new(both, commit_thread, Arc::clone(&self.membership), self.rules)))
    }
}
