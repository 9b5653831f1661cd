//! Pumps one direction of one connection: reads, applies the rule, writes when due.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use plimsoll_measure::clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::disturbance::{Disturbance, OneWay};
use super::pacer::{Alarm, Pacer};
use super::queue::{AT_ONCE, Head, Queue};
use super::random::Random;
use super::rule::{Intake, Rule};
use super::traffic::Tally;

/// The shared state that a pump borrows while it runs.
pub(super) struct PumpContext<'a> {
    pub(super) scratch: &'a mut [u8],
    pub(super) pacer: &'a Pacer,
    pub(super) tally: &'a Tally,
}

/// One direction of a connection. It writes straight from the shared scratch buffer and keeps only bytes that
/// cannot be written at once.
#[derive(Debug)]
pub(super) struct Pump {
    way: OneWay,
    rule: Rule,
    random: Random,
    queue: Queue,
    alarm: Alarm,
    /// Whether the sender has ended the stream.
    over: bool,
    /// Whether bytes, or the end of the stream, were swallowed.
    has_gap: bool,
}

impl Pump {
    pub(super) fn new(way: OneWay, random: Random) -> Self {
        Pump {
            way,
            rule: Rule::default(),
            random,
            queue: Queue::default(),
            alarm: Alarm::default(),
            over: false,
            has_gap: false,
        }
    }

    /// Applies new disturbances. Queued bytes keep their due time while a delay lasts; otherwise they are due
    /// at once.
    pub(super) fn apply(&mut self, disturbances: &[Disturbance]) {
        self.rule = Rule::of(disturbances, self.way, clock::now(), &mut self.random);
        if !self.rule.is_delaying() {
            self.queue.hasten();
        }
    }

    /// Whether delivered bytes would now follow swallowed bytes.
    pub(super) fn would_deliver_after_a_gap(&self) -> bool {
        self.has_gap && !self.rule.is_swallowing() && !self.rule.is_stalled()
    }

    pub(super) fn is_swallowing(&self) -> bool {
        self.rule.is_swallowing()
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.queue.len_bytes()
    }

    /// Moves bytes. Ready when the stream has ended and all of it was delivered.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut TcpStream,
        to: &mut TcpStream,
        context: &mut PumpContext<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rule.is_stalled() {
            return Poll::Pending;
        }
        loop {
            let delivered = self.poll_deliver(cx, to, context)?;
            if self.over {
                return delivered.map(Ok);
            }
            ready!(self.poll_take(cx, from, to, context))?;
        }
    }

    /// Writes the bytes that are due. Ready when the queue is empty.
    fn poll_deliver(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut TcpStream,
        context: &PumpContext<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.queue.is_empty() {
            let len = match self.queue.head(clock::now()) {
                Head::Empty => break,
                Head::Later(at) => {
                    self.alarm.set(at, context.pacer, cx);
                    return Poll::Pending;
                }
                Head::Due(bytes) => ready!(poll_write(cx, to, bytes))?,
                Head::End => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    0
                }
            };
            context.tally.delivered(self.way, len);
            self.queue.delivered(len);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once, if the rule allows it. Pending only if a wake-up is registered.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut TcpStream,
        to: &mut TcpStream,
        context: &mut PumpContext<'_>,
    ) -> Poll<io::Result<()>> {
        let len_max = match self.rule.intake(&self.queue, clock::now()) {
            Intake::UpTo(bytes) => bytes.min(context.scratch.len()),
            Intake::From(at) => {
                self.alarm.set(at, context.pacer, cx);
                return Poll::Pending;
            }
            // The queue's due time or its receiver already wakes the task.
            Intake::Blocked => return Poll::Pending,
        };
        let mut buffer = ReadBuf::new(&mut context.scratch[..len_max]);
        ready!(Pin::new(from).poll_read(cx, &mut buffer))?;
        match buffer.filled().len() {
            0 => self.end(),
            len => self.forward(cx, to, len, context)?,
        }
        Poll::Ready(Ok(()))
    }

    /// Delivers or swallows the end of the stream, like its bytes.
    fn end(&mut self) {
        self.over = true;
        if self.rule.is_swallowing() {
            self.has_gap = true;
        } else {
            self.queue.end(self.rule.due(clock::now(), &mut self.random));
        }
    }

    fn forward(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut TcpStream,
        len: usize,
        context: &mut PumpContext<'_>,
    ) -> io::Result<()> {
        let chunk = &mut context.scratch[..len];
        let decision = self.rule.decide(chunk, clock::now(), &mut self.random);
        context.tally.dropped(len - decision.kept);
        self.has_gap |= self.is_swallowing();
        let mut kept = &context.scratch[..decision.kept];
        if decision.due == AT_ONCE && self.queue.is_empty() && !kept.is_empty() {
            let written = match poll_write(cx, to, kept)? {
                Poll::Ready(written) => written,
                Poll::Pending => 0,
            };
            context.tally.delivered(self.way, written);
            kept = &kept[written..];
        }
        self.queue.push(kept, decision.due);
        Ok(())
    }
}

fn poll_write(cx: &mut Context<'_>, to: &mut TcpStream, bytes: &[u8]) -> Poll<io::Result<usize>> {
    match ready!(Pin::new(to).poll_write(cx, bytes)) {
        Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        written => Poll::Ready(written),
    }
}
