//! Derives the outcome of each document of a frame from the body of its reply.
//!
//! An ordered command ends at its first failure, so later documents were not tried; an unordered one tries all. A write
//! concern error leaves the applied documents unknown. A command that failed as a whole rejects all its documents, or leaves
//! them unknown if the server was interrupted. An insert is miscounted if its count differs from the documents that were not
//! refused.

use plimsoll_element::{Element, Elements};

use crate::error::Malformed;
use crate::outcome::{Cause, Outcome};
use crate::retryable::RetryAdvice;
use crate::write::reply::WriteReply;
use crate::write::spec::WriteKind;
use crate::write::write_error::WriteError;

/// The documents of a sent frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentFrame {
    pub(crate) kind: WriteKind,
    pub(crate) ordered: bool,
    /// The index of the frame's first document in the batch.
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// Whether to send the batch's next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Send,
    Stop,
}

/// The fields of a reply's body, not yet checked.
#[derive(Default)]
struct ReplyFields<'a> {
    ok: Option<i64>,
    code: i32,
    name: &'a [u8],
    message: &'a [u8],
    n: u64,
    n_modified: u64,
    n_upserted: u64,
    /// The server's labels.
    advice: RetryAdvice,
    write_errors: Option<&'a [u8]>,
    write_concern_error: Option<&'a [u8]>,
}

/// Adds the outcome of the frame's documents to `reply`.
///
/// # Errors
/// The body is not the reply to a write command. `reply` then has no span of the frame.
pub(crate) fn classify(frame: &SentFrame, body: &[u8], reply: &mut WriteReply) -> Result<Next, Malformed> {
    let fields = ReplyFields::read(body)?;
    match fields.ok {
        None => return Err(Malformed("a reply has no `ok`")),
        Some(0) => {
            // Only the failure of the first frame shows that the batch wrote nothing: earlier frames may have written.
            let wrote_nothing = fields.advice.wrote_nothing && frame.first == 0;
            reply.advice.merge(RetryAdvice { wrote_nothing, ..fields.advice });
            let outcome = Outcome::of_labelled_error(fields.code, fields.advice);
            reply.note(outcome, fields.code, fields.name, String::from_utf8_lossy(fields.message));
            reply.push_span(frame.first, frame.count, outcome);
            return Ok(Next::Stop);
        }
        Some(_) => {}
    }
    read_refused(frame, &fields, reply)?;
    let applied = applied(frame, &fields, reply)?;
    reply.advice.merge(fields.advice);
    reply.n += fields.n;
    reply.n_modified += fields.n_modified;
    reply.n_upserted += fields.n_upserted;
    Ok(if frame.ordered { ordered(frame, applied, reply) } else { unordered(frame, applied, reply) })
}

impl<'a> ReplyFields<'a> {
    fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = ReplyFields::default();
        for element in Elements::of(body)? {
            fields.take(&element?)?;
        }
        Ok(fields)
    }

    fn take(&mut self, element: &Element<'a>) -> Result<(), Malformed> {
        match element.key {
            b"ok" => self.ok = element.as_i64(),
            b"n" => self.n = element.as_count().unwrap_or(0),
            b"nModified" => self.n_modified = element.as_count().unwrap_or(0),
            b"upserted" => self.n_upserted = count(element.as_array())?,
            b"writeErrors" => self.write_errors = element.as_array(),
            b"writeConcernError" => self.write_concern_error = element.as_document(),
            b"errorLabels" => self.advice = RetryAdvice::of_array(element.as_array())?,
            b"code" => self.code = element.as_code(),
            b"codeName" => self.name = element.as_text().unwrap_or_default(),
            b"errmsg" => self.message = element.as_text().unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }
}

fn count(array: Option<&[u8]>) -> Result<u64, Malformed> {
    let mut count = 0;
    for element in Elements::of(array.unwrap_or(&[5, 0, 0, 0, 0]))? {
        element?;
        count += 1;
    }
    Ok(count)
}

/// Fills `reply.refused` with the frame's refused documents, in order and without duplicates.
fn read_refused(
    frame: &SentFrame,
    fields: &ReplyFields<'_>,
    reply: &mut WriteReply,
) -> Result<(), Malformed> {
    reply.refused.clear();
    let Some(errors) = fields.write_errors else { return Ok(()) };
    for error in Elements::of(errors)? {
        let error = error?.as_document().ok_or(Malformed("a write error is not a document"))?;
        let error = WriteError::read(error)?;
        if error.index >= frame.count {
            return Err(Malformed("a write error names a document that was not sent"));
        }
        let outcome = error.outcome(frame.kind)?;
        reply.note(outcome, error.code, b"", String::from_utf8_lossy(error.message));
        reply.refused.push((error.index, outcome));
    }
    reply.refused.sort_by_key(|&(place, _)| place);
    reply.refused.dedup_by_key(|&mut (place, _)| place);
    Ok(())
}

