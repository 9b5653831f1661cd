//! Tests HTTP/2 servers that end connections gracefully during requests, as at a restart or after a fixed number of requests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::{Doubt, Outcome};
use tokio::sync::{Notify, oneshot};

use crate::client::{run, send, target};
use crate::raw::Raw;

/// A server that ends each connection gracefully after two requests; it stops when dropped.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Releases the answer to `/held`.
    held: Arc<Notify>,
    closing: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

const SHARE: usize = 2;

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (closing, closed) = oneshot::channel();
        let accepting = accept(listener, Arc::clone(&connections), Arc::clone(&held));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.spawn(accepting);
            let _ = runtime.block_on(closed);
        });
        Self { address, connections, held, closing: Some(closing), thread: Some(thread) }
    }

    fn section(&self) -> String {
        format!("protocol: http2\ntimeout: 20s\nurl: http://{}\n", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.closing.take());
        let _ = self.thread.take().unwrap().join();
    }
}

async fn accept(listener: TcpListener, connections: Arc<AtomicUsize>, held: Arc<Notify>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(serve(stream, Arc::clone(&held)));
    }
}

async fn serve(stream: tokio::net::TcpStream, held: Arc<Notify>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let mut taken = 0;
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        taken += 1;
        let wait = (request.uri().path() == "/held").then(|| Arc::clone(&held));
        tokio::spawn(async move {
            if let Some(held) = wait {
                held.notified().await;
            }
            let answer = http::Response::builder().status(200).body(()).unwrap();
            let _ = respond.send_response(answer, true);
        });
        if taken == SHARE {
            connection.graceful_shutdown();
        }
    }
}

#[test]
fn a_request_on_a_connection_about_to_end_moves_to_another() {
    let server = Server::start();
    let target = target(&server.section(), &[("held", "get: /held"), ("op", "get: /")]);
    run(async {
        let (mut first, mut second) = (target.open().await.unwrap(), target.open().await.unwrap());
        assert_eq!(target.prepare(&mut first, 0, 0), Prepared::Ready);
        let mut held = pin!(target.send(&mut first));
        assert!(tokio::time::timeout(Duration::from_millis(100), held.as_mut()).await.is_err());
        assert_eq!(send(&target, &mut second, 1, 0).await.outcome, Outcome::Acknowledged);
        // The GOAWAY frame arrives, and the held request keeps the connection open.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let reply = send(&target, &mut second, 1, 1).await;
        assert_eq!(reply.outcome, Outcome::Acknowledged, "{:?}", target.answers());
        assert!(reply.bytes_sent > 0 && reply.bytes_received > 0, "{reply:?}");
        server.held.notify_one();
        assert_eq!(held.await.outcome, Outcome::Acknowledged, "the held request is answered");
    });
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
    let failed = target.answers().iter().flat_map(|it| &it.checks).map(|check| check.failed).sum::<u64>();
    assert_eq!(failed, 0);
}

#[test]
fn connections_that_end_after_some_requests_lose_no_request() {
    let server = Server::start();
    let target = target(&server.section(), &[("op", "get: /")]);
    run(async {
        let mut lanes = [target.open().await.unwrap(), target.open().await.unwrap()];
        for number in 0..10 {
            for lane in &mut lanes {
                let reply = send(&target, lane, 0, number).await;
                assert_eq!(reply.outcome, Outcome::Acknowledged, "{number} {:?}", target.answers());
            }
        }
    });
    assert!(server.connections.load(Ordering::SeqCst) > 1);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [len[1], len[2], len[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// A server that answers everything, except on its first connection. It ends the first connection with `code`
/// at the first request, and reports no processed stream.
fn refusing(code: u32) -> Raw {
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    Raw::start(move |number, mut stream: TcpStream| {
        stream.read_exact(&mut [0; 24]).unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        let mut head = [0; 9];
        while stream.read_exact(&mut head).is_ok() {
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            stream.read_exact(&mut payload).unwrap();
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let answer = match (head[3], head[4] & 1) {
                (SETTINGS, 0) => frame(SETTINGS, 1, 0, &[]),
                (PING, 0) => frame(PING, 1, 0, &payload),
                (HEADERS, _) if number == 0 => frame(GOAWAY, 0, 0, &[[0; 4], code.to_be_bytes()].concat()),
                // Status 200 without a body.
                (HEADERS, _) => frame(HEADERS, 5, id, &[0x88]),
                _ => continue,
            };
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    })
}

#[test]
fn a_request_is_sent_again_only_if_its_connection_ended_gracefully() {
    const NO_ERROR: u32 = 0;
    const INTERNAL_ERROR: u32 = 2;
    for (code, expected, connections) in
        [(NO_ERROR, Outcome::Acknowledged, 2), (INTERNAL_ERROR, Outcome::Unknown(Doubt::ConnectionLost), 1)]
    {
        let server = refusing(code);
        let target = target(&format!("protocol: http2\n{}", server.section()), &[("op", "get: /")]);
        run(async {
            let mut lane = target.open().await.unwrap();
            assert_eq!(send(&target, &mut lane, 0, 0).await.outcome, expected, "{code}");
        });
        assert_eq!(server.connections.load(Ordering::SeqCst), connections, "{code}");
    }
}
