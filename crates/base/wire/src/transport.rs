//! Exchanges one request for one reply, with the agreed compression.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use plimsoll_net::{Channel, Stream};

use crate::compress::{Compressor, Packer};
use crate::error::Malformed;
use crate::frame;
use crate::reply_buffer::ReplyBuffer;

/// The failure of an exchange. The stream is unusable afterwards.
pub(crate) type ExchangeError = plimsoll_net::ExchangeError<Malformed>;

/// An open stream with the state that its requests share.
pub(crate) struct Transport {
    channel: Channel,
    reply: ReplyBuffer,
    packer: Option<Packer>,
    request_id: i32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next request may be sent.
    Idle,
    /// A request is in flight or failed. Dropping its future leaves this state.
    Busy,
}

impl Transport {
    pub(crate) fn new(stream: Stream) -> Self {
        Transport {
            channel: Channel::new(stream),
            reply: ReplyBuffer::new(frame::LEN_MAX + frame::SLACK),
            packer: None,
            request_id: 0,
            state: State::Idle,
        }
    }

    /// Accepts replies of up to `len_max` bytes from now on.
    pub(crate) fn limit_reply(&mut self, len_max: usize) {
        self.reply.limit(len_max);
    }

    /// Compresses requests to at most `len_max` bytes from now on, and accepts replies of this compressor.
    pub(crate) fn compress(&mut self, compressor: Compressor, zlib_level: Option<i32>, len_max: usize) {
        self.packer = Some(Packer::new(compressor, zlib_level, len_max));
        self.reply.accept(compressor);
    }

    /// Sets the time limit of each command from now on.
    ///
    /// # Panics
    /// If the system cannot start another thread.
    pub(crate) fn set_timeout(&mut self, limit: Option<Duration>) {
        self.channel.set_limit(limit).expect("the system starts another thread");
    }

    /// The time limit of a command.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.channel.limit()
    }

    /// An exchange failed or was abandoned: the next bytes belong to no request.
    pub(crate) fn is_broken(&self) -> bool {
        self.state == State::Busy
    }

    /// A fresh request id.
    pub(crate) fn next_request_id(&mut self) -> i32 {
        self.request_id = self.request_id.wrapping_add(1);
        self.request_id
    }

    /// Sends a request that has no reply. `sent` counts the bytes handed over, compressed, also on failure.
    pub(crate) async fn post(&mut self, request: &[u8], sent: &mut usize) -> Result<(), ExchangeError> {
        self.begin();
        let request = packed(&mut self.packer, request);
        let channel = &mut self.channel;
        poll_fn(|cx| match channel.poll_send(cx, request, sent) {
            Poll::Ready(done) => Poll::Ready(done.map_err(ExchangeError::Lost)),
            Poll::Pending => channel.poll_timeout(cx),
        })
        .await?;
        self.end();
        Ok(())
    }

    /// Sends a request and collects its reply: see [`Transport::reply`]. `sent` counts the bytes handed over,
    /// compressed, also on failure.
    pub(crate) async fn exchange(&mut self, request: &[u8], sent: &mut usize) -> Result<(), ExchangeError> {
        self.begin();
        let request = packed(&mut self.packer, request);
        let (channel, reply) = (&mut self.channel, &mut self.reply);
        poll_fn(|cx| {
            let done = match channel.poll_send(cx, request, sent) {
                Poll::Ready(Ok(())) => channel.poll_receive(cx, reply),
                Poll::Ready(Err(error)) => Poll::Ready(Err(ExchangeError::Lost(error))),
                Poll::Pending => Poll::Pending,
            };
            if done.is_pending() { channel.poll_timeout(cx) } else { done }
        })
        .await?;
        self.reply.unpack().map_err(ExchangeError::Malformed)?;
        self.end();
        Ok(())
    }

    /// The last reply, complete and decompressed.
    pub(crate) fn reply(&self) -> &[u8] {
        self.reply.message()
    }

    /// The size of the reply on the wire in bytes; call it before [`Transport::swap_reply`].
    pub(crate) fn received(&self) -> usize {
        self.reply.received()
    }

    /// Gives the reply away in exchange for another buffer.
    pub(crate) fn swap_reply(&mut self, buffer: &mut Vec<u8>) {
        self.reply.swap(buffer);
    }

    /// Marks the stream as unusable, because the reply breaks the protocol.
    pub(crate) fn set_broken(&mut self) {
        self.state = State::Busy;
    }

    fn begin(&mut self) {
        self.state = State::Busy;
        self.reply.clear();
        self.channel.start();
    }

    fn end(&mut self) {
        self.state = State::Idle;
        self.channel.end();
    }
}

fn packed<'a>(packer: &'a mut Option<Packer>, request: &'a [u8]) -> &'a [u8] {
    match packer {
        Some(packer) => packer.pack(request),
        None => request,
    }
}
