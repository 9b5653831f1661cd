//! Reads and checks the settings of the service.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use plimsoll_measure::duration::Span;
use plimsoll_service::limits::{Limits as HttpLimits, zero};
use plimsoll_service::part::both;
use plimsoll_service::security::config::Security;
use plimsoll_service::settings::{self, Http};
use plimsoll_service::tls::Tls;
use plimsoll_service::{part, redact};
use serde::{Deserialize, Deserializer, Serialize};

use crate::calls::Secrets;
use crate::engine::{LEASE, Options, WorkerOptions, lease_ms};
use crate::scopes;
use crate::store::{Missing, Place, Size};

pub use plimsoll_service::settings::Error;

/// The settings as in the file. Every setting has a default; an unknown key is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Typed {
    /// The address to listen on; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The store in MongoDB.
    pub database: Database,
    /// A store in PostgreSQL instead: `postgres://…`.
    pub postgres: Option<Uri>,
    /// The size of the store.
    pub store: Storage,
    /// Whether this process runs instances, and how many.
    pub worker: Worker,
    /// The calls of steps.
    pub calls: Calls,
    /// Limits.
    pub limits: Limits,
    /// Keys and tokens. Without them every caller has all permissions, so only a loopback address is accepted.
    pub security: Option<Security>,
    /// Certificate and key; plain HTTP if absent.
    pub tls: Option<Tls>,
}

/// A connection string.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uri(pub String);

/// Redacts the password.
impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact::uri(&self.0))
    }
}

/// The section `database`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// The server's connection string. If absent, the program starts a server.
    pub uri: Option<String>,
    /// The name of the database.
    pub name: String,
}

/// The section `store`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Storage {
    /// The maximum number of connections.
    pub connections: u32,
    /// The number of partitions of a new store. An existing store keeps its number.
    pub partitions: u16,
}

/// The section `worker`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Worker {
    /// Whether this process runs instances.
    pub enabled: bool,
    /// The maximum number of partitions that this process holds. If absent, its share of all.
    pub partitions_max: Option<u16>,
    /// The length of the leases of this process, from 1 s to 5 min. After its end, other processes take over with this delay.
    pub lease: Span,
}

/// The section `calls`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calls {
    /// The hosts that `http` steps may call, each as `host` or `host:port`.
    pub hosts: Vec<String>,
    /// The secrets that headers of `http` steps refer to as `${name}`: each with its source, `env:VARIABLE` or `file:PATH`.
    pub secrets: BTreeMap<String, String>,
    /// The maximum number of concurrent calls.
    pub at_once_max: u32,
}

/// The section `limits`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// The limits of HTTP.
    #[serde(flatten)]
    pub http: HttpLimits,
    /// The limits of a single request.
    #[serde(flatten)]
    pub request: RequestLimits,
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        both(deserializer).map(|(http, request)| Self { http, request })
    }
}

/// The limits of a single request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RequestLimits {
    /// Instances or tasks on one page.
    pub page_max: u32,
    /// The maximum number of signals that wait in memory, or in the store. Further senders are answered 429.
    pub backlog_max: u32,
}

part!(RequestLimits { page_max, backlog_max });

/// The checked settings, with every file read.
pub struct Settings {
    /// The HTTP part.
    pub http: Http,
    /// The engine.
    pub engine: Options,
    /// The limits of a single request.
    pub limits: RequestLimits,
}

impl Default for Typed {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8082)),
            database: Database::default(),
            postgres: None,
            store: Storage::default(),
            worker: Worker::default(),
            calls: Calls::default(),
            limits: Limits::default(),
            security: None,
            tls: None,
        }
    }
}

impl Default for Database {
    fn default() -> Self {
        Self { uri: None, name: "workflow".into() }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self { connections: 8, partitions: 64 }
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self { enabled: true, partitions_max: None, lease: LEASE }
    }
}

impl Default for Calls {
    fn default() -> Self {
        Self { hosts: Vec::new(), secrets: BTreeMap::new(), at_once_max: 256 }
    }
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { page_max: 500, backlog_max: 10_000 }
    }
}

