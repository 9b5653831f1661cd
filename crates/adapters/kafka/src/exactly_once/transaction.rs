//! Holds a producer and its open transaction.

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer as _;

use super::step::{self, Step};
use super::transaction_buffer::{Outlets, TransactionBuffer};
use crate::sink::error_class;
use crate::sink::partition_throttle::PartitionThrottle;

/// A producer and its transaction.
pub(super) struct Transaction {
    pub(super) outlets: Outlets,
    pub(super) buffer: TransactionBuffer,
    /// Whether the brokers may know of the transaction.
    is_begun: bool,
}

impl Transaction {
    pub(super) fn of(outlets: Outlets) -> Self {
        Self { outlets, buffer: TransactionBuffer::default(), is_begun: false }
    }

    pub(super) fn begin(&mut self) -> Step {
        let step = step::begin(&self.outlets.producer);
        self.is_begun |= step == Step::Done;
        step
    }

    /// Records the commit; returns the contents of the transaction.
    pub(super) fn committed(&mut self) -> TransactionBuffer {
        self.is_begun = false;
        std::mem::take(&mut self.buffer)
    }

    /// Aborts the transaction; succeeds at once if it was never begun.
    pub(super) fn abort(&mut self) -> Step {
        if !self.is_begun {
            return Step::Done;
        }
        let step = step::abort(&self.outlets.producer);
        self.is_begun = step != Step::Done;
        step
    }

    /// The number of unreported records.
    pub(super) fn in_flight(&self) -> i32 {
        self.outlets.producer.in_flight_count()
    }

    /// Collects reports: returns the most severe error of a record.
    pub(super) fn reports(&self, throttle: &mut PartitionThrottle) -> Option<RDKafkaErrorCode> {
        let tally = self.outlets.producer.client().context().take();
        for (order_key, count) in tally.delivered {
            throttle.round(order_key).reported(count);
        }
        for (order_key, ..) in &tally.failed {
            throttle.round(*order_key).reported(1);
        }
        tally.failed.into_iter().map(|(_, _, code)| code).max_by_key(|code| error_class::of(*code))
    }
}
