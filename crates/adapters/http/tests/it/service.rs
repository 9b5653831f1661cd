//! Runs an independent server: hyper, with a function that answers.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The protocol of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Http1,
    Http1Tls,
    Http2,
    Http2Tls,
}

pub const WAYS: [Way; 4] = [Way::Http1, Way::Http1Tls, Way::Http2, Way::Http2Tls];

/// The received request.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub uri: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The answer: a status, headers and a body.
pub type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

type Answers = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

/// A server on its own thread; it stops when dropped.
pub struct Service {
    pub address: SocketAddr,
    pub way: Way,
    pub certificate: Option<String>,
    _directory: tempfile::TempDir,
    ca: String,
    closing: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    pub fn start(way: Way, answers: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (acceptor, certificate) = match way {
            Way::Http1Tls | Way::Http2Tls => {
                let (acceptor, pem) = tls(way);
                (Some(acceptor), Some(pem))
            }
            _ => (None, None),
        };
        let ca = directory.path().join("ca.pem");
        std::fs::write(&ca, certificate.as_deref().unwrap_or_default()).unwrap();
        let (closing, closed) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = std::thread::spawn(move || {
            let listener = {
                let _within = runtime.enter();
                tokio::net::TcpListener::from_std(listener).unwrap()
            };
            runtime.spawn(accept(listener, acceptor, way, Arc::new(answers)));
            let _ = runtime.block_on(closed);
        });
        let ca = ca.to_str().unwrap().to_owned();
        Service {
            address,
            way,
            certificate,
            _directory: directory,
            ca,
            closing: Some(closing),
            thread: Some(thread),
        }
    }

    /// The scenario section for this service.
    pub fn section(&self) -> String {
        let protocol = if matches!(self.way, Way::Http2 | Way::Http2Tls) { "http2" } else { "http1" };
        let url = match self.certificate {
            Some(_) => format!("https://localhost:{}\ntls: {{ca: '{}'}}", self.address.port(), self.ca),
            None => format!("http://{}", self.address),
        };
        format!("protocol: {protocol}\ntimeout: 20s\nurl: {url}\n")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.closing.take());
        let _ = self.thread.take().unwrap().join();
    }
}

/// A service that answers each request with a JSON description of it.
pub fn echo(seen: &Seen) -> Answer {
    let body = serde_json::from_slice(&seen.body)
        .unwrap_or_else(|_| serde_json::Value::from(String::from_utf8_lossy(&seen.body).into_owned()));
    let headers: serde_json::Map<_, _> =
        seen.headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let answer =
        serde_json::json!({"method": seen.method, "uri": seen.uri, "headers": headers, "body": body});
    (200, vec![("content-type", "application/json".into())], answer.to_string().into_bytes())
}

/// Collects the received requests, and answers `{}`.
pub fn collecting() -> (Arc<Mutex<Vec<Seen>>>, impl Fn(&Seen) -> Answer + Send + Sync + 'static) {
    let all = Arc::new(Mutex::new(Vec::new()));
    let inner = Arc::clone(&all);
    (all, move |seen: &Seen| {
        inner.lock().unwrap().push(seen.clone());
        (200, vec![], b"{}".to_vec())
    })
}

fn tls(way: Way) -> (TlsAcceptor, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let chain = vec![CertificateDer::from(made.cert.der().to_vec())];
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![if way == Way::Http2Tls { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    (TlsAcceptor::from(Arc::new(config)), made.cert.pem())
}

async fn accept(listener: tokio::net::TcpListener, tls: Option<TlsAcceptor>, way: Way, answers: Answers) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (tls, answers) = (tls.clone(), Arc::clone(&answers));
        tokio::spawn(async move {
            match tls {
                None => serve(stream, way, answers).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, way, answers).await;
                    }
                }
            }
        });
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, way: Way, answers: Answers) {
    let service = service_fn(move |request: Request<Incoming>| answer(request, Arc::clone(&answers)));
    let io = TokioIo::new(stream);
    // A client that disconnects ends only its own connection.
    let _ = match way {
        Way::Http1 | Way::Http1Tls => {
            hyper::server::conn::http1::Builder::new().serve_connection(io, service).await
        }
        _ => {
            hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await
        }
    };
}

async fn answer(request: Request<Incoming>, answers: Answers) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let seen = Seen {
        method: parts.method.to_string(),
        uri: parts.uri.path_and_query().unwrap().to_string(),
        headers: parts.headers.iter().map(header).collect(),
        body: body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default(),
    };
    let (status, headers, mut body) = answers(&seen);
    if seen.method == "HEAD" {
        // Over HTTP/2, hyper would still send the body.
        body.clear();
    }
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(body))).unwrap())
}
