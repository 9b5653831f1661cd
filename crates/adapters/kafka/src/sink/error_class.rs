//! Classifies a record's error for its batch.

use rdkafka::error::RDKafkaErrorCode;

/// The class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// The broker refuses some record of the set, possibly this one.
    Suspect,
    /// Transient: network, leaders, replicas, timeouts.
    Transient,
    /// Permanent: permissions, a deleted topic, an unknown partition.
    Final,
}

/// The class of an error.
pub(crate) fn of(code: RDKafkaErrorCode) -> Class {
    use RDKafkaErrorCode as Code;
    match code {
        Code::MessageSizeTooLarge
        | Code::InvalidMessageSize
        | Code::InvalidTimestamp
        | Code::InvalidRecord
        | Code::PolicyViolation
        | Code::UnsupportedForMessageFormat => Class::Suspect,
        Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::SaslAuthenticationFailed
        | Code::Authentication
        | Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        | Code::UnknownPartition
        | Code::InvalidTopic
        | Code::InvalidRequiredAcks
        | Code::UnsupportedVersion
        | Code::ProducerFenced
        | Code::Fenced => Class::Final,
        _ => Class::Transient,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_transient_missing_permissions_are_final_and_large_records_are_suspect() {
        assert_eq!(of(RDKafkaErrorCode::MessageTimedOut), Class::Transient);
        assert_eq!(of(RDKafkaErrorCode::NotEnoughReplicas), Class::Transient);
        for code in [
            RDKafkaErrorCode::TopicAuthorizationFailed,
            RDKafkaErrorCode::UnknownTopic,
            RDKafkaErrorCode::UnknownPartition,
        ] {
            assert_eq!(of(code), Class::Final, "{code:?}");
        }
        assert_eq!(of(RDKafkaErrorCode::MessageSizeTooLarge), Class::Suspect);
        assert!(
            Class::Final > Class::Transient && Class::Transient > Class::Suspect,
            "the most severe error of a batch counts"
        );
    }
}
