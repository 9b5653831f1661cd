//! Runs one step of a transaction, and classifies its error.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_pipeline::Batch;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::producer::{Producer as _, PurgeConfig};

use crate::backoff;
use crate::error::words;
use crate::sink::Producer;
use crate::source::offsets;

/// The time that one step waits for a broker.
const WAIT: Duration = Duration::from_secs(1);

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The step is done.
    Done,
    /// No broker has answered yet: repeat the step.
    Again,
    /// The transaction must be aborted.
    Abort(String),
    /// The producer is unusable: a producer with the same name replaced it, or it lost its permissions.
    Over(String),
}

/// Begins a transaction.
pub(super) fn begin(producer: &Producer) -> Step {
    classify(producer.begin_transaction())
}

/// The offsets after the batches. The last batch of a partition counts, because batches are in order.
pub(super) fn offsets_behind<'a>(
    batches: impl Iterator<Item = &'a Batch>,
) -> Result<TopicPartitionList, String> {
    let last: BTreeMap<_, _> = batches.map(|batch| (batch.position_partition(), batch.position())).collect();
    offsets(last).map_err(|error| error.to_string())
}

/// Adds offsets to the transaction.
pub(super) fn send_offsets(
    producer: &Producer,
    offsets: &TopicPartitionList,
    generation: &ConsumerGroupMetadata,
) -> Step {
    classify(producer.send_offsets_to_transaction(offsets, generation, WAIT))
}

/// Makes all records visible. Every record must have been reported: the library's own flush polls only every
/// 100 ms.
pub(super) fn commit(producer: &Producer) -> Step {
    classify(producer.commit_transaction(WAIT))
}

/// Aborts the transaction.
pub(super) fn abort(producer: &Producer) -> Step {
    producer.purge(PurgeConfig::default().queue().inflight());
    backoff::drain(producer);
    match classify(producer.abort_transaction(WAIT)) {
        // If the brokers require an abort, the abort is repeated.
        Step::Abort(_) => Step::Again,
        step => step,
    }
}

fn classify(result: KafkaResult<()>) -> Step {
    match result {
        Ok(()) => Step::Done,
        Err(KafkaError::Transaction(error)) => {
            let reason = error.string();
            match (error.is_fatal(), error.txn_requires_abort(), error.is_retriable()) {
                (true, _, _) => Step::Over(reason),
                (_, true, _) => Step::Abort(reason),
                (_, _, true) => Step::Again,
                _ => Step::Over(reason),
            }
        }
        Err(KafkaError::Flush(_)) => Step::Again,
        Err(error) => Step::Over(words(&error)),
    }
}
