//! Defines the section `database`: the server, the write concern and the driver.

use std::{fmt, io};

use mongodb::event::EventHandler;
use mongodb::event::cmap::CmapEvent;
use mongodb::options::{
    Acknowledgment, ClientOptions, Compressor, ConnectionString, ReadPreference, WriteConcern,
};
use plimsoll_service::{Span, redact};
use serde::{Deserialize, Serialize};

/// The section `database`. Options in the URI take precedence.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// The server's connection string. If absent, the program starts a server.
    pub uri: Option<String>,
    /// The name of the database.
    pub name: String,
    /// The write concern of every answer 201.
    pub write_concern: Concern,
    /// The maximum number of connections to each server for queries.
    pub pool_max: u32,
    /// The maximum number of connections to each server for writes. Writes never wait for connections of queries.
    pub write_pool_max: u32,
    /// The minimum number of open connections of each kind.
    pub pool_min: u32,
    /// The maximum number of connections that are opened at a time.
    pub connecting_max: u32,
    /// The timeout of a new connection.
    pub connect: Span,
    /// The timeout of server selection.
    pub select: Span,
    /// The idle time after which a connection is closed; never, if absent.
    pub pool_idle: Option<Span>,
    /// `zstd` or `zlib`. The first one that the server supports is used. No compression if empty.
    pub compressors: Vec<Compression>,
}

/// A write concern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concern {
    /// The number of servers: `majority`, or a number from 1.
    #[serde(default = "Nodes::majority")]
    pub w: Nodes,
    /// Whether an answer waits until the journal has the write.
    #[serde(default = "journaled")]
    pub j: bool,
}

/// The number of servers of a write concern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "w: write a number of servers, majority, or the name of a tag set")]
pub enum Nodes {
    /// A number.
    Count(u32),
    /// `majority`, or the tag of a custom concern.
    Named(String),
}

/// The compression of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Zstandard.
    Zstd,
    /// Deflate.
    Zlib,
}

impl Nodes {
    fn majority() -> Self {
        Self::Named("majority".into())
    }
}

const fn journaled() -> bool {
    true
}

impl Default for Concern {
    fn default() -> Self {
        Self { w: Nodes::majority(), j: journaled() }
    }
}

/// Redacts secrets, because logs and errors show settings.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = self.uri.as_deref().map(redact::uri);
        f.debug_struct("Database").field("uri", &uri).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Default for Database {
    fn default() -> Self {
        Self {
            uri: None,
            name: "telemetry".into(),
            write_concern: Concern::default(),
            pool_max: 32,
            write_pool_max: 32,
            pool_min: 4,
            connecting_max: 4,
            connect: Span::seconds(5),
            select: Span::seconds(5),
            pool_idle: None,
            compressors: Vec::new(),
        }
    }
}

impl Database {
    /// The reason why the section is invalid, or `None`.
    pub(super) fn fault(&self) -> Option<String> {
        if self.write_concern.w == Nodes::Count(0) {
            return Some("write_concern.w is 0, which acknowledges nothing: use 1 or majority".into());
        }
        let pool_max = self.pool_max.min(self.write_pool_max);
        if pool_max == 0 || self.pool_min > pool_max || self.connecting_max == 0 {
            return Some(
                "pool_max, write_pool_max and connecting_max are 1 or more, and pool_min at most as large as both"
                    .into(),
            );
        }
        if self.reads_elsewhere() {
            return Some(
                "uri has a readPreference other than primary: a secondary may lack acknowledged writes, which feeds \
                 and answers to retries need; leave it out"
                    .into(),
            );
        }
        let forbidden = |c: char| c.is_control() || "/\\. \"$*<>:|?".contains(c);
        let bad = self.name.is_empty() || self.name.len() > NAME_BYTES_MAX || self.name.contains(forbidden);
        bad.then(|| format!("name `{}` is not a database name: use letters, digits, - and _", self.name))
    }

