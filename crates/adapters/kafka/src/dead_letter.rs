//! Encodes a dead letter as a record: the event as read, its headers, and the reason.

use plimsoll_pipeline::{Batch, Cause, Event};

use crate::sink::record::Parts;

/// The names and values of the headers that a dead letter adds. The record borrows them.
pub(crate) struct Reasons([(&'static str, String); 7]);

impl Reasons {
    pub(crate) fn of(batch: &Batch, event: &Event, cause: &Cause) -> Self {
        Self(cause.headers(batch.partition(), event.offset))
    }

    /// The record of the dead letter.
    pub(crate) fn record<'a>(&'a self, batch: &'a Batch, event: &Event) -> Parts<'a> {
        let ours = self.0.iter().map(|(name, value)| (*name, Some(value.as_bytes())));
        let (read, headers) = batch.as_read(event);
        Parts {
            key: read.key,
            payload: read.payload,
            appended_ms: read.appended_ms,
            headers: headers.chain(ours).collect(),
            from: batch.partition().index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_pipeline::{CauseClass, Partition, Record, Span};

    #[test]
    fn a_dead_letter_has_the_original_its_headers_and_the_cause() {
        let mut batch = Batch::new(Partition::new("orders", 2));
        let record = Record { offset: 41, key: Some(b"k"), payload: Some(b"as read"), appended_ms: 7 };
        batch.push_with(record, [("theirs", Some(&b"1"[..]))]);
        // As a transform that opens envelopes does.
        let mut event = batch.events()[0];
        (event.key, event.payload) = (batch.keep(b"other"), batch.keep(b"changed"));
        (event.headers, event.appended_ms) = (Span::NULL, 99);
        batch.replace(0, event);
        let event = batch.events()[0];
        let cause = Cause::new("map", CauseClass::Invalid, "no field `at`");
        let reasons = Reasons::of(&batch, &event, &cause);
        let letter = reasons.record(&batch, &event);
        assert_eq!((letter.key, letter.payload), (Some(&b"k"[..]), Some(&b"as read"[..])));
        assert_eq!(letter.appended_ms, 7);
        let header =
            |name| letter.headers.iter().find(|(known, _)| *known == name).and_then(|(_, value)| *value);
        assert_eq!(header("theirs"), Some(&b"1"[..]));
        assert_eq!(header("plimsoll-cause"), Some(&b"invalid"[..]));
        assert_eq!(header("plimsoll-stage"), Some(&b"map"[..]));
        assert_eq!(header("plimsoll-offset"), Some(&b"41"[..]));
        assert_eq!(header("plimsoll-partition"), Some(&b"2"[..]));
    }
}
