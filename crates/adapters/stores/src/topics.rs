//! Numbers of topics: four bytes in every identity instead of a name.
//!
//! A topic's number is the start of the SHA-256 of its name, or what the settings say. It is written down once, in a collection
//! beside the data, `{_id: number, topic: name}`: two topics that want one number are found before anything is stored under it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use bson::{RawDocument, rawdoc};
use plimsoll_deployment::Namespace;
use plimsoll_wire::{Connection, Error as Wire};
use sha2::{Digest, Sha256};

/// The collection that topics are written down in, in the database of the data.
pub const COLLECTION: &str = "plimsoll_topics";
/// DuplicateKey: somebody else wrote the topic down at the same moment.
const DUPLICATE: i32 = 11000;

/// Why a topic has no number.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// Another topic has it.
    #[error(
        "the topics {topic:?} and {other:?} have the same number {number} in {registry}: give one of them another, \
         `topics: {{{topic}: 1}}`"
    )]
    Taken {
        /// The topic that wants it.
        topic: String,
        /// The topic that has it.
        other: String,
        /// The number.
        number: u32,
        /// Where that is written down.
        registry: Namespace,
    },
    /// It has another one.
    #[error(
        "the topic {topic:?} is written down in {registry} under number {known}, not {number}: leave `topics` as it was"
    )]
    Changed {
        /// The topic.
        topic: String,
        /// The number that it should get.
        number: u32,
        /// The number that it has.
        known: i64,
        /// Where that is written down.
        registry: Namespace,
    },
    /// The server cannot be asked.
    #[error(transparent)]
    Wire(#[from] Wire),
}

/// The numbers of topics, as one collection has them.
#[derive(Debug)]
pub struct Topics {
    registry: Namespace,
    chosen: BTreeMap<String, u32>,
    known: Mutex<HashMap<Arc<str>, u32>>,
}

impl Topics {
    /// The topics of the data in `namespace`; `chosen` are numbers that the settings give.
    pub fn of(namespace: &Namespace, chosen: BTreeMap<String, u32>) -> Self {
        Self { registry: namespace.sibling(COLLECTION), chosen, known: Mutex::default() }
    }

    /// The number that a topic gets if no other has it.
    pub fn wished(&self, topic: &str) -> u32 {
        self.chosen.get(topic).copied().unwrap_or_else(|| hashed(topic))
    }

    /// The number of a topic, if it was asked for before.
    pub fn known(&self, topic: &str) -> Option<u32> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(topic).copied()
    }

    /// The number of a topic; the first time it is written down, durably.
    ///
    /// # Errors
    /// If another topic has the number, the topic has another number, or the server cannot be asked.
    pub async fn number(&self, connection: &mut Connection, topic: &Arc<str>) -> Result<u32, TopicError> {
        if let Some(number) = self.known(topic) {
            return Ok(number);
        }
        let number = self.wished(topic);
        self.check_unchanged(connection, topic, number).await?;
        let other = match self.write_down(connection, topic, number).await {
            Err(Wire::Server(error)) if error.code == DUPLICATE => {
                self.write_down(connection, topic, number).await?
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
        let Some(known) = first(&reply).and_then(|found| number_of(found, "_id")) else { return Ok(()) };
        if known == i64::from(number) {
            return Ok(());
        }
        let (topic, registry) = (topic.to_owned(), self.registry.clone());
        Err(TopicError::Changed { topic, number, known, registry })
    }

    /// Writes a topic down unless the number is taken; gives the topic that has it.
    async fn write_down(
        &self,
        connection: &mut Connection,
        topic: &str,
        number: u32,
    ) -> Result<String, Wire> {
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
        // Some servers show nothing to the one that came second at the same moment.
        let find = rawdoc! {"find": self.registry.collection.as_str(), "filter": {"_id": i64::from(number)}, "limit": 1};
        let reply = connection.command(&self.registry.db, &find).await?;
        let found = first(&reply).and_then(|found| found.get_str("topic").ok());
        Ok(found.unwrap_or_default().to_owned())
    }
}

/// The first four bytes of the SHA-256 of a topic's name.
fn hashed(topic: &str) -> u32 {
    let digest = Sha256::digest(topic.as_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

/// The first document of a find's reply.
pub(crate) fn first(reply: &RawDocument) -> Option<&RawDocument> {
    let batch = reply.get_document("cursor").ok()?.get_array("firstBatch").ok()?;
    batch.into_iter().next()?.ok()?.as_document()
}

/// A whole number of either width, or one that a server made a double.
pub(crate) fn number_of(document: &RawDocument, key: &str) -> Option<i64> {
    let value = document.get(key).ok()??;
    let double = value.as_f64().filter(|value| value.fract() == 0.0).map(|value| value as i64);
    value.as_i64().or_else(|| value.as_i32().map(i64::from)).or(double)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topics_number_follows_from_its_name_unless_it_was_chosen() {
        let namespace: Namespace = "shop.orders".parse().unwrap();
        let topics = Topics::of(&namespace, BTreeMap::from([("b".to_owned(), 7)]));
        // The SHA-256 of "abc" begins with ba7816bf (FIPS 180-2, B.1).
        assert_eq!((topics.wished("abc"), topics.wished("b")), (0xba78_16bf, 7));
        assert_eq!(topics.registry.to_string(), "shop.plimsoll_topics");
        assert_eq!(topics.known("abc"), None);
    }
}
