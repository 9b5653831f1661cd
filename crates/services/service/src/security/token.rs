//! Checks JSON Web Tokens and reads their claims.

use std::fs;
use std::path::{Path, PathBuf};

use jsonwebtoken::{DecodingKey, Validation, decode};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;

use super::config::{Algorithm, Jwt};
use super::crypto;
use super::scope::{Scope, Scopes};

/// A secret shorter than this can be guessed (RFC 7518, section 3.2).
const SECRET_BYTES_MIN: usize = 32;
/// The largest key file, in bytes.
const FILE_BYTES_MAX: usize = 16 << 10;
/// The accepted clock difference between the issuer and this machine, in seconds.
const LEEWAY_S: f64 = 30.0;
/// The first bytes of an Ed25519 public key as `SubjectPublicKeyInfo` (RFC 8410, section 4); 32 bytes follow.
const ED25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Checks tokens.
pub struct Tokens {
    key: DecodingKey,
    validation: Validation,
    scopes: &'static [Scope],
}

/// The claims of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The subject.
    pub subject: String,
    /// The permissions.
    pub scopes: Scopes,
    /// The expiry, in milliseconds since 1970.
    pub until_ms: i64,
}

/// Tokens cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key file is invalid.
    #[error("security.jwt.key_file {path:?}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// The fault and its remedy.
        why: String,
    },
}

/// A token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    /// Its form, signature or claims are wrong.
    #[error("the token is not valid: {0}")]
    Invalid(String),
    /// It has expired.
    #[error("the token has expired: get a new one")]
    Expired,
    /// It is not valid yet.
    #[error("the token is not valid yet: check the clocks")]
    NotYet,
}

/// The claims in use. A wrong type is an error, not an absent claim.
#[derive(Deserialize)]
struct Claims {
    exp: f64,
    #[serde(default)]
    nbf: Option<f64>,
    #[serde(default)]
    sub: Option<String>,
    #[serde(default)]
    scope: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
}

impl Tokens {
    /// Reads the key file, relative to `base`.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn load(settings: &Jwt, base: &Path, scopes: &'static [Scope]) -> Result<Self, Error> {
        crypto::install();
        let path = base.join(&settings.key_file);
        let fault = |why: String| Error::File { path: path.clone(), why };
        let bytes = fs::read(&path).map_err(|error| fault(format!("cannot be read ({error})")))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(fault(format!("is larger than {FILE_BYTES_MAX} bytes: name the right file")));
        }
        let (algorithm, key) = match settings.algorithm {
            Algorithm::Hs256 => (jsonwebtoken::Algorithm::HS256, secret(&bytes).map_err(fault)?),
            Algorithm::EdDsa => (jsonwebtoken::Algorithm::EdDSA, public(&bytes).map_err(fault)?),
        };
        Ok(Self { key, validation: validation(algorithm, settings), scopes })
    }

    /// Verifies a token.
    ///
    /// # Errors
    /// [`InvalidToken`].
    pub fn verify(&self, token: &str, now_ms: i64) -> Result<Verified, InvalidToken> {
        let data = decode::<Claims>(token, &self.key, &self.validation)
            .map_err(|error| InvalidToken::Invalid(error.to_string()))?;
        let claims = data.claims;
        let now_s = now_ms as f64 / 1e3;
        // JSON has finite numbers only, so every claim is before or after now.
        if claims.exp + LEEWAY_S <= now_s {
            return Err(InvalidToken::Expired);
        }
        if claims.nbf.is_some_and(|nbf| nbf - LEEWAY_S > now_s) {
            return Err(InvalidToken::NotYet);
        }
        let words = claims.scope.iter().flat_map(|scope| scope.split_ascii_whitespace());
        let scopes = Scopes::known(self.scopes, words.chain(claims.scopes.iter().map(String::as_str)));
        let until_ms = ((claims.exp + LEEWAY_S) * 1e3) as i64;
        Ok(Verified { subject: claims.sub.unwrap_or_else(|| "token".into()), scopes, until_ms })
    }
}

fn validation(algorithm: jsonwebtoken::Algorithm, settings: &Jwt) -> Validation {
    let mut validation = Validation::new(algorithm);
    // `verify` checks times, by the service's clock.
    (validation.validate_exp, validation.validate_nbf) = (false, false);
    let mut required = vec!["exp"];
    if let Some(issuer) = &settings.issuer {
        validation.set_issuer(&[issuer]);
        required.push("iss");
    }
    if let Some(audience) = &settings.audience {
        validation.set_audience(&[audience]);
        required.push("aud");
    }
    validation.set_required_spec_claims(&required);
    validation
}

fn secret(bytes: &[u8]) -> Result<DecodingKey, String> {
    // Editors append a line break.
    let secret = bytes.trim_ascii_end();
    if secret.len() < SECRET_BYTES_MIN {
        return Err(format!("has {} bytes: a secret needs {SECRET_BYTES_MIN} or more", secret.len()));
    }
    Ok(DecodingKey::from_secret(secret))
}

