//! Computes the client's messages of SCRAM (RFC 5802; RFC 7677 for SHA-256), without a socket.
//!
//! Three pure steps: [`First`] → [`First::answer`] → [`Final::verify`]. The mechanism selects the hash and prepares the
//! password. The user's name is sent unprepared, as MongoDB's authentication specification requires.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::credential::{Credential, KeyInput};
use crate::mechanism::Mechanism;

/// The minimum number of iterations (RFC 5802, section 5.1; RFC 7677, section 4): fewer make the password cheap to guess.
const ITERATIONS_MIN: u32 = 4096;
/// The maximum number of iterations: a hostile server must not occupy the client's CPU for minutes.
const ITERATIONS_MAX: u32 = 10_000_000;
/// The header of a client without channel binding.
const GS2_HEADER: &str = "n,,";

/// A fault in the server's part of the conversation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScramError {
    #[error("the server's message is not SCRAM")]
    Form,
    #[error("the server's nonce does not continue ours")]
    Nonce,
    #[error("the server asks for {0} iterations: 4096 to 10000000 are accepted")]
    Iterations(u32),
    #[error("the password has characters that SASLprep forbids")]
    Password,
    #[error("the server says {0}")]
    Server(String),
    #[error("the server does not know the password: it may be an impostor")]
    Signature,
}

/// The client's first message.
pub(crate) struct First {
    mechanism: Mechanism,
    bare: String,
    nonce: String,
}

/// The client's final message and the data to verify the server's signature.
pub(crate) struct Final {
    pub(crate) message: String,
    mechanism: Mechanism,
    server_key: Vec<u8>,
    auth_message: String,
}

impl First {
    /// Starts a conversation; `random` must be fresh.
    pub(crate) fn new(mechanism: Mechanism, user: &str, random: &[u8; 24]) -> Self {
        First::with_nonce(mechanism, user, BASE64.encode(random))
    }

    fn with_nonce(mechanism: Mechanism, user: &str, nonce: String) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        First { mechanism, bare: format!("n={user},r={nonce}"), nonce }
    }

    /// The text of the message.
    pub(crate) fn message(&self) -> String {
        format!("{GS2_HEADER}{}", self.bare)
    }

    /// Answers the server's first message.
    pub(crate) fn answer(&self, server_first: &str, credential: &Credential) -> Result<Final, ScramError> {
        let prepared = self.mechanism.prepare(&credential.user, &credential.password);
        let prepared = prepared.ok_or(ScramError::Password)?;
        self.answer_with(server_first, prepared, credential)
    }

    fn answer_with(
        &self,
        server_first: &str,
        prepared: String,
        credential: &Credential,
    ) -> Result<Final, ScramError> {
        let mechanism = self.mechanism;
        let Challenge { nonce, salt, iterations } = Challenge::parse(server_first)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::Nonce);
        }
        let salted = credential.salted(KeyInput { mechanism, prepared, salt, iterations }, |input| {
            mechanism.salt(&input.prepared, &input.salt, iterations)
        });
        let without_proof = format!("c={},r={nonce}", BASE64.encode(GS2_HEADER));
        let auth_message = format!("{},{server_first},{without_proof}", self.bare);
        let proof = proof(mechanism, &salted, &auth_message);
        let message = format!("{without_proof},p={}", BASE64.encode(proof));
        Ok(Final { message, mechanism, server_key: mechanism.sign(&salted, "Server Key"), auth_message })
    }
}

impl Final {
    /// Checks the server's final message: only a server that knows the password can sign it.
    pub(crate) fn verify(&self, server_final: &str) -> Result<(), ScramError> {
        let mut parts = server_final.split(',');
        let first = parts.next().unwrap_or_default();
        if let Some(error) = first.strip_prefix("e=") {
            return Err(ScramError::Server(error.to_owned()));
        }
        let signature = first.strip_prefix("v=").ok_or(ScramError::Form)?;
        let signature = BASE64.decode(signature).map_err(|_| ScramError::Form)?;
        let signed = self.mechanism.is_signed(&self.server_key, &self.auth_message, &signature);
        if signed { Ok(()) } else { Err(ScramError::Signature) }
    }
}