    /// The driver's options; `on_event` gets the events of the pool.
    ///
    /// # Errors
    /// The connection string is invalid, or the lookup of its hosts fails.
    pub async fn options(
        &self,
        on_event: impl Fn(CmapEvent) + Send + Sync + 'static,
    ) -> Result<ClientOptions, mongodb::error::Error> {
        let uri = self.uri.as_deref().ok_or_else(unnamed)?;
        let read = ClientOptions::parse(uri).await;
        let mut options =
            read.map_err(|error| if redact::exposes_password(uri) { unparsable() } else { error })?;
        options.app_name.get_or_insert_with(|| "plimsoll-telemetry".into());
        options.write_concern = Some(self.concern(options.write_concern.take()));
        options.max_pool_size.get_or_insert(self.pool_max);
        options.min_pool_size.get_or_insert(self.pool_min);
        options.max_connecting.get_or_insert(self.connecting_max);
        options.connect_timeout.get_or_insert(self.connect.duration());
        options.server_selection_timeout.get_or_insert(self.select.duration());
        options.max_idle_time = options.max_idle_time.or(self.pool_idle.map(Span::duration));
        if options.compressors.is_none() && !self.compressors.is_empty() {
            options.compressors = Some(self.compressors.iter().map(|it| it.compressor()).collect());
        }
        options.cmap_event_handler = Some(EventHandler::callback(on_event));
        Ok(options)
    }

    /// Makes the driver's options for writes from those for queries. Writes get a separate pool.
    pub fn for_writes(&self, options: &ClientOptions) -> ClientOptions {
        let mut options = options.clone();
        options.max_pool_size = Some(self.write_pool_max);
        options.min_pool_size = options.min_pool_size.map(|least| least.min(self.write_pool_max));
        options
    }

    /// The write concern of the URI, completed by the settings: a URI may have `wtimeoutMS` alone.
    fn concern(&self, given: Option<WriteConcern>) -> WriteConcern {
        let mut concern = given.unwrap_or_default();
        if concern.w == Some(Acknowledgment::Nodes(0)) {
            // `Readings::open` refuses this with a remedy. The driver would report the journal first.
            return concern;
        }
        concern.w.get_or_insert_with(|| match &self.write_concern.w {
            Nodes::Count(count) => Acknowledgment::Nodes(*count),
            Nodes::Named(name) if name == "majority" => Acknowledgment::Majority,
            Nodes::Named(name) => Acknowledgment::Custom(name.clone()),
        });
        concern.journal.get_or_insert(self.write_concern.j);
        concern
    }

    /// Whether the URI sends reads to other servers than the primary. `options` reports an invalid URI.
    fn reads_elsewhere(&self) -> bool {
        let uri = self.uri.as_ref().and_then(|uri| ConnectionString::parse(uri).ok());
        let given = uri.and_then(|uri| uri.read_preference);
        given.is_some_and(|preference| preference != ReadPreference::Primary)
    }
}

fn unnamed() -> mongodb::error::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "no server is named: set database.uri").into()
}

/// Replaces the driver's message, which would quote the password as a host.
fn unparsable() -> mongodb::error::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "the connection string cannot be read: write ? as %3F and @ as %40",
    )
    .into()
}

impl Compression {
    fn compressor(self) -> Compressor {
        match self {
            Self::Zstd => Compressor::Zstd { level: None },
            Self::Zlib => Compressor::Zlib { level: None },
        }
    }
}

