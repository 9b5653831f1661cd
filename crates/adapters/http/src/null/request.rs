//! Tells requests apart in the bytes of a connection.

use httparse::{EMPTY_HEADER, Request, Status};

/// The size of the buffer, in bytes: the largest head.
const LEN: usize = 64 * 1024;
/// Headers of a request at most.
const HEADERS_MAX: usize = 100;

/// The bytes of a connection that are not understood yet.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    at: usize,
    filled: usize,
    /// Bytes of a body that are still to come.
    skip: u64,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub is_head: bool,
    pub closes: bool,
    pub body_len: u64,
}

/// Bytes that are no request, or one that this server does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;

impl Inbox {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; LEN], at: 0, filled: 0, skip: 0 }
    }

    /// Where the next bytes go; never empty after [`Inbox::next`] gave nothing.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// `count` bytes were written to the room.
    pub(super) fn advance(&mut self, count: usize) {
        self.filled += count;
    }

    /// The next request whose body has arrived to its end.
    pub(super) fn next(&mut self) -> Result<Option<Asked>, Refused> {
        if self.at == self.filled {
            (self.at, self.filled) = (0, 0);
            return Ok(None);
        }
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut request = Request::new(&mut headers);
        match request.parse(&self.bytes[self.at..self.filled]) {
            Ok(Status::Complete(len)) => {
                let asked = Asked::of(&request)?;
                self.at += len;
                self.skip = asked.body_len;
                Ok(Some(asked))
            }
            Ok(Status::Partial) => {
                self.bytes.copy_within(self.at..self.filled, 0);
                (self.at, self.filled) = (0, self.filled - self.at);
                if self.filled == self.bytes.len() { Err(Refused) } else { Ok(None) }
            }
            Err(_) => Err(Refused),
        }
    }

    /// Passes over what has arrived of a body; whether it has ended.
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

impl Asked {
    fn of(request: &Request<'_, '_>) -> Result<Self, Refused> {
        let mut asked =
            Self { is_head: request.method == Some("HEAD"), closes: request.version != Some(1), body_len: 0 };
        for header in &*request.headers {
            match header.name.len() {
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    let digits = std::str::from_utf8(header.value).map_err(|_| Refused)?;
                    asked.body_len = digits.trim().parse().map_err(|_| Refused)?;
                }
                // None of the clients of a load send their bodies in chunks.
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => return Err(Refused),
                10 if header.name.eq_ignore_ascii_case("connection") => {
                    asked.closes = header.value.eq_ignore_ascii_case(b"close");
                }
                _ => {}
            }
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Requests in bytes that arrive in parts of `step`.
    fn read(bytes: &[u8], step: usize) -> Result<Vec<Asked>, Refused> {
        let (mut inbox, mut all, mut open) = (Inbox::new(), Vec::new(), None);
        for part in bytes.chunks(step) {
            inbox.room()[..part.len()].copy_from_slice(part);
            inbox.advance(part.len());
            loop {
                if open.is_none() {
                    open = inbox.next()?;
                }
                if open.is_none() || !inbox.skip_body() {
                    break;
                }
                all.extend(open.take());
            }
        }
        Ok(all)
    }

    #[test]
    fn requests_are_told_apart_however_they_arrive() {
        let bytes = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloHEAD / HTTP/1.1\r\nconnection: close\r\n\r\nGET / HTTP/1.0\r\n\r\n";
        for step in 1..=bytes.len() {
            let all = read(bytes, step).unwrap();
            let post = Asked { is_head: false, closes: false, body_len: 5 };
            let head = Asked { is_head: true, closes: true, body_len: 0 };
            let get = Asked { is_head: false, closes: true, body_len: 0 };
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
