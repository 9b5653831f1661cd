//! Defines the Kafka keys of a pipeline's file, as typed.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Properties that give a client its own certificate.
const CERTIFICATES: [&str; 3] = ["ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location"];

/// Properties of the client library (librdkafka), by name: TLS, SASL, buffers, compression. Properties that
/// would break the pipeline's guarantee are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Properties(pub BTreeMap<String, Property>);

impl Properties {
    /// Whether these properties authenticate the client: by SASL, or by a certificate.
    pub fn authenticate(&self) -> bool {
        let property = |name: &str| self.0.get(name).map(|value| value.0.as_str());
        let protocol = property("security.protocol").unwrap_or_default().to_ascii_lowercase();
        let certified = CERTIFICATES.into_iter().any(|name| property(name).is_some());
        protocol.starts_with("sasl_") || (protocol == "ssl" && certified)
    }
}

/// The value of a property: a text, a whole number, `true` or `false`.
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(with = "Typed")]
pub struct Property(pub String);

/// The accepted forms of a value, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes what may be typed")]
enum Typed {
    Text(String),
    Number(i64),
    Flag(bool),
}

/// Hides the value, which may be a password.
impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl<'de> Deserialize<'de> for Property {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Property;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a whole number, true or false")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Property, E> {
                Ok(Property(text.to_owned()))
            }

            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Property, E> {
                Ok(Property(flag.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Property, E> {
                Ok(Property(number.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Property, E> {
                Ok(Property(number.to_string()))
            }
        }
        deserializer.deserialize_any(Words)
    }
}

/// The start of a group that has no committed offset, or loses its offset while reading. An offset that is missing when a
/// partition is assigned is always refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Refuse to start: records were lost, or the group's name is wrong.
    #[default]
    Refuse,
    /// Start at the first available record.
    Earliest,
}

/// The records of transactions that are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Only committed records.
    #[default]
    ReadCommitted,
    /// All records, including those of transactions that are later aborted.
    ReadUncommitted,
}

/// A topic that a group reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The addresses of the first brokers to contact: `host:port`, with commas between several.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// The group that shares the topic's partitions and keeps their offsets.
    pub group: String,
    /// The start of a group without committed offsets.
    #[serde(default)]
    pub start: Start,
    /// The records of transactions that are read.
    #[serde(default)]
    pub isolation: Isolation,
    /// The time limit for records in flight when a partition moves to another member; at most five minutes.
    #[serde(default = "settle_limit")]
    pub settle_limit: Span,
    /// The time limit for the brokers to answer at the start.
    #[serde(default = "connect_limit")]
    pub connect_limit: Span,
    /// Further properties of the client.
    #[serde(default)]
    pub properties: Properties,
}

/// The rule that selects a record's partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placing {
    /// The partition of the record's key, as every Kafka client selects it; any partition without a key.
    #[default]
    Key,
    /// The partition number of the source.
    Same,
}

/// A topic to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sink {
    /// The addresses of the first brokers to contact: `host:port`, with commas between several.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// The rule that selects a record's partition.
    #[serde(default)]
    pub placing: Placing,
    /// The limit of a worker's batches in flight.
    #[serde(default = "batches_max")]
    pub batches_max: u16,
    /// The time limit for a record's acknowledgement, after which its batch is written again.
    #[serde(default = "delivery_timeout")]
    pub delivery_timeout: Span,
    /// The time limit for the brokers to answer at the start.
    #[serde(default = "connect_limit")]
    pub connect_limit: Span,
    /// Transactions, which make the records and the source's offsets visible together.
    #[serde(default)]
    pub exactly_once: Option<ExactlyOnce>,
    /// Further properties of the client.
    #[serde(default)]
    pub properties: Properties,
}

/// Settings of the transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExactlyOnce {
    /// The name by which the brokers know the writer. A new writer with the same name aborts the old one's
    /// transactions. Each process of a group needs its own name, and keeps it over a restart. Each worker
    /// uses two names: `NAME-N` and `NAME-N.next`.
    pub transactional_id: String,
    /// The topic of the dead letters, which are part of the same transactions. Without a topic, the pipeline
    /// stops at an event that cannot be written.
    #[serde(default)]
    pub dead_letters: Option<String>,
    /// The number of records at which a transaction is committed. While the previous transaction is being
    /// committed, the number grows further.
    #[serde(default = "records_min")]
    pub records_min: u32,
    /// The age at which a transaction of any size is committed.
    #[serde(default = "age_max")]
    pub age_max: Span,
}

const fn settle_limit() -> Span {
    Span::from_secs(30)
}

const fn connect_limit() -> Span {
    Span::from_secs(30)
}

const fn delivery_timeout() -> Span {
    Span::from_secs(60)
}

const fn batches_max() -> u16 {
    16
}

const fn records_min() -> u32 {
    2000
}

const fn age_max() -> Span {
    Span::from_ns(500_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sasl_or_a_certificate_authenticates_a_client_and_tls_alone_does_not() {
        let check = |properties: &[(&str, &str)], expected: bool| {
            let named = |(name, value): &(&str, &str)| ((*name).to_owned(), Property((*value).to_owned()));
            let properties = Properties(properties.iter().map(named).collect());
            assert_eq!(properties.authenticate(), expected, "{:?}", properties.0.keys());
        };
        check(&[], false);
        check(&[("sasl.username", "ann")], false);
        check(&[("security.protocol", "SASL_PLAINTEXT")], true);
        check(&[("security.protocol", "sasl_ssl")], true);
        check(&[("security.protocol", "ssl")], false);
        check(&[("security.protocol", "ssl"), ("ssl.keystore.location", "/k.p12")], true);
        check(&[("ssl.keystore.location", "/k.p12")], false);
    }
}
