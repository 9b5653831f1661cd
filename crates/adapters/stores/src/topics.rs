//! Assigns numbers to topics: four bytes in every identity instead of a name.
//!
//! A topic's number is the start of the SHA-256 of its name, or the configured one. It is registered once in a collection of
//! the same database, `{_id: number, topic: name}`, so that two topics with the same number are detected before any event is
//! stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use bson::rawdoc;
use plimsoll_deployment::Namespace;
use plimsoll_wire::{Connection, Error as Wire};
use sha2::{Digest, Sha256};

use crate::reply::{self, DUPLICATE_KEY};

/// The collection that registers topics, in the database of the data.
pub const COLLECTION: &str = "plimsoll_topics";

/// The reason why a topic has no number.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// Another topic has the number.
    #[error(
        "the topics {topic:?} and {other:?} have the same number {number} in {registry}: configure another number for one of them, \
         `topics: {{{topic}: 1}}`"
    )]
    Taken {
        /// The new topic.
        topic: String,
        /// The registered topic.
        other: String,
        /// The number of both topics.
        number: u32,
        /// The collection that registers topics.
        registry: Namespace,
    },
    /// The topic has another number.
    #[error(
        "the topic {topic:?} is registered in {registry} with number {known}, not {number}: restore the old `topics`"
    )]
    Changed {
        /// The topic.
        topic: String,
        /// The configured number.
        number: u32,
        /// The registered number.
        known: i64,
        /// The collection that registers topics.
        registry: Namespace,
    },
    /// The server cannot be asked.
    #[error(transparent)]
    Wire(#[from] Wire),
}

/// The registered numbers of topics.
#[derive(Debug)]
pub struct Topics {
    registry: Namespace,
    chosen: BTreeMap<String, u32>,
    known: Mutex<HashMap<Arc<str>, u32>>,
}

impl Topics {
    /// The topics of the data in `namespace`. `chosen` are configured numbers.
    pub fn of(namespace: &Namespace, chosen: BTreeMap<String, u32>) -> Self {
        Self { registry: namespace.sibling(COLLECTION), chosen, known: Mutex::default() }
    }

    /// The number for a topic, unless another topic has it.
    pub fn default_number(&self, topic: &str) -> u32 {
        self.chosen.get(topic).copied().unwrap_or_else(|| hashed(topic))
    }

    /// The number of a topic, if already looked up.
    pub fn known(&self, topic: &str) -> Option<u32> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(topic).copied()
    }

    /// The number of a topic. The first call registers it durably.
    ///
    /// # Errors
    /// If another topic has the number, the topic has another number, or the server cannot be asked.
    pub async fn number(&self, connection: &mut Connection, topic: &Arc<str>) -> Result<u32, TopicError> {
        if let Some(number) = self.known(topic) {
            return Ok(number);
        }
        let number = self.default_number(topic);
        self.check_unchanged(connection, topic, number).await?;
        let other = match self.register(connection, topic, number).await {
            Err(Wire::Server(error)) if error.code == DUPLICATE_KEY => {
                self.register(connection, topic, number).await?
            }
            written => written?,
        };
        if *other != **topic {
            let (topic, registry) = (topic.to_string(), self.registry.clone());
            return Err(TopicError::Taken { topic, other, number, registry });
        }
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(topic), number);
        Ok(number)
    }

    async fn check_unchanged(
        &self,
        connection: &mut Connection,
        topic: &str,
        number: u32,
    ) -> Result<(), TopicError> {
        let find =
            rawdoc! {"find": self.registry.collection.as_str(), "filter": {"topic": topic}, "limit": 1};
        let reply = connection.command(&self.registry.db, &find).await?;
        let Some(known) = reply::first(&reply).and_then(|found| reply::number(found, "_id")) else {
            return Ok(());
        };
        if known == i64::from(number) {
            return Ok(());
        }
        let (topic, registry) = (topic.to_owned(), self.registry.clone());
        Err(TopicError::Changed { topic, number, known, registry })
    }

    /// Registers a topic unless the number is taken. Returns the topic that has it.
    async fn register(&self, connection: &mut Connection, topic: &str, number: u32) -> Result<String, Wire> {
        let command = rawdoc! {
            "findAndModify": self.registry.collection.as_str(),
            "query": {"_id": i64::from(number)},
            "update": {"$setOnInsert": {"topic": topic}},
            "upsert": true,
            "new": true,
            "writeConcern": {"w": "majority", "j": true},
        };
        let reply = connection.command(&self.registry.db, &command).await?;
        if let Some(topic) = reply.get_document("value").ok().and_then(|value| value.get_str("topic").ok()) {
            return Ok(topic.to_owned());
        }
        // Some servers return nothing to the slower of two simultaneous writers.
        let find = rawdoc! {"find": self.registry.collection.as_str(), "filter": {"_id": i64::from(number)}, "limit": 1};
        let reply = connection.command(&self.registry.db, &find).await?;
        let found = reply::first(&reply).and_then(|found| found.get_str("topic").ok());
        Ok(found.unwrap_or_default().to_owned())
    }
}

/// The first four bytes of the SHA-256 of a topic's name.
fn hashed(topic: &str) -> u32 {
    let digest = Sha256::digest(topic.as_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_number_derives_from_its_name_unless_configured() {
        let namespace: Namespace = "shop.orders".parse().unwrap();
        let topics = Topics::of(&namespace, BTreeMap::from([("b".to_owned(), 7)]));
        // The SHA-256 of "abc" begins with ba7816bf (FIPS 180-2, B.1).
        assert_eq!((topics.default_number("abc"), topics.default_number("b")), (0xba78_16bf, 7));
        assert_eq!(topics.registry.to_string(), "shop.plimsoll_topics");
        assert_eq!(topics.known("abc"), None);
    }
}