/// The outcome of the documents that the server did not refuse.
fn applied(
    frame: &SentFrame,
    fields: &ReplyFields<'_>,
    reply: &mut WriteReply,
) -> Result<Outcome, Malformed> {
    if let Some(error) = fields.write_concern_error {
        let (mut number, mut name, mut message) = (0, [].as_slice(), [].as_slice());
        for element in Elements::of(error)? {
            let element = element?;
            match element.key {
                b"code" => number = element.as_code(),
                b"codeName" => name = element.as_text().unwrap_or_default(),
                b"errmsg" => message = element.as_text().unwrap_or_default(),
                _ => {}
            }
        }
        // With the label, an election ended the wait: a retry confirms the write.
        let cause = if fields.advice.is_retryable { Cause::Interrupted } else { Cause::WriteConcern };
        let outcome = Outcome::Unknown(cause);
        reply.note(outcome, number, name, String::from_utf8_lossy(message));
        return Ok(outcome);
    }
    let expected = applied_count(frame, reply);
    if frame.kind == WriteKind::Insert && fields.n != u64::from(expected) {
        let outcome = Outcome::Unknown(Cause::Miscounted);
        let message = format_args!("the server counts {} inserted documents, not {expected}", fields.n);
        reply.note(outcome, 0, b"", message);
        return Ok(outcome);
    }
    Ok(Outcome::Acknowledged)
}

/// The number of applied documents, derived from the refused ones.
fn applied_count(frame: &SentFrame, reply: &WriteReply) -> u32 {
    match reply.refused.first() {
        Some(&(place, _)) if frame.ordered => place,
        // There are at most `count` distinct indexes.
        _ => frame.count - reply.refused.len() as u32,
    }
}

fn ordered(frame: &SentFrame, applied: Outcome, reply: &mut WriteReply) -> Next {
    let Some(&(place, outcome)) = reply.refused.first() else {
        reply.push_span(frame.first, frame.count, applied);
        return Next::Send;
    };
    reply.push_span(frame.first, place, applied);
    reply.push_span(frame.first + place, 1, outcome);
    reply.push_span(frame.first + place + 1, frame.count - place - 1, Outcome::NotSent);
    Next::Stop
}

