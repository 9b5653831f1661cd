//! Collects one answer as its bytes arrive. Trusts no announced length: the buffer grows with the received bytes, an
//! unneeded body is skipped, and everything has a limit.
//!
//! `framing` finds the end of an answer. The chunks of a body are joined in place.

use std::mem::MaybeUninit;

use httparse::{EMPTY_HEADER, ParserConfig, Response, Status};
use plimsoll_net::Receive;

use super::framing::{Framing, HEADERS_MAX, ReadOptions, Rest, has_empty_line};
use crate::fault::Malformed;

/// The first size of the buffer, in bytes: a single read takes most answers whole.
const LEN_FIRST: usize = 16 * 1024;
/// The largest head of an answer, in bytes.
const HEAD_LEN_MAX: usize = 64 * 1024;
/// The longest line that announces a chunk, and the longest trailer, in bytes.
const LINE_LEN_MAX: usize = 16 * 1024;

/// The answer that is arriving.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    filled: usize,
    /// The number of parsed bytes.
    at: usize,
    /// The number of bytes that were searched for the end of the head.
    searched: usize,
    state: State,
    options: ReadOptions,
    status: u16,
    head_len: usize,
    /// The end of the kept body, which begins after the head.
    body_end: usize,
    body_len: u64,
    body_len_max: u64,
    received: u64,
    keeps_alive: bool,
}

/// The next part of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// This number of bytes of the body.
    Sized(u64),
    /// The line with the size of a chunk.
    ChunkSize,
    /// This number of bytes of a chunk.
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    Trailer,
    /// Everything until the connection ends.
    UntilClose,
    Whole,
    /// The body exceeds the limit.
    TooLarge,
}

impl Incoming {
    /// Accepts bodies of up to `body_len_max` bytes.
    pub(crate) fn new(body_len_max: u64) -> Self {
        Self { bytes: vec![0; LEN_FIRST], body_len_max, ..Self::default() }
    }

    /// Forgets the answer and keeps the memory.
    pub(crate) fn begin(&mut self, options: ReadOptions) {
        self.options = options;
        self.state = State::Head;
        (self.filled, self.at, self.searched) = (0, 0, 0);
        (self.status, self.head_len, self.body_end) = (0, 0, 0);
        (self.body_len, self.received, self.keeps_alive) = (0, 0, true);
    }

    /// The status; 0 before the head is complete.
    pub(crate) const fn status(&self) -> u16 {
        self.status
    }

    /// The head, with its last empty line.
    pub(crate) fn head(&self) -> &[u8] {
        &self.bytes[..self.head_len]
    }

