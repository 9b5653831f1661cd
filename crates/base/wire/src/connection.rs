//! Holds one connection to one server and runs general commands on it.

use std::fmt;
use std::io;
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_element::append;
use plimsoll_net::Stream;

use crate::address::Address;
use crate::compress::Compressor;
use crate::error::Malformed;
use crate::error::{Error, ServerError, TooLarge};
use crate::frame::{self, Message};
use crate::hello::{Hello, Limits};
use crate::options::ConnectOptions;
use crate::transport::{ExchangeError, Transport};

/// An open, authenticated connection. One command is in flight at a time: its methods take `&mut self`.
///
/// Dropping an unfinished future of a command breaks the connection, because its reply may still arrive.
pub struct Connection {
    pub(crate) transport: Transport,
    address: Address,
    hello: Hello,
    compressor: Option<Compressor>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("address", &self.address)
            .field("broken", &self.is_broken())
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(stream: Stream, address: Address) -> Self {
        Connection { transport: Transport::new(stream), address, hello: Hello::default(), compressor: None }
    }

    /// Adopts the server's limits, and compresses from now on if the server supports a compressor of the options.
    pub(crate) fn set_hello(&mut self, hello: Hello, options: &ConnectOptions) {
        let len_max = hello.limits.max_message_bytes as usize;
        self.transport.limit_reply(len_max + frame::SLACK);
        self.compressor = Compressor::choose(&options.compression, &hello.compressors);
        if let Some(compressor) = self.compressor {
            self.transport.compress(compressor, options.zlib_level, len_max);
        }
        self.hello = hello;
    }

    /// The server's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The server's description of itself when the connection was opened.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The compressor of the messages; `None` if they are not compressed.
    pub fn compressor(&self) -> Option<Compressor> {
        self.compressor
    }

    /// The server's limits.
    pub fn limits(&self) -> Limits {
        self.hello.limits
    }

    /// Whether a timeout, a lost connection, a malformed reply or a dropped future broke the connection: open a new one.
    pub fn is_broken(&self) -> bool {
        self.transport.is_broken()
    }

    /// Sets the time limit of each command from now on, or of each frame of a batch; `None` waits without limit. A command
    /// ends between 1 and 9/8 of the limit. One thread counts the time for all connections with the same limit, which
    /// costs a command almost nothing.
    ///
    /// # Panics
    /// If the system cannot start another thread.
    pub fn set_timeout(&mut self, limit: Option<Duration>) {
        self.transport.set_timeout(limit);
    }

    /// Runs any command on database `db` and returns the body of its reply. Allocates: not for hot paths.
    ///
    /// # Errors
    /// [`Error::Server`] if the server refuses the command; any other [`Error`] if there is no usable reply.
    pub async fn command(&mut self, db: &str, body: &RawDocument) -> Result<RawDocumentBuf, Error> {
        let request = self.request(db, body)?;
        let (request_id, _) = self.exchange(&request).await?;
        let reply = self.read_body(request_id)?;
        match ServerError::of_body(reply.as_bytes()) {
            Ok(None) => Ok(reply),
            Ok(Some(error)) => Err(error.into()),
            Err(source) => Err(self.malformed(source)),
        }
    }

    /// Checks that the server answers. Also waits until it has processed every earlier write with `w: 0`.
    ///
    /// # Errors
    /// As [`Connection::command`].
    pub async fn ping(&mut self) -> Result<(), Error> {
        self.command("admin", &rawdoc! {"ping": 1}).await.map(|_| ())
    }

    fn request(&mut self, db: &str, body: &RawDocument) -> Result<Vec<u8>, Error> {
        let body = body.as_bytes();
        let mut out = Vec::with_capacity(frame::LEN_MIN + body.len() + db.len() + 16);
        let message = frame::start(&mut out, self.transport.next_request_id(), 0, 0);
        let document = append::open(&mut out);
        append::elements(&mut out, body);
        append::string(&mut out, "$db", db);
        append::close(&mut out, document);
        frame::finish(&mut out, message);
        TooLarge::check(out.len(), self.hello.limits.max_message_bytes as usize)?;
        Ok(out)
    }

    /// Sends a complete request and waits for its reply, which the transport then holds. Returns the request's id and its
    /// size on the wire in bytes.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<(i32, usize), Error> {
        if self.is_broken() {
            return Err(Error::Broken { address: self.address.clone() });
        }
        let request_id = request[4..8].try_into().map(i32::from_le_bytes).unwrap_or_default();
        let mut sent = 0;
        match self.transport.exchange(request, &mut sent).await {
            Ok(()) => Ok((request_id, sent)),
            Err(fault) => Err(self.fail(fault)),
        }
    }

    fn read_body(&mut self, request_id: i32) -> Result<RawDocumentBuf, Error> {
        let body =
            Message::parse_reply(self.transport.reply(), request_id).map(|message| message.body.to_owned());
        body.map_err(|source| self.malformed(source))
    }

    /// Breaks the connection because of a malformed reply.
    pub(crate) fn malformed(&mut self, source: Malformed) -> Error {
        self.transport.set_broken();
        Error::Protocol { address: self.address.clone(), source }
    }

    pub(crate) fn fail(&self, fault: ExchangeError) -> Error {
        let address = self.address.clone();
        match fault {
            ExchangeError::Malformed(source) => Error::Protocol { address, source },
            ExchangeError::Lost(source) => Error::Lost { address, source: explain_closed(source) },
            ExchangeError::Timeout => {
                Error::Timeout { address, limit: self.transport.timeout().unwrap_or_default() }
            }
        }
    }
}

/// Replaces "unexpected end of file" by words that name the cause.
fn explain_closed(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the server closed it"),
        _ => error,
    }
}
