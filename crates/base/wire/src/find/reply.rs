//! Parses a batch of found documents without copying them.

use bson::RawDocument;
use plimsoll_element::{Element, Elements};

use crate::error::Malformed;
use crate::error::ServerError;
use crate::frame::{self, Message};

/// A reusable reply to find or getMore. Its buffer grows to the largest batch and stays allocated.
#[derive(Clone, Debug, Default)]
pub struct FindReply {
    /// Holds the message in its first `filled` bytes.
    pub(crate) bytes: Vec<u8>,
    pub(crate) filled: usize,
    /// The size of the request in bytes.
    pub(crate) sent: usize,
    /// The size of the reply in bytes.
    pub(crate) received: usize,
    batch: Batch,
}

#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    /// The position of the array of documents in the message.
    start: usize,
    end: usize,
    count: u32,
    cursor_id: i64,
}

impl FindReply {
    /// An empty reply for [`crate::Connection::find`] to fill.
    pub fn new() -> Self {
        FindReply::default()
    }

    /// The number of documents in the batch.
    pub fn len(&self) -> u32 {
        self.batch.count
    }

    /// Whether the batch holds no document.
    pub fn is_empty(&self) -> bool {
        self.batch.count == 0
    }

    /// The cursor for the next batch; 0 if there is none.
    pub fn cursor_id(&self) -> i64 {
        self.batch.cursor_id
    }

    /// The size of the reply on the wire in bytes, compressed, without TLS and TCP.
    pub fn bytes_received(&self) -> usize {
        self.received
    }

    /// The size of the request on the wire in bytes, compressed, without TLS and TCP.
    pub fn bytes_sent(&self) -> usize {
        self.sent
    }

    /// The documents in the server's order, without a copy. Their lengths are checked, their elements are not.
    pub fn documents(&self) -> Documents<'_> {
        let array = &self.bytes[self.batch.start..self.batch.end];
        Documents { elements: Elements::of(array).ok(), left: self.batch.count as usize }
    }

    /// Clears the batch.
    pub(crate) fn clear(&mut self) {
        (self.filled, self.received) = (0, 0);
        self.batch = Batch::default();
    }

    /// Reads the message in the buffer.
    ///
    /// # Errors
    /// [`Malformed`] if it is not a cursor's reply. The inner error is the server's.
    pub(crate) fn read(&mut self, request_id: i32) -> Result<Result<(), ServerError>, Malformed> {
        let message = &self.bytes[..self.filled];
        let body = Message::parse_reply(message, request_id)?.body.as_bytes();
        let ReplyFields { ok, cursor } = ReplyFields::read(body)?;
        if !ok {
            return Ok(Err(ServerError::of_body(body)?.unwrap_or_default()));
        }
        let cursor = cursor.ok_or(Malformed("a reply to a find has no cursor"))?;
        self.batch = batch(message, cursor)?;
        Ok(Ok(()))
    }
}

struct ReplyFields<'a> {
    ok: bool,
    cursor: Option<&'a [u8]>,
}

impl<'a> ReplyFields<'a> {
    fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = ReplyFields { ok: false, cursor: None };
        for element in Elements::of(body)? {
            let element = element?;
            match element.key {
                b"ok" => fields.ok = element.as_i64().is_some_and(|ok| ok != 0),
                b"cursor" => fields.cursor = element.as_document(),
                _ => {}
            }
        }
        Ok(fields)
    }
}

fn batch(message: &[u8], cursor: &[u8]) -> Result<Batch, Malformed> {
    let (mut cursor_id, mut array) = (None, None);
    for element in Elements::of(cursor)? {
        let element = element?;
        match element.key {
            b"id" => cursor_id = element.as_i64(),
            b"firstBatch" | b"nextBatch" => array = element.as_array(),
            _ => {}
        }
    }
    let cursor_id = cursor_id.ok_or(Malformed("a cursor has no id"))?;
    let array = array.ok_or(Malformed("a cursor has no batch"))?;
    // `array` is a part of `message`, so its position is the distance of their first bytes.
    let start = array.as_ptr().addr() - message.as_ptr().addr();
    Ok(Batch { start, end: start + array.len(), count: count(array)?, cursor_id })
}

/// The number of documents in the batch. Checks the length of each.
fn count(array: &[u8]) -> Result<u32, Malformed> {
    let mut count = 0;
    for element in Elements::of(array)? {
        element?.as_document().ok_or(Malformed("a batch holds something else than documents"))?;
        count += 1;
    }
    Ok(count)
}

/// The documents of a batch.
#[derive(Clone)]
pub struct Documents<'a> {
    elements: Option<Elements<'a>>,
    left: usize,
}

impl<'a> Iterator for Documents<'a> {
    type Item = &'a RawDocument;

    fn next(&mut self) -> Option<&'a RawDocument> {
        // Every document was checked when the batch was parsed.
        let element: Element<'a> = self.elements.as_mut()?.next()?.ok()?;
        self.left = self.left.saturating_sub(1);
        frame::raw(element.value).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Documents<'_> {}

impl std::fmt::Debug for Documents<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, rawdoc};

    fn reply(body: &RawDocumentBuf) -> FindReply {
        let mut bytes = Vec::new();
        let at = frame::start(&mut bytes, 1, 9, 0);
        bytes.extend_from_slice(body.as_bytes());
        frame::finish(&mut bytes, at);
        let filled = bytes.len();
        bytes.extend_from_slice(&[7; 10]);
        FindReply { bytes, filled, ..FindReply::default() }
    }

    #[test]
    fn a_batch_is_read_without_a_copy() {
        let (a, b) = (rawdoc! {"_id": 1}, rawdoc! {"_id": 2, "x": "text"});
        for key in [bson::cstr!("firstBatch"), bson::cstr!("nextBatch")] {
            let mut cursor = rawdoc! {"id": 5_i64, "ns": "d.c"};
            cursor.append(key, bson::rawbson!([a.clone(), b.clone()]));
            let mut reply = reply(&rawdoc! {"cursor": cursor, "ok": 1.0});
            assert_eq!(reply.read(9), Ok(Ok(())));
            assert_eq!((reply.len(), reply.cursor_id()), (2, 5));
            assert_eq!(reply.documents().len(), 2);
            assert_eq!(reply.documents().collect::<Vec<_>>(), [&*a, &*b]);
            reply.clear();
            assert_eq!((reply.documents().count(), reply.cursor_id()), (0, 0));
        }
    }

    #[test]
    fn a_refusal_is_the_servers_error() {
        let mut reply = reply(&rawdoc! {"ok": 0.0, "code": 2, "codeName": "BadValue", "errmsg": "no"});
        assert_eq!(reply.read(9).unwrap().unwrap_err().code, 2);
    }

    #[test]
    fn a_reply_without_a_valid_cursor_is_malformed() {
        for body in [
            rawdoc! {"ok": 1},
            rawdoc! {"ok": 1, "cursor": {"id": 1}},
            rawdoc! {"ok": 1, "cursor": {"firstBatch": []}},
            rawdoc! {"ok": 1, "cursor": {"id": 1, "firstBatch": [5]}},
            rawdoc! {"ok": 1, "cursor": []},
        ] {
            assert!(reply(&body).read(9).is_err(), "{body:?}");
        }
    }
}
