//! One connection: bytes out, an answer in, within a time limit.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use plimsoll_net::{Channel, Fault as NetFault, Stream};

use super::framing::{Ask, Malformed};
use super::incoming::Incoming;
use crate::fault::Fault;

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
    /// A request is on its way, failed there, or was the last. A future that is dropped in the middle leaves this behind.
    Spent,
}

impl Connection {
    /// For so many requests; each may take as long as `limit`.
    ///
    /// # Errors
    /// The system has no thread left.
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

    /// Whether it must be opened anew.
    pub(crate) fn is_broken(&self) -> bool {
        self.state == State::Spent
    }

    /// Bytes of the last request that were handed over, also on failure.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent as u64
    }

    /// Whether the server has ended the connection, or said something that nobody asked for, since the last answer. As a
    /// rule this asks no kernel: the runtime knows whether there is something to read.
    pub(crate) async fn is_stale(&mut self) -> bool {
        self.incoming.begin(Ask { is_head: false, keep_body: false });
        poll_fn(|cx| Poll::Ready(self.channel.poll_is_stale(cx, &mut self.incoming))).await
    }

    /// Sends a request and collects its answer. `sent` and what was received count also on failure.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn exchange(&mut self, request: &[u8], ask: Ask) -> Result<(), Fault> {
        self.state = State::Spent;
        self.sent = 0;
        self.requests_left = self.requests_left.saturating_sub(1);
        self.incoming.begin(ask);
        self.channel.start();
        let done = poll_fn(|cx| self.poll_exchange(cx, request)).await;
        self.channel.end();
        done?;
        if self.sent == request.len() && self.incoming.keeps_alive() && self.requests_left > 0 {
            self.state = State::Idle;
        }
        Ok(())
    }

    /// Sends what is left and reads what is there. A server may answer before it has read everything, and then close the
    /// connection: its answer counts.
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
