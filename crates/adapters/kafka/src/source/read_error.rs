//! Classifies the client library's read errors: transient, or the end of the source.

use plimsoll_pipeline::SourceError;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::offset_check::REMEDY;
use crate::error::{describe, words};

/// Ignores a transient error: a broker that is down, a coordinator that moves, a lost membership.
///
/// # Errors
/// Final errors and their remedies.
pub(super) fn classify(error: &KafkaError, topic: &str, group: &str) -> Result<(), SourceError> {
    use RDKafkaErrorCode as Code;
    if let KafkaError::MessageConsumptionFatal(code) = error {
        return Err(SourceError::Failed(format!(
            "the client of the group {group:?} cannot continue ({})",
            describe(*code)
        )));
    }
    let words = match error.rdkafka_error_code() {
        Some(Code::AutoOffsetReset) => format!(
            "the group {group:?} has no valid offset for a partition of {topic:?}: it is new, or the records at its \
             offset are gone; use `start: earliest` to begin at the first available record (if the topic was recreated, \
             also name another destination)"
        ),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
            format!("the topic {topic:?} is gone. {REMEDY}")
        }
        Some(Code::TopicAuthorizationFailed) => {
            format!("the topic {topic:?} may not be read: give the user READ on it")
        }
        Some(Code::GroupAuthorizationFailed) => {
            format!("the group {group:?} may not be joined: give the user READ on it")
        }
        Some(Code::FencedInstanceId) => {
            format!("another member of {group:?} took this one's `group.instance.id`: give each its own")
        }
        Some(Code::UnsupportedFeature | Code::InvalidArgument) => words(error),
        Some(code) if is_unreadable(code) => unreadable(code, topic, group),
        _ => return Ok(()),
    };
    Err(SourceError::Failed(words))
}

/// Whether a record cannot be decoded. The library either requests such a record for ever, or skips it, as it
/// does after a wrong checksum.
const fn is_unreadable(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::BadMessage | Code::BadCompression | Code::NotImplemented | Code::InvalidMessage)
}

fn unreadable(code: RDKafkaErrorCode, topic: &str, group: &str) -> String {
    format!(
        "a record of {topic:?} cannot be read ({}): it is damaged, in an unsupported format, or larger than the \
         `receive.message.max.bytes` of `properties`. No later record is read, because this one would be skipped: raise that \
         limit, repair the record, or move the offset of the group {group:?} past it (`kafka-consumer-groups --reset-offsets`)",
        describe(code)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: RDKafkaErrorCode) -> Option<String> {
        classify(&KafkaError::MessageConsumption(code), "orders", "g").err().map(|error| error.to_string())
    }

    #[test]
    fn transient_errors_are_ignored_and_final_ones_name_the_remedy() {
        for transient in [
            RDKafkaErrorCode::AllBrokersDown,
            RDKafkaErrorCode::BrokerTransportFailure,
            RDKafkaErrorCode::WaitingForCoordinator,
            RDKafkaErrorCode::PollExceeded,
            RDKafkaErrorCode::RequestTimedOut,
        ] {
            assert_eq!(check(transient), None);
        }
        assert!(check(RDKafkaErrorCode::AutoOffsetReset).unwrap().contains("start: earliest"));
        assert!(check(RDKafkaErrorCode::UnknownTopicOrPartition).unwrap().contains("\"orders\" is gone"));
        assert!(check(RDKafkaErrorCode::TopicAuthorizationFailed).unwrap().contains("READ"));
        for unreadable in [
            RDKafkaErrorCode::BadMessage,
            RDKafkaErrorCode::BadCompression,
            RDKafkaErrorCode::NotImplemented,
            RDKafkaErrorCode::InvalidMessage,
        ] {
            let words = check(unreadable).unwrap();
            assert!(words.contains("a record of \"orders\"") && words.contains("--reset-offsets"), "{words}");
        }
    }
}
