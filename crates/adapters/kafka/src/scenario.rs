//! Defines the Kafka keys of a pipeline's file, as typed.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Properties that give a client a certificate of its own.
const CERTIFICATES: [&str; 3] = ["ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location"];

/// Properties of the client library (librdkafka), by name: TLS, SASL, buffers, compression. Those that keep the pipeline's
/// promises are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Properties(pub BTreeMap<String, Property>);

impl Properties {
    /// Whether a client with them tells the brokers who it is: by SASL, or by a certificate.
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

/// The forms that a value may have, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes what may be typed")]
enum Typed {
    Text(String),
    Number(i64),
    Flag(bool),
}

/// Its value may be a password.
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

/// Where a group begins that has committed no offset yet, or whose place goes while it reads. A place that is gone when a
/// partition comes in is always refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Nowhere: the pipeline stops and says so. Records were lost, or the group's name is wrong.
    #[default]
    Refuse,
    /// At the first record that is there.
    Earliest,
}

/// Which records of transactions are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Those that were committed.
    #[default]
    ReadCommitted,
    /// All, also those that are given up later.
    ReadUncommitted,
}

/// A topic that is read by a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The brokers to ask first: `host:port`, with commas between several.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// The group that shares the topic's partitions and keeps their offsets.
    pub group: String,
    /// Where a group begins that has committed no offset yet.
    #[serde(default)]
    pub start: Start,
    /// Which records of transactions are read.
    #[serde(default)]
    pub isolation: Isolation,
    /// How long a partition that goes to another member waits for its records in flight; at most five minutes.
    #[serde(default = "settle_limit")]
    pub settle_limit: Span,
    /// How long a start waits for the brokers.
    #[serde(default = "connect_limit")]
    pub connect_limit: Span,
    /// Further properties of the client.
    #[serde(default)]
    pub properties: Properties,
}

/// Which partition a record goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placing {
    /// That of its key, as every Kafka client places it; any if it has none.
    #[default]
    Key,
    /// The one with the number of the partition that it comes from.
    Same,
}

/// A topic that is written to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sink {
    /// The brokers to ask first: `host:port`, with commas between several.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// Which partition a record goes to.
    #[serde(default)]
    pub placing: Placing,
    /// Batches that a worker has on their way at once.
    #[serde(default = "batches_max")]
    pub batches_max: u16,
    /// How long a record may wait for its acknowledgement before its batch comes again.
    #[serde(default = "delivery_timeout")]
    pub delivery_timeout: Span,
    /// How long a start waits for the brokers.
    #[serde(default = "connect_limit")]
    pub connect_limit: Span,
    /// Transactions, if the records and the offsets of the source are to become visible together.
    #[serde(default)]
    pub exactly_once: Option<ExactlyOnce>,
    /// Further properties of the client.
    #[serde(default)]
    pub properties: Properties,
}

/// How records are gathered to transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExactlyOnce {
    /// The name under which the brokers know the writer; a new one with the same name ends the transactions of the old one.
    /// Each process of a group needs its own, and keeps it over a restart. Each worker has two under it, `NAME-N` and `NAME-N.next`.
    pub transactional_id: String,
    /// The topic of the dead letters, which are written in the same transactions; without one the pipeline stops at an
    /// event that cannot go on.
    #[serde(default)]
    pub dead_letters: Option<String>,
    /// A transaction is committed when it has so many records, and the one before it is committed; until then it grows.
    #[serde(default = "records_min")]
    pub records_min: u32,
    /// It is committed when it is so old, whatever it has.
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
    fn a_client_tells_who_it_is_by_sasl_or_by_a_certificate_and_not_by_tls_alone() {
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
