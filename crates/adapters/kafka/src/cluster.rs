//! Builds the client settings of a cluster, and keeps the last error of its clients.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::error::{Error, is_secret, words};
use crate::scenario;

/// Properties that a user may not set, and the alternative. A name that ends with a dot is a prefix.
const OWNED: &[(&str, &str)] = &[
    ("bootstrap.servers", "use `brokers`"),
    ("metadata.broker.list", "use `brokers`"),
    ("group.id", "use `group`"),
    ("auto.offset.reset", "use `start: earliest` if a group without offsets may begin at the beginning"),
    ("enable.auto.commit", "offsets are committed when the sink has acknowledged all records before them"),
    (
        "auto.commit.interval.ms",
        "offsets are committed when the sink has acknowledged all records before them",
    ),
    (
        "enable.auto.offset.store",
        "offsets are committed when the sink has acknowledged all records before them",
    ),
    ("enable.partition.eof", "a source reads until it is stopped"),
    ("isolation.level", "use `isolation`"),
    (
        "partition.assignment.strategy",
        "a source needs cooperative-sticky to give up as few partitions as possible",
    ),
    ("group.protocol", "a source needs cooperative-sticky to give up as few partitions as possible"),
    ("acks", "a sink needs all acknowledgements for its guarantee"),
    ("request.required.acks", "a sink needs all acknowledgements for its guarantee"),
    ("enable.idempotence", "a sink needs idempotence for its guarantee"),
    ("transactional.id", "use `transactional_id`"),
    ("delivery.report.only.error", "a sink counts every report"),
    ("message.timeout.ms", "use `delivery_timeout`"),
    ("delivery.timeout.ms", "use `delivery_timeout`"),
    ("allow.auto.create.topics", "a misspelt topic must cause an error"),
    ("plugin.library.paths", "foreign code is not loaded"),
    ("log.queue", "the client library owns it"),
    ("opaque", "the client library owns it"),
    ("test.", "the client library's own tests use it"),
];

/// A cluster: its brokers and its client properties.
#[derive(Clone, PartialEq, Eq)]
pub struct Cluster {
    brokers: String,
    properties: BTreeMap<String, String>,
}

impl Cluster {
    /// The cluster at `brokers`, `host:port` with commas between several, without further properties.
    pub fn at(brokers: impl Into<String>) -> Self {
        Self { brokers: brokers.into(), properties: BTreeMap::new() }
    }

    /// Builds the cluster from typed settings.
    ///
    /// # Errors
    /// [`Error::Owned`] for a property that the user may not set; [`Error::Config`] for a property that the
    /// client library refuses.
    pub fn build(brokers: &str, properties: &scenario::Properties) -> Result<Self, Error> {
        for name in properties.0.keys() {
            if let Some((_, alternative)) = OWNED.iter().find(|(owned, _)| is_owned(name, owned)) {
                return Err(Error::Owned { name: name.clone(), alternative });
            }
        }
        let text = properties.0.iter().map(|(name, value)| (name.clone(), value.0.clone()));
        let cluster = Self { brokers: brokers.to_owned(), properties: text.collect() };
        cluster.config().create_native_config().map_err(|error| Error::Config(words(&error)))?;
        Ok(cluster)
    }

    /// The addresses of the brokers.
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// The settings of any client of this cluster; each client adds its own.
    pub(crate) fn config(&self) -> ClientConfig {
        self.config_with(&[])
    }

    /// Adds defaults, which the user's properties override.
    pub(crate) fn config_with(&self, defaults: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        for (name, value) in defaults {
            config.set(*name, *value);
        }
        config.set("client.id", "plimsoll");
        config.set("socket.keepalive.enable", "true");
        // A restarted broker is found again within a second.
        config.set("reconnect.backoff.max.ms", "1000");
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.brokers);
        config.set_log_level(RDKafkaLogLevel::Warning);
        config
    }
}

/// Hides passwords.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown =
            self.properties.iter().map(|(name, value)| (name, if is_secret(name) { "…" } else { value }));
        f.debug_struct("Cluster")
            .field("brokers", &self.brokers)
            .field("properties", &shown.collect::<BTreeMap<_, _>>())
            .finish()
    }
}

fn is_owned(name: &str, owned: &str) -> bool {
    if owned.ends_with('.') { name.starts_with(owned) } else { name == owned || name.ends_with("_cb") }
}

/// Keeps the last error that a client reported, as the reason of a later failure.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    last: Mutex<Option<String>>,
}

impl Watch {
    /// The last error.
    pub(crate) fn last(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records an error, unless it is "All brokers are down", which is less precise than the error before it.
    pub(crate) fn note(&self, error: &KafkaError, reason: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none() || error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *last = Some(reason.to_owned());
        }
    }
}

impl ClientContext for Watch {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.note(&error, reason);
    }
}

impl ConsumerContext for Watch {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Properties, Property};

    fn build(name: &str, value: &str) -> Result<Cluster, Error> {
        let properties = [(name.to_owned(), Property(value.to_owned()))].into();
        Cluster::build("127.0.0.1:9092", &Properties(properties))
    }

    #[test]
    fn an_owned_property_is_refused_with_its_alternative() {
        for (name, alternative) in OWNED {
            let name =
                if name.ends_with('.') { format!("{name}mock.num.brokers") } else { (*name).to_owned() };
            assert_eq!(build(&name, "1"), Err(Error::Owned { name, alternative }));
        }
        assert!(build("rebalance_cb", "x").is_err());
    }

    #[test]
    fn a_property_of_the_client_library_is_accepted_and_a_wrong_one_is_named() {
        let cluster = build("linger.ms", "7").unwrap();
        assert_eq!(cluster.config().get("linger.ms"), Some("7"));
        let error = build("linger.seconds", "7").unwrap_err().to_string();
        assert!(error.contains("linger.seconds"), "{error}");
        let error = build("linger.ms", "soon").unwrap_err().to_string();
        assert!(error.contains("linger.ms"), "{error}");
    }

    #[test]
    fn sasl_works_without_tls_and_tls_needs_the_feature() {
        assert!(build("security.protocol", "sasl_plaintext").is_ok());
        assert_eq!(build("security.protocol", "ssl").is_ok(), cfg!(feature = "tls"));
        if let Err(error) = build("security.protocol", "ssl") {
            assert!(error.to_string().contains("security.protocol"), "{error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let cluster = build("sasl.password", "hunter2").unwrap();
        assert!(!format!("{cluster:?}").contains("hunter2"));
        assert_eq!(cluster.config().get("sasl.password"), Some("hunter2"));
    }

    #[test]
    fn the_last_meaningful_error_is_kept() {
        let watch = Watch::default();
        watch.note(&KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure), "connection refused");
        watch.note(&KafkaError::Global(RDKafkaErrorCode::AllBrokersDown), "1/1 brokers are down");
        assert_eq!(watch.last().as_deref(), Some("connection refused"));
    }
}
