//! The statement that replaces a document by a newer event, and by no other where the source says which is newer.

use plimsoll_pipeline::{Batch, Event};
use plimsoll_wire::WriteBatch;

use super::vector::{By, Common, Stored};
use crate::document::form::{Draft, Id};
use crate::document::identity::Identity;
use crate::encode;

/// The field that says where a document's event was read: `{partition, offset}`.
pub const SOURCE: &str = "source";

/// Appends the statement of one event.
pub fn push(
    command: &mut WriteBatch,
    common: &Common,
    (batch, event): (&Batch, &Event),
    source: Identity,
    scratch: &mut Vec<u8>,
) -> Result<(), String> {
    let id = match common.by {
        By::Source => Id::Source(source),
        By::Key => Id::Key(batch.key(event).unwrap_or_default()),
        By::Payload => Id::Payload,
    };
    let draft = Draft::of(common.form, id, batch, event, scratch).map_err(|unfit| unfit.to_string())?;
    let vector = batch.vector(event).unwrap_or_default();
    let tail = |out: &mut Vec<u8>| {
        match common.stored {
            Stored::Array => encode::doubles(out, &common.field, vector),
            Stored::Float32 => encode::vector(out, &common.field, vector),
        }
        encode::nested(out, SOURCE, |out| {
            encode::binary(out, "partition", Some(&source.to_bytes()[..8]));
            encode::int64(out, "offset", offset(source));
        });
    };
    let literal = |out: &mut Vec<u8>| {
        encode::name(out, 0x03, "$literal");
        draft.write(out, tail);
    };
    let written = command.push(|out| {
        encode::document(out, |out| {
            encode::nested(out, "q", |out| draft.append_id(out));
            encode::array(out, "u", |out| {
                encode::place(out, 0x03, 0);
                encode::document(out, |out| {
                    encode::nested(out, "$replaceWith", |out| match common.by {
                        By::Payload => literal(out),
                        By::Key | By::Source => append_if_newer(out, source, literal),
                    });
                });
            });
            encode::boolean(out, "upsert", true);
        });
    });
    written.map_err(|large| large.to_string())
}

/// Appends a choice: the new document if it is newer, otherwise the one that is there.
fn append_if_newer(out: &mut Vec<u8>, source: Identity, literal: impl FnOnce(&mut Vec<u8>)) {
    encode::array(out, "$cond", |out| {
        append_newer(out, source);
        encode::place(out, 0x03, 1);
        encode::document(out, literal);
        encode::place(out, 0x02, 2);
        encode::text(out, "$$ROOT");
    });
}

/// Appends, as the first item of an array, whether an event is newer than the document that is there: of another partition, or
/// of a later offset. What is not there is less than any number.
fn append_newer(out: &mut Vec<u8>, source: Identity) {
    encode::place(out, 0x03, 0);
    encode::document(out, |out| {
        encode::array(out, "$or", |out| {
            encode::place(out, 0x03, 0);
            encode::document(out, |out| {
                encode::array(out, "$ne", |out| {
                    encode::string(out, "0", "$source.partition");
                    encode::binary(out, "1", Some(&source.to_bytes()[..8]));
                });
            });
            encode::place(out, 0x03, 1);
            encode::document(out, |out| {
                encode::array(out, "$lt", |out| {
                    encode::string(out, "0", "$source.offset");
                    encode::int64(out, "1", offset(source));
                });
            });
        });
    });
}

fn offset(source: Identity) -> i64 {
    i64::try_from(source.offset).unwrap_or(i64::MAX)
}
