//! Logs in once per worker, and again when the service rejects the token.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use tokio::sync::Mutex;

use crate::answer::Answer;
use crate::connect::Error;
use crate::connection::Connection;
use crate::fault::ExchangeError;
use crate::http1::ReadOptions;
use crate::json;
use crate::prepared::Prepared;
use crate::setup::{Endpoint, Login, is_token};

/// The token of a worker.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    current: StdMutex<Arc<Token>>,
    /// Whether the service accepted a request with the current token. A token that was never accepted is not renewed.
    accepted: AtomicBool,
    /// Serialises logins.
    login: Mutex<()>,
}

/// A token and its generation. Before the first login, the text is empty and the generation is 0.
#[derive(Debug, Default)]
pub(crate) struct Token {
    pub text: Vec<u8>,
    pub generation: u64,
}

impl Tokens {
    pub(crate) fn current(&self) -> Arc<Token> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that the service accepted a request with the current token.
    pub(crate) fn set_accepted(&self) {
        self.accepted.store(true, Ordering::Relaxed);
    }

    /// Whether a newer token exists, or a login may return one.
    pub(crate) fn may_renew(&self, generation: u64) -> bool {
        self.current().generation != generation || self.accepted.load(Ordering::Relaxed)
    }

    /// A token newer than `generation`, from another connection's login or a new login.
    pub(crate) async fn later_than(
        &self,
        generation: u64,
        login: &Login,
        connection: &mut Connection,
        worker: u64,
        endpoint: &Endpoint,
    ) -> Result<Arc<Token>, Error> {
        let _login = self.login.lock().await;
        let current = self.current();
        if current.generation > generation {
            return Ok(current);
        }
        let text = log_in(login, connection, worker, endpoint).await?;
        let token = Arc::new(Token { text, generation: generation + 1 });
        self.accepted.store(false, Ordering::Relaxed);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&token);
        Ok(token)
    }
}

/// Logs in. The worker's number seeds the generators of the request.
pub(crate) async fn log_in(
    login: &Login,
    connection: &mut Connection,
    worker: u64,
    endpoint: &Endpoint,
) -> Result<Vec<u8>, Error> {
    let mut prepared = Prepared::default();
    prepared.make(&login.call, worker, u64::from(login.call.documents), b"");
    prepared.stamp(now_ms());
    let options = ReadOptions { is_head: false, keep_body: true };
    connection
        .exchange(prepared.bytes(), prepared.head_len(), options)
        .await
        .map_err(|fault| no_answer(&fault, endpoint))?;
    token(login, &connection.answer(), endpoint)
}

/// The current time for requests, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    i64::try_from(plimsoll_measure::clock::wall_ms()).unwrap_or(i64::MAX)
}

/// Explains why the first request on a connection was not answered.
pub(crate) fn no_answer(fault: &ExchangeError, endpoint: &Endpoint) -> Error {
    let address = endpoint.shown();
    match fault {
        ExchangeError::Timeout => Error::Timeout { address, limit: endpoint.timeout },
        fault => Error::NotHttp { address, detail: fault.to_string() },
    }
}

fn token(login: &Login, answer: &Answer<'_>, endpoint: &Endpoint) -> Result<Vec<u8>, Error> {
    if !login.call.checks.takes(answer.status) {
        return Err(Error::Login { address: endpoint.shown(), status: answer.status });
    }
    let found = json::find(answer.body, &login.token).ok().flatten();
    let text = found.and_then(json::Found::text).map(String::into_bytes);
    text.filter(|text| is_token(text))
        .ok_or_else(|| Error::NoToken { address: endpoint.shown(), place: login.place.clone() })
}
