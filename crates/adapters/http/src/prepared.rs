//! Prepares the bytes of a request, and fills in the send time and the token later.

use std::ops::Range;

use plimsoll_element::{self as element, Element};

use crate::json::{self, Stamps};
use crate::setup::{Body, Call, Part, Piece, Values};

/// A request's bytes and reusable work buffers.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    request: Vec<u8>,
    head_len: usize,
    /// Timestamps to write when the request is sent.
    stamps: Stamps,
    token: Option<Range<usize>>,
    /// The generation of its token.
    pub generation: u64,
    room: Room,
}

#[derive(Debug, Default)]
struct Room {
    bson: Vec<u8>,
    values: Vec<u8>,
    body: Vec<u8>,
    body_stamps: Stamps,
    scratch: Vec<u8>,
}

impl Prepared {
    /// The bytes on the wire.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.request
    }

    /// The size of the head in bytes.
    pub(crate) const fn head_len(&self) -> usize {
        self.head_len
    }

    /// Builds the request of `count` documents, starting with number `first`.
    pub(crate) fn make(&mut self, call: &Call, first: u64, count: u64, token: &[u8]) {
        let Self { request, stamps, room, .. } = self;
        request.clear();
        stamps.clear();
        room.render(call, first, count);
        self.token = None;
        for piece in &call.head.pieces {
            match piece {
                Piece::Bytes(bytes) => request.extend_from_slice(bytes),
                Piece::Url(field) => room.url(call, *field, request, stamps),
                Piece::Header(field) => room.header(call, *field, request, stamps),
                Piece::Length => {
                    request.extend_from_slice(itoa::Buffer::new().format(room.body.len()).as_bytes())
                }
                Piece::Path => {
                    call.reader().into_iter().for_each(|it| it.path(Part::of_document(first), request));
                }
                Piece::Token => {
                    self.token = Some(request.len()..request.len() + token.len());
                    request.extend_from_slice(token);
                }
            }
        }
        self.head_len = request.len();
        request.extend_from_slice(&room.body);
        let head_len = self.head_len;
        stamps.extend(room.body_stamps.iter().map(|stamp| json::Stamp { at: stamp.at + head_len, ..*stamp }));
    }

    /// Whether a timestamp is not written yet.
    pub(crate) fn needs_timestamp(&self) -> bool {
        !self.stamps.is_empty()
    }

    /// Writes the timestamps once: a retry carries the same timestamps.
    pub(crate) fn stamp(&mut self, now_ms: i64) {
        self.stamps.iter().for_each(|stamp| stamp.write(now_ms, &mut self.request));
        self.stamps.clear();
    }

    /// Replaces the token. Must follow [`Prepared::stamp`].
    pub(crate) fn set_token(&mut self, token: &[u8], generation: u64) {
        debug_assert!(!self.needs_timestamp(), "the positions of timestamps would be wrong");
        self.generation = generation;
        if let Some(place) = self.token.clone() {
            self.head_len = self.head_len - place.len() + token.len();
            self.token = Some(place.start..place.start + token.len());
            self.request.splice(place, token.iter().copied());
        }
    }
}

impl Room {
    /// Renders the body and the fields of the head.
    fn render(&mut self, call: &Call, first: u64, count: u64) {
        self.body.clear();
        self.body_stamps.clear();
        if !matches!(call.body, Body::None) {
            call.body.render(first, count, &mut self.bson, &mut self.body, &mut self.body_stamps);
        }
        self.values.clear();
        if let Some(Values { program, .. }) = &call.with {
            program.encode(first, &plimsoll_document::Identity::default(), &mut self.values);
        }
    }

    fn url(&mut self, call: &Call, field: usize, out: &mut Vec<u8>, stamps: &mut Stamps) {
        let Self { values, scratch, .. } = self;
        if let Some(element) = find(call, values, field) {
            json::percent(&element, scratch, out, stamps);
        }
    }

