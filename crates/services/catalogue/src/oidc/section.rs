//! Reads and checks the section `login.oidc`.

use std::path::{Path, PathBuf};

use axum::http::Uri;
use axum::http::uri::Scheme;
use plimsoll_net::{Tls, Trust};
use serde::{Deserialize, Serialize};

use super::fetch::Fetcher;
use super::provider::Provider;
use crate::settings::file;

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

impl Section {
    /// Checks the section and reads the files it names, relative to `base`.
    ///
    /// # Errors
    /// The fault and its remedy.
    pub fn build(self, base: &Path) -> Result<Provider, String> {
        for (name, url) in [
            ("issuer", Some(&self.issuer)),
            ("callback", Some(&self.callback)),
            ("success", self.success.as_ref()),
        ] {
            if let Some(fault) = url.and_then(|url| url_fault(url)) {
                return Err(format!("oidc.{name}: {fault}"));
            }
        }
        if self.client_id.is_empty() || !self.scope.split(' ').any(|scope| scope == "openid") {
            return Err("oidc needs a client_id, and `openid` in its scope".into());
        }
        let secret = match &self.client_secret_file {
            None => None,
            Some(path) => {
                let text = String::from_utf8(file(&base.join(path))?);
                Some(text.map_err(|_| format!("{path:?} is not UTF-8"))?.trim().to_owned())
            }
        };
        let trust = match &self.authorities_file {
            None => Trust::PublicRoots,
            Some(path) => Trust::Authorities(file(&base.join(path))?),
        };
        let tls = Tls::new(&trust).map_err(|error| format!("oidc.authorities_file: {error}"))?;
        Ok(Provider::new(self, secret, Fetcher::new(tls)))
    }
}

/// The fault of a URL that carries secrets: `https`, or `http` on this machine.
pub(super) fn url_fault(text: &str) -> Option<String> {
    let needs = || Some("write https://HOST/PATH; http is accepted for this machine only".to_owned());
    let Ok(uri) = text.parse::<Uri>() else { return needs() };
    let (Some(scheme), Some(host)) = (uri.scheme(), uri.host()) else { return needs() };
    let is_local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    let is_safe = *scheme == Scheme::HTTPS || (*scheme == Scheme::HTTP && is_local);
    let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    if is_safe && !has_user { None } else { needs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_encrypted_or_of_this_machine() {
        for url in ["https://login.example.org/realms/x", "http://localhost:8080/x", "http://[::1]/"] {
            assert_eq!(url_fault(url), None, "{url}");
        }
        for url in
            ["http://login.example.org", "login.example.org", "ftp://localhost", "https://u:p@h/", "", "/x"]
        {
            assert!(url_fault(url).is_some(), "{url}");
        }
    }
}
