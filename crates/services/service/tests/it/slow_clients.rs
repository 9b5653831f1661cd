//! Tests clients that do not take their answers, or send their bodies slowly: they hold bounded memory and block no other client.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use h2::RecvStream;
use h2::client::{Builder, SendRequest};
use plimsoll_service::{Limits, Span};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::{Address, send, start};

/// The size of one answer, in bytes.
const ANSWER: u64 = 64 << 10;
/// The deadline of an answer that the client does not take.
const SOON: Span = Span::millis(300);
/// A deadline beyond the test.
const NEVER: Span = Span::seconds(3_600);

/// An HTTP/2 client whose streams receive at most `window` bytes in all.
struct Closed {
    send: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
    address: Address,
}

impl Closed {
    async fn connect(address: Address, window: u32) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut builder = Builder::new();
        let (send, connection) =
            builder.initial_window_size(window).handshake::<_, Bytes>(stream).await.unwrap();
        Self { send, connection: tokio::spawn(connection), address }
    }

    /// Requests an answer of that many bytes; returns its body when its head has arrived.
    async fn get(&mut self, bytes: u64) -> RecvStream {
        let answer = self.ask("GET", &format!("/notes/{bytes}"), "r-key").await;
        assert_eq!(answer.status(), 200);
        answer.into_body()
    }

    /// Sends a request without a body; returns its answer when its head has arrived.
    async fn ask(&mut self, method: &str, path: &str, key: &str) -> Response<RecvStream> {
        let request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        let request = request.header("x-api-key", key).body(()).unwrap();
        let mut ready = self.send.clone().ready().await.unwrap();
        ready.send_request(request, true).unwrap().0.await.unwrap()
    }
}

/// The value of a gauge of the service.
async fn gauge(address: Address, name: &str) -> u64 {
    let page = send(address, "GET", "/metrics", "", "").await.2;
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is not in {page}")).parse().unwrap()
}

