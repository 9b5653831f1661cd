//! One stream at a time: a request out, its answer in, within a time limit.

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
use crate::fault::Fault;
use crate::http1::{Ask, Malformed};
use crate::setup::Endpoint;

/// Headers of a request at most.
const HEADERS_MAX: usize = 100;
/// Why our side of HTTP/2 refuses what the other sent.
const BREACHES: [Reason; 3] = [Reason::PROTOCOL_ERROR, Reason::FRAME_SIZE_ERROR, Reason::COMPRESSION_ERROR];
/// What HTTP/2 says in its own way: the authority, and the length of the body.
const NOT_SENT: [&str; 2] = ["host", "content-length"];

/// A place on a shared connection: one request in flight.
#[derive(Debug)]
pub(crate) struct Slot {
    session: Arc<Session>,
    deadline: Deadline,
    scheme: &'static str,
    taken: Taken,
    answer_bytes_max: u64,
}

/// The answer to the last request.
#[derive(Debug, Default)]
struct Taken {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    body_len: u64,
    is_too_large: bool,
}

impl Slot {
    /// A place that was taken in a session.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn new(session: Arc<Session>, endpoint: &Endpoint) -> io::Result<Self> {
        let deadline = Deadline::new(Some(endpoint.timeout)).inspect_err(|_| session.leave())?;
        Ok(Self {
            session,
            deadline,
            scheme: if endpoint.url.secure { "https" } else { "http" },
            taken: Taken::default(),
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
        let taken = &self.taken;
        Answer {
            status: taken.status,
            fields: Fields::Map(&taken.headers),
            body: &taken.body,
            body_len: taken.body_len,
            is_too_large: taken.is_too_large,
        }
    }

    /// Sends a request and collects its answer.
    ///
    /// # Errors
    /// Why there is no answer. Only when the connection itself broke is the lane broken.
    pub(crate) async fn exchange(&mut self, request: &[u8], head_len: usize, ask: Ask) -> Result<(), Fault> {
        self.taken = Taken { body: std::mem::take(&mut self.taken.body), ..Taken::default() };
        self.taken.body.clear();
        let (head, body) = request.split_at_checked(head_len).unwrap_or((request, &[]));
        let head = head_of(head, self.scheme)?;
        let Self { session, deadline, taken, answer_bytes_max, .. } = self;
        deadline.start();
        let mut talk = pin!(talk(session, head, Bytes::copy_from_slice(body), ask, taken, *answer_bytes_max));
        let done = poll_fn(|cx| match talk.as_mut().poll(cx) {
            Poll::Pending => deadline.poll(cx).map(|()| Err(Fault::Timeout)),
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

async fn talk(
    session: &Session,
    head: Request<()>,
    body: Bytes,
    ask: Ask,
    taken: &mut Taken,
    answer_bytes_max: u64,
) -> Result<(), Fault> {
    // What fails before the request is handed over was never sent.
    let ready = session.sender.clone().ready().await;
    let mut sender = ready.map_err(|_| leaving(session))?;
    let is_alone = body.is_empty();
    let (response, mut sending) = sender.send_request(head, is_alone).map_err(|_| leaving(session))?;
    if !is_alone {
        sending.send_data(body, true).map_err(|error| fault(session, error))?;
    }
    let (parts, incoming) = response.await.map_err(|error| unanswered(session, error))?.into_parts();
    (taken.status, taken.headers) = (parts.status.as_u16(), parts.headers);
    receive(incoming, ask, taken, answer_bytes_max).await.map_err(|error| fault(session, error))
}

async fn receive(mut incoming: RecvStream, ask: Ask, taken: &mut Taken, max: u64) -> Result<(), h2::Error> {
    while let Some(part) = incoming.data().await {
        let part = part?;
        taken.body_len += part.len() as u64;
        taken.is_too_large = taken.body_len > max;
        if taken.is_too_large {
            return Ok(());
        }
        if ask.keep_body {
            taken.body.extend_from_slice(&part);
        }
        incoming.flow_control().release_capacity(part.len())?;
    }
    Ok(())
}

/// Nothing more is taken on this connection; streams that are open there go on to their end.
fn leaving(session: &Session) -> Fault {
    session.give_up();
    Fault::Leaving
}

/// Why a request that was handed over got no answer. A server that ends a connection in order names the last stream that it
/// may have worked on; those after it, and only those, end with what it said.
fn unanswered(session: &Session, error: h2::Error) -> Fault {
    let in_order = error.is_remote() && error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    if in_order { leaving(session) } else { fault(session, error) }
}

/// What an error means; one of the connection breaks it for every lane.
fn fault(session: &Session, error: h2::Error) -> Fault {
    if error.reason() == Some(Reason::REFUSED_STREAM) && !error.is_go_away() {
        return Fault::NotTried;
    }
    if error.is_io() || error.is_go_away() || !error.is_reset() {
        session.give_up();
    }
    // Our side ends a stream or a connection for a breach of the protocol: what came is no answer.
    if error.is_library() && error.reason().is_some_and(|reason| BREACHES.contains(&reason)) {
        return Fault::Malformed(Malformed("the answer is not HTTP/2"));
    }
    Fault::Lost(io::Error::other(error))
}

/// The head as HTTP/2 has it. It was encoded for HTTP/1.1; taking it apart again costs little beside the rest.
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
    fn a_head_of_http_1_becomes_one_of_http_2() {
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
