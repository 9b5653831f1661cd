//! Authenticates a new connection: by SASL with SCRAM or PLAIN, or by the certificate of the TLS client.

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use ring::rand::{SecureRandom, SystemRandom};

use crate::connection::Connection;
use crate::credential::{Credential, Proof};
use crate::error::{Error, ServerError};
use crate::mechanism::Mechanism;
use crate::scram;

/// MongoDB's error code AuthenticationFailed.
const AUTHENTICATION_FAILED: i32 = 18;
/// The most steps of a conversation after its first two: some servers need a third step.
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
    let shown = match credential.proof {
        Proof::Scram(asked) => match Mechanism::choose(asked, mechanisms) {
            Ok(mechanism) => converse(connection, credential, mechanism).await,
            Err(detail) => return Err(failed(connection, detail)),
        },
        Proof::Plain => show_password(connection, credential).await.map_err(ConverseError::Error),
        Proof::Certificate => name_user(connection, credential).await.map_err(ConverseError::Error),
    };
    match shown {
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

/// PLAIN (RFC 4616): user and password in one message.
async fn show_password(connection: &mut Connection, credential: &Credential) -> Result<(), Error> {
    let message = format!("\0{}\0{}", credential.user, credential.password);
    let start = rawdoc! {"saslStart": 1, "mechanism": "PLAIN", "payload": binary(&message)};
    connection.command(&credential.source, &start).await.map(drop)
}

/// MONGODB-X509: the TLS handshake has shown the certificate.
async fn name_user(connection: &mut Connection, credential: &Credential) -> Result<(), Error> {
    let mut body = rawdoc! {"authenticate": 1, "mechanism": "MONGODB-X509"};
    if !credential.user.is_empty() {
        body.append(bson::cstr!("user"), credential.user.as_str());
    }
    connection.command(&credential.source, &body).await.map(drop)
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
