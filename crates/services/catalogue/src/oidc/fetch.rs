//! Asks the issuer, within limits of time, bytes and requests at once. It follows no redirects.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::uri::Scheme;
use axum::http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use plimsoll_net::{Destination, Tls, connect};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::fault::Fault;
use super::url::url_fault;

/// The time of a request with its answer.
const TIME_MAX: Duration = Duration::from_secs(10);
/// The maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// The requests at once.
const AT_ONCE_MAX: usize = 8;

/// Sends requests to the issuer.
pub(super) struct Fetcher {
    tls: Tls,
    permits: Semaphore,
}

/// A request: a read, or a form if it has one.
#[derive(Default)]
pub(super) struct Ask<'a> {
    pub(super) url: &'a str,
    pub(super) form: Option<String>,
    pub(super) authorization: Option<String>,
}

impl Fetcher {
    /// Sends requests with these settings of TLS.
    pub(super) fn new(tls: Tls) -> Self {
        Self { tls, permits: Semaphore::new(AT_ONCE_MAX) }
    }

    /// The JSON of the answer.
    ///
    /// # Errors
    /// [`Fault::Unreachable`] without an answer, or with one that is no JSON; [`Fault::Refused`] for a status of 400 to 499.
    pub(super) async fn json(&self, ask: Ask<'_>) -> Result<Value, Fault> {
        let _permit = self.permits.try_acquire().map_err(|_| Fault::Busy)?;
        let url = ask.url.to_owned();
        let answer = tokio::time::timeout(TIME_MAX, self.exchange(ask)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {} s", TIME_MAX.as_secs())));
        let (status, body) = answer.map_err(|why| Fault::Unreachable(format!("{url}: {why}")))?;
        match status {
            200 => serde_json::from_slice(&body)
                .map_err(|error| Fault::Unreachable(format!("{url}: the answer is no JSON: {error}"))),
            400..500 => Err(Fault::Refused(format!("{url} answered {status}"))),
            status => Err(Fault::Unreachable(format!("{url} answered {status}"))),
        }
    }

    async fn exchange(&self, ask: Ask<'_>) -> Result<(u16, Bytes), String> {
        url_fault(ask.url).map_or(Ok(()), Err)?;
        let uri: Uri = ask.url.parse().map_err(text)?;
        let is_secure = uri.scheme() == Some(&Scheme::HTTPS);
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let destination = Destination { host, port, address: None, proxy: None };
        let stream = connect(destination, is_secure.then_some(&self.tls), TIME_MAX).await.map_err(text)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
        let exchanged = async {
            let answer = sender.send_request(request(&uri, ask)?).await.map_err(text)?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(text)?;
            Ok((status, body.to_bytes()))
        };
        // The connection must be polled for the exchange to proceed. The exchange reports its errors.
        let driven = async { connection.await.unwrap_or_default() };
        tokio::pin!(exchanged);
        tokio::select! {
            exchanged = &mut exchanged => exchanged,
            () = driven => exchanged.await,
        }
    }
}

fn request(uri: &Uri, ask: Ask<'_>) -> Result<Request<Full<Bytes>>, String> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let mut request =
        Request::builder().uri(target).header(HOST, authority).header(ACCEPT, "application/json");
    if let Some(authorization) = ask.authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let form = ask.form.map(Bytes::from);
    if form.is_some() {
        request = request.method(Method::POST).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    }
    request.body(Full::new(form.unwrap_or_default())).map_err(text)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
