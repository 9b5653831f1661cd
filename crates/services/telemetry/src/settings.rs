//! The service's settings: as typed in a file and on the command line, and as meant.

pub mod database;
pub mod feeds;
pub mod limits;
pub mod readings;
pub mod secret;
pub mod security;
pub mod span;
pub mod tls;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use serde::{Deserialize, Serialize};

use self::database::Database;
use self::limits::Limits;
use crate::reading;
use crate::web::security::{self as web_security, Guard};

/// The settings as typed. Everything has a default; an unknown key is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Typed {
    /// The address to listen on; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Where everything is kept.
    pub database: Database,
    /// How readings are taken in and kept.
    pub readings: readings::Readings,
    /// How feeds are kept.
    pub feeds: feeds::Feeds,
    /// How much of everything is taken.
    pub limits: Limits,
    /// Who may do what; everyone everything if absent, which only a loopback address may offer.
    pub security: Option<security::Security>,
    /// The certificate and its key; plain HTTP if absent.
    pub tls: Option<tls::Tls>,
}

/// The settings as meant: checked, with every file read.
pub struct Settings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Where everything is kept.
    pub database: Database,
    /// How readings are kept.
    pub readings: crate::readings::Settings,
    /// Which readings are taken.
    pub taken: reading::Limits,
    /// How feeds are kept.
    pub feeds: crate::feeds::Settings,
    /// How much of everything is taken.
    pub limits: Limits,
    /// Who may do what; everyone everything if absent.
    pub guard: Option<Guard>,
    /// TLS; plain HTTP if absent.
    pub tls: Option<Arc<ServerConfig>>,
}

/// Settings that cannot be meant.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is no settings.
    #[error("the settings cannot be read: {0}")]
    Text(String),
    /// A section contradicts itself.
    #[error("{section}: {why}")]
    Section {
        /// The section.
        section: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// Everyone could do everything.
    #[error(
        "{0} is not a loopback address, and without `security` everyone who reaches it may write and read everything: \
         add `security` with keys or jwt to the settings, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// Security cannot be set up.
    #[error(transparent)]
    Security(#[from] web_security::Error),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] tls::Error),
}

impl Default for Typed {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            database: Database::default(),
            readings: readings::Readings::default(),
            feeds: feeds::Feeds::default(),
            limits: Limits::default(),
            security: None,
            tls: None,
        }
    }
}

impl Typed {
    /// Reads YAML.
    ///
    /// # Errors
    /// [`Error::Text`], with the line.
    pub fn read(text: &str) -> Result<Self, Error> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Self::default());
        }
        // The lines around the fault would help, and may hold a password.
        let told =
            |error: serde_saphyr::Error| Error::Text(secret::scrubbed(&error.without_snippet().to_string()));
        serde_saphyr::from_str(text).map_err(told)
    }

    /// The settings as they may be shown, with `***` for the password in the connection string and for what else is secret
    /// in it. API keys stand in the settings as hashes alone, and of other secrets the files' names.
    pub fn shown(&self) -> Self {
        let database = Database { uri: secret::hidden(&self.database.uri), ..self.database.clone() };
        Self { database, ..self.clone() }
    }

    /// What they mean. Files are looked for relative to `base`.
    ///
    /// # Errors
    /// [`Error`], with what would be right.
    pub fn build(self, base: &Path) -> Result<Settings, Error> {
        check("database", self.database.fault())?;
        check("limits", self.limits.fault())?;
        let feeds = self.feeds.meant();
        check("feeds", feeds.fault())?;
        if self.security.is_none() && !self.listen.ip().is_loopback() {
            return Err(Error::Open(self.listen));
        }
        let guard = self.security.as_ref().map(|security| Guard::build(security, base)).transpose()?;
        let tls = self.tls.as_ref().map(|tls| tls.load(base)).transpose()?;
        Ok(Settings {
            listen: self.listen,
            readings: self.readings.kept(&self.limits),
            taken: self.readings.taken(),
            database: self.database,
            feeds,
            limits: self.limits,
            guard,
            tls,
        })
    }
}