impl Typed {
    /// Checks the settings and reads the files they name, relative to `base`.
    ///
    /// # Errors
    /// [`Error`].
    pub fn build(self, base: &Path) -> Result<Settings, Error> {
        settings::check("postgres", self.postgres_fault())?;
        settings::check("store", self.store.fault())?;
        settings::check("worker", lease_ms(self.worker.lease).err())?;
        settings::check("calls", zero(&[("at_once_max", self.calls.at_once_max)]))?;
        let limits = self.limits.request;
        let counts = [("page_max", limits.page_max), ("backlog_max", limits.backlog_max)];
        settings::check("limits", zero(&counts))?;
        let (security, tls) = (self.security.as_ref(), self.tls.as_ref());
        let http = Http::build(self.listen, self.limits.http.clone(), security, tls, base, scopes::ALL)?;
        let sources = self.calls.secrets.iter().map(|(name, source)| (name.as_str(), source.as_str()));
        let secrets = Secrets::read(sources, base).map_err(|why| Error::Section { section: "calls", why })?;
        Ok(Settings { http, engine: self.engine(secrets), limits })
    }

    fn postgres_fault(&self) -> Option<String> {
        let uri = &self.postgres.as_ref()?.0;
        let is_one = uri.starts_with("postgres://") || uri.starts_with("postgresql://");
        let fault = if !is_one {
            "it is no address of PostgreSQL: write postgres://user@host:5432/database"
        } else if self.database.uri.is_some() {
            "`database.uri` names a second store: remove one of them"
        } else {
            return None;
        };
        Some(fault.into())
    }

    /// The options of the engine. Without a URI, the place of the store names no server.
    fn engine(self, secrets: Secrets) -> Options {
        let place = match self.postgres {
            Some(Uri(uri)) => Place::Postgres { uri },
            None => Place::Mongo { uri: self.database.uri.unwrap_or_default(), database: self.database.name },
        };
        let calls_max = self.calls.at_once_max as usize;
        let lease_ms = self.worker.lease.as_ns() / 1_000_000;
        let worker = WorkerOptions { hosts: self.calls.hosts, secrets, calls_max, lease_ms };
        Options {
            place,
            size: Size {
                connections: self.store.connections as usize,
                partitions: self.store.partitions,
                held_max: self.worker.partitions_max.map_or(usize::MAX, usize::from),
            },
            missing: Missing::Create,
            backlog_max: self.limits.request.backlog_max as usize,
            worker: self.worker.enabled.then_some(worker),
        }
    }
}

impl Storage {
    fn fault(&self) -> Option<String> {
        zero(&[("connections", self.connections), ("partitions", u32::from(self.partitions))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(text: &str) -> Result<Settings, Error> {
        settings::read::<Typed>(text)?.build(Path::new("."))
    }

    #[test]
    fn written_settings_are_read_back() {
        let text = serde_saphyr::to_string(&Typed::default()).unwrap();
        assert_eq!(settings::read::<Typed>(&text).unwrap(), Typed::default());
        assert_eq!(settings::read::<Typed>("").unwrap(), Typed::default());
    }

    #[test]
    fn invalid_settings_are_refused_with_a_hint() {
        for (text, part) in [
            ("worker: {enabeld: true}", "enabled"),
            ("postgres: mysql://h", "postgres: it is no address of PostgreSQL"),
            ("{postgres: postgres://h, database: {uri: mongodb://h}}", "a second store"),
            ("worker: {lease: 1h}", "worker: a lease of 1h is invalid: choose 1s to 5m"),
            ("store: {partitions: 0}", "store: partitions is 0"),
            ("calls: {secrets: {crm: hunter2}}", "calls: the secret `crm`: write its source as env:VARIABLE"),
            ("limits: {page_max: 0}", "limits: page_max is 0"),
            ("listen: 0.0.0.0:1", "is not a loopback address"),
            ("security: {keys: [{name: a, sha256: '00', scopes: [workflow:reed]}]}", "sha256"),
        ] {
            let message = build(text).err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn secrets_are_in_no_output() {
        let text = "postgres: postgres://ann:hunter2@h/db";
        let typed: Typed = settings::read(text).unwrap();
        assert!(!format!("{typed:?}").contains("hunter2"), "{typed:?}");
        let options = build(text).unwrap().engine;
        assert!(!format!("{options:?}").contains("hunter2"), "{options:?}");
    }

    #[test]
    fn the_guide_lists_every_setting_with_its_default() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guides/workflows.md");
        let guide = std::fs::read_to_string(path).unwrap();
        let block = guide.split("```yaml\nlisten:").nth(1).unwrap().split("```").next().unwrap();
        let typed: Typed = settings::read(&format!("listen:{block}")).unwrap();
        assert_eq!(typed, Typed::default());
    }
}
