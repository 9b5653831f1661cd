//! SCRAM-SHA-256, the client's side, without a socket (RFC 5802, RFC 7677).
//!
//! Three messages as pure steps: [`First`] → [`First::answer`] → [`Final::verify`]. The password goes through SASLprep
//! (RFC 4013); the user's name does not, as MongoDB's authentication specification has it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::credential::Credential;

/// The fewest iterations accepted (RFC 7677, section 4): fewer would make the password cheap to guess.
const ITERATIONS_MIN: u32 = 4096;
/// The most: a hostile server must not be able to hold the client's CPU for minutes.
const ITERATIONS_MAX: u32 = 10_000_000;
/// The header of a client without channel binding.
const GS2_HEADER: &str = "n,,";

/// What is wrong with the server's part of the conversation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScramError {
    #[error("the server's message is not SCRAM")]
    Form,
    #[error("the server's nonce does not continue ours")]
    Nonce,
    #[error("the server asks for {0} iterations, from 4096 to 10000000 are accepted")]
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
    bare: String,
    nonce: String,
}

/// The client's final message, and the signature that the server must answer with.
pub(crate) struct Final {
    pub(crate) message: String,
    server_key: [u8; 32],
    auth_message: String,
}

impl First {
    /// Starts a conversation; `random` must be fresh.
    pub(crate) fn new(user: &str, random: &[u8; 24]) -> Self {
        let nonce = BASE64.encode(random);
        First { bare: format!("n={},r={nonce}", user.replace('=', "=3D").replace(',', "=2C")), nonce }
    }

    /// What to send first.
    pub(crate) fn message(&self) -> String {
        format!("{GS2_HEADER}{}", self.bare)
    }

    /// Answers the server's first message.
    pub(crate) fn answer(&self, server_first: &str, credential: &Credential) -> Result<Final, ScramError> {
        let challenge = Challenge::parse(server_first)?;
        if !challenge.nonce.starts_with(&self.nonce) || challenge.nonce.len() == self.nonce.len() {
            return Err(ScramError::Nonce);
        }
        let password = stringprep::saslprep(&credential.password).map_err(|_| ScramError::Password)?;
        let salted = credential.salted(&challenge.salt, challenge.iterations, || {
            pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(
                password.as_bytes(),
                &challenge.salt,
                challenge.iterations,
            )
        });
        let without_proof = format!("c={},r={}", BASE64.encode(GS2_HEADER), challenge.nonce);
        let auth_message = format!("{},{server_first},{without_proof}", self.bare);
        let proof = proof(&salted, &auth_message);
        let message = format!("{without_proof},p={}", BASE64.encode(proof));
        Ok(Final { message, server_key: hmac(&salted, b"Server Key"), auth_message })
    }
}

impl Final {
    /// Checks the server's final message: only who knows the password can sign.
    pub(crate) fn verify(&self, server_final: &str) -> Result<(), ScramError> {
        let mut parts = server_final.split(',');
        let first = parts.next().unwrap_or_default();
        if let Some(error) = first.strip_prefix("e=") {
            return Err(ScramError::Server(error.to_owned()));
        }
        let signature = first.strip_prefix("v=").ok_or(ScramError::Form)?;
        let signature = BASE64.decode(signature).map_err(|_| ScramError::Form)?;
        keyed(&self.server_key, self.auth_message.as_bytes())
            .verify_slice(&signature)
            .map_err(|_| ScramError::Signature)
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
fn proof(salted: &[u8; 32], auth_message: &str) -> [u8; 32] {
    let client_key = hmac(salted, b"Client Key");
    let stored_key: [u8; 32] = Sha256::digest(client_key).into();
    let signature = hmac(&stored_key, auth_message.as_bytes());
    std::array::from_fn(|place| client_key[place] ^ signature[place])
}

fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    keyed(key, message).finalize().into_bytes().into()
}

fn keyed(key: &[u8; 32], message: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(message);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    const SERVER_FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn rfc_first() -> First {
        First { bare: "n=user,r=rOprNGfwEbeRWgbNEkqO".to_owned(), nonce: "rOprNGfwEbeRWgbNEkqO".to_owned() }
    }

    fn pencil() -> Credential {
        Credential::new("user", "pencil", "admin")
    }

    #[test]
    fn the_conversation_of_rfc_7677_comes_out_to_the_letter() {
        let last = rfc_first().answer(SERVER_FIRST, &pencil()).unwrap();
        assert_eq!(
            last.message,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(last.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
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
        assert!(First::new("a=b,c", &[0; 24]).message().starts_with("n,,n=a=3Db=2Cc,r="));
    }
}
