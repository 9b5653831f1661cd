//! Reads and checks the settings of the catalogue.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use plimsoll_service::cors::Cors;
use plimsoll_service::part::{Part, both};
use plimsoll_service::settings::{self, Error, Http};
use plimsoll_service::tls::Tls;
use plimsoll_service::{Limits, Rate, Span, redact};
use ring::rand::{SecureRandom, SystemRandom};
use serde::de::MapAccess;
use serde::{Deserialize, Deserializer, Serialize};

use crate::access::Roles;
use crate::accounts::{Accounts, Hashed};
use crate::{file, oidc};

/// The minimum length of the secret of tokens, in bytes.
const SECRET_BYTES: usize = 32;

/// The settings as in the file. Every setting has a default; an unknown key is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Typed {
    /// The address to listen on; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The database.
    pub database: Database,
    /// Users, groups and tokens.
    pub login: Login,
    /// The groups of each role.
    pub roles: Roles,
    /// New datasets.
    pub datasets: Datasets,
    /// Limits.
    #[serde(deserialize_with = "limits")]
    pub limits: Limits,
    /// Certificate and key; plain HTTP if absent.
    pub tls: Option<Tls>,
    /// The origins whose pages may use the catalogue from a browser.
    pub cors: Cors,
}

/// The section `database`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// The server's connection string. If absent, the program starts a server.
    pub uri: Option<String>,
    /// The name of the database.
    pub name: String,
}

/// Redacts secrets, because logs and errors show settings.
impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let uri = self.uri.as_deref().map(redact::uri);
        f.debug_struct("Database").field("uri", &uri).field("name", &self.name).finish()
    }
}

/// The section `login`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Login {
    /// SciCat's `functionalAccounts.json`.
    pub accounts_file: Option<PathBuf>,
    /// Further accounts.
    pub accounts: Vec<Hashed>,
    /// The file with the secret of tokens, 32 bytes or more. If absent, tokens end with the process.
    pub secret_file: Option<PathBuf>,
    /// Whether the database keeps the secret: tokens outlive the process, and every instance on this database accepts them.
    pub secret_in_database: bool,
    /// The life of a token.
    pub token: Span,
    /// Failed logins of an address for one name, and ten times as many of an address; unlimited if absent.
    pub failures: Option<Rate>,
    /// An issuer of OpenID Connect at which users may log in as well.
    pub oidc: Option<oidc::Section>,
}

/// The section `datasets`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Datasets {
    /// The first part of new PIDs.
    pub pid_prefix: String,
    /// The accepted types in addition to `raw` and `derived`.
    pub types: Vec<String>,
}

impl Default for Typed {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 3000)),
            database: Database::default(),
            login: Login::default(),
            roles: Roles::default(),
            datasets: Datasets::default(),
            limits: CatalogueLimits::default().0,
            tls: None,
            cors: Cors::default(),
        }
    }
}

impl Default for Database {
    fn default() -> Self {
        Self { uri: None, name: "scicat".into() }
    }
}

impl Default for Login {
    fn default() -> Self {
        Self {
            accounts_file: None,
            accounts: Vec::new(),
            secret_file: None,
            secret_in_database: false,
            token: Span::seconds(3_600),
            failures: Some(Rate { per_s: 0.1, burst: 10 }),
            oidc: None,
        }
    }
}

impl Default for Datasets {
    fn default() -> Self {
        Self { pid_prefix: "PID.SAMPLE.PREFIX".into(), types: Vec::new() }
    }
}

/// The limits with the catalogue's defaults: bodies of 16 MiB, as SciCat accepts, and long queries.
struct CatalogueLimits(Limits);

impl Default for CatalogueLimits {
    fn default() -> Self {
        Self(Limits {
            body_bytes_max: 16 << 20,
            bodies_bytes_max: 256 << 20,
            head_bytes_max: 80 << 10,
            ..Limits::default()
        })
    }
}

impl Part for CatalogueLimits {
    const KEYS: &'static [&'static str] = Limits::KEYS;

    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        self.0.read(key, map)
    }
}

/// No further limits.
#[derive(Default)]
struct Nothing {}

impl Part for Nothing {
    const KEYS: &'static [&'static str] = &[];

    fn read<'de, A: MapAccess<'de>>(&mut self, _: &str, _: &mut A) -> Result<(), A::Error> {
        Ok(())
    }
}

fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Limits, D::Error> {
    both(deserializer).map(|(limits, Nothing {}): (CatalogueLimits, Nothing)| limits.0)
}

/// The checked settings, with every file read.
pub struct Settings {
    /// The HTTP part.
    pub http: Http,
    /// The database.
    pub database: Database,
    /// The functional accounts.
    pub accounts: Accounts,
    /// The secret of tokens.
    pub secret: Vec<u8>,
    /// Whether the secret of the database is used instead, if it has one.
    pub secret_in_database: bool,
    /// The life of a token.
    pub token: Span,
    /// The limit of failed logins.
    pub failures: Option<Rate>,
    /// The issuer at which users log in, if any.
    pub oidc: Option<oidc::Provider>,
    /// The groups of each role.
    pub roles: Roles,
    /// New datasets.
    pub datasets: Datasets,
}

