//! Defines the authentication mechanisms: their names, and their processing of a password.
//!
//! Both are SCRAM (RFC 5802) and differ in the hash and in the preparation of the password. SCRAM-SHA-256 prepares it with
//! SASLprep (RFC 4013). SCRAM-SHA-1 uses MongoDB's former MD5 of user and password, as hexadecimal digits (MongoDB's
//! authentication specification, "SCRAM-SHA-1").

use hmac::digest::Digest;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;

/// An authentication mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// SCRAM-SHA-1: for users created before MongoDB 4.0, or only for this mechanism.
    ScramSha1,
    /// SCRAM-SHA-256: the default of users since MongoDB 4.0.
    ScramSha256,
}

impl Mechanism {
    /// The name on the wire and in connection strings (`authMechanism`).
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
        }
    }

    /// Chooses the requested mechanism, or else the strongest that the server reports for the user. If the server reports
    /// none, chooses SCRAM-SHA-256.
    ///
    /// # Errors
    /// The user has no suitable mechanism; the text names the user's mechanisms.
    pub(crate) fn choose(asked: Option<Mechanism>, known: Option<&[String]>) -> Result<Mechanism, String> {
        let Some(known) = known else { return Ok(asked.unwrap_or(Mechanism::ScramSha256)) };
        let has = |mechanism: &Mechanism| known.iter().any(|name| name == mechanism.name());
        let wanted = asked.map_or(&[Mechanism::ScramSha256, Mechanism::ScramSha1][..], |_| asked.as_slice());
        wanted.iter().copied().find(has).ok_or_else(|| {
            let wanted: Vec<_> = wanted.iter().map(|mechanism| mechanism.name()).collect();
            let known = known.join(" and ");
            format!(
                "the user has no credential for {}, only for {known}: set authMechanism",
                wanted.join(" or ")
            )
        })
    }

    /// The password in the form to be salted; `None` if SASLprep forbids one of its characters.
    pub(crate) fn prepare(self, user: &str, password: &str) -> Option<String> {
        match self {
            Mechanism::ScramSha1 => Some(hex(&Md5::digest(format!("{user}:mongo:{password}")))),
            Mechanism::ScramSha256 => stringprep::saslprep(password).ok().map(Into::into),
        }
    }

    /// SaltedPassword: Hi(password, salt, iterations).
    pub(crate) fn salt(self, prepared: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        let password = prepared.as_bytes();
        match self {
            Mechanism::ScramSha1 => {
                pbkdf2::pbkdf2_hmac_array::<Sha1, 20>(password, salt, iterations).to_vec()
            }
            Mechanism::ScramSha256 => {
                pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations).to_vec()
            }
        }
    }

    /// H(bytes).
    pub(crate) fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::ScramSha1 => Sha1::digest(bytes).to_vec(),
            Mechanism::ScramSha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    /// HMAC(key, message).
    pub(crate) fn sign(self, key: &[u8], message: &str) -> Vec<u8> {
        match self {
            Mechanism::ScramSha1 => keyed::<Hmac<Sha1>>(key, message).finalize().into_bytes().to_vec(),
            Mechanism::ScramSha256 => keyed::<Hmac<Sha256>>(key, message).finalize().into_bytes().to_vec(),
        }
    }

    /// Compares HMAC(key, message) with the signature in constant time.
    pub(crate) fn is_signed(self, key: &[u8], message: &str, signature: &[u8]) -> bool {
        match self {
            Mechanism::ScramSha1 => keyed::<Hmac<Sha1>>(key, message).verify_slice(signature).is_ok(),
            Mechanism::ScramSha256 => keyed::<Hmac<Sha256>>(key, message).verify_slice(signature).is_ok(),
        }
    }
}

fn keyed<M: Mac + KeyInit>(key: &[u8], message: &str) -> M {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(message.as_bytes());
    mac
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mechanism::{ScramSha1, ScramSha256};

    fn check(asked: Option<Mechanism>, known: Option<&[&str]>, chosen: Option<Mechanism>) {
        let known: Option<Vec<String>> = known.map(|known| known.iter().map(|&name| name.into()).collect());
        assert_eq!(Mechanism::choose(asked, known.as_deref()).ok(), chosen, "{asked:?} of {known:?}");
    }

    #[test]
    fn the_strongest_mechanism_of_the_user_is_chosen_unless_one_is_requested() {
        check(None, Some(&["SCRAM-SHA-1", "SCRAM-SHA-256"]), Some(ScramSha256));
        check(None, Some(&["SCRAM-SHA-1"]), Some(ScramSha1));
        check(None, None, Some(ScramSha256));
        check(None, Some(&["GSSAPI"]), None);
        check(Some(ScramSha1), Some(&["SCRAM-SHA-1", "SCRAM-SHA-256"]), Some(ScramSha1));
        check(Some(ScramSha1), None, Some(ScramSha1));
        check(Some(ScramSha256), Some(&["SCRAM-SHA-1"]), None);
    }

    #[test]
    fn a_missing_mechanism_is_reported_with_those_of_the_user() {
        let error = Mechanism::choose(Some(ScramSha256), Some(&["SCRAM-SHA-1".into()])).unwrap_err();
        assert_eq!(
            error,
            "the user has no credential for SCRAM-SHA-256, only for SCRAM-SHA-1: set authMechanism"
        );
    }

    #[test]
    fn sha_1_salts_a_digest_of_user_and_password_and_sha_256_the_prepared_password() {
        let prepared = |mechanism: Mechanism| mechanism.prepare("user", "p\u{ad}encil");
        assert_eq!(prepared(ScramSha256).as_deref(), Some("pencil"));
        assert_eq!(ScramSha1.prepare("user", "pencil").as_deref(), Some("1c33006ec1ffd90f9cadcbcc0e118200"));
        assert_eq!(ScramSha256.prepare("user", "\u{7}"), None);
        assert!(ScramSha1.prepare("user", "\u{7}").is_some(), "SCRAM-SHA-1 uses no SASLprep");
    }
}
