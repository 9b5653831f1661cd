//! Who may do what, as typed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Keys and tokens. At least one of them is given, or the whole section is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Security {
    /// API keys.
    pub keys: Vec<Key>,
    /// How JSON Web Tokens are checked; none are taken if absent.
    pub jwt: Option<Jwt>,
}

/// An API key. The key itself is not written down, only what proves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Who has it; rate limits go by this name.
    pub name: String,
    /// SHA-256 of the key in hex, as `printf %s "$KEY" | sha256sum` prints it. A key is random, of 16 bytes or more.
    pub sha256: String,
    /// What it may do: `telemetry:write`, `telemetry:read`, `activity:write`, `activity:read`.
    pub scopes: Vec<String>,
}

/// How JSON Web Tokens are checked. They must expire (`exp`), and say what they may do in `scope` (a string with spaces)
/// or `scopes` (a list).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// The one algorithm that is accepted, whatever a token's header says.
    pub algorithm: Algorithm,
    /// The file with the secret (HS256, 32 bytes or more) or the public key as PEM (EdDSA).
    pub key_file: PathBuf,
    /// What `iss` must be; not looked at if absent.
    #[serde(default)]
    pub issuer: Option<String>,
    /// What `aud` must contain; a token with an `aud` is refused if absent.
    #[serde(default)]
    pub audience: Option<String>,
}

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// HMAC with SHA-256 and a shared secret.
    #[serde(rename = "HS256")]
    Hs256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}
