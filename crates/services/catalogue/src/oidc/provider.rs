//! Knows the issuer: its endpoints and its keys, both read from it and kept for an hour.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use form_urlencoded::{Serializer, byte_serialize};
use plimsoll_net::{Tls, Trust};
use plimsoll_service::security::{IssuerKeys, Unverified};
use serde_json::Value;
use tokio::sync::Mutex;

use super::claims::{self, Claims};
use super::fault::Fault;
use super::fetch::{Ask, Fetcher};
use super::pending::Pending;
use super::section::Section;
use super::url::url_fault;
use crate::access::User;
use crate::file;

/// The time for which endpoints and keys are kept.
const KEPT_NS: u64 = 3_600_000_000_000;
/// The minimum time between two reads because of an unknown key.
const AGAIN_NS: u64 = 60_000_000_000;

/// The time from the begin of a failed read, which takes 20 s at most, until it is repeated.
const FAILED_NS: u64 = 30_000_000_000;

/// The time, on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// On the monotonic clock.
    pub ns: u64,
    /// Since 1970.
    pub ms: i64,
}

/// The issuer.
pub struct Provider {
    section: Section,
    secret: Option<String>,
    fetcher: Fetcher,
    kept: Mutex<Kept>,
}

/// The result of the last read of the issuer's facts.
#[derive(Default)]
struct Kept {
    known: Option<Known>,
    failed: Option<(Fault, u64)>,
}

/// The facts that the issuer publishes.
#[derive(Clone)]
struct Known {
    authorization: String,
    token: String,
    userinfo: Option<String>,
    /// Whether the secret is sent in the form, not in the header.
    secret_in_form: bool,
    keys: IssuerKeys,
    at_ns: u64,
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
                let text = String::from_utf8(file::read(&base.join(path))?);
                Some(text.map_err(|_| format!("{path:?} is not UTF-8"))?.trim().to_owned())
            }
        };
        let trust = match &self.authorities_file {
            None => Trust::PublicRoots,
            Some(path) => Trust::Authorities(file::read(&base.join(path))?),
        };
        let tls = Tls::new(&trust).map_err(|error| format!("oidc.authorities_file: {error}"))?;
        Ok(Provider::new(self, secret, Fetcher::new(tls)))
    }
}

impl Provider {
    fn new(section: Section, secret: Option<String>, fetcher: Fetcher) -> Self {
        Self { section, secret, fetcher, kept: Mutex::default() }
    }

    /// The settings.
    pub fn section(&self) -> &Section {
        &self.section
    }

