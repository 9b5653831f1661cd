//! Sends one request at a time on a shared connection and collects its answer within a time limit.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Uri};
use httparse::EMPTY_HEADER;
use plimsoll_net::Deadline;

use super::session::Session;
use crate::answer::{Answer, Fields};
use crate::fault::{ExchangeError, Malformed};
use crate::http1::ReadOptions;
use crate::setup::Endpoint;

/// The maximum number of headers of a request.
const HEADERS_MAX: usize = 100;
/// The reasons for which our side refuses a server's frame.
const BREACHES: [Reason; 3] = [Reason::PROTOCOL_ERROR, Reason::FRAME_SIZE_ERROR, Reason::COMPRESSION_ERROR];
/// Headers that HTTP/2 replaces: the authority and the length of the body.
const NOT_SENT: [&str; 2] = ["host", "content-length"];

/// A slot on a shared connection, for one request in flight.
#[derive(Debug)]
pub(crate) struct Slot {
    session: Arc<Session>,
    deadline: Deadline,
    scheme: &'static str,
    received: Received,
    answer_bytes_max: u64,
}

/// The answer to the last request.
#[derive(Debug, Default)]
struct Received {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    body_len: u64,
    is_too_large: bool,
}

impl Slot {
    /// Wraps a slot from a session.
    ///
    /// # Errors
    /// When the system cannot start another thread.
    pub(crate) fn new(session: Arc<Session>, endpoint: &Endpoint) -> io::Result<Self> {
        let deadline = Deadline::new(Some(endpoint.timeout)).inspect_err(|_| session.leave())?;
        Ok(Self {
            session,
            deadline,
            scheme: if endpoint.url.secure { "https" } else { "http" },
            received: Received::default(),
            answer_bytes_max: endpoint.answer_bytes_max,
        })
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.session.is_broken()
    }

    pub(crate) fn take_bytes(&self) -> (u64, u64) {
        self.session.counts.take()
    }

    pub(crate) fn answer(&self) -> Answer<'_> {
        let received = &self.received;
        Answer {
            status: received.status,
            fields: Fields::Map(&received.headers),
            body: &received.body,
            body_len: received.body_len,
            is_too_large: received.is_too_large,
        }
    }

    /// Sends a request and collects its answer.
    ///
    /// # Errors
    /// The reason why no answer arrived. The slot is broken only if the connection is.
    pub(crate) async fn exchange(
        &mut self,
        request: &[u8],
        head_len: usize,
        options: ReadOptions,
    ) -> Result<(), ExchangeError> {
        self.received = Received { body: std::mem::take(&mut self.received.body), ..Received::default() };
        self.received.body.clear();
        let (head, body) = request.split_at_checked(head_len).unwrap_or((request, &[]));
        let head = head_of(head, self.scheme)?;
        let Self { session, deadline, received, answer_bytes_max, .. } = self;
        deadline.start();
        let mut converse =
            pin!(converse(session, head, Bytes::copy_from_slice(body), options, received, *answer_bytes_max));
        let done = poll_fn(|cx| match converse.as_mut().poll(cx) {
            Poll::Pending => deadline.poll(cx).map(|()| Err(ExchangeError::Timeout)),
            ready => ready,
        })
        .await;
        deadline.end();
        done
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.session.leave();
    }
}

async fn converse(
    session: &Session,
    head: Request<()>,
    body: Bytes,
    options: ReadOptions,
    received: &mut Received,
    answer_bytes_max: u64,
) -> Result<(), ExchangeError> {
    // A request that fails before it is handed over was never sent.
    let ready = session.sender.clone().ready().await;
    let mut sender = ready.map_err(|_| leaving(session))?;
    let is_alone = body.is_empty();
    let (response, mut sending) = sender.send_request(head, is_alone).map_err(|_| leaving(session))?;
    if !is_alone {
        sending.send_data(body, true).map_err(|error| fault(session, error))?;
    }
    let (parts, incoming) = response.await.map_err(|error| unanswered(session, error))?.into_parts();
    (received.status, received.headers) = (parts.status.as_u16(), parts.headers);
    receive(incoming, options, received, answer_bytes_max).await.map_err(|error| fault(session, error))
}

async fn receive(
    mut incoming: RecvStream,
    options: ReadOptions,
    received: &mut Received,
    max: u64,
) -> Result<(), h2::Error> {
    while let Some(part) = incoming.data().await {
        let part = part?;
        received.body_len += part.len() as u64;
        received.is_too_large = received.body_len > max;
        if received.is_too_large {
            return Ok(());
        }
        if options.keeps_body_of(received.status) {
            received.body.extend_from_slice(&part);
        }
        incoming.flow_control().release_capacity(part.len())?;
    }
    Ok(())
}

/// Marks the connection as draining: it sends no further request, and its open streams continue.
fn leaving(session: &Session) -> ExchangeError {
    session.give_up();
    ExchangeError::Leaving
}

/// The reason why a request got no answer after it was handed over. A server that closes a connection gracefully names the
/// last stream that it may have processed; only later streams end with this error.
fn unanswered(session: &Session, error: h2::Error) -> ExchangeError {
    let in_order = error.is_remote() && error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    if in_order { leaving(session) } else { fault(session, error) }
}

/// Maps an error. A connection error breaks the connection for all slots.
fn fault(session: &Session, error: h2::Error) -> ExchangeError {
    if error.reason() == Some(Reason::REFUSED_STREAM) && !error.is_go_away() {
        return ExchangeError::NotTried;
    }
    if error.is_io() || error.is_go_away() || !error.is_reset() {
        session.give_up();
    }
    // Our side closed a stream or a connection because the server broke the protocol.
    if error.is_library() && error.reason().is_some_and(|reason| BREACHES.contains(&reason)) {
        return ExchangeError::Malformed(Malformed("the answer is not HTTP/2"));
    }
    ExchangeError::Lost(io::Error::other(error))
}

/// Converts a head from HTTP/1.1 to HTTP/2. Parsing it again is cheap compared with the rest.
fn head_of(head: &[u8], scheme: &str) -> Result<Request<()>, Malformed> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let refuse = Malformed("the request cannot be sent");
    parsed.parse(head).map_err(|_| refuse)?;
    let host =
        parsed.headers.iter().find(|header| header.name == "host").map_or(&b""[..], |header| header.value);
    let uri = Uri::builder().scheme(scheme).authority(host).path_and_query(parsed.path.unwrap_or("/"));
    let mut request =
        Request::builder().method(parsed.method.unwrap_or("GET")).uri(uri.build().map_err(|_| refuse)?);
    for header in parsed.headers.iter().filter(|header| !NOT_SENT.contains(&header.name)) {
        request = request.header(header.name, header.value);
    }
    request.body(()).map_err(|_| refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_of_http_1_is_converted_to_http_2() {
        let head = b"POST /a/b?c=d HTTP/1.1\r\nhost: h:81\r\nx-a: 1\r\ncontent-length: 5\r\n\r\n";
        let request = head_of(head, "https").unwrap();
        assert_eq!(
            (request.method().as_str(), request.uri().to_string().as_str()),
            ("POST", "https://h:81/a/b?c=d")
        );
        assert_eq!(request.headers().len(), 1);
        assert!(head_of(b"nonsense", "http").is_err());
    }
}