fn check(section: &'static str, fault: Option<String>) -> Result<(), Error> {
    fault.map_or(Ok(()), |why| Err(Error::Section { section, why }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(text: &str) -> Result<Settings, Error> {
        Typed::read(text)?.build(Path::new("."))
    }

    #[test]
    fn an_empty_file_means_the_defaults() {
        for text in ["", "# nothing\n\n", "{}"] {
            assert_eq!(Typed::read(text).unwrap(), Typed::default(), "{text:?}");
        }
        assert!(build("").is_ok());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = serde_saphyr::to_string(&Typed::default()).unwrap();
        assert_eq!(Typed::read(&text).unwrap(), Typed::default());
    }

    /// The keys of a tree, each with those above it.
    fn keys(tree: &serde_json::Value, above: &str, found: &mut Vec<String>) {
        let Some(fields) = tree.as_object() else { return };
        for (name, value) in fields {
            let path = format!("{above}.{name}");
            keys(value, &path, found);
            found.push(path);
        }
    }

    #[test]
    fn the_guide_lists_every_setting_with_its_default() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guides/telemetry.md");
        let guide = std::fs::read_to_string(path).unwrap();
        let block = guide.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
        assert_eq!(Typed::read(block).unwrap(), Typed::default());
        let (mut listed, mut known) = (Vec::new(), Vec::new());
        keys(&serde_saphyr::from_str(block).unwrap(), "", &mut listed);
        keys(&serde_json::to_value(Typed::default()).unwrap(), "", &mut known);
        assert_eq!(listed, known);
    }

    #[test]
    fn what_is_secret_is_neither_shown_nor_told_by_an_error() {
        let text = "database: {uri: 'mongodb://ann:hunter2@h:1/?proxyPassword=hunter2', name: a}";
        let typed = Typed::read(text).unwrap();
        assert!(typed.database.uri.contains("hunter2"), "the service needs it");
        let shown = serde_saphyr::to_string(&typed.shown()).unwrap();
        assert!(shown.contains("ann:***@h:1") && !shown.contains("hunter2"), "{shown}");
        assert!(!format!("{typed:?}").contains("hunter2"), "{typed:?}");
        for wrong in [
            text.replace("name: a", "name: a/b"),
            text.replace("name: a", "nmae: a"),
            text.replace("name: a", "pool_max: many"),
            "database: 'mongodb://ann:hunter2@h:1/'".into(),
            format!("{text}\nlisten: nowhere"),
            format!("{text}\nlisten: ["),
            format!("{text}\nlisten: 0.0.0.0:1"),
        ] {
            let error = build(&wrong).err().unwrap();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{wrong}: {error}");
        }
    }

    #[test]
    fn one_value_leaves_its_neighbours_alone() {
        let typed = Typed::read("readings: {design: bucket, gather: 5ms}\ndatabase: {write_concern: {w: 1}}")
            .unwrap();
        assert_eq!(typed.readings.commit_max, readings::Readings::default().commit_max);
        assert_eq!(typed.readings.gather, span::Span::millis(5));
        assert!(typed.database.write_concern.j);
    }

    #[test]
    fn settings_that_cannot_be_meant_say_what_would_be_right() {
        let check = |text: &str, part: &str| {
            let message = build(text).err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        };
        check("listne: 127.0.0.1:1", "listne");
        check("readings: {gather: 5}", "no length of time");
        check("readings: {design: graph}", "graph");
        check("database: {pool_max: 0}", "database: pool_max");
        check("limits: {page_max: 0}", "limits: page_max is 0");
        check("feeds: {depth: 0}", "feeds: depth");
        check("security: {}", "neither keys nor jwt");
        check("tls: {certificate: none.pem, key: none.pem}", "none.pem");
    }

    #[test]
    fn an_address_that_others_reach_needs_security() {
        for listen in ["0.0.0.0:0", "192.0.2.1:80", "'[::]:0'"] {
            let open = format!("listen: {listen}");
            assert!(matches!(build(&open), Err(Error::Open(_))), "{listen}");
            let hash = "0".repeat(64);
            let closed = format!(
                "{open}\nsecurity: {{keys: [{{name: a, sha256: '{hash}', scopes: [activity:read]}}]}}"
            );
            assert!(build(&closed).is_ok(), "{listen}");
        }
        for listen in ["127.0.0.1:0", "127.9.9.9:1", "'[::1]:0'"] {
            assert!(build(&format!("listen: {listen}")).is_ok(), "{listen}");
        }
    }
}
