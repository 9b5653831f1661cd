//! Converts events to documents in several forms.

use std::ops::Range;

use bson::{RawBsonRef, RawDocument};
use plimsoll_element::{self as element, DEPTH_MAX, Damaged, Element, append};
use plimsoll_pipeline::{Batch, Event};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fields::{full, metadata, text_or_binary};
use super::identity::Identity;
use super::json;

/// The field for a payload's own `_id` when another replaces it.
pub const PAYLOAD_ID: &str = "_payload_id";

/// Converts events to documents in several forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The payload is a BSON document and is stored unchanged. Its own `_id` moves to `_payload_id`, a field that it must not
    /// have already.
    Bson,
    /// The payload is a JSON object, plain or extended, and is stored as BSON.
    Json,
    /// `{_id, key, headers: [{name, value}], ts, payload}`: the whole event, with bytes as binary.
    #[default]
    Full,
    /// `{_id, key, bytes, headers: {…}, ts}`: all except the payload, of which only the length is stored. With a two-byte key and
    /// an ObjectId the document has 71 bytes.
    Metadata,
}

impl Form {
    /// The fields that the form adds to a document besides `_id`.
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Full => &["key", "headers", "ts", "payload"],
            Self::Metadata => &["key", "bytes", "headers", "ts"],
            Self::Bson | Self::Json => &[PAYLOAD_ID],
        }
    }
}

/// The `_id` of a document.
#[derive(Clone, Copy, Debug)]
pub enum Id<'a> {
    /// The source of its event.
    Source(Identity),
    /// A random ObjectId.
    ObjectId([u8; 12]),
    /// The payload's own `_id`.
    Payload,
    /// The key of its event.
    Key(&'a [u8]),
}

/// The reason why an event cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It has no payload.
    #[error("it has no payload, which is all that form {0:?} stores: use `form: full`")]
    Tombstone(Form),
    /// The payload is not BSON.
    #[error("its payload is not a BSON document: {0}")]
    Bson(#[from] Damaged),
    /// The payload is not a JSON object.
    #[error("its payload is not a JSON object: {0}")]
    Json(#[from] serde_json::Error),
    /// The payload has no `_id`.
    #[error("its payload has no _id: use `identity: source`, or add one")]
    Nameless,
    /// The name of a header cannot be a field name.
    #[error("the name of a header holds a NUL byte: use `form: full`")]
    Header,
    /// The payload has a field that the sink writes.
    #[error(
        "its payload has a field `{0}`, which the sink writes: choose another name for the sink's field, or rename the \
             payload's with a `map`"
    )]
    Field(String),
}

/// A checked event, ready to be written.
#[derive(Debug)]
pub struct Draft<'a> {
    id: Id<'a>,
    batch: &'a Batch,
    event: &'a Event,
    body: Body<'a>,
}

#[derive(Debug)]
enum Body<'a> {
    Fields { document: &'a [u8], own: Option<Element<'a>>, left_out: Vec<Range<usize>> },
    Full,
    Metadata,
}

