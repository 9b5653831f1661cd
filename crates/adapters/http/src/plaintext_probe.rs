//! Whether a server that does not take up TLS speaks HTTP in the clear: then the URL is wrong, and not the server slow.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::connect::Error;
use crate::setup::Endpoint;

/// TLS that takes longer is asked about; so long at most the answer in the clear is waited for as well.
const PATIENCE: Duration = Duration::from_secs(1);

/// The connection that `opening` opens, or why there is none: without waiting for the whole time limit where the service
/// turns out to speak in the clear.
pub(crate) async fn explain<T>(
    endpoint: &Endpoint,
    opening: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if endpoint.tls.is_none() {
        return opening.await;
    }
    let mut opening = pin!(opening);
    let early = tokio::time::timeout(PATIENCE, &mut opening).await;
    let is_doubtful = early.as_ref().map_or(true, |done| done.as_ref().is_err_and(Error::is_no_tls));
    if is_doubtful && answers(endpoint).await {
        return Err(Error::InTheClear { address: endpoint.shown() });
    }
    match early {
        Ok(done) => done,
        Err(_) => opening.await,
    }
}

/// Whether a request in the clear is answered in HTTP.
async fn answers(endpoint: &Endpoint) -> bool {
    let asked = tokio::time::timeout(PATIENCE, ask(endpoint)).await;
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
