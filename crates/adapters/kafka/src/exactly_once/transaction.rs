//! Holds a producer and its open transaction.

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer as _;

use super::step::{self, Step};
use super::transaction_buffer::{Outlets, TransactionBuffer};
use crate::sink::error_class;
use crate::sink::partition_throttle::PartitionThrottle;

/// A producer, and the transaction that it has.
pub(super) struct Transaction {
    pub(super) outlets: Outlets,
    pub(super) buffer: TransactionBuffer,
    /// Whether the brokers may know of it.
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

    /// Notes that it was committed; gives what was in it.
    pub(super) fn committed(&mut self) -> TransactionBuffer {
        self.is_begun = false;
        std::mem::take(&mut self.buffer)
    }

    /// Ends it without a trace; done as well if it was never begun.
    pub(super) fn give_up(&mut self) -> Step {
        if !self.is_begun {
            return Step::Done;
        }
        let step = step::abort(&self.outlets.producer);
        self.is_begun = step != Step::Done;
        step
    }

    /// Records that are not reported.
    pub(super) fn in_flight(&self) -> i32 {
        self.outlets.producer.in_flight_count()
    }

    /// Takes its reports: why the worst of its records was not acknowledged.
    pub(super) fn reports(&self, throttle: &mut PartitionThrottle) -> Option<RDKafkaErrorCode> {
        let tally = self.outlets.producer.client().context().take();
        for (lane, count) in tally.delivered {
            throttle.round(lane).reported(count);
        }
        for (lane, ..) in &tally.failed {
            throttle.round(*lane).reported(1);
        }
        tally.failed.into_iter().map(|(_, _, code)| code).max_by_key(|code| error_class::of(*code))
    }
}