impl<'a> Draft<'a> {
    /// Checks an event. `scratch` holds the BSON of a JSON payload.
    ///
    /// # Errors
    /// If the event cannot be stored in this form.
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
                let own = checked_id(document)?;
                let renamed = own.is_some() && !matches!(id, Id::Payload);
                if renamed && field(document, PAYLOAD_ID).is_some() {
                    return Err(Unfit::Field(PAYLOAD_ID.to_owned()));
                }
                Body::Fields { document, own, left_out: Vec::new() }
            }
        };
        let named = matches!(body, Body::Fields { own: Some(_), .. });
        if matches!(id, Id::Payload) && !named {
            Err(Unfit::Nameless)
        } else {
            Ok(Self { id, batch, event, body })
        }
    }

    /// Omits a field of the payload that the sink writes itself. `ours` decides whether a sink wrote the existing value.
    ///
    /// # Errors
    /// [`Unfit::Field`] if the payload has its own value in the field: only one of two fields with one name would be read.
    pub fn leave_out(&mut self, name: &str, ours: impl FnOnce(RawBsonRef<'_>) -> bool) -> Result<(), Unfit> {
        let Body::Fields { document, left_out, .. } = &mut self.body else { return Ok(()) };
        let bytes = *document;
        let Some(element) = element::find(bytes, name.as_bytes()) else { return Ok(()) };
        if !field(bytes, name).is_some_and(ours) {
            return Err(Unfit::Field(name.to_owned()));
        }
        left_out.push(element.range_in(bytes));
        left_out.sort_unstable_by_key(|range| range.start);
        Ok(())
    }

    /// Appends the document, `_id` first. `tail` appends the last fields.
    pub fn write(&self, out: &mut Vec<u8>, tail: impl FnOnce(&mut Vec<u8>)) {
        append::document(out, |out| {
            self.append_id(out);
            match &self.body {
                Body::Fields { document, own, left_out } => {
                    self.append_fields(out, document, own.as_ref(), left_out)
                }
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
            (Id::ObjectId(id), _) => append::object_id(out, "_id", &id),
            (Id::Key(key), _) => text_or_binary(out, "_id", key),
            (Id::Payload, Body::Fields { document, own: Some(own), .. }) => {
                out.extend_from_slice(&document[own.range_in(document)])
            }
            (Id::Payload, _) => {}
        }
    }

    /// Appends the elements of a document; its own `_id` moves to `_payload_id`, unless it stays the `_id`.
    fn append_fields(
        &self,
        out: &mut Vec<u8>,
        document: &[u8],
        own: Option<&Element<'_>>,
        left_out: &[Range<usize>],
    ) {
        let end = document.len() - 1;
        let Some(own) = own else { return append_within(out, document, 4..end, left_out) };
        let range = own.range_in(document);
        append_within(out, document, 4..range.start, left_out);
        if !matches!(self.id, Id::Payload) {
            append::key(out, own.kind, PAYLOAD_ID);
            out.extend_from_slice(own.value);
        }
        append_within(out, document, range.end..end, left_out);
    }
}

/// Checks a document at every level and returns its `_id`. A server refuses a whole command for one malformed document, so
/// none is sent.
///
/// # Errors
/// If the document is malformed, with the place.
pub fn checked_id(document: &[u8]) -> Result<Option<Element<'_>>, Damaged> {
    let mut id = None;
    element::check_each(document, DEPTH_MAX - 1, |element| {
        if element.key == b"_id" && id.is_none() {
            id = Some(*element);
        }
    })?;
    Ok(id)
}

/// Whether the bytes are a valid document with an `_id`.
pub fn has_id(document: &[u8]) -> bool {
    checked_id(document).is_ok_and(|id| id.is_some())
}

/// The value of a field at the top of a document.
fn field<'d>(document: &'d [u8], name: &str) -> Option<RawBsonRef<'d>> {
    RawDocument::from_bytes(document).ok()?.get(name).ok()?
}

/// Appends the elements in a range, except omitted elements.
fn append_within(out: &mut Vec<u8>, document: &[u8], range: Range<usize>, left_out: &[Range<usize>]) {
    let mut at = range.start;
    for cut in left_out.iter().filter(|cut| range.contains(&cut.start)) {
        out.extend_from_slice(&document[at..cut.start]);
        at = cut.end;
    }
    out.extend_from_slice(&document[at..range.end]);
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
        draft.write(&mut out, |out| append::int32(out, "tail", 1));
        Ok(Document::from_reader(out.as_slice()).unwrap())
    }

    fn binary(bytes: &[u8]) -> Bson {
        Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: bytes.to_vec() })
    }

    #[test]
    fn a_bson_payload_is_stored_unchanged_after_its_id() {
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
    fn an_unfit_event_is_refused_with_the_reason() {
        let unfit = |form, id, payload| write(form, id, payload).unwrap_err();
        assert!(unfit(Form::Bson, Id::Payload, None).contains("no payload"));
        assert!(unfit(Form::Bson, Id::Payload, Some(b"{}")).contains("not a BSON document"));
        assert!(unfit(Form::Json, Id::Payload, Some(b"[1]")).contains("not a JSON object"));
        assert!(unfit(Form::Json, Id::Payload, Some(b"{}")).contains("identity: source"));
    }
}
