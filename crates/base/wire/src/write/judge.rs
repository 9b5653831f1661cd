//! Decides, from a reply's body alone, what became of each document of a frame.
//!
//! The rules: an ordered command ends at its first failure, so what stands behind was not tried; an unordered one
//! tries all. A write concern error leaves what was applied unknown. A command that failed as a whole rejects all its
//! documents, or leaves them unknown if the server was interrupted. An insert whose count is not that of the documents
//! it did not refuse is not believed.

use crate::element::{Element, Elements};
use crate::frame::Malformed;
use crate::outcome::{Cause, Outcome};
use crate::write::refusal::Refusal;
use crate::write::reply::WriteReply;
use crate::write::spec::WriteKind;

/// What was asked of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) kind: WriteKind,
    pub(crate) ordered: bool,
    /// The place of the frame's first document in the batch.
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// Whether the batch's next frame is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Send,
    Stop,
}

/// What a reply's body says, not yet believed.
#[derive(Default)]
struct Said<'a> {
    ok: Option<i64>,
    code: i32,
    message: &'a [u8],
    n: u64,
    n_modified: u64,
    n_upserted: u64,
    write_errors: Option<&'a [u8]>,
    write_concern_error: Option<&'a [u8]>,
}

/// Adds the outcome of the frame's documents to `reply`.
///
/// # Errors
/// The body is not a write command's reply; `reply` has no span of the frame then.
pub(crate) fn judge(asked: &Asked, body: &[u8], reply: &mut WriteReply) -> Result<Next, Malformed> {
    let said = Said::read(body)?;
    match said.ok {
        None => return Err(Malformed("a reply does not say whether it is ok")),
        Some(0) => {
            reply.note(said.code, String::from_utf8_lossy(said.message));
            reply.push_span(asked.first, asked.count, Outcome::of_command_error(said.code));
            return Ok(Next::Stop);
        }
        Some(_) => {}
    }
    read_refused(asked, &said, reply)?;
    let applied = applied(asked, &said, reply)?;
    reply.n += said.n;
    reply.n_modified += said.n_modified;
    reply.n_upserted += said.n_upserted;
    Ok(if asked.ordered { ordered(asked, applied, reply) } else { unordered(asked, applied, reply) })
}

impl<'a> Said<'a> {
    fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut said = Said::default();
        for element in Elements::of(body)? {
            said.take(&element?)?;
        }
        Ok(said)
    }

    fn take(&mut self, element: &Element<'a>) -> Result<(), Malformed> {
        match element.key {
            b"ok" => self.ok = element.as_i64(),
            b"n" => self.n = element.as_count().unwrap_or(0),
            b"nModified" => self.n_modified = element.as_count().unwrap_or(0),
            b"upserted" => self.n_upserted = count(element.as_array())?,
            b"writeErrors" => self.write_errors = element.as_array(),
            b"writeConcernError" => self.write_concern_error = element.as_document(),
            b"code" => self.code = code(element),
            b"errmsg" => self.message = element.as_text().unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }
}

pub(super) fn code(element: &Element<'_>) -> i32 {
    element.as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(0)
}

fn count(array: Option<&[u8]>) -> Result<u64, Malformed> {
    let mut count = 0;
    for element in Elements::of(array.unwrap_or(&[5, 0, 0, 0, 0]))? {
        element?;
        count += 1;
    }
    Ok(count)
}

/// Fills `reply.refused` with the frame's refused documents: in order, each once.
fn read_refused(asked: &Asked, said: &Said<'_>, reply: &mut WriteReply) -> Result<(), Malformed> {
    reply.refused.clear();
    let Some(errors) = said.write_errors else { return Ok(()) };
    for error in Elements::of(errors)? {
        let error = error?.as_document().ok_or(Malformed("a write error is not a document"))?;
        let refusal = Refusal::read(error)?;
        if refusal.place >= asked.count {
            return Err(Malformed("a write error names a document that was not sent"));
        }
        reply.note(refusal.code, String::from_utf8_lossy(refusal.message));
        reply.refused.push((refusal.place, refusal.outcome(asked.kind)?));
    }
    reply.refused.sort_by_key(|&(place, _)| place);
    reply.refused.dedup_by_key(|&mut (place, _)| place);
    Ok(())
}