fn unordered(frame: &SentFrame, applied: Outcome, reply: &mut WriteReply) -> Next {
    let mut done = 0;
    for index in 0..reply.refused.len() {
        let (place, outcome) = reply.refused[index];
        reply.push_span(frame.first + done, place - done, applied);
        reply.push_span(frame.first + place, 1, outcome);
        done = place + 1;
    }
    reply.push_span(frame.first + done, frame.count - done, applied);
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

    fn frame(ordered: bool, count: u32) -> SentFrame {
        SentFrame { kind: WriteKind::Insert, ordered, first: 100, count }
    }

    fn check(frame: SentFrame, body: RawDocumentBuf, next: Next, spans: &[(u32, u32, Outcome)]) {
        let mut reply = WriteReply::new();
        assert_eq!(classify(&frame, body.as_bytes(), &mut reply), Ok(next));
        let expected: Vec<Span> =
            spans.iter().map(|&(first, count, outcome)| Span { first, count, outcome }).collect();
        assert_eq!(reply.spans(), expected);
    }

    fn duplicate(index: i32) -> RawDocumentBuf {
        rawdoc! {"index": index, "code": 11000, "errmsg": "dup"}
    }

    #[test]
    fn an_ordered_batch_is_acknowledged_up_to_the_failure_and_not_tried_after_it() {
        let body = || rawdoc! {"n": 2, "writeErrors": [duplicate(2)], "ok": 1.0};
        let spans = [(100, 2, Outcome::Acknowledged), (102, 1, DUPLICATE), (103, 2, Outcome::NotSent)];
        check(frame(true, 5), body(), Next::Stop, &spans);
        check(frame(true, 3), body(), Next::Stop, &spans[..2]);
    }

    #[test]
    fn an_unordered_batch_has_an_outcome_per_index_in_any_order_of_the_errors() {
        let body = rawdoc! {"n": 3, "writeErrors": [duplicate(4), duplicate(0), duplicate(1)], "ok": 1.0};
        let spans = [
            (100, 2, DUPLICATE),
            (102, 2, Outcome::Acknowledged),
            (104, 1, DUPLICATE),
            (105, 1, Outcome::Acknowledged),
        ];
        check(frame(false, 6), body, Next::Send, &spans);
    }

    #[test]
    fn a_duplicate_id_differs_from_a_duplicate_key_of_another_index() {
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
        check(frame(false, 4), body(), Next::Send, &spans);
        let spans = [(100, 2, DUPLICATE), (102, 1, invalid), (103, 1, Outcome::Acknowledged)];
        check(SentFrame { kind: WriteKind::Update, ..frame(false, 4) }, body(), Next::Send, &spans);
    }

    #[test]
    fn a_write_concern_error_makes_applied_documents_unknown_and_refused_ones_stay_refused() {
        let concern = || rawdoc! {"code": 64, "errmsg": "waiting for replication timed out"};
        let body = rawdoc! {"n": 3, "writeConcernError": concern(), "ok": 1.0};
        check(frame(true, 3), body, Next::Send, &[(100, 3, UNSURE)]);
        let body = rawdoc! {"n": 1, "writeErrors": [duplicate(1)], "writeConcernError": concern(), "ok": 1.0};
        check(
            frame(true, 3),
            body,
            Next::Stop,
            &[(100, 1, UNSURE), (101, 1, DUPLICATE), (102, 1, Outcome::NotSent)],
        );
    }

    #[test]
    fn a_failed_command_rejects_all_documents_or_leaves_all_unknown() {
        for (code, outcome) in [
            (13, Outcome::Rejected(Class::Unauthorized)),
            (10107, Outcome::Rejected(Class::NotPrimary)),
            (11602, Outcome::Unknown(Cause::Interrupted)),
            (91, Outcome::Unknown(Cause::Interrupted)),
        ] {
            let body = rawdoc! {"ok": 0.0, "code": code, "errmsg": "no"};
            check(frame(false, 4), body, Next::Stop, &[(100, 4, outcome)]);
        }
    }

    #[test]
    fn an_insert_with_too_low_a_count_is_miscounted() {
        let short = Outcome::Unknown(Cause::Miscounted);
        check(frame(true, 4), rawdoc! {"n": 3, "ok": 1}, Next::Send, &[(100, 4, short)]);
        check(frame(true, 4), rawdoc! {"ok": 1}, Next::Send, &[(100, 4, short)]);
        let update = SentFrame { kind: WriteKind::Update, ..frame(true, 4) };
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
        let update = SentFrame { kind: WriteKind::Update, ..frame(true, 4) };
        let body = rawdoc! {
            "n": 3_i64, "nModified": 2.0, "upserted": [{"index": 0, "_id": 1}], "writeErrors": [duplicate(3)], "ok": true,
        };
        classify(&update, body.as_bytes(), &mut reply).unwrap();
        assert_eq!((reply.n, reply.n_modified, reply.n_upserted), (3, 2, 1));
        assert_eq!(reply.first_error(), Some((11000, "dup")));
    }

    #[test]
    fn a_body_that_is_not_a_write_reply_is_malformed() {
        for body in [
            rawdoc! {"n": 1},
            rawdoc! {"ok": "yes"},
            rawdoc! {"ok": 1, "n": 1, "writeErrors": [{"index": 4}]},
            rawdoc! {"ok": 1, "n": 1, "writeErrors": [{"index": -1}]},
            rawdoc! {"ok": 1, "n": 1, "writeErrors": [{"code": 11000}]},
            rawdoc! {"ok": 1, "n": 1, "writeErrors": [5]},
        ] {
            let mut reply = WriteReply::new();
            assert!(classify(&frame(true, 4), body.as_bytes(), &mut reply).is_err(), "{body:?}");
            assert!(reply.spans().is_empty());
        }
    }

    #[test]
    fn the_servers_label_makes_an_error_worth_a_retry() {
        let interrupted = Outcome::Unknown(Cause::Interrupted);
        let refused =
            |code: i32| rawdoc! {"ok": 0, "code": code, "errorLabels": ["Other", "RetryableWriteError"]};
        check(frame(true, 2), refused(8), Next::Stop, &[(100, 2, interrupted)]);
        check(frame(true, 2), refused(10107), Next::Stop, &[(100, 2, Outcome::Rejected(Class::NotPrimary))]);
        let error = rawdoc! {"code": 11602, "errmsg": "stepped down"};
        let in_doubt = rawdoc! {
            "ok": 1, "n": 2, "writeConcernError": error.clone(), "errorLabels": ["RetryableWriteError"],
        };
        check(frame(true, 2), in_doubt, Next::Send, &[(100, 2, interrupted)]);
        let without = rawdoc! {"ok": 1, "n": 2, "writeConcernError": error};
        check(frame(true, 2), without, Next::Send, &[(100, 2, UNSURE)]);
    }

    #[test]
    fn a_failed_first_frame_that_wrote_nothing_was_refused() {
        let body = rawdoc! {"ok": 0, "code": 91, "errorLabels": ["RetryableWriteError", "NoWritesPerformed"]};
        for (first, wrote_nothing) in [(0, true), (100, false)] {
            let mut reply = WriteReply::new();
            classify(&SentFrame { first, ..frame(true, 2) }, body.as_bytes(), &mut reply).unwrap();
            assert_eq!(reply.spans(), [Span { first, count: 2, outcome: Outcome::Rejected(Class::Other) }]);
            assert_eq!(reply.advice(), RetryAdvice { is_retryable: true, wrote_nothing });
            reply.clear();
            assert_eq!(reply.advice(), RetryAdvice::FINAL);
        }
    }
}