    /// The body, if it was kept.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.head_len..self.body_end]
    }

    /// Bytes of the body.
    pub(crate) const fn body_len(&self) -> u64 {
        self.body_len
    }

    /// Bytes that arrived.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// Whether the body exceeds the limit.
    pub(crate) fn is_too_large(&self) -> bool {
        self.state == State::TooLarge
    }

    /// Whether the connection may carry another request: the server allows it and sent no further bytes.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.keeps_alive && self.state == State::Whole && self.at == self.filled
    }

    /// The allocated memory in bytes.
    #[cfg(test)]
    pub(crate) fn allocated(&self) -> usize {
        self.bytes.capacity()
    }

    /// Parses the next part; false if it needs more bytes.
    fn step(&mut self) -> Result<bool, Malformed> {
        match self.state {
            State::Head => self.read_head(),
            State::Sized(left) => Ok(self.read_body(left, State::Sized, State::Whole)),
            State::Chunk(left) => Ok(self.read_body(left, State::Chunk, State::ChunkEnd)),
            State::UntilClose => Ok(self.read_body(u64::MAX, |_| State::UntilClose, State::UntilClose)),
            State::ChunkSize => self.read_chunk_size(),
            State::ChunkEnd => self.read_chunk_end(),
            State::Trailer => self.read_trailer(),
            State::Whole | State::TooLarge => Ok(false),
        }
    }

    fn read_head(&mut self) -> Result<bool, Malformed> {
        // Parsing again after every byte would take quadratic time.
        let is_first = self.searched == 0;
        let from = self.searched.saturating_sub(2);
        self.searched = self.filled;
        if !is_first && !has_empty_line(&self.bytes[from..self.filled]) {
            return self.within(HEAD_LEN_MAX, "the head of the answer is longer than 64 KiB");
        }
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut response = Response::new(&mut []);
        let parsed = ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            &self.bytes[..self.filled],
            &mut headers,
        );
        match parsed {
            Ok(Status::Complete(len)) => {
                let framing = Framing::of(&response, self.options)?;
                self.take_head(len, &framing);
                Ok(true)
            }
            Ok(Status::Partial) => self.within(HEAD_LEN_MAX, "the head of the answer is longer than 64 KiB"),
            Err(httparse::Error::TooManyHeaders) => Err(Malformed("the answer has more than 100 headers")),
            Err(_) => Err(Malformed("the answer is not HTTP")),
        }
    }

    /// Asks for more bytes, unless the limit is reached.
    fn within(&self, max: usize, problem: &'static str) -> Result<bool, Malformed> {
        if self.filled - self.at > max { Err(Malformed(problem)) } else { Ok(false) }
    }

    fn take_head(&mut self, len: usize, framing: &Framing) {
        self.state = match framing.rest {
            Rest::InterimAnswer => return self.drop_head(len),
            Rest::Nothing => State::Whole,
            Rest::Sized(length) => State::Sized(length),
            Rest::Chunked => State::ChunkSize,
            Rest::UntilClose => State::UntilClose,
        };
        (self.status, self.keeps_alive) = (framing.status, framing.keeps_alive);
        (self.head_len, self.at, self.body_end) = (len, len, len);
    }

    /// Drops the head of an interim answer; the final answer follows.
    fn drop_head(&mut self, len: usize) {
        self.bytes.copy_within(len..self.filled, 0);
        self.filled -= len;
        self.searched = 0;
    }

    /// Takes the arrived part of `left` bytes of the body.
    fn read_body(&mut self, left: u64, more: impl Fn(u64) -> State, then: State) -> bool {
        let arrived = self.filled - self.at;
        let count = usize::try_from(left).map_or(arrived, |left| left.min(arrived));
        self.body_len += count as u64;
        if self.body_len > self.body_len_max {
            self.state = State::TooLarge;
            return false;
        }
        if self.options.keeps_body_of(self.status) {
            if self.body_end != self.at {
                self.bytes.copy_within(self.at..self.at + count, self.body_end);
            }
            self.body_end += count;
        }
        self.at += count;
        let left = left - count as u64;
        self.state = if left == 0 { then } else { more(left) };
        left == 0
    }

    fn read_chunk_size(&mut self) -> Result<bool, Malformed> {
        match httparse::parse_chunk_size(&self.bytes[self.at..self.filled]) {
            Ok(Status::Complete((len, size))) => {
                self.at += len;
                self.state = if size == 0 { State::Trailer } else { State::Chunk(size) };
                Ok(true)
            }
            Ok(Status::Partial) => self.within(LINE_LEN_MAX, "the line before a chunk is longer than 16 KiB"),
            Err(_) => Err(Malformed("a chunk of the answer has no size")),
        }
    }

    fn read_chunk_end(&mut self) -> Result<bool, Malformed> {
        match &self.bytes[self.at..self.filled] {
            [b'\r', b'\n', ..] => {
                self.at += 2;
                self.state = State::ChunkSize;
                Ok(true)
            }
            [b'\r'] => Ok(false),
            _ => Err(Malformed("a chunk of the answer is longer than it says")),
        }
    }

    fn read_trailer(&mut self) -> Result<bool, Malformed> {
        let mut headers = [EMPTY_HEADER; 16];
        match httparse::parse_headers(&self.bytes[self.at..self.filled], &mut headers) {
            Ok(Status::Complete((len, _))) => {
                self.at += len;
                self.state = State::Whole;
                Ok(true)
            }
            Ok(Status::Partial) => {
                self.within(LINE_LEN_MAX, "the trailer of the answer is longer than 16 KiB")
            }
            Err(_) => Err(Malformed("the trailer of the answer is not HTTP")),
        }
    }

    /// Reuses the memory of skipped bytes, and grows the buffer if that is not enough.
    fn make_room(&mut self) {
        if self.state != State::Head && self.at == self.filled {
            (self.at, self.filled) = (self.body_end, self.body_end);
        }
        if self.filled < self.bytes.len() {
            return;
        }
        if self.at > self.body_end && self.state != State::Head {
            self.bytes.copy_within(self.at..self.filled, self.body_end);
            self.filled -= self.at - self.body_end;
            self.at = self.body_end;
        } else {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
    }
}

impl Receive for Incoming {
    type Error = Malformed;

    #[inline]
    fn is_complete(&mut self) -> Result<bool, Malformed> {
        while self.filled > self.at {
            if !self.step()? {
                break;
            }
        }
        let is_over = matches!(self.state, State::Whole | State::TooLarge);
        if !is_over {
            self.make_room();
        }
        Ok(is_over)
    }

    #[inline]
    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.filled += count;
        self.received += count as u64;
    }

    fn close(&mut self) -> bool {
        self.keeps_alive = false;
        if self.state == State::UntilClose {
            self.state = State::Whole;
        }
        self.state == State::Whole
    }
}

#[cfg(test)]
mod tests;
