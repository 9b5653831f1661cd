//! What an event looks like as a document.

use std::ops::Range;

use plimsoll_pipeline::{Batch, Event};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fields::{full, metadata, text_or_binary};
use super::identity::Identity;
use super::json;
use crate::encode;
use crate::walk;

/// Where a payload's own `_id` goes when another takes its place.
pub const PAYLOAD_ID: &str = "_payload_id";

/// What an event looks like as a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The payload is a BSON document and is stored as it is; an `_id` of its own is kept as `_payload_id`.
    Bson,
    /// The payload is a JSON object, plain or extended, and is stored as the BSON of it.
    Json,
    /// `{_id, key, headers: [{name, value}], ts, payload}`: everything of the event, bytes as binary.
    #[default]
    Full,
    /// `{_id, key, bytes, headers: {…}, ts}`: all but the payload, of which only the length is kept. With a two-byte key and an
    /// ObjectId it is a document of 71 bytes.
    Metadata,
}

/// What a document is called.
#[derive(Clone, Copy, Debug)]
pub enum Id<'a> {
    /// By where its event was read.
    Source(Identity),
    /// By nothing but chance.
    ObjectId([u8; 12]),
    /// As its payload says.
    Payload,
    /// By its event's key.
    Key(&'a [u8]),
}

/// Why an event cannot be stored as it should be.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// There is nothing to store.
    #[error("it has no payload, and the form {0:?} stores nothing else")]
    Tombstone(Form),
    /// The payload is no BSON.
    #[error("its payload {0}")]
    Bson(#[from] walk::NoDocument),
    /// The payload is no JSON object.
    #[error("its payload is no JSON object: {0}")]
    Json(#[from] serde_json::Error),
    /// It has no name.
    #[error("its payload has no _id: say `identity: source`, or give it one")]
    Nameless,
    /// A header cannot be a field.
    #[error("the name of a header holds a NUL byte: say `form: full`")]
    Header,
}

/// An event that can be stored, looked over and not yet written.
#[derive(Debug)]
pub struct Draft<'a> {
    id: Id<'a>,
    batch: &'a Batch,
    event: &'a Event,
    body: Body<'a>,
}

#[derive(Debug)]
enum Body<'a> {
    Fields { document: &'a [u8], own: Option<Range<usize>> },
    Full,
    Metadata,
}

impl<'a> Draft<'a> {
    /// Looks over an event; `scratch` holds the BSON of a JSON payload meanwhile.
    ///
    /// # Errors
    /// Why it cannot be stored in this form.
    pub fn of(
        form: Form,
        id: Id<'a>,
        batch: &'a Batch,
        event: &'a Event,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Self, Unfit> {
        let body = match form {
            Form::Full => Body::Full,
            Form::Metadata if batch.headers(event).any(|(name, _)| name.contains('\0')) => {
                return Err(Unfit::Header);
            }
            Form::Metadata => Body::Metadata,
            Form::Bson | Form::Json => {
                let payload = batch.payload(event).ok_or(Unfit::Tombstone(form))?;
                let document = if form == Form::Json {
                    scratch.clear();
                    json::append(payload, scratch)?;
                    scratch.as_slice()
                } else {
                    payload
                };
                Body::Fields { document, own: walk::check(document)? }
            }
        };
        let named = matches!(body, Body::Fields { own: Some(_), .. });
        if matches!(id, Id::Payload) && !named {
            Err(Unfit::Nameless)
        } else {
            Ok(Self { id, batch, event, body })
        }
    }

    /// Appends the document, `_id` first; `tail` appends fields behind the others.
    pub fn write(&self, out: &mut Vec<u8>, tail: impl FnOnce(&mut Vec<u8>)) {
        encode::document(out, |out| {
            self.append_id(out);
            match &self.body {
                Body::Fields { document, own } => self.append_fields(out, document, own.as_ref()),
                Body::Full => full(out, self.batch, self.event),
                Body::Metadata => metadata(out, self.batch, self.event),
            }
            tail(out);
        });
    }

    /// Appends its `_id` as an element.
    pub fn append_id(&self, out: &mut Vec<u8>) {
        match (self.id, &self.body) {
            (Id::Source(identity), _) => identity.append(out, "_id"),
            (Id::ObjectId(id), _) => encode::object_id(out, "_id", &id),
            (Id::Key(key), _) => text_or_binary(out, "_id", key),
            (Id::Payload, Body::Fields { document, own: Some(own) }) => {
                out.extend_from_slice(&document[own.clone()])
            }
            (Id::Payload, _) => {}
        }
    }

