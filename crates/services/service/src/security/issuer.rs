//! Verifies the tokens of an issuer with its published keys.

use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation, decode, decode_header};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::crypto;

/// The maximum number of keys of an issuer.
const KEYS_MAX: usize = 100;
/// The longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 64 << 10;
/// The accepted signatures. An issuer has no secret in common with this service, so no algorithm with a secret is among them.
const ACCEPTED: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

/// The public keys of an issuer.
#[derive(Clone, Debug)]
pub struct IssuerKeys(Vec<Jwk>);

/// A token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// No key of the issuer is that of the token: the issuer may have new ones.
    #[error("no key of the issuer has signed the token")]
    UnknownKey,
    /// Its form, its algorithm or its signature is wrong.
    #[error("the token is not valid")]
    Invalid,
}

impl IssuerKeys {
    /// Reads a JWK Set (RFC 7517, section 5). Keys of an unknown kind, and keys for encryption, are left out.
    ///
    /// # Errors
    /// It has no list of keys, or none that can be used.
    pub fn read(set: &Value) -> Result<Self, String> {
        crypto::install();
        let list = set.get("keys").and_then(Value::as_array).ok_or("the issuer's keys are no list `keys`")?;
        let keys =
            list.iter().take(KEYS_MAX).filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
        let keys: Vec<Jwk> =
            keys.filter(|key| key.common.public_key_use != Some(PublicKeyUse::Encryption)).collect();
        if keys.is_empty() { Err("the issuer has no key that can be used".into()) } else { Ok(Self(keys)) }
    }

    /// The claims of a token. The caller checks them: issuer, audience and times as well.
    ///
    /// # Errors
    /// [`Unverified`].
    pub fn verify<T: DeserializeOwned + Clone>(&self, token: &str) -> Result<T, Unverified> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Unverified::Invalid);
        }
        let header = decode_header(token).map_err(|_| Unverified::Invalid)?;
        if !ACCEPTED.contains(&header.alg) {
            return Err(Unverified::Invalid);
        }
        let mut keys = self.candidates(header.kid.as_deref(), header.alg).peekable();
        keys.peek().ok_or(Unverified::UnknownKey)?;
        let validation = validation(header.alg);
        let claims = |key: DecodingKey| decode::<T>(token, &key, &validation).ok().map(|data| data.claims);
        // A key that is not known yet may have signed a token that names none.
        let unverified = if header.kid.is_none() { Unverified::UnknownKey } else { Unverified::Invalid };
        keys.find_map(claims).ok_or(unverified)
    }

    /// The keys that may have signed a token.
    fn candidates<'a>(
        &'a self,
        id: Option<&'a str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = DecodingKey> + 'a {
        let named = self.0.iter().filter(move |key| id.is_none() || key.common.key_id.as_deref() == id);
        let keys = named.filter_map(|key| DecodingKey::from_jwk(key).ok());
        keys.filter(move |key| key.family() == family(algorithm))
    }
}

const fn family(algorithm: Algorithm) -> AlgorithmFamily {
    match algorithm {
        Algorithm::RS256 => AlgorithmFamily::Rsa,
        Algorithm::ES256 => AlgorithmFamily::Ec,
        _ => AlgorithmFamily::Ed,
    }
}

