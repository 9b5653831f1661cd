//! Whether a service can be reached, before anything of the load is sent.

use plimsoll_measure::clock;

use crate::clear;
use crate::connect::Error;
use crate::http1::Ask;
use crate::http2::Pool;
use crate::login::{ask, no_answer};
use crate::setup::{Endpoint, Setup};
use crate::wire::Wire;

/// A service that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Where it was reached: `host:port`.
    pub address: String,
    /// What it answered to a GET of the URL's path.
    pub status: u16,
    /// What it calls itself, if it does.
    pub server: Option<String>,
}

/// Connects, logs in if the scenario says how, and reads the URL's path: any answer but a refusal of the credentials is well.
/// Must be called on a tokio runtime with IO and time enabled.
///
/// # Errors
/// Why the service cannot be used: unreachable, refused, TLS, another protocol, wrong credentials.
pub async fn reach(setup: &Setup) -> Result<Reached, Error> {
    let mut visit = Visit::begin(setup).await?;
    visit.ask().await?;
    let (endpoint, answer) = (&setup.endpoint, visit.wire.answer());
    if visit.is_known && matches!(answer.status, 401 | 403) {
        return Err(Error::Credentials { address: endpoint.shown(), status: answer.status });
    }
    let server = answer.fields.get("server").map(|name| String::from_utf8_lossy(name).into_owned());
    Ok(Reached { address: endpoint.shown(), status: answer.status, server })
}

/// How long a bare request takes on an open connection: a GET of the URL's path, `count` times, each in nanoseconds.
/// Connecting and logging in come before and are not timed. Must be called like [`reach`].
///
/// # Errors
/// Those of [`reach`], but any answer is well.
pub async fn round_trips(setup: &Setup, count: usize) -> Result<Vec<u64>, Error> {
    let mut visit = Visit::begin(setup).await?;
    let mut trips = Vec::with_capacity(count);
    for _ in 0..count {
        visit.mend().await?;
        let sent = clock::now();
        visit.ask().await?;
        trips.push(clock::now().since(sent));
    }
    Ok(trips)
}

/// A connection beside the load, on which the URL's path is read.
struct Visit<'a> {
    endpoint: &'a Endpoint,
    pool: Pool,
    wire: Wire,
    request: String,
    /// Whether the request says who sends it.
    is_known: bool,
}

impl<'a> Visit<'a> {
    /// Connects, and logs in if the scenario says how.
    async fn begin(setup: &'a Setup) -> Result<Self, Error> {
        let (endpoint, pool) = (&setup.endpoint, Pool::default());
        let mut wire = clear::opened(endpoint, Wire::open(endpoint, &pool)).await?;
        let mut authorization = setup.authorization.clone();
        if let Some(login) = &setup.login {
            let token = ask(login, &mut wire, 0, endpoint).await?;
            authorization = Some(format!("Bearer {}", String::from_utf8_lossy(&token)));
        }
        let line = authorization.as_ref().map(|value| format!("authorization: {value}\r\n"));
        let request = format!(
            "GET {}/ HTTP/1.1\r\nhost: {}\r\n{}\r\n",
            endpoint.url.path,
            endpoint.url.host_header(),
            line.unwrap_or_default()
        );
        let mut visit = Self { endpoint, pool, wire, request, is_known: authorization.is_some() };
        visit.mend().await?;
        Ok(visit)
    }

    /// Connects again if the last answer was the last on its connection.
    async fn mend(&mut self) -> Result<(), Error> {
        if self.wire.is_broken() {
            self.wire = Wire::open(self.endpoint, &self.pool).await?;
        }
        Ok(())
    }

    async fn ask(&mut self) -> Result<(), Error> {
        let question = Ask { is_head: false, keep_body: false };
        let answered = self.wire.exchange(self.request.as_bytes(), self.request.len(), question).await;
        answered.map_err(|fault| no_answer(&fault, self.endpoint))
    }
}
