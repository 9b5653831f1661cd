//! Splits the bytes of a connection into requests.

use httparse::{EMPTY_HEADER, Request, Status};

/// The size of the buffer in bytes: the largest head.
const LEN: usize = 64 * 1024;
/// The maximum number of headers of a request.
const HEADERS_MAX: usize = 100;

/// The unparsed bytes of a connection.
#[derive(Debug)]
pub(super) struct RequestBuffer {
    bytes: Vec<u8>,
    at: usize,
    filled: usize,
    /// The outstanding bytes of a body.
    skip: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestHead {
    pub is_head: bool,
    pub closes: bool,
    pub body_len: u64,
}

/// The bytes are not a request, or one that this server does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;

impl RequestBuffer {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; LEN], at: 0, filled: 0, skip: 0 }
    }

    /// The space for the next bytes; never empty after [`RequestBuffer::next`] returned `None`.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// Records that `count` bytes of the buffer were filled.
    pub(super) fn advance(&mut self, count: usize) {
        self.filled += count;
    }

    /// The head of the next request, once it is complete.
    pub(super) fn next(&mut self) -> Result<Option<RequestHead>, Refused> {
        if self.at == self.filled {
            (self.at, self.filled) = (0, 0);
            return Ok(None);
        }
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut request = Request::new(&mut headers);
        match request.parse(&self.bytes[self.at..self.filled]) {
            Ok(Status::Complete(len)) => {
                let head = RequestHead::of(&request)?;
                self.at += len;
                self.skip = head.body_len;
                Ok(Some(head))
            }
            Ok(Status::Partial) => {
                self.bytes.copy_within(self.at..self.filled, 0);
                (self.at, self.filled) = (0, self.filled - self.at);
                if self.filled == self.bytes.len() { Err(Refused) } else { Ok(None) }
            }
            Err(_) => Err(Refused),
        }
    }

    /// Skips the arrived part of a body; returns whether the body is complete.
    pub(super) fn skip_body(&mut self) -> bool {
        let arrived = self.filled - self.at;
        let count = usize::try_from(self.skip).map_or(arrived, |skip| skip.min(arrived));
        self.at += count;
        self.skip -= count as u64;
        if self.at == self.filled {
            (self.at, self.filled) = (0, 0);
        }
        self.skip == 0
    }
}

impl RequestHead {
    fn of(request: &Request<'_, '_>) -> Result<Self, Refused> {
        let mut head =
            Self { is_head: request.method == Some("HEAD"), closes: request.version != Some(1), body_len: 0 };
        for header in &*request.headers {
            match header.name.len() {
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    let digits = std::str::from_utf8(header.value).map_err(|_| Refused)?;
                    head.body_len = digits.trim().parse().map_err(|_| Refused)?;
                }
                // No load client sends its body in chunks.
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => return Err(Refused),
                10 if header.name.eq_ignore_ascii_case("connection") => {
                    head.closes = header.value.eq_ignore_ascii_case(b"close");
                }
                _ => {}
            }
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads requests from bytes that arrive in parts of `step`.
    fn read(bytes: &[u8], step: usize) -> Result<Vec<RequestHead>, Refused> {
        let (mut buffer, mut all, mut open) = (RequestBuffer::new(), Vec::new(), None);
        for part in bytes.chunks(step) {
            buffer.room()[..part.len()].copy_from_slice(part);
            buffer.advance(part.len());
            loop {
                if open.is_none() {
                    open = buffer.next()?;
                }
                if open.is_none() || !buffer.skip_body() {
                    break;
                }
                all.extend(open.take());
            }
        }
        Ok(all)
    }

    #[test]
    fn requests_are_separated_however_they_arrive() {
        let bytes = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloHEAD / HTTP/1.1\r\nconnection: close\r\n\r\nGET / HTTP/1.0\r\n\r\n";
        for step in 1..=bytes.len() {
            let all = read(bytes, step).unwrap();
            let post = RequestHead { is_head: false, closes: false, body_len: 5 };
            let head = RequestHead { is_head: true, closes: true, body_len: 0 };
            let get = RequestHead { is_head: false, closes: true, body_len: 0 };
            assert_eq!(all, [post, head, get], "by {step}");
        }
        assert_eq!(read(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", 99), Err(Refused));
        assert_eq!(read(&[b'x'; 65_536], 65_536), Err(Refused));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 1..500), step in 1_usize..500) {
            let _ = read(&bytes, step);
        }
    }
}