/// The signature alone: the caller checks claims by its clock.
fn validation(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    validation.required_spec_claims.clear();
    validation
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    use serde_json::json;

    use super::*;

    /// The public key of an RSA pair, and a token that the private key has signed: `{"sub": "ann"}`.
    const MODULUS: &str = "rfSyFjy2j0TwMnXMbfaLJ1KdMY6GY_meRv84jTFQgVwVzx00zUAGSxKC6QIKyz4Z7kiOWMD0rz56TwUG65BHiODNxsEGOZHx382U\
     NR8G4KLp578KbmZADt5DsFFd7qLy5OOMia8o8iWQcMkwR0Go3ffXYO8sVmUWMHKfBmw6STz-vAhwNo3flHYASMMNRNV-GSu-SbJD\
     -Ki9c2U3sZOkl8VXdYT8HXvUA1am38Fc-Gcb0d4a4gyRJwysB9wXf2emYHRhRF8VGxW74ADf84OBJXoJmzMSqiGtg0wd39ga7mBg\
     KtkFCiwt41kaa7aTqcf4b8QtPDypPRvpGv39hGDhEQ";
    const SIGNED: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJzdWIiOiJhbm4ifQ.MrPUa2jzL_pXn7vrsHED4IIduJD_Q4JaFlgJQCp6_wNq\
     -1rBNSCeZaaGVKO_vdmWhByVOt-UjpbCc5ppIvIzsrjmJGx-dODMYJerX9VkeOQcBxEIoywjuyVG5D3lk-eJAhVrmbjxx9weXnQM\
     U6QA57HHamiRWr75Xkk20vtiDva4KpGNZJIDW5l-OmSRiVJvgaitCP6rIh671n57dF-GtvtQIlVQQB7WQLp219Hmevno6XHsaPMQ\
     iBgfjA6XER78hf-QfdufzOhooTwWSl9F7eq98Gmb29tS667JF7XN1hzLwfVvNGe32vdGiMLua7FfjIntXjCKFQ3u3ElRQZHRYA";

    fn part(json: &Value) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(json.to_string())
    }

    /// An elliptic pair as a key of an issuer, and a token that it has signed.
    fn elliptic(id: &str) -> (Value, String) {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pair.as_ref(), &random).unwrap();
        let point = &pair.public_key().as_ref()[1..];
        let [x, y] = [&point[..32], &point[32..]].map(|half| BASE64_URL_SAFE_NO_PAD.encode(half));
        let signed =
            format!("{}.{}", part(&json!({"alg": "ES256", "kid": id})), part(&json!({"sub": "ann"})));
        let signature = pair.sign(&random, signed.as_bytes()).unwrap();
        let token = format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
        (json!({"kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y}), token)
    }

    fn rsa() -> Value {
        json!({"kty": "RSA", "kid": "rsa", "use": "sig", "n": MODULUS, "e": "AQAB"})
    }

    fn verify(keys: &[Value], token: &str) -> Result<Value, Unverified> {
        IssuerKeys::read(&json!({"keys": keys})).unwrap().verify(token)
    }

    #[test]
    fn a_token_of_an_issuer_is_verified_by_the_key_that_it_names() {
        let ((key, token), ann) = (elliptic("ec"), json!({"sub": "ann"}));
        assert_eq!(verify(&[rsa()], SIGNED), Ok(ann.clone()));
        assert_eq!(verify(&[rsa(), key.clone()], &token), Ok(ann.clone()));
        let unknown = json!({"kty": "XYZ", "kid": "ec"});
        assert_eq!(verify(&[unknown, key], &token), Ok(ann));
    }

    #[test]
    fn a_forged_token_and_a_token_of_an_unknown_key_are_refused() {
        let ((key, token), (other, _)) = (elliptic("ec"), elliptic("ec"));
        assert_eq!(verify(&[rsa()], &token), Err(Unverified::UnknownKey));
        assert_eq!(verify(&[other], &token), Err(Unverified::Invalid), "another key with the same name");
        let (head, rest) = SIGNED.split_once('.').unwrap();
        let (_, signature) = rest.split_once('.').unwrap();
        let changed = format!("{head}.{}.{signature}", part(&json!({"sub": "eve"})));
        let none =
            format!("{}.{}.", part(&json!({"alg": "none", "kid": "rsa"})), part(&json!({"sub": "eve"})));
        let secret = format!(
            "{}.{}.{signature}",
            part(&json!({"alg": "HS256", "kid": "rsa"})),
            part(&json!({"sub": "eve"}))
        );
        for forged in [changed, none, secret, "a.b.c".into(), String::new(), "a".repeat(TOKEN_BYTES_MAX + 1)]
        {
            assert_eq!(verify(&[rsa(), key.clone()], &forged), Err(Unverified::Invalid), "{forged:.80}");
        }
    }

    #[test]
    fn keys_without_a_usable_one_are_refused() {
        let mut encryption = rsa();
        encryption["use"] = "enc".into();
        for set in [json!({}), json!({"keys": 5}), json!({"keys": []}), json!({"keys": [encryption, 5]})] {
            assert!(IssuerKeys::read(&set).is_err(), "{set}");
        }
    }
}