fn public(bytes: &[u8]) -> Result<DecodingKey, String> {
    let info = SubjectPublicKeyInfoDer::from_pem_slice(bytes)
        .map_err(|error| format!("contains no public key as PEM ({error})"))?;
    let key = info.strip_prefix(&ED25519_PREFIX[..]).filter(|key| key.len() == 32);
    key.map(DecodingKey::from_ed_der)
        .ok_or_else(|| "contains no Ed25519 public key: make one with `openssl pkey -pubout`".into())
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
    use ring::hmac;
    use ring::signature::{Ed25519KeyPair, KeyPair};
    use serde_json::{Value, json};

    use super::*;

    const SCOPES: [Scope; 2] = [Scope("telemetry:read"), Scope("activity:write")];
    const NOW_MS: i64 = 1_790_000_000_000;
    const NOW_S: i64 = NOW_MS / 1000;
    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn signed(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
        let part = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let body = format!("{}.{}", part(header.to_string().as_bytes()), part(claims.to_string().as_bytes()));
        let signature = part(&sign(body.as_bytes()));
        format!("{body}.{signature}")
    }

    fn hs256(claims: &Value) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
        signed(&json!({"alg": "HS256"}), claims, |body| hmac::sign(&key, body).as_ref().to_vec())
    }

    fn tokens(algorithm: Algorithm, file: &[u8], audience: Option<&str>) -> Result<Tokens, Error> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("key"), file).unwrap();
        let issuer = Some("us".into());
        let settings = Jwt { algorithm, key_file: "key".into(), issuer, audience: audience.map(Into::into) };
        Tokens::load(&settings, directory.path(), &SCOPES)
    }

    fn claims() -> Value {
        json!({"exp": NOW_S + 60, "iss": "us", "sub": "ann", "scope": "openid telemetry:read"})
    }

    /// The claims with one replaced, or left out.
    fn with(claim: &str, value: Value) -> Value {
        let mut claims = claims();
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(claim);
        } else {
            claims[claim] = value;
        }
        claims
    }

    #[test]
    fn a_token_gives_its_subject_and_scopes() {
        let tokens = tokens(Algorithm::Hs256, SECRET, None).unwrap();
        let verified = tokens.verify(&hs256(&claims()), NOW_MS).unwrap();
        assert_eq!(
            verified,
            Verified {
                subject: "ann".into(),
                scopes: Scopes::known(&SCOPES, ["telemetry:read"]),
                until_ms: NOW_MS + 90_000,
            }
        );
        let list = with("scopes", json!(["activity:write"]));
        let both = Scopes::known(&SCOPES, ["telemetry:read", "activity:write"]);
        assert_eq!(tokens.verify(&hs256(&list), NOW_MS).unwrap().scopes, both);
    }

    #[test]
    fn a_token_is_valid_from_nbf_to_exp_with_leeway() {
        let tokens = tokens(Algorithm::Hs256, SECRET, None).unwrap();
        let read = |claims: &Value| tokens.verify(&hs256(claims), NOW_MS).map(|_| ());
        assert_eq!(read(&with("exp", json!(NOW_S - 29))), Ok(()));
        assert_eq!(read(&with("exp", json!(NOW_S - 31))), Err(InvalidToken::Expired));
        assert_eq!(read(&with("nbf", json!(NOW_S + 29))), Ok(()));
        assert_eq!(read(&with("nbf", json!(NOW_S + 31))), Err(InvalidToken::NotYet));
        for (claim, value) in
            [("exp", json!(null)), ("exp", json!("never")), ("nbf", json!("soon")), ("scope", json!(7))]
        {
            assert!(matches!(read(&with(claim, value)), Err(InvalidToken::Invalid(_))), "{claim}");
        }
    }

    #[test]
    fn a_token_of_another_issuer_audience_secret_or_algorithm_is_refused() {
        let all = tokens(Algorithm::Hs256, SECRET, None).unwrap();
        let ours = tokens(Algorithm::Hs256, SECRET, Some("plimsoll")).unwrap();
        let other = tokens(Algorithm::Hs256, &[7; 32], None).unwrap();
        let refused =
            |tokens: &Tokens, token: &str| assert!(tokens.verify(token, NOW_MS).is_err(), "{token}");
        refused(&all, &hs256(&with("iss", json!("them"))));
        refused(&all, &hs256(&with("iss", json!(null))));
        refused(&all, &hs256(&with("aud", json!("plimsoll"))));
        refused(&ours, &hs256(&claims()));
        assert!(ours.verify(&hs256(&with("aud", json!("plimsoll"))), NOW_MS).is_ok());
        refused(&other, &hs256(&claims()));
        let unsigned = signed(&json!({"alg": "none"}), &claims(), |_| Vec::new());
        let forged = signed(&json!({"alg": "EdDSA"}), &claims(), |_| vec![0; 64]);
        for token in [unsigned.as_str(), &forged, "", "a.b.c", "a.b", "....", &"x".repeat(9000)] {
            refused(&all, token);
        }
    }

    #[test]
    fn a_token_is_checked_with_a_public_key() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
        let info = [&ED25519_PREFIX[..], pair.public_key().as_ref()].concat();
        let pem = format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            BASE64_STANDARD.encode(info)
        );
        let tokens = tokens(Algorithm::EdDsa, pem.as_bytes(), None).unwrap();
        let token = signed(&json!({"alg": "EdDSA"}), &claims(), |body| pair.sign(body).as_ref().to_vec());
        assert_eq!(tokens.verify(&token, NOW_MS).unwrap().subject, "ann");
        // The public key is not secret: an HMAC with it must not pass.
        let key = hmac::Key::new(hmac::HMAC_SHA256, pem.as_bytes());
        let confused =
            signed(&json!({"alg": "HS256"}), &claims(), |body| hmac::sign(&key, body).as_ref().to_vec());
        assert!(tokens.verify(&confused, NOW_MS).is_err());
    }

    #[test]
    fn an_invalid_key_file_is_refused() {
        let check = |algorithm, file: &[u8], part: &str| {
            let message = tokens(algorithm, file, None).err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        };
        check(Algorithm::Hs256, b"short\n", "has 5 bytes");
        check(Algorithm::Hs256, &[b'x'; FILE_BYTES_MAX + 1], "is larger");
        check(Algorithm::EdDsa, b"no key", "no public key as PEM");
        let rsa = format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            BASE64_STANDARD.encode([1; 44])
        );
        check(Algorithm::EdDsa, rsa.as_bytes(), "no Ed25519 public key");
    }
}
