//! Derives the length of an answer's body from its head: RFC 9112, section 6.3.

use httparse::{EMPTY_HEADER, Header, Response};

use crate::fault::Malformed;

/// The maximum number of headers of an answer.
pub(super) const HEADERS_MAX: usize = 100;

/// Options for reading an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadOptions {
    /// The request is HEAD: its answer never has a body.
    pub is_head: bool,
    /// Whether to keep the body.
    pub keep_body: bool,
}

impl ReadOptions {
    /// Whether to keep the body of an answer with this status: the body of an error names the fault.
    pub(crate) const fn keeps_body_of(self, status: u16) -> bool {
        self.keep_body || status >= ERRORS_FIRST
    }
}

/// The lowest status of an error.
const ERRORS_FIRST: u16 = 400;

/// The framing of an answer, from its head.
pub(super) struct Framing {
    pub status: u16,
    pub rest: Rest,
    pub keeps_alive: bool,
}

/// The part after a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// This is an interim answer: another head follows.
    InterimAnswer,
    /// No body.
    Nothing,
    /// This number of bytes.
    Sized(u64),
    Chunked,
    /// Everything until the connection closes.
    UntilClose,
}

impl Framing {
    /// Reads a head.
    ///
    /// # Errors
    /// When the head contradicts itself, has an invalid status, or switches the protocol.
    pub(super) fn of(response: &Response<'_, '_>, options: ReadOptions) -> Result<Self, Malformed> {
        let status = response.code.unwrap_or_default();
        let mut fields = HeaderFields::default();
        for header in &*response.headers {
            fields.read(header)?;
        }
        let rest = match status {
            101 => return Err(Malformed("the server switches the protocol without a request for it")),
            100..200 => Rest::InterimAnswer,
            204 | 304 => Rest::Nothing,
            200..600 if options.is_head => Rest::Nothing,
            200..600 => fields.rest(),
            _ => return Err(Malformed("the answer has an invalid status")),
        };
        // A length together with a transfer coding hints at request smuggling: do not reuse such a
        // connection.
        let is_doubtful = fields.coding != Coding::None && fields.length.is_some();
        let is_kept = response.version == Some(1) || fields.keeps;
        Ok(Self { status, rest, keeps_alive: is_kept && !fields.closes && !is_doubtful })
    }
}

/// The headers that decide the framing.
#[derive(Default)]
struct HeaderFields {
    length: Option<u64>,
    coding: Coding,
    keeps: bool,
    closes: bool,
}

impl HeaderFields {
    fn read(&mut self, header: &Header<'_>) -> Result<(), Malformed> {
        let is = |name| header.name.eq_ignore_ascii_case(name);
        match header.name.len() {
            10 if is("connection") => {
                self.keeps |= lists(header.value, b"keep-alive");
                self.closes |= lists(header.value, b"close");
            }
            14 if is("content-length") => self.length = Some(content_length(self.length, header)?),
            17 if is("transfer-encoding") => self.coding = self.coding.then(header.value),
            _ => {}
        }
        Ok(())
    }

    fn rest(&self) -> Rest {
        match (self.coding, self.length) {
            (Coding::Chunked, _) => Rest::Chunked,
            // If chunked is not the last coding, the body ends with the connection.
            (Coding::Other, _) | (Coding::None, None) => Rest::UntilClose,
            (Coding::None, Some(0)) => Rest::Nothing,
            (Coding::None, Some(length)) => Rest::Sized(length),
        }
    }
}

/// The transfer coding of the body.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Coding {
    #[default]
    None,
    Chunked,
    Other,
}

impl Coding {
    fn then(self, value: &[u8]) -> Self {
        let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
        let is_chunked = last.eq_ignore_ascii_case(b"chunked");
        if is_chunked && self != Self::Chunked { Self::Chunked } else { Self::Other }
    }
}

fn content_length(known: Option<u64>, header: &Header<'_>) -> Result<u64, Malformed> {
    let digits = header.value.trim_ascii();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number =
        std::str::from_utf8(digits).ok().filter(|_| is_number).and_then(|digits| digits.parse().ok());
    match (number, known) {
        (Some(number), None) => Ok(number),
        (Some(number), Some(known)) if number == known => Ok(number),
        _ => Err(Malformed("the answer has an invalid length, or two lengths")),
    }
}

fn lists(value: &[u8], option: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|listed| listed.trim_ascii().eq_ignore_ascii_case(option))
}

/// Whether the bytes contain an empty line, as after the last header.
pub(super) fn has_empty_line(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

/// The value of the first header of that name, given in lower case, in a head.
pub(crate) fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut response = Response::new(&mut headers);
    response.parse(head).ok()?;
    let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    Some(found.value)
}
