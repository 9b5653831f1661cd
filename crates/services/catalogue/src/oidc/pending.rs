//! Remembers a login that a browser has begun, in a signed cookie: every instance can finish it, and no memory is held for it.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// The time for a login at the issuer, in seconds.
pub(crate) const LIFE_S: i64 = 600;
/// The longest return URL, in bytes.
const RETURN_BYTES_MAX: usize = 2_048;
/// The random bytes of a state, a nonce and a verifier.
const RANDOM_BYTES: usize = 32;

/// A login that a browser has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Returns with the code: another page cannot finish this login.
    #[serde(rename = "oidc_state")]
    pub state: String,
    /// Returns in the token: a token of another login is refused.
    pub nonce: String,
    /// The secret of the code (RFC 7636).
    pub verifier: String,
    /// The place in the frontend to which the user returns.
    pub return_url: Option<String>,
    /// The last moment, in seconds since 1970.
    pub until_s: i64,
}

impl Pending {
    /// A new login.
    ///
    /// # Errors
    /// The system gives no random bytes, or the return URL is too long.
    pub fn begin(return_url: Option<&str>, now_ms: i64) -> Result<Self, String> {
        if return_url.is_some_and(|url| url.len() > RETURN_BYTES_MAX) {
            return Err(format!("returnUrl has more than {RETURN_BYTES_MAX} bytes"));
        }
        Ok(Self {
            state: random()?,
            nonce: random()?,
            verifier: random()?,
            return_url: return_url.map(str::to_owned),
            until_s: now_ms.div_euclid(1_000).saturating_add(LIFE_S),
        })
    }

    /// The challenge of the verifier (RFC 7636, section 4.2, `S256`).
    pub fn challenge(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, self.verifier.as_bytes()))
    }

    /// Whether a state finishes this login now.
    pub fn is_finished_by(&self, state: &str, now_ms: i64) -> bool {
        self.state == state && now_ms.div_euclid(1_000) < self.until_s
    }
}

fn random() -> Result<String, String> {
    let mut bytes = [0; RANDOM_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system gives no random bytes".to_owned())?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_finished_by_its_state_and_in_time() {
        let (one, other) = (Pending::begin(None, 5_000).unwrap(), Pending::begin(None, 5_000).unwrap());
        assert_ne!((&one.state, &one.nonce, &one.verifier), (&other.state, &other.nonce, &other.verifier));
        assert!(one.is_finished_by(&one.state, 604_999) && !one.is_finished_by(&one.state, 605_000));
        assert!(!one.is_finished_by(&other.state, 5_000) && !one.is_finished_by("", 5_000));
        assert!(Pending::begin(Some(&"x".repeat(3_000)), 0).is_err());
    }

    #[test]
    fn the_challenge_is_that_of_the_example_of_the_standard() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let pending = Pending { verifier, ..Pending::begin(None, 0).unwrap() };
        assert_eq!(pending.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
