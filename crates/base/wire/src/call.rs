//! Runs any command on the hot path, with a reusable buffer for its body.

use bson::{RawDocument, RawDocumentBuf};
use plimsoll_element::append;

use crate::connection::Connection;
use crate::error::{Error, ServerError, TooLarge};
use crate::find::FindReply;
use crate::frame::{self, Message};
use crate::hello::Limits;

/// The number of bytes by which a command may exceed a document (MongoDB's `BSONObjMaxInternalSize`).
const SLACK: usize = 16 * 1024;

/// A reusable command. Its buffer grows to the largest body and stays allocated.
#[derive(Clone, Debug)]
pub struct Call {
    bytes: Vec<u8>,
    db: String,
    bytes_max: usize,
}

/// A reusable reply to a [`Call`].
#[derive(Clone, Debug, Default)]
pub struct CallReply {
    /// Holds the message in its first `filled` bytes.
    bytes: Vec<u8>,
    filled: usize,
    sent: usize,
    received: usize,
    request_id: i32,
}

impl Call {
    /// A command on database `db`, without a body yet.
    pub fn new(db: impl Into<String>, limits: &Limits) -> Self {
        let bytes_max =
            (limits.max_bson_object_bytes as usize + SLACK).min(limits.max_message_bytes as usize);
        Call { bytes: Vec::new(), db: db.into(), bytes_max }
    }

    /// Replaces the body. `write` appends its elements, the command's name first; `$db` follows.
    ///
    /// # Errors
    /// The command exceeds the server's limit; the body is empty then.
    pub fn body(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), TooLarge> {
        self.bytes.clear();
        let message = frame::start(&mut self.bytes, 0, 0, 0);
        let document = append::open(&mut self.bytes);
        write(&mut self.bytes);
        append::string(&mut self.bytes, "$db", &self.db);
        let fits = TooLarge::check(self.bytes.len(), self.bytes_max);
        if fits.is_err() {
            self.bytes.clear();
            return fits;
        }
        append::close(&mut self.bytes, document);
        frame::finish(&mut self.bytes, message);
        fits
    }

    /// The size on the wire in bytes without compression; 0 without a body.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl CallReply {
    /// An empty reply for [`Connection::call`] to fill.
    pub fn new() -> Self {
        CallReply::default()
    }

    /// The body; `None` before the first call. Its length is checked, its elements are not.
    pub fn body(&self) -> Option<&RawDocument> {
        let message = Message::parse_reply(self.bytes.get(..self.filled)?, self.request_id).ok()?;
        Some(message.body)
    }

    /// The size of the command on the wire in bytes, after compression, without TLS and TCP.
    pub fn bytes_sent(&self) -> usize {
        self.sent
    }

    /// The size of the reply on the wire in bytes.
    pub fn bytes_received(&self) -> usize {
        self.received
    }
}

impl Connection {
    /// Runs a command like [`Connection::command`], but allocates nothing once the buffers have grown.
    ///
    /// # Errors
    /// [`Error::Server`] if the server refuses the command; `reply` then holds its answer. Any other [`Error`] if there is
    /// no usable reply; `reply` is empty then.
    ///
    /// # Panics
    /// If `call` has no body.
    pub async fn call(&mut self, call: &mut Call, reply: &mut CallReply) -> Result<(), Error> {
        (reply.filled, reply.sent, reply.received) = (0, 0, 0);
        (reply.request_id, reply.sent) = self.ask(call).await?;
        reply.filled = self.transport.reply().len();
        reply.received = self.transport.received();
        self.transport.swap_reply(&mut reply.bytes);
        let body = match Message::parse_reply(&reply.bytes[..reply.filled], reply.request_id) {
            Ok(message) => message.body,
            Err(source) => {
                reply.filled = 0;
                return Err(self.malformed(source));
            }
        };
        match ServerError::of_body(body.as_bytes()) {
            Ok(None) => Ok(()),
            Ok(Some(error)) => Err(error.into()),
            Err(source) => {
                reply.filled = 0;
                Err(self.malformed(source))
            }
        }
    }

    /// Runs a command whose reply is a cursor's batch, such as `aggregate`, `find` or `getMore`.
    ///
    /// # Errors
    /// As [`Connection::find`].
    ///
    /// # Panics
    /// If `call` has no body.
    pub async fn query(&mut self, call: &mut Call, reply: &mut FindReply) -> Result<(), Error> {
        reply.clear();
        let (request_id, sent) = self.ask(call).await?;
        reply.sent = sent;
        self.take_batch(request_id, reply)
    }

    async fn ask(&mut self, call: &mut Call) -> Result<(i32, usize), Error> {
        assert!(!call.bytes.is_empty(), "a call must have a body");
        let request_id = self.transport.next_request_id();
        frame::patch_request_id(&mut call.bytes, request_id);
        self.exchange(&call.bytes).await
    }
}

/// Copies the body, for tests and logs.
impl From<&Call> for Option<RawDocumentBuf> {
    fn from(call: &Call) -> Self {
        Message::parse(&call.bytes).ok().map(|message| message.body.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, doc};

    fn body(call: &Call) -> Document {
        Document::try_from(&*Option::<RawDocumentBuf>::from(call).unwrap()).unwrap()
    }

    #[test]
    fn a_call_holds_the_last_body() {
        let mut call = Call::new("d", &Limits::default());
        for n in [1, 2] {
            call.body(|out| {
                append::string(out, "count", "c");
                append::int32(out, "limit", n);
            })
            .unwrap();
            assert_eq!(body(&call), doc! {"count": "c", "limit": n, "$db": "d"});
        }
    }

    #[test]
    fn a_body_above_the_limit_is_refused_and_leaves_the_call_empty() {
        let limits = Limits { max_bson_object_bytes: 100, ..Limits::default() };
        let mut call = Call::new("d", &limits);
        let large = "x".repeat(SLACK + 100);
        assert!(call.body(|out| append::string(out, "ping", &large)).is_err());
        assert_eq!(call.bytes(), 0);
    }
}
