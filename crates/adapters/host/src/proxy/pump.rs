//! Pumps one direction of one connection: reads, applies the rule, writes when due.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use plimsoll_measure::clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::disturbance::{Disturbance, Way};
use super::pacer::{Alarm, Pacer};
use super::queue::{AT_ONCE, Head, Queue};
use super::random::Random;
use super::rule::{Intake, Rule};
use super::traffic::Tally;

/// The state that all connections of a proxy share; one works at a time.
pub(super) struct Desk<'a> {
    pub(super) scratch: &'a mut [u8],
    pub(super) pacer: &'a Pacer,
    pub(super) tally: &'a Tally,
}

/// One direction. It owns no buffer: what is read is written from the desk's scratch, and only what cannot go at once is
/// kept.
#[derive(Debug)]
pub(super) struct Pump {
    way: Way,
    rule: Rule,
    random: Random,
    queue: Queue,
    alarm: Alarm,
    /// The sender has ended the stream.
    over: bool,
    /// Something was swallowed.
    holed: bool,
}

impl Pump {
    pub(super) fn new(way: Way, random: Random) -> Self {
        Pump {
            way,
            rule: Rule::default(),
            random,
            queue: Queue::default(),
            alarm: Alarm::default(),
            over: false,
            holed: false,
        }
    }

    /// Follows another rule from now on. What is queued keeps its moment as long as something is delayed; else it goes at
    /// once.
    pub(super) fn obey(&mut self, disturbances: &[Disturbance]) {
        self.rule = Rule::of(disturbances, self.way, clock::now(), &mut self.random);
        if !self.rule.is_delaying() {
            self.queue.hasten();
        }
    }

    /// Whether swallowed bytes would now be followed by delivered ones.
    pub(super) fn would_bridge_a_hole(&self) -> bool {
        self.holed && !self.rule.is_swallowing() && !self.rule.is_stalled()
    }

    pub(super) fn is_swallowing(&self) -> bool {
        self.rule.is_swallowing()
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.queue.len_bytes()
    }

    /// Moves what can be moved. Ready when the stream has ended and all of it was delivered.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut TcpStream,
        to: &mut TcpStream,
        desk: &mut Desk<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rule.is_stalled() {
            return Poll::Pending;
        }
        loop {
            let delivered = self.poll_deliver(cx, to, desk)?;
            if self.over {
                return delivered.map(Ok);
            }
            ready!(self.poll_take(cx, from, to, desk))?;
        }
    }

    /// Writes the bytes that are due. Ready when the queue is empty.
    fn poll_deliver(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut TcpStream,
        desk: &Desk<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.queue.is_empty() {
            let len = match self.queue.head(clock::now()) {
                Head::Empty => break,
                Head::Later(at) => {
                    self.alarm.set(at, desk.pacer, cx);
                    return Poll::Pending;
                }
                Head::Due(bytes) => ready!(poll_write(cx, to, bytes))?,
                Head::End => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    0
                }
            };
            desk.tally.delivered(self.way, len);
            self.queue.delivered(len);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once, if the rule lets it. Pending only if the task is woken when there is something to do.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut TcpStream,
        to: &mut TcpStream,
        desk: &mut Desk<'_>,
    ) -> Poll<io::Result<()>> {
        let len_max = match self.rule.intake(&self.queue, clock::now()) {
            Intake::UpTo(bytes) => bytes.min(desk.scratch.len()),
            Intake::From(at) => {
                self.alarm.set(at, desk.pacer, cx);
                return Poll::Pending;
            }
            // Somebody waits for the queue already: its moment or its receiver.
            Intake::Blocked => return Poll::Pending,
        };
        let mut buffer = ReadBuf::new(&mut desk.scratch[..len_max]);
        ready!(Pin::new(from).poll_read(cx, &mut buffer))?;
        match buffer.filled().len() {
            0 => self.end(),
            len => self.forward(cx, to, len, desk)?,
        }
        Poll::Ready(Ok(()))
    }

    /// The sender has ended the stream: its end is delivered, or swallowed, as its bytes are.
    fn end(&mut self) {
        self.over = true;
        if self.rule.is_swallowing() {
            self.holed = true;
        } else {
            self.queue.end(self.rule.due(clock::now(), &mut self.random));
        }
    }

    fn forward(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut TcpStream,
        len: usize,
        desk: &mut Desk<'_>,
    ) -> io::Result<()> {
        let chunk = &mut desk.scratch[..len];
        let fate = self.rule.judge(chunk, clock::now(), &mut self.random);
        desk.tally.dropped(len - fate.kept);
        self.holed |= self.is_swallowing();
        let mut kept = &desk.scratch[..fate.kept];
        if fate.due == AT_ONCE && self.queue.is_empty() && !kept.is_empty() {
            let written = match poll_write(cx, to, kept)? {
                Poll::Ready(written) => written,
                Poll::Pending => 0,
            };
            desk.tally.delivered(self.way, written);
            kept = &kept[written..];
        }
        self.queue.push(kept, fate.due);
        Ok(())
    }
}

fn poll_write(cx: &mut Context<'_>, to: &mut TcpStream, bytes: &[u8]) -> Poll<io::Result<usize>> {
    match ready!(Pin::new(to).poll_write(cx, bytes)) {
        Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        written => Poll::Ready(written),
    }
}