    /// Appends a field to a header. Replaces control characters, which could end the line.
    fn header(&self, call: &Call, field: usize, out: &mut Vec<u8>, stamps: &mut Stamps) {
        let start = out.len();
        if let Some(element) = find(call, &self.values, field) {
            json::plain(&element, out, stamps);
        }
        out[start..].iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b'_');
    }
}

/// A field; `None` if this document lacks it.
fn find<'a>(call: &Call, values: &'a [u8], field: usize) -> Option<Element<'a>> {
    let name = call.with.as_ref()?.names.get(field)?;
    element::find(values, name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{Context, Setup};
    use std::path::Path;

    fn call(section: &str, request: &str) -> std::sync::Arc<Call> {
        let section = serde_saphyr::from_str(section).unwrap();
        let request = serde_saphyr::from_str(request).unwrap();
        let context = Context { seed: 1, start_ms: 0, base: Path::new(".") };
        let setup = Setup::build(&section, &[("op".to_owned(), request)], context).unwrap();
        setup.calls[0].clone()
    }

    fn text(prepared: &Prepared) -> &str {
        std::str::from_utf8(prepared.bytes()).unwrap()
    }

    #[test]
    fn placeholders_are_filled_and_the_length_matches_the_body() {
        let call = call(
            "url: http://h/v1",
            "post: /s/{id}?w={w}&x={gone}\nwith: {id: {$sequence: {start: 5}}, w: a b, gone: null}\n\
             headers: {x-id: 'n {id}'}\nbody: {n: {$number: {}}, t: é}",
        );
        let mut prepared = Prepared::default();
        for (number, id, body) in [(2, "7", r#"{"n":2,"t":"é"}"#), (11, "16", r#"{"n":11,"t":"é"}"#)] {
            prepared.make(&call, number, 1, b"");
            let expected = format!(
                "POST /v1/s/{id}?w=a%20b&x= HTTP/1.1\r\nhost: h\r\nx-id: n {id}\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
            assert_eq!(text(&prepared), expected);
            assert_eq!(prepared.head_len() + body.len(), expected.len());
        }
    }

    #[test]
    fn a_timestamp_is_written_once_in_head_and_body() {
        let call = call(
            "url: http://h",
            "post: /{at}\nwith: {at: {$now: {plus: 1s}}}\nheaders: {x: '{at}'}\nbody: {at: {$now: {}}}",
        );
        let mut prepared = Prepared::default();
        prepared.make(&call, 0, 1, b"");
        assert!(prepared.needs_timestamp());
        prepared.stamp(0);
        prepared.stamp(99_000);
        assert!(
            text(&prepared).starts_with("POST /1970-01-01T00:00:01.000Z HTTP/1.1\r\n"),
            "{}",
            text(&prepared)
        );
        assert!(text(&prepared).contains("x: 1970-01-01T00:00:01.000Z\r\n"));
        assert!(text(&prepared).ends_with(r#"{"at":"1970-01-01T00:00:00.000Z"}"#));
    }

    #[test]
    fn another_token_replaces_the_first() {
        let call = call("url: http://h\nauth: {login: {request: {post: /l}, token: t}}", "put: /a\nbody: x");
        let mut prepared = Prepared::default();
        prepared.make(&call, 0, 1, b"one");
        for token in ["three", "2"] {
            prepared.set_token(token.as_bytes(), 1);
            assert!(
                text(&prepared).contains(&format!("authorization: Bearer {token}\r\n")),
                "{}",
                text(&prepared)
            );
            assert_eq!(&text(&prepared)[prepared.head_len()..], "x");
        }
    }

    #[test]
    fn no_value_ends_the_line_of_a_header() {
        let call = call("url: http://h", "get: /{a}\nwith: {a: \"x\\r\\ny: z\"}\nheaders: {b: '{a}'}");
        let mut prepared = Prepared::default();
        prepared.make(&call, 0, 1, b"");
        assert_eq!(text(&prepared), "GET /x%0D%0Ay:%20z HTTP/1.1\r\nhost: h\r\nb: x__y: z\r\n\r\n");
    }
}
