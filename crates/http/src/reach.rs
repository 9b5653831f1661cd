//! Whether a service can be reached, before anything of the load is sent.

use crate::connect::Error;
use crate::http1::Ask;
use crate::http2::Pool;
use crate::login::{ask, no_answer};
use crate::setup::Setup;
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
    let (endpoint, pool) = (&setup.endpoint, Pool::default());
    let mut wire = Wire::open(endpoint, &pool).await?;
    let mut authorization = setup.authorization.clone();
    if let Some(login) = &setup.login {
        let token = ask(login, &mut wire, 0, endpoint).await?;
        authorization = Some(format!("Bearer {}", String::from_utf8_lossy(&token)));
        if wire.is_broken() {
            wire = Wire::open(endpoint, &pool).await?;
        }
    }
    let line = authorization.as_ref().map(|value| format!("authorization: {value}\r\n"));
    let request = format!(
        "GET {}/ HTTP/1.1\r\nhost: {}\r\n{}\r\n",
        endpoint.url.path,
        endpoint.url.host_header(),
        line.unwrap_or_default()
    );
    let question = Ask { is_head: false, keep_body: false };
    let answered = wire.exchange(request.as_bytes(), request.len(), question).await;
    answered.map_err(|fault| no_answer(&fault, endpoint))?;
    let answer = wire.answer();
    if authorization.is_some() && matches!(answer.status, 401 | 403) {
        return Err(Error::Credentials { address: endpoint.shown(), status: answer.status });
    }
    let server = answer.fields.get("server").map(|name| String::from_utf8_lossy(name).into_owned());
    Ok(Reached { address: endpoint.shown(), status: answer.status, server })
}