/// Waits until a gauge has this value.
async fn until(address: Address, name: &str, value: u64) {
    while gauge(address, name).await != value {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn answers_that_clients_do_not_take_are_charged_and_others_are_served() {
    const CONNECTIONS: u64 = 3;
    const STREAMS: u64 = 4;
    let (service, _) = start(Limits { send: NEVER, streams_max: STREAMS as u32, ..Limits::default() }).await;
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = Closed::connect(service.address(), 0).await;
        for _ in 0..STREAMS {
            held.push(client.get(ANSWER).await);
        }
        assert_eq!(client.send.current_max_send_streams(), STREAMS as usize, "further streams wait");
    }
    let taken = gauge(service.address(), "notes_http_answer_bytes").await;
    assert_eq!(taken, CONNECTIONS * STREAMS * ANSWER, "every answer counts until it is sent");
    let (status, _, body) = send(service.address(), "GET", "/notes/2000", "r-key", "").await;
    assert_eq!((status, body.len()), (200, 2000));
    drop(held);
}

#[tokio::test]
async fn a_client_that_takes_no_answer_leaves_memory_to_others() {
    let limits = Limits { send: NEVER, answers_bytes_max: 256 << 10, ..Limits::default() };
    let (service, _) = start(limits).await;
    let mut client = Closed::connect(service.address(), 0).await;
    let (mut held, mut status) = (Vec::new(), 200);
    while status == 200 {
        let answer = client.ask("GET", "/notes/32000", "r-key").await;
        status = answer.status().as_u16();
        held.push(answer);
        assert!(held.len() < 20, "one client takes all memory");
    }
    assert_eq!((status, held.len()), (429, 3));
    assert_eq!(client.ask("GET", "/notes/1", "r-key").await.status(), 429);
    assert_eq!(
        client.ask("PUT", "/notes/a", "w-key").await.status(),
        429,
        "a write would have an answer, too"
    );
    for path in ["/notes/2000", "/notes/40000"] {
        assert_eq!(send(service.address(), "GET", path, "r-key", "").await.0, 200, "{path}");
    }
    assert_eq!(send(service.address(), "GET", "/notes/70000", "r-key", "").await.0, 422);
}

#[tokio::test]
async fn an_answer_that_its_client_does_not_take_is_reset_and_its_memory_returns() {
    let (service, _) = start(Limits { send: SOON, ..Limits::default() }).await;
    let mut client = Closed::connect(service.address(), 0).await;
    let mut held = [client.get(ANSWER).await, client.get(1).await, client.get(ANSWER).await];
    for body in &mut held {
        let error = body.data().await.unwrap().unwrap_err();
        assert_eq!(error.reason(), Some(h2::Reason::CANCEL));
    }
    until(service.address(), "notes_http_answer_bytes", 0).await;
    // The connection itself continues: only its streams were reset.
    assert!(!client.get(1).await.is_end_stream());
    assert!(!client.connection.is_finished());
}

#[tokio::test]
async fn the_end_of_an_answer_that_its_client_does_not_take_ends_the_connection() {
    let (service, _) = start(Limits { send: SOON, ..Limits::default() }).await;
    let mut client = Closed::connect(service.address(), 10).await;
    let mut body = client.get(2_000).await;
    assert_eq!(body.data().await.unwrap().unwrap().len(), 10);
    assert!(body.data().await.is_none_or(|rest| rest.is_err()));
    client.connection.await.unwrap().unwrap_or_default();
    until(service.address(), "notes_http_answer_bytes", 0).await;
}

#[tokio::test]
async fn an_http1_answer_that_its_client_does_not_take_ends_the_connection() {
    let (service, _) = start(Limits { send: SOON, stall: NEVER, ..Limits::default() }).await;
    let mut client = TcpStream::connect(service.address()).await.unwrap();
    // Larger than the buffers of both sockets.
    let large = 32 << 20;
    let head = format!("GET /notes/{large} HTTP/1.1\r\nhost: t\r\nx-api-key: r-key\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    while gauge(service.address(), "notes_http_answer_bytes").await == 0 {
        tokio::task::yield_now().await;
    }
    until(service.address(), "notes_http_answer_bytes", 0).await;
    // This request's own connection is the only one.
    until(service.address(), "notes_http_connections", 1).await;
}

#[tokio::test]
async fn slow_uploads_keep_no_reads_out_and_refuse_further_uploads() {
    const UPLOADS: u32 = 4;
    let (service, _) = start(Limits { requests_max: UPLOADS, body: NEVER, ..Limits::default() }).await;
    let mut uploads = Vec::new();
    for n in 0..UPLOADS {
        let mut upload = TcpStream::connect(service.address()).await.unwrap();
        let head = "PUT /notes/a HTTP/1.1\r\nhost: t\r\nx-api-key: w-key\r\ncontent-length: 100\r\n\r\n{";
        upload.write_all(head.as_bytes()).await.unwrap();
        uploads.push(upload);
        until(service.address(), "notes_http_requests_in_flight", u64::from(n) + 1).await;
    }
    let (status, _, body) = send(service.address(), "GET", "/notes/10", "r-key", "").await;
    assert_eq!((status, body.as_str()), (200, "xxxxxxxxxx"));
    let (status, head, body) = send(service.address(), "PUT", "/notes/a", "w-key", "{\"wait_ms\": 0}").await;
    assert!(status == 429 && head.contains("retry-after: 1"), "{head}");
    assert!(body.contains("too many request bodies arrive: retry later"), "{body}");
    // The uploads have far less than half of their time behind them.
    until(service.address(), "notes_http_requests_in_flight", u64::from(UPLOADS)).await;
}

#[tokio::test]
async fn an_upload_that_has_taken_half_of_its_time_makes_room() {
    let limits = Limits { requests_max: 1, body: Span::seconds(4), ..Limits::default() };
    let (service, _) = start(limits).await;
    let mut upload = TcpStream::connect(service.address()).await.unwrap();
    let head = "PUT /notes/a HTTP/1.1\r\nhost: t\r\nx-api-key: w-key\r\ncontent-length: 100\r\n\r\n{";
    upload.write_all(head.as_bytes()).await.unwrap();
    until(service.address(), "notes_http_requests_in_flight", 1).await;
    while send(service.address(), "PUT", "/notes/a", "w-key", "{\"wait_ms\": 0}").await.0 != 201 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut answer = vec![0; 12];
    upload.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 429", "not 408: the upload has made room");
}

#[tokio::test]
async fn requests_that_are_answered_slowly_take_places() {
    let (service, _) = start(Limits { requests_max: 1, ..Limits::default() }).await;
    let address = service.address();
    let slow = tokio::spawn(send(address, "PUT", "/notes/a", "w-key", "{\"wait_ms\": 60000}"));
    until(address, "notes_total", 1).await;
    let (status, head, _) = send(address, "GET", "/notes/10", "r-key", "").await;
    assert!(status == 429 && head.contains("retry-after: 1"), "{head}");
    slow.abort();
    until(address, "notes_http_requests_in_flight", 0).await;
    assert_eq!(send(address, "GET", "/notes/10", "r-key", "").await.0, 200);
}

#[tokio::test]
async fn slow_uploads_hold_only_the_bytes_that_arrived() {
    const UPLOADS: u64 = 8;
    let bytes_max = 64 << 10;
    let limits = Limits {
        body_bytes_max: bytes_max,
        batch_bytes_max: bytes_max,
        bodies_bytes_max: UPLOADS as u32 * bytes_max,
        body: NEVER,
        ..Limits::default()
    };
    let (service, _) = start(limits).await;
    let mut uploads = Vec::new();
    for n in 0..UPLOADS {
        let mut upload = TcpStream::connect(service.address()).await.unwrap();
        let length = if n % 2 == 0 {
            format!("content-length: {bytes_max}")
        } else {
            "transfer-encoding: chunked".into()
        };
        let head = format!("PUT /notes/a HTTP/1.1\r\nhost: t\r\nx-api-key: w-key\r\n{length}\r\n\r\n");
        upload.write_all(format!("{head}1\r\n").as_bytes()).await.unwrap();
        uploads.push(upload);
    }
    until(service.address(), "notes_http_requests_in_flight", UPLOADS).await;
    let (status, _, body) = send(service.address(), "PUT", "/notes/a", "w-key", "{\"wait_ms\": 0}").await;
    assert_eq!(status, 201, "{body}");
    assert!(gauge(service.address(), "notes_http_body_bytes").await <= UPLOADS << 10);
    drop(uploads);
}