    /// The URL at which a browser logs in.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn login_url(&self, pending: &Pending, now: Now) -> Result<String, Fault> {
        let known = self.known(now, KEPT_NS).await?;
        let separator = if known.authorization.contains('?') { '&' } else { '?' };
        let query = Serializer::new(String::new())
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.section.client_id)
            .append_pair("redirect_uri", &self.section.callback)
            .append_pair("scope", &self.section.scope)
            .append_pair("state", &pending.state)
            .append_pair("nonce", &pending.nonce)
            .append_pair("code_challenge", &pending.challenge())
            .append_pair("code_challenge_method", "S256")
            .finish();
        Ok(format!("{}{separator}{query}", known.authorization))
    }

    /// The user who has logged in with a code.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn user(&self, code: &str, pending: &Pending, now: Now) -> Result<User, Fault> {
        let known = self.known(now, KEPT_NS).await?;
        let answer = self.exchange(&known, code, pending).await?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let token = text("id_token").ok_or_else(|| Fault::Unreachable("it sent no id_token".into()))?;
        let mut claims = self.verified(&known, token, now).await?;
        claims::check(&claims, &self.section, Some(&pending.nonce), now.ms).map_err(Fault::Refused)?;
        let has_groups = claims::find(&claims, &self.section.groups_claim).is_some();
        if let (false, Some(url), Some(access)) = (has_groups, &known.userinfo, text("access_token")) {
            self.complete(&mut claims, url, access).await?;
        }
        claims::user(&claims, &self.section).map_err(Fault::Refused)
    }

    /// The user of an ID token that a client of this catalogue has got from the issuer. Its groups are those of the token.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn user_of_token(&self, token: &str, now: Now) -> Result<User, Fault> {
        let known = self.known(now, KEPT_NS).await?;
        let claims = self.verified(&known, token, now).await?;
        claims::check(&claims, &self.section, None, now.ms).map_err(Fault::Refused)?;
        claims::user(&claims, &self.section).map_err(Fault::Refused)
    }

    /// Exchanges a code for tokens.
    async fn exchange(&self, known: &Known, code: &str, pending: &Pending) -> Result<Value, Fault> {
        let in_form = self.secret.as_deref().filter(|_| known.secret_in_form);
        let in_header = self.secret.as_deref().filter(|_| !known.secret_in_form);
        let form = Some(self.form(code, pending, in_form));
        let authorization = in_header.map(|secret| basic(&self.section.client_id, secret));
        self.fetcher.json(Ask { url: &known.token, form, authorization }).await
    }

    fn form(&self, code: &str, pending: &Pending, secret: Option<&str>) -> String {
        Serializer::new(String::new())
            .append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.section.callback)
            .append_pair("client_id", &self.section.client_id)
            .append_pair("code_verifier", &pending.verifier)
            .extend_pairs(secret.map(|secret| ("client_secret", secret)))
            .finish()
    }

    /// The claims of a token. If no known key is that of the token, the keys are read again, once a minute at most.
    async fn verified(&self, known: &Known, token: &str, now: Now) -> Result<Claims, Fault> {
        let refused = |error: Unverified| Fault::Refused(error.to_string());
        match known.keys.verify(token) {
            Err(Unverified::UnknownKey) => {
                let newer = self.known(now, AGAIN_NS).await?;
                newer.keys.verify(token).map_err(refused)
            }
            verified => verified.map_err(refused),
        }
    }

    /// Adds the claims that only the issuer's endpoint for them has.
    async fn complete(&self, claims: &mut Claims, url: &str, access: &str) -> Result<(), Fault> {
        let authorization = Some(format!("Bearer {access}"));
        let more = self.fetcher.json(Ask { url, form: None, authorization }).await?;
        let Value::Object(more) = more else { return Ok(()) };
        if more.get("sub") != claims.get("sub") {
            return Err(Fault::Refused("the issuer sent claims of another user".into()));
        }
        for (name, value) in more {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }

    /// The facts that the issuer publishes, at most this old. One request reads them for all that wait, and a failure is theirs as well.
    async fn known(&self, now: Now, most_ns: u64) -> Result<Known, Fault> {
        let mut kept = self.kept.lock().await;
        let is_recent = |at_ns: u64, most_ns: u64| now.ns.saturating_sub(at_ns) < most_ns;
        if let Some(known) = kept.known.as_ref().filter(|known| is_recent(known.at_ns, most_ns)) {
            return Ok(known.clone());
        }
        if let Some((fault, _)) = kept.failed.as_ref().filter(|(_, at_ns)| is_recent(*at_ns, FAILED_NS)) {
            return Err(fault.clone());
        }
        let read = self.read(now).await;
        match &read {
            Ok(known) => *kept = Kept { known: Some(known.clone()), failed: None },
            Err(Fault::Busy) => (),
            Err(fault) => kept.failed = Some((fault.clone(), now.ns)),
        }
        read
    }

    async fn read(&self, now: Now) -> Result<Known, Fault> {
        let url = format!("{}/.well-known/openid-configuration", self.section.issuer.trim_end_matches('/'));
        let published = self.fetcher.json(Ask { url: &url, ..Ask::default() }).await.map_err(unreachable)?;
        let text = |name: &str| published.get(name).and_then(Value::as_str);
        let missing = |name: &str| Fault::Unreachable(format!("{url} has no usable `{name}`"));
        if text("issuer") != Some(self.section.issuer.as_str()) {
            return Err(missing("issuer"));
        }
        let endpoint = |name: &str| {
            text(name).filter(|url| url_fault(url).is_none()).map(str::to_owned).ok_or_else(|| missing(name))
        };
        let jwks = endpoint("jwks_uri")?;
        let keys = self.fetcher.json(Ask { url: &jwks, ..Ask::default() }).await.map_err(unreachable)?;
        let methods = published.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
        let takes = |method: &str| methods.is_some_and(|all| all.iter().any(|one| one == method));
        Ok(Known {
            authorization: endpoint("authorization_endpoint")?,
            token: endpoint("token_endpoint")?,
            userinfo: endpoint("userinfo_endpoint").ok(),
            secret_in_form: takes("client_secret_post") && !takes("client_secret_basic"),
            keys: IssuerKeys::read(&keys).map_err(Fault::Unreachable)?,
            at_ns: now.ns,
        })
    }
}

/// A refusal of the issuer to publish its facts is no refusal of a user.
fn unreachable(fault: Fault) -> Fault {
    match fault {
        Fault::Refused(why) => Fault::Unreachable(why),
        other => other,
    }
}

/// The header of a client with a secret (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &str) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret))))
}
