//! Authenticates requests by API key or token.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName};
use ring::digest::{SHA256, digest};

use super::config::{Key, Security};
use super::principal::{Caller, Principal};
use super::scope::{self, Scope, Scopes};
use super::token::{self, InvalidToken, Tokens};

/// A header for an API key, instead of `Authorization`.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The maximum number of cached tokens. The cache spares most requests the verification of a signature.
const CACHED_MAX: usize = 4_096;
/// The longest time that a token is cached, in milliseconds.
const CACHED_MS: i64 = 30_000;
/// The longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Checks keys and tokens.
pub struct Authenticator {
    keys: HashMap<[u8; 32], Principal>,
    tokens: Option<Tokens>,
    cache: Mutex<HashMap<[u8; 32], Cached>>,
}

struct Cached {
    principal: Principal,
    until_ms: i64,
}

/// The section `security` is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It has neither keys nor tokens.
    #[error(
        "`security` has neither keys nor jwt: every request would be refused; add one, or omit the section"
    )]
    Empty,
    /// A key is invalid.
    #[error("security.keys `{name}`: {why}")]
    Key {
        /// The key's name.
        name: String,
        /// The fault and its remedy.
        why: String,
    },
    /// Tokens cannot be checked.
    #[error(transparent)]
    Tokens(#[from] token::Error),
}

/// A request is not authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unauthenticated {
    /// It has no key and no token.
    Missing,
    /// Its key or token is invalid.
    Invalid(String),
}

impl Authenticator {
    /// Reads keys and files, relative to `base`. `scopes` are those of the service.
    ///
    /// # Errors
    /// [`Error`], with the key or the file at fault.
    pub fn build(settings: &Security, base: &Path, scopes: &'static [Scope]) -> Result<Self, Error> {
        if settings.keys.is_empty() && settings.jwt.is_none() {
            return Err(Error::Empty);
        }
        let mut keys = HashMap::new();
        for key in &settings.keys {
            let (hash, principal) =
                read(key, scopes).map_err(|why| Error::Key { name: key.name.clone(), why })?;
            if keys.insert(hash, principal).is_some() {
                let why = "has the same hash as another key: give each holder its own".into();
                return Err(Error::Key { name: key.name.clone(), why });
            }
        }
        let tokens = settings.jwt.as_ref().map(|jwt| Tokens::load(jwt, base, scopes)).transpose()?;
        Ok(Self { keys, tokens, cache: Mutex::default() })
    }

    /// The sender of these headers, by `Authorization: Bearer` with a key or token, or by `X-Api-Key`.
    ///
    /// # Errors
    /// [`Unauthenticated`].
    pub fn authenticate(&self, headers: &HeaderMap, now_ms: i64) -> Result<Principal, Unauthenticated> {
        let secret = presented(headers)?;
        // The lookup is by hash, so its time reveals nothing about the key.
        let hash = hash(secret.as_bytes());
        if let Some(principal) = self.keys.get(&hash) {
            return Ok(principal.clone());
        }
        let Some(tokens) = self.tokens.as_ref().filter(|_| secret.len() <= TOKEN_BYTES_MAX) else {
            return Err(Unauthenticated::Invalid("the API key is unknown".into()));
        };
        if let Some(principal) = self.cached(&hash, now_ms) {
            return Ok(principal);
        }
        let invalid = |error: InvalidToken| Unauthenticated::Invalid(error.to_string());
        let verified = tokens.verify(secret, now_ms).map_err(invalid)?;
        let principal = Principal { caller: Caller::Token(verified.subject.into()), scopes: verified.scopes };
        self.cache(hash, &principal, now_ms.saturating_add(CACHED_MS).min(verified.until_ms), now_ms);
        Ok(principal)
    }

    fn cached(&self, hash: &[u8; 32], now_ms: i64) -> Option<Principal> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(hash).filter(|it| it.until_ms > now_ms).map(|it| it.principal.clone())
    }

    fn cache(&self, hash: [u8; 32], principal: &Principal, until_ms: i64, now_ms: i64) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= CACHED_MAX {
            cache.retain(|_, it| it.until_ms > now_ms);
        }
        if cache.len() < CACHED_MAX {
            cache.insert(hash, Cached { principal: principal.clone(), until_ms });
        }
    }
}

