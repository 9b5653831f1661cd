//! Tests streams against real sockets: TCP, TLS and Unix, and peers that refuse, stay silent or do not support TLS.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use plimsoll_net::{
    Channel, ConnectError, Destination, ExchangeError, Receive, Stream, Tls, TlsSettings, Trust,
};

use crate::server::{Peer, Server};

const LIMIT: Duration = Duration::from_secs(20);
/// More bytes than the socket buffers of both sides can take.
const LARGE: usize = 32 << 20;

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn connect(address: SocketAddr, tls: Option<&Tls>, limit: Duration) -> Result<Stream, ConnectError> {
    let destination =
        Destination { host: "localhost", port: address.port(), address: Some(address), proxy: None };
    plimsoll_net::connect(destination, tls, limit).await
}

/// A reply of one byte.
#[derive(Default)]
struct Byte {
    byte: [u8; 1],
    is_complete: bool,
}

impl Receive for Byte {
    type Error = Infallible;

    fn is_complete(&mut self) -> Result<bool, Infallible> {
        Ok(self.is_complete)
    }

    fn room(&mut self) -> &mut [u8] {
        &mut self.byte
    }

    fn advance(&mut self, count: usize) {
        self.is_complete = count == 1;
    }

    fn close(&mut self) -> bool {
        false
    }
}

/// Sends a request and returns the byte of the answer.
async fn exchange(channel: &mut Channel, request: &[u8]) -> Result<u8, ExchangeError<Infallible>> {
    let (mut sent, mut reply) = (0, Byte::default());
    channel.start();
    let done = poll_fn(|cx| {
        let done = match channel.poll_send(cx, request, &mut sent) {
            Poll::Ready(Ok(())) => channel.poll_receive(cx, &mut reply),
            Poll::Ready(Err(error)) => Poll::Ready(Err(ExchangeError::Lost(error))),
            Poll::Pending => Poll::Pending,
        };
        if done.is_pending() { channel.poll_timeout(cx) } else { done }
    })
    .await;
    channel.end();
    assert!(done.is_err() || sent == request.len());
    done.map(|()| reply.byte[0])
}

fn channel(stream: Stream, limit: Duration) -> Channel {
    let mut channel = Channel::new(stream);
    channel.set_limit(Some(limit)).unwrap();
    channel
}

#[test]
fn a_request_larger_than_the_socket_buffers_arrives_by_every_kind_of_stream() {
    for peer in [Peer::Tcp, Peer::Tls, Peer::Unix] {
        let server = Server::start(peer, LARGE);
        let request = vec![7; LARGE];
        run(async {
            let stream = match peer {
                Peer::Unix => plimsoll_net::connect_unix(&server.path, LIMIT).await.unwrap(),
                _ => connect(server.address, server.tls().as_ref(), LIMIT).await.unwrap(),
            };
            let mut channel = channel(stream, LIMIT);
            for _ in 0..2 {
                assert_eq!(exchange(&mut channel, &request).await.unwrap(), 7, "{peer:?}");
            }
        });
    }
}

#[test]
fn a_silent_peer_ends_an_exchange_at_its_time_limit_and_a_closing_one_at_once() {
    let (silent, closing) = (Server::start(Peer::Silent, 0), Server::start(Peer::Closing, 0));
    run(async {
        let stream = connect(silent.address, None, LIMIT).await.unwrap();
        let done = exchange(&mut channel(stream, Duration::from_millis(50)), b"request").await;
        assert!(matches!(done, Err(ExchangeError::Timeout)), "{done:?}");
        let stream = connect(closing.address, None, LIMIT).await.unwrap();
        let done = exchange(&mut channel(stream, LIMIT), b"request").await;
        assert!(matches!(done, Err(ExchangeError::Lost(_))), "{done:?}");
    });
}

#[test]
fn every_connection_failure_has_its_own_error() {
    let (silent, http) = (Server::start(Peer::Silent, 0), Server::start(Peer::Http, 0));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let tls_server = Server::start(Peer::Tls, 1);
    let (anyone, public) = (Tls::new(&Trust::Anyone).unwrap(), Tls::new(&Trust::PublicRoots).unwrap());
    let (nameless, other) = (anyone.clone().expecting("a b"), anyone.clone().offering(b"other"));
    let short = Duration::from_millis(50);
    let check = |address, tls: Option<&Tls>, limit| run(connect(address, tls, limit)).unwrap_err();
    assert!(matches!(check(closed, None, LIMIT), ConnectError::Refused));
    assert!(matches!(check(silent.address, Some(&anyone), short), ConnectError::TlsTimeout));
    assert!(matches!(check(http.address, Some(&anyone), LIMIT), ConnectError::NotTls(_)));
    assert!(matches!(check(tls_server.address, Some(&nameless), LIMIT), ConnectError::ServerName(_)));
    assert!(matches!(check(tls_server.address, Some(&public), LIMIT), ConnectError::Tls(_)));
    assert!(matches!(check(tls_server.address, Some(&other), LIMIT), ConnectError::NoProtocol(_)));
    let missing = run(plimsoll_net::connect_unix("/no/such.socket".as_ref(), LIMIT)).unwrap_err();
    assert!(matches!(missing, ConnectError::Unreachable(_)));
}

#[test]
fn a_server_that_requests_a_certificate_gets_that_of_the_client() {
    let made = rcgen::generate_simple_self_signed(["client".to_owned()]).unwrap();
    let pem = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
    for (identity, is_answered) in [(Some(pem.into_bytes()), true), (None, false)] {
        let (address, trust) = server::asking_for(&made.cert.pem());
        let tls = Tls::with(&TlsSettings { trust, any_host: false, identity }).unwrap();
        let answer = run(async {
            let stream = connect(address, Some(&tls), LIMIT).await.ok()?;
            exchange(&mut Channel::new(stream), b"7").await.ok()
        });
        assert_eq!(answer, is_answered.then_some(b'7'));
    }
}

#[test]
fn a_client_certificate_without_a_key_is_refused() {
    let made = rcgen::generate_simple_self_signed(["client".to_owned()]).unwrap();
    let identity = |pem: String| TlsSettings {
        trust: Trust::PublicRoots,
        any_host: false,
        identity: Some(pem.into_bytes()),
    };
    let error = |pem| Tls::with(&identity(pem)).unwrap_err().to_string();
    assert!(error(made.cert.pem()).contains("no unencrypted private key"));
    assert!(error(made.signing_key.serialize_pem()).contains("no certificate"));
}
