//! Receives the client library's callbacks: assigned and revoked partitions, and answered commits.
//!
//! A change of partitions is only recorded here. The library waits until the change is made, and keeps
//! reading the other partitions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_pipeline::Partition;
use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;

use crate::cluster::Watch;

/// A change of this member's partitions.
pub(super) enum Change {
    /// These partitions are assigned.
    Assigned(TopicPartitionList),
    /// These partitions are revoked, and stay assigned until this member confirms.
    Revoked(TopicPartitionList),
    /// These partitions are lost: other members may have them already.
    Lost(TopicPartitionList),
}

/// An answered commit, and its offsets.
pub(super) type Answered = (KafkaResult<()>, BTreeMap<Partition, u64>);

/// A member of a group, as the library calls it.
#[derive(Default)]
pub(super) struct Member {
    watch: Watch,
    changes: Mutex<VecDeque<Change>>,
    /// Whether changes wait; cheap enough to read for every message.
    is_changing: AtomicBool,
    commits: Mutex<VecDeque<Answered>>,
    closing: AtomicBool,
}

impl Member {
    /// The next recorded change.
    pub(super) fn next_change(&self) -> Option<Change> {
        let mut changes = lock(&self.changes);
        let next = changes.pop_front();
        self.is_changing.store(!changes.is_empty(), Ordering::Release);
        next
    }

    /// Whether a change waits.
    pub(super) fn is_changing(&self) -> bool {
        self.is_changing.load(Ordering::Acquire)
    }

    /// The next answered commit.
    pub(super) fn next_commit(&self) -> Option<Answered> {
        lock(&self.commits).pop_front()
    }

    /// Applies further changes at once.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientContext for Member {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.watch.note(&error, reason);
    }
}

impl ConsumerContext for Member {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        change: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let assigned = change == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.closing.load(Ordering::Relaxed) {
            let cooperative = matches!(consumer.rebalance_protocol(), RebalanceProtocol::Cooperative);
            // A failure has no consequence: the client is being closed.
            let _ = match (assigned, cooperative) {
                (true, true) => consumer.incremental_assign(list),
                (true, false) => consumer.assign(list),
                (false, true) => consumer.incremental_unassign(list),
                (false, false) => consumer.unassign(),
            };
            return;
        }
        let list = list.clone();
        let change = match assigned {
            true => Change::Assigned(list),
            false if consumer.assignment_lost() => Change::Lost(list),
            false => Change::Revoked(list),
        };
        let mut changes = lock(&self.changes);
        changes.push_back(change);
        self.is_changing.store(true, Ordering::Release);
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        let kept = offsets.elements().into_iter().filter_map(|at| {
            let next = u64::try_from(at.offset().to_raw()?).ok()?;
            Some((Partition::new(at.topic(), at.partition().unsigned_abs()), next))
        });
        lock(&self.commits).push_back((result, kept.collect()));
    }
}
