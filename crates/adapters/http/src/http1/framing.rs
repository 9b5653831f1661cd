//! What the head of an answer says about the rest of it: RFC 9112, section 6.3.

use httparse::{EMPTY_HEADER, Header, Response};

/// The most headers of an answer.
pub(super) const HEADERS_MAX: usize = 100;

/// What an answer is expected to be like.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ask {
    /// The answer to HEAD has no body, whatever it says.
    pub is_head: bool,
    /// Whether the body is looked at.
    pub keep_body: bool,
}

/// Bytes that are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub &'static str);

/// What a head says about the rest of the answer.
pub(super) struct Framing {
    pub status: u16,
    pub rest: Rest,
    pub keeps_alive: bool,
}

/// What comes after a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Another head: this one belongs to an interim answer.
    Another,
    /// Nothing.
    Nothing,
    /// So many bytes.
    Sized(u64),
    /// Chunks.
    Chunked,
    /// Everything until the connection ends.
    UntilClose,
}

impl Framing {
    /// Reads a head.
    ///
    /// # Errors
    /// The head contradicts itself, or says what nobody asked for.
    pub(super) fn of(response: &Response<'_, '_>, ask: Ask) -> Result<Self, Malformed> {
        let status = response.code.unwrap_or_default();
        let mut said = Said::default();
        for header in &*response.headers {
            said.heed(header)?;
        }
        let rest = match status {
            101 => return Err(Malformed("the server changes the protocol, which nobody asked for")),
            100..200 => Rest::Another,
            204 | 304 => Rest::Nothing,
            200..600 if ask.is_head => Rest::Nothing,
            200..600 => said.rest(),
            _ => return Err(Malformed("the answer has a status that is none")),
        };
        // Both together are a sign of somebody in the middle: such a connection is not used again.
        let is_doubtful = said.coding != Coding::None && said.length.is_some();
        let is_kept = response.version == Some(1) || said.keeps;
        Ok(Self { status, rest, keeps_alive: is_kept && !said.closes && !is_doubtful })
    }
}

/// What the headers say about the rest.
#[derive(Default)]
struct Said {
    length: Option<u64>,
    coding: Coding,
    keeps: bool,
    closes: bool,
}

impl Said {
    fn heed(&mut self, header: &Header<'_>) -> Result<(), Malformed> {
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
            // Where chunks are not the last coding, the end is that of the connection.
            (Coding::Other, _) | (Coding::None, None) => Rest::UntilClose,
            (Coding::None, Some(0)) => Rest::Nothing,
            (Coding::None, Some(length)) => Rest::Sized(length),
        }
    }
}

/// How the body is wrapped.
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
        _ => Err(Malformed("the answer has a length that is none, or two of them")),
    }
}

fn lists(value: &[u8], option: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|listed| listed.trim_ascii().eq_ignore_ascii_case(option))
}

/// Whether a line end follows on another, as after the last header.
pub(super) fn has_empty_line(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

/// The value of the first header of that name (in lower case) in a head.
pub(crate) fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut response = Response::new(&mut headers);
    response.parse(head).ok()?;
    let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    Some(found.value)
}