impl Typed {
    /// Checks the settings and reads the files they name, relative to `base`.
    ///
    /// # Errors
    /// [`Error`].
    pub fn build(self, base: &Path) -> Result<Settings, Error> {
        settings::check("datasets", self.datasets.fault())?;
        settings::check("login", self.login.failures.and_then(|rate| rate.fault("failures")))?;
        let login = |why: String| Error::Section { section: "login", why };
        let mut accounts = match &self.login.accounts_file {
            None => Accounts::default(),
            Some(path) => {
                let json = file::read(&base.join(path)).map_err(login)?;
                let json = String::from_utf8(json).map_err(|_| login(format!("{path:?} is not UTF-8")))?;
                Accounts::read(&json).map_err(|why| login(format!("{path:?}: {why}")))?
            }
        };
        for account in &self.login.accounts {
            accounts.add(account).map_err(login)?;
        }
        if self.login.secret_in_database && self.login.secret_file.is_some() {
            return Err(login("give secret_file or secret_in_database, not both".into()));
        }
        let secret = match &self.login.secret_file {
            None => random_secret().map_err(login)?,
            Some(path) => file::read(&base.join(path)).map_err(login)?.trim_ascii().to_vec(),
        };
        if secret.len() < SECRET_BYTES {
            return Err(login(format!("the secret is too short: give it {SECRET_BYTES} bytes or more")));
        }
        Ok(Settings {
            http: Http::build(self.listen, self.limits, None, self.tls.as_ref(), base, &[])?
                .with_cors(self.cors)?,
            database: self.database,
            accounts,
            secret,
            secret_in_database: self.login.secret_in_database,
            token: self.login.token,
            failures: self.login.failures,
            oidc: self.login.oidc.map(|section| section.build(base)).transpose().map_err(login)?,
            roles: self.roles,
            datasets: self.datasets,
        })
    }
}

impl Datasets {
    fn fault(&self) -> Option<String> {
        let prefix = self.pid_prefix.trim_end_matches('/');
        let valid = (1..=200).contains(&prefix.len()) && !prefix.contains(char::is_control);
        (!valid).then(|| "pid_prefix needs 1 to 200 bytes without control characters".to_owned())
    }
}

fn random_secret() -> Result<Vec<u8>, String> {
    let mut secret = vec![0; SECRET_BYTES];
    SystemRandom::new().fill(&mut secret).map_err(|_| "the system gives no random bytes".to_owned())?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_empty_file_means_the_defaults_and_one_value_keeps_the_others() {
        assert_eq!(settings::read::<Typed>("").unwrap(), Typed::default());
        let typed: Typed = settings::read("limits: {idle: 50s}\nroles: {admin_groups: [admin]}").unwrap();
        assert_eq!((typed.limits.body_bytes_max, typed.limits.idle), (16 << 20, Span::seconds(50)));
        assert!(typed.build(Path::new(".")).is_ok());
    }

    #[test]
    fn the_guide_shows_the_defaults() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guides/catalogue.md");
        let guide = fs::read_to_string(path).unwrap();
        let (_, rest) = guide.split_once("These are the defaults:\n\n```yaml\n").unwrap();
        let shown = rest.split_once("```").unwrap().0;
        assert_eq!(settings::read::<Typed>(shown).unwrap(), Typed::default());
        let keys = serde_json::to_value(Typed::default()).unwrap();
        for section in ["database", "login", "roles", "datasets", "cors"] {
            for key in keys[section].as_object().unwrap().keys() {
                assert!(shown.contains(&format!("  {key}:")), "{section}.{key}");
            }
        }
    }

    #[test]
    fn invalid_settings_are_refused_with_a_hint() {
        for (text, part) in [
            ("listne: 1", "listne"),
            ("limits: {body_max: 1}", "body_max"),
            ("roles: {admins: [a]}", "admins"),
            ("login: {accounts_file: none.json}", "none.json"),
            ("login: {secret_file: none}", "none"),
            ("login: {secret_file: Cargo.toml, secret_in_database: true}", "not both"),
            ("login: {accounts: [{username: a, password_sha256: 12}]}", "64 hex digits"),
            ("login: {failures: {per_s: 0.0, burst: 1}}", "failures needs"),
            ("login: {oidc: {issuer: 'https://i', client_id: c}}", "callback"),
            (
                "login: {oidc: {issuer: 'http://i', client_id: c, callback: 'https://c'}}",
                "oidc.issuer: write https",
            ),
            (
                "login: {oidc: {issuer: 'https://i', client_id: c, callback: 'https://c', scope: email}}",
                "openid",
            ),
            ("datasets: {pid_prefix: ''}", "pid_prefix"),
            ("cors: {origins: [data.example.org]}", "without a path"),
        ] {
            let typed = settings::read::<Typed>(text).map(|typed| typed.build(Path::new(".")).err());
            let said = typed.map_or_else(|error| error.to_string(), |error| error.unwrap().to_string());
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn files_are_read_and_a_short_secret_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("accounts.json"), r#"[{"username": "a", "password": "p"}]"#).unwrap();
        fs::write(directory.path().join("secret"), "s".repeat(32)).unwrap();
        fs::write(directory.path().join("short"), "s").unwrap();
        let build = |secret: &str| {
            let text = format!("login: {{accounts_file: accounts.json, secret_file: {secret}}}");
            settings::read::<Typed>(&text).unwrap().build(directory.path())
        };
        let settings = build("secret").unwrap();
        assert!(settings.accounts.login("a", "p").is_some());
        assert_eq!(settings.secret, [b's'; 32]);
        assert!(build("short").err().unwrap().to_string().contains("too short"));
    }
}
