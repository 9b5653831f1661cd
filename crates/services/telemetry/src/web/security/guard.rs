//! Looks at what a request brings, and says who it is.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName};
use ring::digest::{SHA256, digest};

use super::caller::{Allowed, Caller};
use super::scope::Scopes;
use super::token::{self, Refused, Tokens};
use crate::settings::security::{Key, Security};

/// Where an API key may stand as well.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Tokens that are remembered, so that a signature is checked once and not with every request.
const REMEMBERED_MAX: usize = 4_096;
/// How long a token is remembered, in milliseconds; it may expire before.
const REMEMBERED_MS: i64 = 30_000;
/// A token is no longer than this.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Checks keys and tokens.
pub struct Guard {
    keys: HashMap<[u8; 32], Allowed>,
    tokens: Option<Tokens>,
    remembered: Mutex<HashMap<[u8; 32], Remembered>>,
}

struct Remembered {
    allowed: Allowed,
    until_ms: i64,
}

/// The settings of security cannot be meant.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to check.
    #[error("`security` has neither keys nor jwt: nobody could come in; add one, or leave the section out")]
    Empty,
    /// A key is not written as it should be.
    #[error("security.keys `{name}`: {why}")]
    Key {
        /// The key's name.
        name: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// Tokens cannot be checked.
    #[error(transparent)]
    Tokens(#[from] token::Error),
}

/// Why nobody is known by what a request brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// It brings nothing.
    Missing,
    /// It brings something that is not right.
    Wrong(String),
}

impl Guard {
    /// Reads keys and files, relative to `base`.
    ///
    /// # Errors
    /// [`Error`], with the key or the file at fault.
    pub fn build(settings: &Security, base: &Path) -> Result<Self, Error> {
        if settings.keys.is_empty() && settings.jwt.is_none() {
            return Err(Error::Empty);
        }
        let mut keys = HashMap::new();
        for key in &settings.keys {
            let (hash, allowed) = read(key).map_err(|why| Error::Key { name: key.name.clone(), why })?;
            if keys.insert(hash, allowed).is_some() {
                let why = "is written down twice: give each its own".into();
                return Err(Error::Key { name: key.name.clone(), why });
            }
        }
        let tokens = settings.jwt.as_ref().map(|jwt| Tokens::load(jwt, base)).transpose()?;
        Ok(Self { keys, tokens, remembered: Mutex::default() })
    }

    /// Who sent these headers: by `Authorization: Bearer …`, a key or a token, or by `X-Api-Key`.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn admit(&self, headers: &HeaderMap, now_ms: i64) -> Result<Allowed, Unknown> {
        let secret = presented(headers)?;
        // Keys are looked up by their hash: how long that takes says nothing about the key.
        let hash = hash(secret.as_bytes());
        if let Some(allowed) = self.keys.get(&hash) {
            return Ok(allowed.clone());
        }
        let Some(tokens) = self.tokens.as_ref().filter(|_| secret.len() <= TOKEN_BYTES_MAX) else {
            return Err(Unknown::Wrong("the API key is not known".into()));
        };
        if let Some(allowed) = self.recall(&hash, now_ms) {
            return Ok(allowed);
        }
        let wrong = |refused: Refused| Unknown::Wrong(refused.to_string());
        let said = tokens.read(secret, now_ms).map_err(wrong)?;
        let allowed = Allowed { caller: Caller::Token(said.subject.into()), scopes: said.scopes };
        self.remember(hash, &allowed, now_ms.saturating_add(REMEMBERED_MS).min(said.until_ms), now_ms);
        Ok(allowed)
    }

    fn recall(&self, hash: &[u8; 32], now_ms: i64) -> Option<Allowed> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.get(hash).filter(|it| it.until_ms > now_ms).map(|it| it.allowed.clone())
    }

    fn remember(&self, hash: [u8; 32], allowed: &Allowed, until_ms: i64, now_ms: i64) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, it| it.until_ms > now_ms);
        }
        if remembered.len() < REMEMBERED_MAX {
            remembered.insert(hash, Remembered { allowed: allowed.clone(), until_ms });
        }
    }
}