fn presented(headers: &HeaderMap) -> Result<&str, Unauthenticated> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str());
    let unreadable = |_| Unauthenticated::Invalid("the header has characters that are not ASCII".into());
    if let Some(value) = text(&AUTHORIZATION) {
        let value = value.map_err(unreadable)?;
        let (scheme, secret) = value.split_once(' ').unwrap_or((value, ""));
        let secret = secret.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || secret.is_empty() {
            return Err(Unauthenticated::Invalid(
                "write `Authorization: Bearer` and the key or token".into(),
            ));
        }
        return Ok(secret);
    }
    text(&API_KEY).ok_or(Unauthenticated::Missing)?.map_err(unreadable)
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

fn read(key: &Key, service: &[Scope]) -> Result<([u8; 32], Principal), String> {
    if key.name.is_empty() {
        return Err("has no name: name its holder".into());
    }
    let hash = hex(&key.sha256).ok_or("sha256 must be 64 hex digits: `printf %s \"$KEY\" | sha256sum`")?;
    let scopes = Scopes::named(service, key.scopes.iter().map(String::as_str))
        .map_err(|name| format!("unknown scope `{name}`; known are {}", scope::names(service)))?;
    if scopes.is_empty() {
        return Err("has no scopes: give it one or more".into());
    }
    Ok((hash, Principal { caller: Caller::Key(key.name.as_str().into()), scopes }))
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

    const SCOPES: [Scope; 2] = [Scope("telemetry:write"), Scope("activity:read")];
    const KEY: &str = "a-key-of-the-gateway";

    fn key(name: &str, sha256: &str, scopes: &[&str]) -> Key {
        let scopes = scopes.iter().map(|&scope| scope.into()).collect();
        Key { name: name.into(), sha256: sha256.into(), scopes }
    }

    fn sha256(text: &str) -> String {
        hash(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn authenticator(keys: Vec<Key>) -> Result<Authenticator, Error> {
        Authenticator::build(&Security { keys, jwt: None }, Path::new("."), &SCOPES)
    }

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        [(HeaderName::from_static(name), value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn a_key_is_accepted_in_either_header() {
        let authenticator = authenticator(vec![key("gateway", &sha256(KEY), &["telemetry:write"])]).unwrap();
        for headers in [
            headers("authorization", &format!("Bearer {KEY}")),
            headers("authorization", &format!("bearer  {KEY} ")),
            headers("x-api-key", KEY),
        ] {
            let principal = authenticator.authenticate(&headers, 0).unwrap();
            assert_eq!(principal.caller, Caller::Key("gateway".into()));
            assert_eq!(principal.scopes, Scopes::known(&SCOPES, ["telemetry:write"]));
        }
    }

    #[test]
    fn an_invalid_key_is_refused() {
        let authenticator = authenticator(vec![key("gateway", &sha256(KEY), &["telemetry:write"])]).unwrap();
        assert_eq!(authenticator.authenticate(&HeaderMap::new(), 0).err(), Some(Unauthenticated::Missing));
        for (name, value) in [
            ("authorization", "Bearer another"),
            ("authorization", "Bearer "),
            ("authorization", "Basic YTpi"),
            ("authorization", KEY),
            ("x-api-key", ""),
            ("x-api-key", &sha256(KEY)),
        ] {
            assert!(
                matches!(
                    authenticator.authenticate(&headers(name, value), 0),
                    Err(Unauthenticated::Invalid(_))
                ),
                "{value}"
            );
        }
    }

    #[test]
    fn invalid_keys_in_the_settings_are_refused() {
        let check = |keys: Vec<Key>, part: &str| {
            let message = authenticator(keys).err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        };
        let good = key("a", &sha256(KEY), &["activity:read"]);
        check(vec![], "neither keys nor jwt");
        check(vec![key("a", KEY, &["activity:read"])], "64 hex digits");
        check(vec![key("a", &"é".repeat(32), &["activity:read"])], "64 hex digits");
        check(vec![key("a", &sha256(KEY), &["admin"])], "unknown scope `admin`; known are telemetry:write");
        check(vec![key("a", &sha256(KEY), &[])], "has no scopes");
        check(vec![key("", &sha256(KEY), &["activity:read"])], "has no name");
        check(vec![good.clone(), good], "same hash");
    }
}
