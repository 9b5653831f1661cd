//! Defines the errors before the first record, each with its remedy.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// A cluster cannot be used as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A property that a user may not set.
    #[error("the property {name:?} cannot be set: {alternative}")]
    Owned {
        /// The property.
        name: String,
        /// The alternative.
        alternative: &'static str,
    },
    /// The client library refuses the settings.
    #[error(
        "the Kafka client refuses its settings ({0}): correct `properties` (librdkafka's CONFIGURATION.md lists them)"
    )]
    Config(String),
    /// No broker answers.
    #[error(
        "no broker of {brokers} answered within {seconds} s ({reason}): is it running, and are address, TLS and SASL right?"
    )]
    Unreachable {
        /// The addresses of the brokers.
        brokers: String,
        /// The time limit.
        seconds: u64,
        /// The client's last error.
        reason: String,
    },
    /// The topic is missing.
    #[error(
        "topic {topic:?} is missing at {brokers}: create it, or correct its name (writing never creates a topic)"
    )]
    NoTopic {
        /// The topic.
        topic: String,
        /// The addresses of the brokers.
        brokers: String,
    },
    /// The topic already exists.
    #[error("topic {0:?} already exists: name another one, or reset it")]
    TopicExists(String),
    /// Another action was refused.
    #[error("{action} was refused ({reason})")]
    Refused {
        /// The action with its object.
        action: String,
        /// The error of the broker or the client.
        reason: String,
    },
}

impl Error {
    /// Describes the refusal of an action in the words of the client library.
    pub(crate) fn refused(action: impl Into<String>, error: &KafkaError) -> Self {
        Self::Refused { action: action.into(), reason: words(error) }
    }
}

/// Describes an error without the layers of the client library.
pub(crate) fn words(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, reason, name, value) if !is_secret(name) => {
            format!("{reason} ({name}={value})")
        }
        KafkaError::ClientConfig(_, reason, name, _) => format!("{reason} ({name})"),
        KafkaError::ClientCreation(reason) => reason.clone(),
        other => other.rdkafka_error_code().map_or_else(|| other.to_string(), describe),
    }
}

/// Describes an error code.
pub(crate) fn describe(code: RDKafkaErrorCode) -> String {
    // The library's text begins with the name of the code: `UnknownTopic (Broker: …)`.
    let text = code.to_string();
    match text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')) {
        Some(inner) => inner.to_owned(),
        None => text,
    }
}

/// Whether a property's value must never be printed.
pub(crate) fn is_secret(name: &str) -> bool {
    ["password", "secret", "token", "key.pem", "sasl.jaas"].iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_described_without_its_layers() {
        let text = describe(RDKafkaErrorCode::UnknownTopicOrPartition);
        assert_eq!(text, "Broker: Unknown topic or partition");
    }

    #[test]
    fn a_secret_is_recognised_by_its_name() {
        assert!(is_secret("sasl.password") && is_secret("ssl.key.pem") && is_secret("ssl.key.password"));
        assert!(!is_secret("sasl.username") && !is_secret("ssl.ca.location"));
    }
}