/// The outcome of the documents that the server did not refuse.
fn applied(asked: &Asked, said: &Said<'_>, reply: &mut WriteReply) -> Result<Outcome, Malformed> {
    if let Some(error) = said.write_concern_error {
        let (mut number, mut message) = (0, [].as_slice());
        for element in Elements::of(error)? {
            let element = element?;
            match element.key {
                b"code" => number = code(&element),
                b"errmsg" => message = element.as_text().unwrap_or_default(),
                _ => {}
            }
        }
        reply.note(number, String::from_utf8_lossy(message));
        return Ok(Outcome::Unknown(Cause::WriteConcern));
    }
    let expected = applied_count(asked, reply);
    if asked.kind == WriteKind::Insert && said.n != u64::from(expected) {
        reply.note(0, format_args!("the server counts {} documents inserted, {expected} were to be", said.n));
        return Ok(Outcome::Unknown(Cause::Miscounted));
    }
    Ok(Outcome::Acknowledged)
}

/// How many documents the server applied, going by those it refused.
fn applied_count(asked: &Asked, reply: &WriteReply) -> u32 {
    match reply.refused.first() {
        Some(&(place, _)) if asked.ordered => place,
        // No more than `count` distinct places were let in.
        _ => asked.count - reply.refused.len() as u32,
    }
}

fn ordered(asked: &Asked, applied: Outcome, reply: &mut WriteReply) -> Next {
    let Some(&(place, outcome)) = reply.refused.first() else {
        reply.push_span(asked.first, asked.count, applied);
        return Next::Send;
    };
    reply.push_span(asked.first, place, applied);
    reply.push_span(asked.first + place, 1, outcome);
    reply.push_span(asked.first + place + 1, asked.count - place - 1, Outcome::NotSent);
    Next::Stop
}

