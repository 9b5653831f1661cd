//! Defines the section `security` of the settings: API keys and tokens.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Keys and tokens. At least one is required; omit the section for a service without security.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Security {
    /// API keys.
    pub keys: Vec<Key>,
    /// The check of JSON Web Tokens; tokens are refused if absent.
    pub jwt: Option<Jwt>,
}

/// An API key. The settings contain only its hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The holder, for rate limits and logs.
    pub name: String,
    /// SHA-256 of the key in hex, as `printf %s "$KEY" | sha256sum` prints it. A key is random, of 16 bytes or more.
    pub sha256: String,
    /// Its permissions, by the names of the service's scopes.
    pub scopes: Vec<String>,
}

/// The check of JSON Web Tokens. They must have `exp`, and contain their permissions in `scope` (a string
/// with spaces) or `scopes` (a list).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// The only accepted algorithm. A token whose header names another is refused.
    pub algorithm: Algorithm,
    /// The file with the secret (HS256, 32 bytes or more) or the public key as PEM (EdDSA).
    pub key_file: PathBuf,
    /// The required `iss`. Without this setting, `iss` is not checked.
    #[serde(default)]
    pub issuer: Option<String>,
    /// The required `aud`. Without this setting, a token that has an `aud` is refused.
    #[serde(default)]
    pub audience: Option<String>,
}

/// The signature algorithm of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// HMAC with SHA-256 and a shared secret.
    #[serde(rename = "HS256")]
    Hs256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}
