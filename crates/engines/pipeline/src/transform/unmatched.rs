//! Decides the fate of events for which a program has no result.

use crate::event::{Batch, Event, Fate, Span};

/// The fate of events for which a program has no result.
#[derive(Clone, Copy, Debug, Default)]
pub enum Unmatched {
    /// They are dropped. A program also decides about tombstones.
    #[default]
    Drop,
    /// For a sink that keeps the newest document of each key. An event whose key names a document becomes a tombstone, because an
    /// earlier version of its document may have had a result. Other events are dropped, and tombstones pass.
    Delete {
        /// Whether a key names a document.
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
        match self {
            Self::Delete { names_document } if batch.key(&event).is_some_and(names_document) => {
                let event = &mut batch.events_mut()[index];
                (event.payload, event.vector) = (Span::NULL, Span::NULL);
                Fate::Keep
            }
            _ => Fate::Drop,
        }
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