fn unordered(asked: &Asked, applied: Outcome, reply: &mut WriteReply) -> Next {
    let mut done = 0;
    for index in 0..reply.refused.len() {
        let (place, outcome) = reply.refused[index];
        reply.push_span(asked.first + done, place - done, applied);
        reply.push_span(asked.first + place, 1, outcome);
        done = place + 1;
    }
    reply.push_span(asked.first + done, asked.count - done, applied);
    Next::Send
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::outcome::Span;
    use bson::{RawDocumentBuf, rawdoc};

    const DUPLICATE: Outcome = Outcome::Rejected(Class::DuplicateKey);
    const UNSURE: Outcome = Outcome::Unknown(Cause::WriteConcern);

    fn asked(ordered: bool, count: u32) -> Asked {
        Asked { kind: WriteKind::Insert, ordered, first: 100, count }
    }

    fn check(asked: Asked, body: RawDocumentBuf, next: Next, spans: &[(u32, u32, Outcome)]) {
        let mut reply = WriteReply::new();
        assert_eq!(judge(&asked, body.as_bytes(), &mut reply), Ok(next));
        let expected: Vec<Span> =
            spans.iter().map(|&(first, count, outcome)| Span { first, count, outcome }).collect();
        assert_eq!(reply.spans(), expected);
    }

    fn duplicate(index: i32) -> RawDocumentBuf {
        rawdoc! {"index": index, "code": 11000, "errmsg": "dup"}
    }

    #[test]
    fn an_ordered_batch_is_acknowledged_up_to_the_failure_and_not_tried_behind_it() {
        let body = || rawdoc! {"n": 2, "writeErrors": [duplicate(2)], "ok": 1.0};
        let spans = [(100, 2, Outcome::Acknowledged), (102, 1, DUPLICATE), (103, 2, Outcome::NotSent)];
        check(asked(true, 5), body(), Next::Stop, &spans);
        check(asked(true, 3), body(), Next::Stop, &spans[..2]);
    }

    #[test]
    fn an_unordered_batch_has_an_outcome_per_index_in_whatever_order_the_server_names_them() {
        let body = rawdoc! {"n": 3, "writeErrors": [duplicate(4), duplicate(0), duplicate(1)], "ok": 1.0};
        let spans = [
            (100, 2, DUPLICATE),
            (102, 2, Outcome::Acknowledged),
            (104, 1, DUPLICATE),
            (105, 1, Outcome::Acknowledged),
        ];
        check(asked(false, 6), body, Next::Send, &spans);
    }

    #[test]
    fn a_duplicate_of_an_inserts_own_id_is_told_from_that_of_another_index() {
        let errors = || {
            [
                rawdoc! {"index": 0, "code": 11000, "keyPattern": {"_id": 1}, "errmsg": "dup"},
                rawdoc! {"index": 1, "code": 11000, "keyPattern": {"user": 1}, "errmsg": "dup"},
                rawdoc! {"index": 2, "code": 121, "keyPattern": {"_id": 1}, "errmsg": "no"},
            ]
        };
        let body = || rawdoc! {"n": 1, "writeErrors": bson::RawArrayBuf::from_iter(errors()), "ok": 1.0};
        let invalid = Outcome::Rejected(Class::Validation);
        let id = Outcome::Rejected(Class::DuplicateId);
        let spans = [(100, 1, id), (101, 1, DUPLICATE), (102, 1, invalid), (103, 1, Outcome::Acknowledged)];
        check(asked(false, 4), body(), Next::Send, &spans);
        let spans = [(100, 2, DUPLICATE), (102, 1, invalid), (103, 1, Outcome::Acknowledged)];
        check(Asked { kind: WriteKind::Update, ..asked(false, 4) }, body(), Next::Send, &spans);
    }

    #[test]
    fn a_write_concern_error_leaves_what_was_applied_unknown_and_what_was_refused_refused() {
        let concern = || rawdoc! {"code": 64, "errmsg": "waiting for replication timed out"};
        let body = rawdoc! {"n": 3, "writeConcernError": concern(), "ok": 1.0};
        check(asked(true, 3), body, Next::Send, &[(100, 3, UNSURE)]);
        let body = rawdoc! {"n": 1, "writeErrors": [duplicate(1)], "writeConcernError": concern(), "ok": 1.0};
        check(
            asked(true, 3),
            body,
            Next::Stop,
            &[(100, 1, UNSURE), (101, 1, DUPLICATE), (102, 1, Outcome::NotSent)],
        );
    }

    #[test]
    fn a_command_that_failed_as_a_whole_rejects_all_or_leaves_all_unknown() {
        for (code, outcome) in [
            (13, Outcome::Rejected(Class::Unauthorized)),
            (10107, Outcome::Rejected(Class::NotPrimary)),
            (11602, Outcome::Unknown(Cause::Interrupted)),
            (91, Outcome::Unknown(Cause::Interrupted)),
        ] {
            let body = rawdoc! {"ok": 0.0, "code": code, "errmsg": "no"};
            check(asked(false, 4), body, Next::Stop, &[(100, 4, outcome)]);
        }
    }

    #[test]
    fn an_insert_that_the_server_counts_short_is_not_believed() {
        let short = Outcome::Unknown(Cause::Miscounted);
        check(asked(true, 4), rawdoc! {"n": 3, "ok": 1}, Next::Send, &[(100, 4, short)]);
        check(asked(true, 4), rawdoc! {"ok": 1}, Next::Send, &[(100, 4, short)]);
        let update = Asked { kind: WriteKind::Update, ..asked(true, 4) };
        check(
            update,
            rawdoc! {"n": 3, "nModified": 2, "ok": 1},
            Next::Send,
            &[(100, 4, Outcome::Acknowledged)],
        );
    }

    #[test]
    fn the_first_error_and_the_counts_are_kept() {
        let mut reply = WriteReply::new();
        let update = Asked { kind: WriteKind::Update, ..asked(true, 4) };
        let body = rawdoc! {
            "n": 3_i64, "nModified": 2.0, "upserted": [{"index": 0, "_id": 1}], "writeErrors": [duplicate(3)], "ok": true,
        };
        judge(&update, body.as_bytes(), &mut reply).unwrap();
        assert_eq!((reply.n, reply.n_modified, reply.n_upserted), (3, 2, 1));
        assert_eq!(reply.first_error(), Some((11000, "dup")));
    }

    #[test]
    fn a_body_that_is_no_reply_to_a_write_is_malformed() {
        for body in [
            rawdoc! {"n": 1},
            rawdoc! {"ok": "yes"},
            rawdoc! {"ok": 1, "n": 1, "writeErrors": [{"index": 4}]},
            rawdoc! {"ok": 1, "n": 1, "writeErrors": [{"index": -1}]},
            rawdoc! {"ok": 1, "n": 1, "writeErrors": [{"code": 11000}]},
            rawdoc! {"ok": 1, "n": 1, "writeErrors": [5]},
        ] {
            let mut reply = WriteReply::new();
            assert!(judge(&asked(true, 4), body.as_bytes(), &mut reply).is_err(), "{body:?}");
            assert!(reply.spans().is_empty());
        }
    }
}
