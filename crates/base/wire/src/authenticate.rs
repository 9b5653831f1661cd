//! The conversation by which a new connection proves who it is for.

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use rustls::crypto::ring;

use crate::connection::Connection;
use crate::credential::Credential;
use crate::error::{Error, ServerError};
use crate::mechanism::Mechanism;
use crate::scram;

/// MongoDB's error code AuthenticationFailed.
const AUTHENTICATION_FAILED: i32 = 18;
/// A conversation is two steps, and a third that some servers want.
const STEPS_MAX: usize = 3;

/// Authenticates a greeted connection; `mechanisms` are those that the server says the user has.
///
/// # Errors
/// [`Error::Authentication`] if either side does not believe the other; any other [`Error`] if there was no talk.
pub(crate) async fn authenticate(
    connection: &mut Connection,
    credential: &Credential,
    mechanisms: Option<&[String]>,
) -> Result<(), Error> {
    let failed = |connection: &Connection, detail: String| Error::Authentication {
        address: connection.address().clone(),
        user: credential.user.clone(),
        detail,
    };
    let mechanism = match Mechanism::choose(credential.mechanism, mechanisms) {
        Ok(mechanism) => mechanism,
        Err(detail) => return Err(failed(connection, detail)),
    };
    match converse(connection, credential, mechanism).await {
        Err(Talk::Scram(error)) => Err(failed(connection, error.to_string())),
        Err(Talk::Error(Error::Server(ServerError { code: AUTHENTICATION_FAILED, message, .. }))) => {
            Err(failed(connection, message))
        }
        Err(Talk::Error(error)) => Err(error),
        Ok(()) => Ok(()),
    }
}

/// Why a conversation ended early.
enum Talk {
    Scram(scram::ScramError),
    Error(Error),
}

impl From<scram::ScramError> for Talk {
    fn from(error: scram::ScramError) -> Self {
        Talk::Scram(error)
    }
}

impl From<Error> for Talk {
    fn from(error: Error) -> Self {
        Talk::Error(error)
    }
}

async fn converse(
    connection: &mut Connection,
    credential: &Credential,
    mechanism: Mechanism,
) -> Result<(), Talk> {
    let first = scram::First::new(mechanism, &credential.user, &random());
    let start = rawdoc! {
        "saslStart": 1, "mechanism": mechanism.name(), "payload": binary(&first.message()),
        "options": {"skipEmptyExchange": true},
    };
    let reply = connection.command(&credential.source, &start).await?;
    let last = first.answer(payload(&reply)?, credential)?;
    let mut reply = proceed(connection, credential, &reply, &last.message).await?;
    last.verify(payload(&reply)?)?;
    for _ in 0..STEPS_MAX {
        if reply.get_bool("done").unwrap_or(false) {
            return Ok(());
        }
        reply = proceed(connection, credential, &reply, "").await?;
    }
    Err(scram::ScramError::Form.into())
}

async fn proceed(
    connection: &mut Connection,
    credential: &Credential,
    before: &RawDocument,
    message: &str,
) -> Result<RawDocumentBuf, Error> {
    let mut body = rawdoc! {"saslContinue": 1, "payload": binary(message)};
    if let Ok(Some(id)) = before.get("conversationId") {
        body.append(bson::cstr!("conversationId"), id);
    }
    connection.command(&credential.source, &body).await
}

fn binary(message: &str) -> bson::Binary {
    bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: message.as_bytes().to_vec() }
}

fn payload(reply: &RawDocument) -> Result<&str, scram::ScramError> {
    let payload = reply.get_binary("payload").map_err(|_| scram::ScramError::Form)?;
    std::str::from_utf8(payload.bytes).map_err(|_| scram::ScramError::Form)
}

/// Bytes for a nonce, from the system's random source.
fn random() -> [u8; 24] {
    let mut bytes = [0; 24];
    ring::default_provider().secure_random.fill(&mut bytes).expect("the system has a random source");
    bytes
}
