//! Defines the section `login.oidc`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An issuer of OpenID Connect at which users log in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The URL of the issuer, exactly as in its tokens.
    pub issuer: String,
    /// The name of this catalogue at the issuer.
    pub client_id: String,
    /// The file with the secret of this catalogue at the issuer, unless it is a public client.
    #[serde(default)]
    pub client_secret_file: Option<PathBuf>,
    /// The URL of `/api/v3/auth/oidc/callback` as browsers reach it.
    pub callback: String,
    /// The page that gets the token, as `access-token` and `user-id` in its query. If absent, the callback answers as a login does.
    #[serde(default)]
    pub success: Option<String>,
    /// The requested scopes.
    #[serde(default = "scope")]
    pub scope: String,
    /// The claim with the name of a user.
    #[serde(default = "username")]
    pub username_claim: String,
    /// The claim with the groups of a user; a dot leads into an object.
    #[serde(default = "groups")]
    pub groups_claim: String,
    /// The PEM file of the authorities that certify the issuer; Mozilla's list if absent.
    #[serde(default)]
    pub authorities_file: Option<PathBuf>,
}

fn scope() -> String {
    "openid profile email".into()
}

fn username() -> String {
    "preferred_username".into()
}

fn groups() -> String {
    "groups".into()
}
