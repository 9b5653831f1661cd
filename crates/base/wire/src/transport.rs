//! One request out, one reply in, compressed if that was agreed on, or a fault that breaks the connection.

use std::io;
use std::time::Duration;

use crate::compress::{Compressor, Packer};
use crate::frame::Malformed;
use crate::pipe::Pipe;
use crate::stream::Stream;

/// Why an exchange failed. After any of these the stream is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("no answer within the time limit")]
    Timeout,
    #[error("{0}")]
    Lost(#[from] io::Error),
    #[error("{0}")]
    Malformed(#[from] Malformed),
}

/// A pipe with what the requests have in common, and whether a command is in flight.
pub(crate) struct Transport {
    pipe: Pipe,
    packer: Option<Packer>,
    request_id: i32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next request may be sent.
    Idle,
    /// A request is on its way, or failed there. A future that is dropped in the middle leaves this behind.
    Busy,
}

impl Transport {
    pub(crate) fn new(stream: Stream, limit: Option<Duration>) -> Self {
        Transport { pipe: Pipe::new(stream, limit), packer: None, request_id: 0, state: State::Idle }
    }

    /// Takes replies of up to `len_max` bytes from now on.
    pub(crate) fn limit_reply(&mut self, len_max: usize) {
        self.pipe.inbox.limit(len_max);
    }

    /// Compresses from now on, to requests of up to `len_max` bytes, and takes replies of this compressor.
    pub(crate) fn compress(&mut self, compressor: Compressor, zlib_level: Option<i32>, len_max: usize) {
        self.packer = Some(Packer::new(compressor, zlib_level, len_max));
        self.pipe.inbox.agree(compressor);
    }

    /// Sets the time limit of each command from now on.
    pub(crate) fn set_timeout(&mut self, limit: Option<Duration>) {
        self.pipe.set_timeout(limit);
    }

    /// The time limit of a command.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.pipe.timeout()
    }

    /// An exchange failed or was abandoned: what arrives next belongs to no one.
    pub(crate) fn is_broken(&self) -> bool {
        self.state == State::Busy
    }

    /// A fresh request id.
    pub(crate) fn next_request_id(&mut self) -> i32 {
        self.request_id = self.request_id.wrapping_add(1);
        self.request_id
    }

    /// Sends a request that nobody answers. `sent` counts the bytes handed over, compressed, also on failure.
    pub(crate) async fn post(&mut self, request: &[u8], sent: &mut usize) -> Result<(), Fault> {
        self.begin();
        let request = packed(&mut self.packer, request);
        self.pipe.send(request, sent).await?;
        self.end();
        Ok(())
    }

    /// Sends a request and collects its reply: see [`Transport::reply`]. `sent` counts the bytes handed over,
    /// compressed, also on failure.
    pub(crate) async fn exchange(&mut self, request: &[u8], sent: &mut usize) -> Result<(), Fault> {
        self.begin();
        let request = packed(&mut self.packer, request);
        self.pipe.exchange(request, sent).await?;
        self.end();
        Ok(())
    }

    /// The reply that arrived, whole and unpacked.
    pub(crate) fn reply(&self) -> &[u8] {
        self.pipe.inbox.reply()
    }

    /// The bytes of the reply as they arrived; ask before [`Transport::swap_reply`].
    pub(crate) fn received(&self) -> usize {
        self.pipe.inbox.received()
    }

    /// Gives the reply away in exchange for another buffer.
    pub(crate) fn swap_reply(&mut self, buffer: &mut Vec<u8>) {
        self.pipe.inbox.swap(buffer);
    }

    /// The reply made no sense: nothing more may be read from this stream.
    pub(crate) fn abandon(&mut self) {
        self.state = State::Busy;
    }

    fn begin(&mut self) {
        self.state = State::Busy;
        self.pipe.begin();
    }

    fn end(&mut self) {
        self.state = State::Idle;
        self.pipe.end();
    }
}

fn packed<'a>(packer: &'a mut Option<Packer>, request: &'a [u8]) -> &'a [u8] {
    match packer {
        Some(packer) => packer.pack(request),
        None => request,
    }
}