fn presented(headers: &HeaderMap) -> Result<&str, Unknown> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str());
    let unreadable = |_| Unknown::Wrong("the header holds characters that no key has".into());
    if let Some(value) = text(&AUTHORIZATION) {
        let value = value.map_err(unreadable)?;
        let (scheme, secret) = value.split_once(' ').unwrap_or((value, ""));
        let secret = secret.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || secret.is_empty() {
            return Err(Unknown::Wrong("write `Authorization: Bearer` and the key or token".into()));
        }
        return Ok(secret);
    }
    text(&API_KEY).ok_or(Unknown::Missing)?.map_err(unreadable)
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

fn read(key: &Key) -> Result<([u8; 32], Allowed), String> {
    if key.name.is_empty() {
        return Err("has no name: say who holds it".into());
    }
    let hash = hex(&key.sha256).ok_or("sha256 must be 64 hex digits: `printf %s \"$KEY\" | sha256sum`")?;
    let scopes = Scopes::named(key.scopes.iter().map(String::as_str))
        .map_err(|name| format!("there is no scope `{name}`; there are {}", Scopes::names()))?;
    if scopes == Scopes::default() {
        return Err("has no scopes: it could do nothing".into());
    }
    Ok((hash, Allowed { caller: Caller::Key(key.name.as_str().into()), scopes }))
}

fn hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "a-key-of-the-gateway";

    fn key(name: &str, sha256: &str, scopes: &[&str]) -> Key {
        let scopes = scopes.iter().map(|&scope| scope.into()).collect();
        Key { name: name.into(), sha256: sha256.into(), scopes }
    }

    fn sha256(text: &str) -> String {
        hash(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn guard(keys: Vec<Key>) -> Result<Guard, Error> {
        Guard::build(&Security { keys, jwt: None }, Path::new("."))
    }

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        [(HeaderName::from_static(name), value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn a_key_is_known_by_either_header() {
        let guard = guard(vec![key("gateway", &sha256(KEY), &["telemetry:write"])]).unwrap();
        for headers in [
            headers("authorization", &format!("Bearer {KEY}")),
            headers("authorization", &format!("bearer  {KEY} ")),
            headers("x-api-key", KEY),
        ] {
            let allowed = guard.admit(&headers, 0).unwrap();
            assert_eq!(allowed.caller, Caller::Key("gateway".into()));
            assert_eq!(allowed.scopes, Scopes::known(["telemetry:write"]));
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let guard = guard(vec![key("gateway", &sha256(KEY), &["telemetry:write"])]).unwrap();
        assert_eq!(guard.admit(&HeaderMap::new(), 0).err(), Some(Unknown::Missing));
        for (name, value) in [
            ("authorization", "Bearer another"),
            ("authorization", "Bearer "),
            ("authorization", "Basic YTpi"),
            ("authorization", KEY),
            ("x-api-key", ""),
            ("x-api-key", &sha256(KEY)),
        ] {
            assert!(matches!(guard.admit(&headers(name, value), 0), Err(Unknown::Wrong(_))), "{value}");
        }
    }

    #[test]
    fn keys_that_cannot_be_meant_are_refused() {
        let check = |keys: Vec<Key>, part: &str| {
            let message = guard(keys).err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        };
        let good = key("a", &sha256(KEY), &["activity:read"]);
        check(vec![], "neither keys nor jwt");
        check(vec![key("a", KEY, &["activity:read"])], "64 hex digits");
        check(vec![key("a", &"é".repeat(32), &["activity:read"])], "64 hex digits");
        check(vec![key("a", &sha256(KEY), &["admin"])], "no scope `admin`; there are telemetry:write");
        check(vec![key("a", &sha256(KEY), &[])], "has no scopes");
        check(vec![key("", &sha256(KEY), &["activity:read"])], "has no name");
        check(vec![good.clone(), good], "twice");
    }
}
