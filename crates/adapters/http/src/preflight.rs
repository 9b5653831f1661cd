//! Checks that a service can be reached, before the load starts.

use plimsoll_measure::clock;

use crate::connect::Error;
use crate::connection::Connection;
use crate::http1::ReadOptions;
use crate::http2::Pool;
use crate::login::{log_in, no_answer};
use crate::plaintext_probe;
use crate::setup::{Endpoint, Setup};

/// A service that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reachable {
    /// Its address: `host:port`.
    pub address: String,
    /// The status of its answer to a GET of the URL's path.
    pub status: u16,
    /// Its `server` header.
    pub server: Option<String>,
}

/// Connects, logs in if the scenario has a login, and reads the URL's path. Accepts any status, except 401 and 403 for a request
/// with credentials. Must be called on a tokio runtime with IO and time enabled.
///
/// # Errors
/// When the service is unreachable, has no TLS, or refuses the connection, the protocol or the credentials.
pub async fn check(setup: &Setup) -> Result<Reachable, Error> {
    let mut probe = Probe::begin(setup).await?;
    probe.get().await?;
    let (endpoint, answer) = (&setup.endpoint, probe.connection.answer());
    if probe.has_credentials && matches!(answer.status, 401 | 403) {
        return Err(Error::Credentials { address: endpoint.shown(), status: answer.status });
    }
    let server = answer.fields.get("server").map(|name| String::from_utf8_lossy(name).into_owned());
    Ok(Reachable { address: endpoint.shown(), status: answer.status, server })
}

/// Times `count` GETs of the URL's path on an open connection, in nanoseconds each, without connecting and login. Must be called
/// like [`check`].
///
/// # Errors
/// As [`check`], but any status is accepted.
pub async fn round_trips(setup: &Setup, count: usize) -> Result<Vec<u64>, Error> {
    let mut probe = Probe::begin(setup).await?;
    let mut trips = Vec::with_capacity(count);
    for _ in 0..count {
        probe.reconnect().await?;
        let sent = clock::now();
        probe.get().await?;
        trips.push(clock::now().since(sent));
    }
    Ok(trips)
}

/// A connection that reads the URL's path.
struct Probe<'a> {
    endpoint: &'a Endpoint,
    pool: Pool,
    connection: Connection,
    request: String,
    /// Whether the request carries credentials.
    has_credentials: bool,
}

impl<'a> Probe<'a> {
    /// Connects, and logs in if the scenario has a login.
    async fn begin(setup: &'a Setup) -> Result<Self, Error> {
        let (endpoint, pool) = (&setup.endpoint, Pool::default());
        let mut connection = plaintext_probe::explain(endpoint, Connection::open(endpoint, &pool)).await?;
        let mut authorization = setup.authorization.clone();
        if let Some(login) = &setup.login {
            let token = log_in(login, &mut connection, 0, endpoint).await?;
            authorization = Some(format!("Bearer {}", String::from_utf8_lossy(&token)));
        }
        let line = authorization.as_ref().map(|value| format!("authorization: {value}\r\n"));
        let request = format!(
            "GET {}/ HTTP/1.1\r\nhost: {}\r\n{}\r\n",
            endpoint.url.path,
            endpoint.url.host_header(),
            line.unwrap_or_default()
        );
        let mut probe =
            Self { endpoint, pool, connection, request, has_credentials: authorization.is_some() };
        probe.reconnect().await?;
        Ok(probe)
    }

    /// Reconnects if the server closed the connection after its last answer.
    async fn reconnect(&mut self) -> Result<(), Error> {
        if self.connection.is_broken() {
            self.connection = Connection::open(self.endpoint, &self.pool).await?;
        }
        Ok(())
    }

    async fn get(&mut self) -> Result<(), Error> {
        let options = ReadOptions { is_head: false, keep_body: false };
        let answered = self.connection.exchange(self.request.as_bytes(), self.request.len(), options).await;
        answered.map_err(|fault| no_answer(&fault, self.endpoint))
    }
}
