//! Decides the fate of events for which a program has no result.

use crate::event::{Batch, Event, Fate, Span};

/// The fate of events for which a program has no result.
#[derive(Clone, Copy, Debug, Default)]
pub enum Unmatched {
    /// They are dropped. A program also decides about tombstones.
    #[default]
    Drop,
    /// For a sink that keeps the newest version of each document. An event whose payload or key names a document becomes a tombstone,
    /// because an earlier version of its document may have had a result. As in the sink, the payload comes first. Other events are
    /// dropped, and tombstones pass.
    Delete {
        /// Whether a payload or a key names a document.
        names_document: fn(&[u8]) -> bool,
    },
}

impl Unmatched {
    /// Whether an event passes without the program.
    pub(super) fn passes(self, batch: &Batch, event: &Event) -> bool {
        matches!(self, Self::Delete { .. }) && batch.payload(event).is_none()
    }

    /// The fate of an event without a result, which may become a tombstone.
    pub(super) fn fate(self, batch: &mut Batch, index: usize) -> Fate {
        let event = batch.events()[index];
        let Self::Delete { names_document } = self else { return Fate::Drop };
        let key = if batch.payload(&event).is_some_and(names_document) {
            event.payload
        } else if batch.key(&event).is_some_and(names_document) {
            event.key
        } else {
            return Fate::Drop;
        };
        batch.replace(index, Event { key, payload: Span::NULL, vector: Span::NULL, ..event });
        Fate::Keep
    }
}

/// A batch for tests of a copy's transforms: two documents, one of them without a name, and a tombstone.
#[cfg(test)]
pub(super) mod testing {
    use super::Unmatched;
    use crate::event::{Batch, Record};
    use crate::port::transform::TransformFactory;
    use crate::position::Partition;

    pub(in crate::transform) const COPY: Unmatched = Unmatched::Delete { names_document: |key| key == b"k" };

    /// The offsets and payloads of events after a transform of `{"a": 1}`, `{"a": 2}`, the same without a name, and a tombstone.
    pub(in crate::transform) fn passed(transform: &dyn TransformFactory) -> Vec<(u64, Option<String>)> {
        let mut batch = Batch::new(Partition::new("t", 0));
        let (one, two) = (Some(&br#"{"a":1}"#[..]), Some(&br#"{"a":2}"#[..]));
        let events = [(&b"k"[..], one), (b"k", two), (b"other", two), (b"k", None)];
        for (offset, (key, payload)) in (0..).zip(events) {
            batch.push(Record { offset, appended_ms: 0, key: Some(key), payload });
        }
        transform.build(0).unwrap().apply(&mut batch).unwrap();
        let text = |payload: &[u8]| String::from_utf8(payload.to_vec()).unwrap();
        batch.events().iter().map(|event| (event.offset, batch.payload(event).map(text))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::position::Partition;

    #[test]
    fn a_deleted_document_is_named_by_its_payload_before_its_key() {
        let unmatched = Unmatched::Delete { names_document: |bytes| bytes.starts_with(b"_id") };
        for (key, payload, expected) in [
            (Some("plain"), "_id 1", Some("_id 1")),
            (None, "_id 1", Some("_id 1")),
            (Some("_id 2"), "_id 1", Some("_id 1")),
            (Some("_id 2"), "text", Some("_id 2")),
            (Some("plain"), "text", None),
            (None, "text", None),
        ] {
            let mut batch = Batch::new(Partition::new("t", 0));
            let (key, payload) = (key.map(str::as_bytes), Some(payload.as_bytes()));
            batch.push(Record { key, payload, ..Record::default() });
            batch.sift(|batch, index| unmatched.fate(batch, index));
            let names: Vec<_> = batch.events().iter().map(|event| batch.key(event)).collect();
            let expected: Vec<_> = expected.iter().map(|name| Some(name.as_bytes())).collect();
            assert_eq!(names, expected, "{key:?}");
            for event in batch.events() {
                assert_eq!(batch.payload(event), None);
                let (read, _) = batch.as_read(event);
                assert_eq!((read.key, read.payload), (key, payload), "its dead letter is the event as read");
            }
        }
    }
}
