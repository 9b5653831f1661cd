//! Reads and checks the settings of the service.

pub mod database;
pub mod feeds;
pub mod limits;
pub mod readings;

use std::net::SocketAddr;
use std::path::Path;

use plimsoll_service::security::config::Security;
use plimsoll_service::settings::{self, Http};
use plimsoll_service::tls::Tls;
use serde::{Deserialize, Serialize};

use self::database::Database;
use self::limits::{Limits, RequestLimits};
use crate::reading;
use crate::scopes;

pub use plimsoll_service::settings::Error;

/// The settings as in the file. Every setting has a default; an unknown key is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Typed {
    /// The address to listen on; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The database.
    pub database: Database,
    /// Accepted readings and their storage.
    pub readings: readings::Readings,
    /// The storage of feeds.
    pub feeds: feeds::Feeds,
    /// Limits.
    pub limits: Limits,
    /// Keys and tokens. Without them every caller has all permissions, so only a loopback address is accepted.
    pub security: Option<Security>,
    /// Certificate and key; plain HTTP if absent.
    pub tls: Option<Tls>,
}

/// The checked settings, with every file read.
pub struct Settings {
    /// The HTTP part.
    pub http: Http,
    /// The database.
    pub database: Database,
    /// The storage of readings.
    pub readings: crate::readings::Settings,
    /// The limits of an accepted reading.
    pub accepted: reading::Limits,
    /// The storage of feeds.
    pub feeds: crate::feeds::Settings,
    /// The limits of a single request.
    pub limits: RequestLimits,
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
    /// Parses YAML.
    ///
    /// # Errors
    /// [`Error::Text`], with the line.
    pub fn read(text: &str) -> Result<Self, Error> {
        settings::read(text)
    }

    /// Checks the settings and reads the files they name, relative to `base`.
    ///
    /// # Errors
    /// [`Error`].
    pub fn build(self, base: &Path) -> Result<Settings, Error> {
        settings::check("database", self.database.fault())?;
        settings::check("limits", self.limits.request.fault())?;
        let feeds = self.feeds.checked();
        settings::check("feeds", feeds.fault())?;
        let readings = self.readings.kept(&self.limits.request);
        let (security, tls) = (self.security.as_ref(), self.tls.as_ref());
        Ok(Settings {
            http: Http::build(self.listen, self.limits.http, security, tls, base, scopes::ALL)?,
            readings,
            accepted: self.readings.accepted(),
            database: self.database,
            feeds,
            limits: self.limits.request,
        })
    }
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
    fn written_settings_are_read_back() {
        let text = serde_saphyr::to_string(&Typed::default()).unwrap();
        assert_eq!(Typed::read(&text).unwrap(), Typed::default());
    }

    /// The keys of a tree, each with its parent keys.
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
    fn secrets_are_in_no_output_and_no_error() {
        let text = "database: {uri: 'mongodb://ann:hunter2@h:1/?proxyPassword=hunter2', name: a}";
        let typed = Typed::read(text).unwrap();
        assert!(typed.database.uri.as_ref().unwrap().contains("hunter2"), "the service needs it");
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
    fn one_value_keeps_the_defaults_of_its_section() {
        let typed = Typed::read("readings: {design: bucket, gather: 5ms}\ndatabase: {write_concern: {w: 1}}")
            .unwrap();
        assert_eq!(typed.readings.commit_max, readings::Readings::default().commit_max);
        assert_eq!(typed.readings.gather, plimsoll_service::Span::millis(5));
        assert!(typed.database.write_concern.j);
    }

    #[test]
    fn invalid_settings_are_refused_with_a_hint() {
        let check = |text: &str, part: &str| {
            let message = build(text).err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        };
        check("listne: 127.0.0.1:1", "listne");
        check("readings: {gather: 5}", "is not a duration");
        check("readings: {design: graph}", "graph");
        check("database: {pool_max: 0}", "database: pool_max");
        check("limits: {page_max: 0}", "limits: page_max is 0");
        check("feeds: {depth: 0}", "feeds: depth");
        check("security: {}", "neither keys nor jwt");
        check("tls: {certificate: none.pem, key: none.pem}", "none.pem");
    }

    #[test]
    fn a_network_address_needs_security() {
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
