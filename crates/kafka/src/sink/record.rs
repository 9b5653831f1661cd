//! An event as a record of the client library.

use plimsoll_pipeline::{Batch, Event};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use super::reports::Producer;
use crate::scenario::Placing;

/// Bytes of a record, of its set and of a request besides its key, value and headers: no more than this.
const FRAME_BYTES: usize = 128;
/// Bytes of a header besides its name and value: two lengths.
const HEADER_BYTES: usize = 10;

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) topic: String,
    pub(crate) placing: Placing,
    /// The most bytes of a record that it takes.
    pub(crate) bytes_max: usize,
}

/// A record that is ready to be sent.
pub(crate) struct Parts<'a> {
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) appended_ms: u64,
    pub(crate) headers: Vec<(&'a str, Option<&'a [u8]>)>,
    /// The partition that the event comes from.
    pub(crate) from: u32,
}

impl<'a> Parts<'a> {
    /// An event as transforms left it.
    pub(crate) fn of(batch: &'a Batch, event: &Event) -> Self {
        Self {
            key: batch.key(event),
            payload: batch.payload(event),
            appended_ms: event.appended_ms,
            headers: batch.headers(event).collect(),
            from: batch.partition().index,
        }
    }

    /// What it takes on its way, at most.
    pub(crate) fn bytes(&self) -> usize {
        let of = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        let header = |(name, value): &(&str, Option<&[u8]>)| name.len() + of(*value) + HEADER_BYTES;
        FRAME_BYTES + of(self.key) + of(self.payload) + self.headers.iter().map(header).sum::<usize>()
    }
}

impl Target {
    /// Why a record is not taken, if it is too large.
    pub(crate) fn refuses(&self, record: &Parts<'_>) -> Option<String> {
        let bytes = record.bytes();
        (bytes > self.bytes_max).then(|| {
            format!(
                "its {bytes} bytes are more than the topic {:?} takes (`max.message.bytes` {})",
                self.topic, self.bytes_max
            )
        })
    }

    /// Puts a record into the producer's queue; `note` comes back with its report.
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
        let target = |bytes_max| Target { topic: "t".to_owned(), placing: Placing::Key, bytes_max };
        assert_eq!(target(parts.bytes()).refuses(&parts), None);
        assert!(target(parts.bytes() - 1).refuses(&parts).unwrap().contains("max.message.bytes"));
    }
}
