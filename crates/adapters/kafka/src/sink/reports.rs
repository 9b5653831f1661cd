//! Collects the client library's delivery reports.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, ProducerContext};

use super::acknowledged::Acknowledged;
use crate::cluster::Watch;

/// A producer whose records are counted.
pub(crate) type Producer = BaseProducer<Reports>;

/// The note of a record: the slot of its batch, and its index there.
pub(crate) const fn note(slot: u32, index: u32) -> usize {
    ((slot as usize) << 32) | index as usize
}

/// The reports since the last call.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The slots of acknowledged records, with the number of records.
    pub(crate) delivered: Vec<(u32, u32)>,
    /// Failed records: their slot, index and error.
    pub(crate) failed: Vec<(u32, u32, RDKafkaErrorCode)>,
}

/// Counts reports. Usually a single thread polls the producer, so its lock is rarely contended.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    pub(crate) watch: Watch,
    /// The ledger, if one is kept.
    acknowledged: Option<Arc<Acknowledged>>,
    tally: Mutex<Tally>,
}

impl Reports {
    /// Reports that keep a ledger.
    pub(crate) fn with_ledger(acknowledged: Option<Arc<Acknowledged>>) -> Self {
        Self { acknowledged, ..Self::default() }
    }

    /// The reports since the last call.
    pub(crate) fn take(&self) -> Tally {
        std::mem::take(&mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tally {
    fn count(&mut self, slot: u32) {
        match self.delivered.last_mut() {
            Some((last, count)) if *last == slot => *count += 1,
            _ => self.delivered.push((slot, 1)),
        }
    }
}

impl ClientContext for Reports {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.watch.note(&error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, note: usize) {
        let (slot, index) = ((note >> 32) as u32, note as u32);
        if let (Some(acknowledged), Ok(message)) = (&self.acknowledged, result) {
            acknowledged.add(message);
        }
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(_) => tally.count(slot),
            Err((error, _)) => {
                let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
                tally.failed.push((slot, index, code));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_one_slot_are_counted_together() {
        let mut tally = Tally::default();
        [7, 7, 7, 8, 7].into_iter().for_each(|slot| tally.count(slot));
        assert_eq!(tally.delivered, [(7, 3), (8, 1), (7, 1)]);
        assert_eq!(note(3, 9) >> 32, 3);
        assert_eq!(note(3, 9) as u32, 9);
    }
}
