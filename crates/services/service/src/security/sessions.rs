//! Signs and verifies the tokens of a service that logs users in itself.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::crypto;

/// A secret shorter than this can be guessed (RFC 7518, section 3.2).
const SECRET_BYTES_MIN: usize = 32;
/// The longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Signs and verifies tokens with one secret (HS256).
pub struct Sessions {
    encoding: EncodingKey,
    decoding: DecodingKey,
    validation: Validation,
}

impl Sessions {
    /// Tokens with this secret.
    ///
    /// # Errors
    /// The secret is too short.
    pub fn new(secret: &[u8]) -> Result<Self, String> {
        crypto::install();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(format!(
                "the secret of tokens is too short: give it {SECRET_BYTES_MIN} bytes or more"
            ));
        }
        let mut validation = Validation::new(Algorithm::HS256);
        // The service checks times by its clock, and has no audience.
        (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
        validation.required_spec_claims.clear();
        let (encoding, decoding) = (EncodingKey::from_secret(secret), DecodingKey::from_secret(secret));
        Ok(Self { encoding, decoding, validation })
    }

    /// A token with these claims. `None` if the claims cannot be written as JSON, or the token is longer than [`Self::verify`] accepts.
    pub fn sign(&self, claims: &impl Serialize) -> Option<String> {
        let token = encode(&Header::new(Algorithm::HS256), claims, &self.encoding).ok();
        token.filter(|token| token.len() <= TOKEN_BYTES_MAX)
    }

    /// The claims of a token. `None` if its form, its algorithm or its signature is wrong. The caller checks its expiry.
    pub fn verify<T: DeserializeOwned + Clone>(&self, token: &str) -> Option<T> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        decode::<T>(token, &self.decoding, &self.validation).ok().map(|data| data.claims)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    #[test]
    fn a_token_carries_its_claims() {
        let sessions = Sessions::new(&SECRET).unwrap();
        let claims = json!({"username": "ann", "groups": ["a"], "exp": 1});
        let token = sessions.sign(&claims).unwrap();
        assert_eq!(sessions.verify::<Value>(&token), Some(claims));
        assert_eq!(
            sessions.sign(&json!({"groups": "a".repeat(TOKEN_BYTES_MAX)})),
            None,
            "too long to verify"
        );
    }

    #[test]
    fn a_forged_token_is_refused() {
        let sessions = Sessions::new(&SECRET).unwrap();
        let token = sessions.sign(&json!({"a": 1})).unwrap();
        let (head, rest) = token.split_once('.').unwrap();
        let (_, signature) = rest.split_once('.').unwrap();
        let part = |json: Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
        let none = format!("{}.{}.", part(json!({"alg": "none"})), part(json!({"a": 2})));
        let changed = format!("{head}.{}.{signature}", part(json!({"a": 2})));
        let other = Sessions::new(&[8; 32]).unwrap().sign(&json!({"a": 1})).unwrap();
        for forged in
            [none, changed, other, format!("{token}x"), String::new(), "a.b.c".into(), "a".repeat(99_999)]
        {
            assert_eq!(sessions.verify::<Value>(&forged), None, "{forged:.60}");
        }
        assert!(Sessions::new(&[7; 31]).is_err());
    }
}
