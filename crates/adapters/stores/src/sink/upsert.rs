//! Builds the update statement that replaces a document by a newer event.

use bson::RawBsonRef;
use plimsoll_element::{append, kind};
use plimsoll_pipeline::{Batch, Event};
use plimsoll_wire::WriteBatch;

use super::vector_settings::{By, SourceField, Stored, VectorSettings};
use crate::document::form::{Draft, Id};
use crate::document::identity::Identity;

/// The number of bytes of an identity that hold the topic and the partition. They come first.
const PARTITION_BYTES: usize = 8;

/// Whether a sink wrote the value as its source field.
fn is_source(value: RawBsonRef<'_>) -> bool {
    value.as_document().is_some_and(|kept| {
        let partition = kept.get_binary("partition");
        partition.is_ok_and(|partition| partition.bytes.len() == PARTITION_BYTES)
            && kept.get_i64("offset").is_ok()
    })
}

/// Appends the statement of one event.
pub fn push(
    command: &mut WriteBatch,
    settings: &VectorSettings,
    (batch, event): (&Batch, &Event),
    source: Identity,
    scratch: &mut Vec<u8>,
) -> Result<(), String> {
    let id = match settings.by {
        By::Source => Id::Source(source),
        By::Key => Id::Key(batch.key(event).unwrap_or_default()),
        By::Payload => Id::Payload,
    };
    let draft = Draft::of(settings.form, id, batch, event, scratch).and_then(|mut draft| {
        // A document that was embedded before has both fields; a duplicate name would hide ours.
        draft.leave_out(&settings.field, |_| true)?;
        draft.leave_out(&settings.source.name, is_source)?;
        Ok(draft)
    });
    let draft = draft.map_err(|unfit| unfit.to_string())?;
    let vector = batch.vector(event).unwrap_or_default();
    let tail = |out: &mut Vec<u8>| {
        match settings.stored {
            Stored::Array => append::doubles(out, &settings.field, vector),
            Stored::Float32 => append::vector(out, &settings.field, vector),
        }
        append::nested(out, &settings.source.name, |out| {
            append::binary(out, "partition", Some(&source.to_bytes()[..PARTITION_BYTES]));
            append::int64(out, "offset", offset(source));
        });
    };
    let literal = |out: &mut Vec<u8>| {
        append::key(out, kind::DOCUMENT, "$literal");
        draft.write(out, tail);
    };
    let written = command.push(|out| {
        append::document(out, |out| {
            append::nested(out, "q", |out| draft.append_id(out));
            append::array(out, "u", |out| {
                append::item(out, kind::DOCUMENT, 0);
                append::document(out, |out| {
                    append::nested(out, "$replaceWith", |out| match settings.by {
                        By::Payload => literal(out),
                        By::Key | By::Source => append_if_newer(out, (source, &settings.source), literal),
                    });
                });
            });
            append::boolean(out, "upsert", true);
        });
    });
    written.map_err(|large| large.to_string())
}

/// Appends a condition: the new document if it is newer, otherwise the existing document.
fn append_if_newer(
    out: &mut Vec<u8>,
    (source, kept): (Identity, &SourceField),
    literal: impl FnOnce(&mut Vec<u8>),
) {
    append::array(out, "$cond", |out| {
        append_newer(out, source, kept);
        append::item(out, kind::DOCUMENT, 1);
        append::document(out, literal);
        append::item(out, kind::STRING, 2);
        append::text(out, b"$$ROOT");
    });
}

/// Appends, as the first array item, whether an event is newer than the existing document: from another partition, or at a later
/// offset. Missing fields compare as less than any number.
fn append_newer(out: &mut Vec<u8>, source: Identity, kept: &SourceField) {
    append::item(out, kind::DOCUMENT, 0);
    append::document(out, |out| {
        append::array(out, "$or", |out| {
            append::item(out, kind::DOCUMENT, 0);
            append::document(out, |out| {
                append::array(out, "$ne", |out| {
                    append::string(out, "0", &kept.partition);
                    append::binary(out, "1", Some(&source.to_bytes()[..PARTITION_BYTES]));
                });
            });
            append::item(out, kind::DOCUMENT, 1);
            append::document(out, |out| {
                append::array(out, "$lt", |out| {
                    append::string(out, "0", &kept.offset);
                    append::int64(out, "1", offset(source));
                });
            });
        });
    });
}

fn offset(source: Identity) -> i64 {
    i64::try_from(source.offset).unwrap_or(i64::MAX)
}