    /// The elements of a document around its own `_id`.
    fn append_fields(&self, out: &mut Vec<u8>, document: &[u8], own: Option<&Range<usize>>) {
        let end = document.len() - 1;
        let Some(own) = own else { return out.extend_from_slice(&document[4..end]) };
        out.extend_from_slice(&document[4..own.start]);
        if !matches!(self.id, Id::Payload) {
            encode::name(out, document[own.start], PAYLOAD_ID);
            out.extend_from_slice(&document[own.start + "\x07_id\0".len()..own.end]);
        }
        out.extend_from_slice(&document[own.end..end]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, Document, doc};
    use plimsoll_pipeline::{Partition, Record};

    const IDENTITY: Identity = Identity { topic: 1, partition: 2, offset: 3 };

    fn batch(payload: Option<&[u8]>) -> Batch {
        let mut batch = Batch::new(Partition::new("t", 2));
        let record = Record { offset: 3, appended_ms: 9, key: Some(b"sk"), payload };
        batch.push_with(record, [("h", Some(&b"v"[..])), ("n", None)]);
        batch
    }

    fn write(form: Form, id: Id<'_>, payload: Option<&[u8]>) -> Result<Document, String> {
        let (batch, mut scratch, mut out) = (batch(payload), Vec::new(), Vec::new());
        let event = batch.events()[0];
        let draft = Draft::of(form, id, &batch, &event, &mut scratch).map_err(|unfit| unfit.to_string())?;
        draft.write(&mut out, |out| encode::int32(out, "tail", 1));
        Ok(Document::from_reader(out.as_slice()).unwrap())
    }

    fn binary(bytes: &[u8]) -> Bson {
        Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: bytes.to_vec() })
    }

    #[test]
    fn a_bson_payload_is_stored_as_it_is_behind_its_name() {
        let payload = doc! {"a": 1, "_id": "mine", "b": [2]}.to_vec().unwrap();
        let id = binary(&IDENTITY.to_bytes());
        let written = write(Form::Bson, Id::Source(IDENTITY), Some(&payload)).unwrap();
        assert_eq!(written, doc! {"_id": id, "a": 1, "_payload_id": "mine", "b": [2], "tail": 1});
        let written = write(Form::Bson, Id::Payload, Some(&payload)).unwrap();
        assert_eq!(written.keys().collect::<Vec<_>>(), ["_id", "a", "b", "tail"]);
        let written = write(Form::Bson, Id::Key(b"sk"), Some(&[5, 0, 0, 0, 0])).unwrap();
        assert_eq!(written, doc! {"_id": "sk", "tail": 1});
    }

    #[test]
    fn a_json_payload_is_stored_as_bson() {
        let written = write(Form::Json, Id::Payload, Some(br#"{"x": {"y": [1, null]}, "_id": 7}"#)).unwrap();
        assert_eq!(written, doc! {"_id": 7, "x": {"y": [1, Bson::Null]}, "tail": 1});
    }

    #[test]
    fn the_full_form_keeps_every_byte() {
        let written = write(Form::Full, Id::ObjectId([7; 12]), Some(&[0, 255])).unwrap();
        let headers =
            vec![doc! {"name": "h", "value": binary(b"v")}, doc! {"name": "n", "value": Bson::Null}];
        let expected = doc! {
            "_id": bson::oid::ObjectId::from_bytes([7; 12]), "key": binary(b"sk"), "headers": headers,
            "ts": bson::DateTime::from_millis(9), "payload": binary(&[0, 255]), "tail": 1,
        };
        assert_eq!(written, expected);
        assert_eq!(write(Form::Full, Id::Source(IDENTITY), None).unwrap().get("payload"), Some(&Bson::Null));
    }

    #[test]
    fn the_metadata_document_of_a_two_byte_key_has_71_bytes() {
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record {
            offset: 0,
            appended_ms: 1_774_193_836_641,
            key: Some(b"sk"),
            payload: Some(&[0; 512]),
        });
        let (mut scratch, mut out, event) = (Vec::new(), Vec::new(), batch.events()[0]);
        let draft = Draft::of(Form::Metadata, Id::ObjectId([7; 12]), &batch, &event, &mut scratch).unwrap();
        draft.write(&mut out, |_| ());
        assert_eq!(out.len(), 71);
        let id = bson::oid::ObjectId::from_bytes([7; 12]);
        let expected =
            doc! {"_id": id, "key": "sk", "bytes": 512, "headers": {}, "ts": 1_774_193_836_641_i64};
        assert_eq!(Document::from_reader(out.as_slice()).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_stored_says_why() {
        let unfit = |form, id, payload| write(form, id, payload).unwrap_err();
        assert!(unfit(Form::Bson, Id::Payload, None).contains("no payload"));
        assert!(unfit(Form::Bson, Id::Payload, Some(b"{}")).contains("no BSON document"));
        assert!(unfit(Form::Json, Id::Payload, Some(b"[1]")).contains("no JSON object"));
        assert!(unfit(Form::Json, Id::Payload, Some(b"{}")).contains("identity: source"));
    }
}
