//! Encodes an event as a record of the client library.

use plimsoll_pipeline::{Batch, Event};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use super::reports::Producer;
use crate::scenario::Placing;

/// The limit of the bytes that a record, its set and its request add to key, value and headers.
const FRAME_BYTES: usize = 128;
/// The bytes that a header adds to its name and value: two lengths.
const HEADER_BYTES: usize = 10;

/// The destination of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) topic: String,
    pub(crate) placing: Placing,
    /// The topic's largest record, in bytes.
    pub(crate) bytes_max: usize,
    /// The number of partitions at the start.
    pub(crate) partitions: usize,
}

/// The order key of records that may go to any partition.
const ANY_PARTITION: u32 = 0;
/// The limit of partitions that are filled at once.
const PARTITIONS_MAX: usize = 16;

/// A record that is ready to be sent.
pub(crate) struct Parts<'a> {
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) appended_ms: u64,
    pub(crate) headers: Vec<(&'a str, Option<&'a [u8]>)>,
    /// The partition of the source event.
    pub(crate) from: u32,
}

impl<'a> Parts<'a> {
    /// The record of a transformed event.
    pub(crate) fn of(batch: &'a Batch, event: &Event) -> Self {
        Self {
            key: batch.key(event),
            payload: batch.payload(event),
            appended_ms: event.appended_ms,
            headers: batch.headers(event).collect(),
            from: batch.partition().index,
        }
    }

    /// The largest number of bytes that the record takes in a request.
    pub(crate) fn bytes(&self) -> usize {
        let of = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        let header = |(name, value): &(&str, Option<&[u8]>)| name.len() + of(*value) + HEADER_BYTES;
        FRAME_BYTES + of(self.key) + of(self.payload) + self.headers.iter().map(header).sum::<usize>()
    }
}

impl Target {
    /// The reason why the topic refuses a record, if it is too large.
    pub(crate) fn refuses(&self, record: &Parts<'_>) -> Option<String> {
        let bytes = record.bytes();
        (bytes > self.bytes_max).then(|| {
            format!(
                "its {bytes} bytes exceed the limit of the topic {:?} (`max.message.bytes` {})",
                self.topic, self.bytes_max
            )
        })
    }

    /// The order key of a batch: records of one key keep their order. It is the partition, or one value for
    /// all records if keys select the partitions.
    pub(crate) fn order_key(&self, batch: &Batch) -> u32 {
        match self.placing {
            Placing::Same => batch.partition().index,
            Placing::Key => ANY_PARTITION,
        }
    }

    /// The bytes of one order key that are sent at once. Usually they fill one request of one partition: records
    /// without a key go to one partition for a while. Keys distribute the records over all partitions; then the
    /// bytes fill a request for each of half the partitions.
    pub(crate) fn round_bytes(&self, record: &Parts<'_>) -> usize {
        let request = request_bytes(self.bytes_max);
        match (self.placing, record.key) {
            (Placing::Key, Some(_)) => request * (self.partitions.min(PARTITIONS_MAX) / 2).max(1),
            _ => request,
        }
    }

    /// Queues a record in the producer; its report returns `note`.
    pub(crate) fn send(
        &self,
        producer: &Producer,
        record: &Parts<'_>,
        note: usize,
    ) -> Result<(), KafkaError> {
        let ready = BaseRecord {
            topic: &self.topic,
            partition: (self.placing == Placing::Same)
                .then(|| i32::try_from(record.from).unwrap_or(i32::MAX)),
            payload: record.payload,
            key: record.key,
            timestamp: i64::try_from(record.appended_ms).ok(),
            headers: (!record.headers.is_empty()).then(|| headers(&record.headers)),
            delivery_opaque: note,
        };
        producer.send(ready).map_err(|(error, _)| error)
    }
}

/// The largest request of a partition, in bytes.
pub(crate) fn request_bytes(bytes_max: usize) -> usize {
    bytes_max.clamp(1000, 1_000_000)
}

fn headers(all: &[(&str, Option<&[u8]>)]) -> OwnedHeaders {
    let empty = OwnedHeaders::new_with_capacity(all.len());
    all.iter().fold(empty, |headers, &(key, value)| headers.insert(Header { key, value }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_pipeline::{Partition, Record};

    #[test]
    fn a_record_is_measured_with_its_key_and_headers() {
        let mut batch = Batch::new(Partition::new("t", 3));
        let record = Record { key: Some(b"key"), payload: Some(&[0; 100]), ..Record::default() };
        batch.push_with(record, [("name", Some(&b"value"[..])), ("none", None)]);
        let parts = Parts::of(&batch, &batch.events()[0]);
        assert_eq!(parts.bytes(), FRAME_BYTES + 3 + 100 + (4 + 5 + 10) + (4 + 10));
        let target =
            |bytes_max| Target { topic: "t".to_owned(), placing: Placing::Key, bytes_max, partitions: 1 };
        assert_eq!(target(parts.bytes()).refuses(&parts), None);
        assert!(target(parts.bytes() - 1).refuses(&parts).unwrap().contains("max.message.bytes"));
    }

    #[test]
    fn a_round_fills_one_request_or_half_of_the_requests_of_all_keys() {
        let target = |placing| Target { topic: "t".to_owned(), placing, bytes_max: 4_000_000, partitions: 6 };
        let mut batch = Batch::new(Partition::new("t", 3));
        batch.push(Record { key: Some(b"key"), ..Record::default() });
        batch.push(Record::default());
        let [keyed, plain] = [0, 1].map(|at| Parts::of(&batch, &batch.events()[at]));
        assert_eq!(
            (target(Placing::Same).order_key(&batch), target(Placing::Key).order_key(&batch)),
            (3, ANY_PARTITION)
        );
        assert_eq!(target(Placing::Key).round_bytes(&keyed), 3_000_000);
        assert_eq!(target(Placing::Key).round_bytes(&plain), 1_000_000);
        assert_eq!(target(Placing::Same).round_bytes(&keyed), 1_000_000);
    }
}
