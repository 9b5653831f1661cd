//! Appends the fields of documents: of full events, of metadata only, and of dead letters.

use plimsoll_element::{append, kind};
use plimsoll_pipeline::{Batch, Cause, Event, Headers, Record};

use super::identity::Identity;

/// Appends all fields of an event except `_id`.
pub fn full(out: &mut Vec<u8>, batch: &Batch, event: &Event) {
    let Event { offset, appended_ms, .. } = *event;
    let record = Record { offset, appended_ms, key: batch.key(event), payload: batch.payload(event) };
    whole(out, &record, batch.headers(event), &[]);
}

/// Appends key, headers, additional headers, time and payload.
fn whole(out: &mut Vec<u8>, record: &Record<'_>, headers: Headers<'_>, more: &[(&str, &str)]) {
    append::binary(out, "key", record.key);
    let more = more.iter().map(|(name, value)| (*name, Some(value.as_bytes())));
    append::array(out, "headers", |out| {
        for (index, (name, value)) in headers.chain(more).enumerate() {
            append::item(out, kind::DOCUMENT, index);
            append::document(out, |out| {
                append::string(out, "name", name);
                append::binary(out, "value", value);
            });
        }
    });
    append::date(out, "ts", record.appended_ms);
    append::binary(out, "payload", record.payload);
}

/// Appends all fields except the payload.
pub fn metadata(out: &mut Vec<u8>, batch: &Batch, event: &Event) {
    match batch.key(event) {
        Some(key) => text_or_binary(out, "key", key),
        None => append::null(out, "key"),
    }
    let bytes = batch.payload(event).map_or(0, <[u8]>::len);
    append::int32(out, "bytes", i32::try_from(bytes).unwrap_or(i32::MAX));
    append::nested(out, "headers", |out| {
        for (name, value) in batch.headers(event) {
            match value {
                Some(value) => text_or_binary(out, name, value),
                None => append::null(out, name),
            }
        }
    });
    append::int64(out, "ts", i64::try_from(event.appended_ms).unwrap_or(i64::MAX));
}

/// Appends bytes as text if they are UTF-8, else as binary.
pub fn text_or_binary(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    match std::str::from_utf8(value) {
        Ok(text) => append::string(out, key, text),
        Err(_) => append::binary(out, key, Some(value)),
    }
}

/// Appends a dead letter: the full form of the event as read, with the headers of dead letters.
pub fn letter(out: &mut Vec<u8>, identity: Identity, batch: &Batch, event: &Event, cause: &Cause) {
    let more = cause.headers(batch.partition(), event.offset);
    let more: Vec<_> = more.iter().map(|(name, value)| (*name, value.as_str())).collect();
    append::document(out, |out| {
        identity.append(out, "_id");
        let (read, headers) = batch.as_read(event);
        whole(out, &read, headers, &more);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, Document};
    use plimsoll_pipeline::{CauseClass, Partition, Span};

    const IDENTITY: Identity = Identity { topic: 1, partition: 2, offset: 3 };

    fn batch(payload: &[u8]) -> Batch {
        let mut batch = Batch::new(Partition::new("t", 2));
        let record = Record { offset: 3, appended_ms: 9, key: Some(b"sk"), payload: Some(payload) };
        batch.push_with(record, [("h", Some(&b"v"[..]))]);
        batch
    }

    fn binary(bytes: &[u8]) -> Bson {
        Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: bytes.to_vec() })
    }

    #[test]
    fn a_dead_letter_keeps_the_original_and_the_cause() {
        let (mut batch, mut out) = (batch(b"original"), Vec::new());
        // Imitates a transform that unwraps events from envelopes.
        let mut event = batch.events()[0];
        (event.key, event.payload) = (batch.keep(b"other"), batch.keep(b"changed"));
        (event.headers, event.appended_ms) = (Span::NULL, 99);
        batch.replace(0, event);
        let cause = Cause { attempts: 2, ..Cause::new("sink", CauseClass::Refused, "no") };
        let event = batch.events()[0];
        letter(&mut out, IDENTITY, &batch, &event, &cause);
        let written = Document::from_reader(out.as_slice()).unwrap();
        assert_eq!(written.get("payload"), Some(&binary(b"original")));
        assert_eq!(written.get("key"), Some(&binary(b"sk")));
        assert_eq!(written.get_datetime("ts").unwrap().timestamp_millis(), 9);
        let headers = written.get_array("headers").unwrap();
        let header = |name: &str| {
            let found = headers
                .iter()
                .filter_map(Bson::as_document)
                .find(|header| header.get_str("name").is_ok_and(|known| known == name));
            found.unwrap().get("value").cloned().unwrap()
        };
        assert_eq!((header("h"), header("plimsoll-cause")), (binary(b"v"), binary(b"refused")));
        assert_eq!((header("plimsoll-offset"), header("plimsoll-attempts")), (binary(b"3"), binary(b"2")));
    }
}