struct Challenge<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> Challenge<'a> {
    fn parse(message: &'a str) -> Result<Self, ScramError> {
        let mut parts = message.split(',');
        let mut part =
            |name: &str| parts.next().and_then(|part| part.strip_prefix(name)).ok_or(ScramError::Form);
        let (nonce, salt, iterations) = (part("r=")?, part("s=")?, part("i=")?);
        let salt = BASE64.decode(salt).map_err(|_| ScramError::Form)?;
        let iterations = iterations.parse().map_err(|_| ScramError::Form)?;
        if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            return Err(ScramError::Iterations(iterations));
        }
        Ok(Challenge { nonce, salt, iterations })
    }
}

/// ClientKey XOR HMAC(H(ClientKey), AuthMessage): RFC 5802, section 3.
fn proof(mechanism: Mechanism, salted: &[u8], auth_message: &str) -> Vec<u8> {
    let client_key = mechanism.sign(salted, "Client Key");
    let signature = mechanism.sign(&mechanism.digest(&client_key), auth_message);
    client_key.iter().zip(signature).map(|(key, signature)| key ^ signature).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    const SERVER_FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn rfc_first() -> First {
        First::with_nonce(Mechanism::ScramSha256, "user", "rOprNGfwEbeRWgbNEkqO".to_owned())
    }

    fn pencil() -> Credential {
        Credential::new("user", "pencil", "admin")
    }

    #[test]
    fn the_conversation_of_rfc_7677_is_reproduced_exactly() {
        let last = rfc_first().answer(SERVER_FIRST, &pencil()).unwrap();
        assert_eq!(
            last.message,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(last.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
    }

    fn sha_1() -> First {
        First::with_nonce(Mechanism::ScramSha1, "user", "fyko+d2lbbFgONRv9qkxdawL".to_owned())
    }

    #[test]
    fn the_conversation_of_rfc_5802_is_reproduced_exactly() {
        // Section 5. The RFC salts the password itself.
        let server_first = "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096";
        let last = sha_1().answer_with(server_first, "pencil".to_owned(), &pencil()).unwrap();
        assert_eq!(sha_1().message(), "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL");
        assert_eq!(
            last.message,
            "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
        );
        assert_eq!(last.verify("v=rmF9pqV8S7suAoZWja4dJRkFsKQ="), Ok(()));
    }

    #[test]
    fn the_conversation_of_mongodbs_specification_is_reproduced_exactly() {
        let server_first =
            "r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000";
        let last = sha_1().answer(server_first, &pencil()).unwrap();
        assert_eq!(
            last.message,
            "c=biws,r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,p=MC2T8BvbmWRckDw8oWl5IVghwCY="
        );
        assert_eq!(last.verify("v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0="), Ok(()));
        assert_eq!(last.verify("v=rmF9pqV8S7suAoZWja4dJRkFsKQ="), Err(ScramError::Signature));
    }

    #[test]
    fn a_server_that_cannot_sign_is_an_impostor() {
        let last = rfc_first().answer(SERVER_FIRST, &pencil()).unwrap();
        let forged = format!("v={}", BASE64.encode([0; 32]));
        assert_eq!(last.verify(&forged), Err(ScramError::Signature));
        assert_eq!(last.verify("v="), Err(ScramError::Signature));
        assert_eq!(last.verify("e=other-error"), Err(ScramError::Server("other-error".into())));
        assert_eq!(last.verify(""), Err(ScramError::Form));
    }

    #[test]
    fn a_challenge_with_a_foreign_nonce_or_few_iterations_is_refused() {
        let check = |message: &str| rfc_first().answer(message, &pencil()).err();
        assert_eq!(check("r=other,s=W22Z,i=4096"), Some(ScramError::Nonce));
        assert_eq!(check("r=rOprNGfwEbeRWgbNEkqO,s=W22Z,i=4096"), Some(ScramError::Nonce));
        assert_eq!(check("r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=4095"), Some(ScramError::Iterations(4095)));
        assert_eq!(
            check("r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=99999999"),
            Some(ScramError::Iterations(99_999_999))
        );
        assert_eq!(check("r=rOprNGfwEbeRWgbNEkqOx,s=?,i=4096"), Some(ScramError::Form));
        assert_eq!(check("nonsense"), Some(ScramError::Form));
    }

    #[test]
    fn a_comma_and_an_equals_sign_in_a_name_are_escaped() {
        assert!(
            First::new(Mechanism::ScramSha256, "a=b,c", &[0; 24]).message().starts_with("n,,n=a=3Db=2Cc,r=")
        );
    }
}
