//! Probes whether a server without TLS answers plain HTTP: if so, the URL is wrong and the server is not slow.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::connect::Error;
use crate::setup::Endpoint;

/// The time without TLS before the probe starts, and the time limit of its plain answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits for `opening`. Fails early if the service answers plain HTTP, instead of waiting for the whole time limit.
pub(crate) async fn explain<T>(
    endpoint: &Endpoint,
    opening: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if endpoint.tls.is_none() {
        return opening.await;
    }
    let mut opening = pin!(opening);
    let early = tokio::time::timeout(PROBE_TIMEOUT, &mut opening).await;
    let is_doubtful = early.as_ref().map_or(true, |done| done.as_ref().is_err_and(Error::is_no_tls));
    if is_doubtful && answers(endpoint).await {
        return Err(Error::InTheClear { address: endpoint.shown() });
    }
    match early {
        Ok(done) => done,
        Err(_) => opening.await,
    }
}

/// Whether the service answers a plain request in HTTP.
async fn answers(endpoint: &Endpoint) -> bool {
    let asked = tokio::time::timeout(PROBE_TIMEOUT, ask(endpoint)).await;
    asked.is_ok_and(|answered| answered.unwrap_or(false))
}

async fn ask(endpoint: &Endpoint) -> io::Result<bool> {
    let mut stream = plimsoll_net::tcp(endpoint.destination()).await?;
    let host = endpoint.url.host_header();
    let request = format!("HEAD / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut start = [0; 5];
    stream.read_exact(&mut start).await?;
    Ok(start == *b"HTTP/")
}