/// The longest name of a database, in bytes: MongoDB's own limit.
const NAME_BYTES_MAX: usize = 63;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_invalid_section_is_refused() {
        let check = |change: fn(&mut Database), part: &str| {
            let mut database = Database::default();
            change(&mut database);
            assert!(database.fault().is_some_and(|fault| fault.contains(part)), "{part}");
        };
        assert_eq!(Database::default().fault(), None);
        check(|it| it.write_concern.w = Nodes::Count(0), "w is 0");
        check(|it| it.pool_min = 33, "pool_min");
        check(|it| it.write_pool_max = 0, "write_pool_max");
        check(|it| it.name = "a.b".into(), "not a database name");
        check(|it| it.name = String::new(), "not a database name");
    }

    #[test]
    fn reads_go_only_to_the_primary() {
        for preference in ["secondary", "secondaryPreferred", "primaryPreferred", "nearest", "NEAREST"] {
            let uri = format!("mongodb://h:1/?replicaSet=rs&readPreference={preference}");
            let fault = Database { uri: Some(uri), ..Database::default() }.fault();
            assert!(fault.is_some_and(|fault| fault.contains("leave it out")), "{preference}");
        }
        for uri in
            ["mongodb://h:1/?readPreference=primary", "mongodb://h:1/?readpreference=Primary", "no URI"]
        {
            assert_eq!(Database { uri: Some(uri.into()), ..Database::default() }.fault(), None, "{uri}");
        }
    }

    #[tokio::test]
    async fn an_invalid_connection_string_does_not_reveal_its_password() {
        for uri in [
            "mongodb://ann:hunter2?x@h",
            "mongodb://ann:hunter2/x@h",
            "mongodb://ann:hunter%2@h",
            "mongodb://ann:hunter2@h:port",
            "mongodb://ann:hunter2@h/?maxPoolSize=many",
            "ann:hunter2@h",
        ] {
            let settings = Database { uri: Some(uri.into()), ..Database::default() };
            let error = settings.options(|_| ()).await.err().unwrap();
            assert!(!format!("{error} {error:?}").contains("hunter"), "{uri}: {error}");
        }
    }

    #[tokio::test]
    async fn the_uri_takes_precedence() {
        let uri = Some("mongodb://h:1/?maxPoolSize=7&w=1&journal=false".into());
        let settings = Database { uri, compressors: vec![Compression::Zstd], ..Database::default() };
        let options = settings.options(|_| ()).await.unwrap();
        assert_eq!((options.max_pool_size, options.min_pool_size), (Some(7), Some(4)));
        let writes = settings.for_writes(&options);
        assert_eq!((writes.max_pool_size, writes.min_pool_size), (Some(32), Some(4)));
        let concern = options.write_concern.unwrap();
        assert_eq!((concern.w, concern.journal), (Some(Acknowledgment::Nodes(1)), Some(false)));
        assert!(matches!(options.compressors.unwrap()[..], [Compressor::Zstd { .. }]));
    }

    #[tokio::test]
    async fn the_settings_complete_the_write_concern_of_the_uri() {
        let check = async |given: &str, w: Acknowledgment, j: bool, timeout_ms: Option<u64>| {
            let settings = Database { uri: Some(format!("mongodb://h:1/?{given}")), ..Database::default() };
            let concern = settings.options(|_| ()).await.unwrap().write_concern.unwrap();
            let found = (concern.w, concern.journal, concern.w_timeout);
            assert_eq!(found, (Some(w), Some(j), timeout_ms.map(Duration::from_millis)), "{given}");
        };
        check("wtimeoutMS=5000", Acknowledgment::Majority, true, Some(5_000)).await;
        check("w=1", Acknowledgment::Nodes(1), true, None).await;
        check("w=two&wtimeoutMS=7", Acknowledgment::Custom("two".into()), true, Some(7)).await;
        check("journal=false", Acknowledgment::Majority, false, None).await;
        check("appName=a", Acknowledgment::Majority, true, None).await;
    }

    #[tokio::test]
    async fn a_uri_without_acknowledgement_is_refused_on_opening() {
        let settings = Database { uri: Some("mongodb://h:1/?w=0".into()), ..Database::default() };
        let options = settings.options(|_| ()).await.unwrap();
        assert_eq!(options.write_concern.as_ref().unwrap().w, Some(Acknowledgment::Nodes(0)));
        assert!(
            mongodb::Client::with_options(options).is_ok(),
            "the readings refuse it when they are opened"
        );
    }

    #[tokio::test]
    async fn by_default_a_write_is_journaled_on_a_majority() {
        let settings = Database { uri: Some("mongodb://h:1".into()), ..Database::default() };
        let options = settings.options(|_| ()).await.unwrap();
        let concern = options.write_concern.unwrap();
        assert_eq!((concern.w, concern.journal), (Some(Acknowledgment::Majority), Some(true)));
    }
}
