//! Authenticates a new connection by SASL with SCRAM.

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use ring::rand::{SecureRandom, SystemRandom};

use crate::connection::Connection;
use crate::credential::Credential;
use crate::error::{Error, ServerError};
use crate::mechanism::Mechanism;
use crate::scram;

/// MongoDB's error code AuthenticationFailed.
const AUTHENTICATION_FAILED: i32 = 18;
/// The steps of a conversation: two, and a third for some servers.
const STEPS_MAX: usize = 3;

/// Authenticates a connection after `hello`; `mechanisms` are the user's, as the server reported them.
///
/// # Errors
/// [`Error::Authentication`] if either side rejects the other; any other [`Error`] if a command failed.
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
        Err(ConverseError::Scram(error)) => Err(failed(connection, error.to_string())),
        Err(ConverseError::Error(Error::Server(ServerError {
            code: AUTHENTICATION_FAILED,
            message,
            ..
        }))) => Err(failed(connection, message)),
        Err(ConverseError::Error(error)) => Err(error),
        Ok(()) => Ok(()),
    }
}

/// The reason why a conversation ended early.
enum ConverseError {
    Scram(scram::ScramError),
    Error(Error),
}

impl From<scram::ScramError> for ConverseError {
    fn from(error: scram::ScramError) -> Self {
        ConverseError::Scram(error)
    }
}

impl From<Error> for ConverseError {
    fn from(error: Error) -> Self {
        ConverseError::Error(error)
    }
}

async fn converse(
    connection: &mut Connection,
    credential: &Credential,
    mechanism: Mechanism,
) -> Result<(), ConverseError> {
    let first = scram::First::new(mechanism, &credential.user, &random());
    let start = rawdoc! {
        "saslStart": 1, "mechanism": mechanism.name(), "payload": binary(&first.message()),
        "options": {"skipEmptyExchange": true},
    };
    let reply = connection.command(&credential.source, &start).await?;
    let last = first.answer(payload(&reply)?, credential)?;
    let mut reply = continue_sasl(connection, credential, &reply, &last.message).await?;
    last.verify(payload(&reply)?)?;
    for _ in 0..STEPS_MAX {
        if reply.get_bool("done").unwrap_or(false) {
            return Ok(());
        }
        reply = continue_sasl(connection, credential, &reply, "").await?;
    }
    Err(scram::ScramError::Form.into())
}

async fn continue_sasl(
    connection: &mut Connection,
    credential: &Credential,
    previous: &RawDocument,
    message: &str,
) -> Result<RawDocumentBuf, Error> {
    let mut body = rawdoc! {"saslContinue": 1, "payload": binary(message)};
    if let Ok(Some(id)) = previous.get("conversationId") {
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

/// Random bytes for a nonce, from the system.
fn random() -> [u8; 24] {
    let mut bytes = [0; 24];
    SystemRandom::new().fill(&mut bytes).expect("the system has a random source");
    bytes
}
