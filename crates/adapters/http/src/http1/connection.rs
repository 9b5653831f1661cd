//! Sends a request and collects its answer within a time limit.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use plimsoll_net::{Channel, ExchangeError as NetFault, Stream};

use super::framing::ReadOptions;
use super::incoming::Incoming;
use crate::fault::{ExchangeError, Malformed};

/// An open connection. One request is in flight at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    channel: Channel,
    pub(crate) incoming: Incoming,
    state: State,
    requests_left: u64,
    sent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next request may be sent.
    Idle,
    /// A request is in flight, failed, or was the last. A future that is dropped midway leaves this state behind.
    Spent,
}

impl Connection {
    /// Wraps a stream for `requests_max` requests of at most `limit` each.
    ///
    /// # Errors
    /// When the system cannot start another thread.
    pub(crate) fn new(
        stream: Stream,
        limit: Duration,
        answer_bytes_max: u64,
        requests_max: u64,
    ) -> io::Result<Self> {
        let mut channel = Channel::new(stream);
        channel.set_limit(Some(limit))?;
        Ok(Self {
            channel,
            incoming: Incoming::new(answer_bytes_max),
            state: State::Idle,
            requests_left: requests_max,
            sent: 0,
        })
    }

    /// Whether a new connection is needed.
    pub(crate) fn is_broken(&self) -> bool {
        self.state == State::Spent
    }

    /// The sent bytes of the last request, also on failure.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent as u64
    }

    /// Whether the server closed the connection, or sent bytes without a request, since the last answer. As a rule this
    /// needs no system call.
    pub(crate) async fn is_stale(&mut self) -> bool {
        self.incoming.begin(ReadOptions { is_head: false, keep_body: false });
        poll_fn(|cx| Poll::Ready(self.channel.poll_is_stale(cx, &mut self.incoming))).await
    }

    /// Sends a request and collects its answer. Bytes sent and received are counted also on failure.
    ///
    /// # Errors
    /// The reason why no answer arrived.
    pub(crate) async fn exchange(
        &mut self,
        request: &[u8],
        options: ReadOptions,
    ) -> Result<(), ExchangeError> {
        self.state = State::Spent;
        self.sent = 0;
        self.requests_left = self.requests_left.saturating_sub(1);
        self.incoming.begin(options);
        self.channel.start();
        let done = poll_fn(|cx| self.poll_exchange(cx, request)).await;
        self.channel.end();
        done?;
        if self.sent == request.len() && self.incoming.keeps_alive() && self.requests_left > 0 {
            self.state = State::Idle;
        }
        Ok(())
    }

    /// Sends and reads concurrently: a server may answer before it has read the whole request and then close the connection. Its
    /// answer counts.
    fn poll_exchange(
        &mut self,
        cx: &mut Context<'_>,
        request: &[u8],
    ) -> Poll<Result<(), NetFault<Malformed>>> {
        let Self { channel, incoming, sent, .. } = self;
        let sending = channel.poll_send(cx, request, sent);
        match (channel.poll_receive(cx, incoming), sending) {
            (Poll::Ready(received), _) => Poll::Ready(received),
            (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(NetFault::Lost(error))),
            (Poll::Pending, _) => channel.poll_timeout(cx),
        }
    }
}
