//! Lists the pipelines of the campaign: their guarantees, and their missing guards.

use plimsoll_host::Profile as Durability;
use serde::Serialize;

/// A process that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    /// The process of the pipeline.
    Engine,
    /// The Kafka broker.
    Broker,
    /// The MongoDB server.
    Server,
}

/// The source of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A topic.
    Topic,
    /// The changes of a collection.
    Changes,
}

/// The expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Nothing lost and nothing duplicated.
    Once,
    /// Nothing lost.
    AtLeastOnce,
    /// A guard is missing: something must be lost.
    Loss,
    /// A guard is missing: something must be duplicated, and nothing lost.
    Copies,
}

/// A pipeline of the campaign.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The name, also that of its topics and collections.
    pub name: &'static str,
    /// The source, the sink and the guarantee; or the missing guard.
    pub says: &'static str,
    /// The expected result.
    pub wanted: Wanted,
    /// The source of its events.
    pub source: Source,
    /// The durability of its server.
    pub server: Durability,
    /// The killed processes, in these proportions.
    pub victims: &'static [Victim],
    /// The rest of the pipeline's file. `BROKERS`, `URI` and `NAME` are replaced.
    pub file: &'static str,
    /// Overrides of the last run, which only writes the remaining events.
    pub hurry: &'static [&'static str],
    /// The events that fill its topic.
    pub feed: Feed,
}

/// The rate and the form of the events that fill a topic.
#[derive(Clone, Copy, Debug)]
pub struct Feed {
    /// The number of events a second.
    pub rate: u32,
    /// The settings of the event generator, as YAML.
    pub event: &'static str,
}

/// Enough that events are always in flight, and little enough for two cores.
const BYTES: Feed = Feed { rate: 2000, event: "payload: 120B" };
/// Texts at a rate that a model on one core sustains.
const TEXTS: Feed = Feed { rate: 60, event: "words: 8" };

const FROM_KAFKA: &str = "source: {kafka: {brokers: 'BROKERS', topic: NAME-in, group: NAME, start: earliest, \
                          properties: {session.timeout.ms: 4000, heartbeat.interval.ms: 500}}}\n";
const FROM_CHANGES: &str = "source: {change_stream: {uri: 'URI', watch: kills_source.NAME, start: now}}\n\
                            positions: {collection: {uri: 'URI', collection: kills.positions}}\n";

use Victim::{Broker, Engine, Server};

const KEPT: Profile = Profile {
    name: "",
    says: "",
    wanted: Wanted::Once,
    source: Source::Topic,
    server: Durability::Journaled,
    victims: &[Engine, Server, Engine, Broker],
    file: "",
    hurry: &[],
    feed: BYTES,
};

/// Profiles with every guard.
pub const GUARDED: &[Profile] = &[
    Profile {
        name: "insert",
        says: "Kafka → MongoDB insert, effectively-once",
        file: "guarantee: effectively-once\nin_flight: {events: 3000, batch: 200}\n\
               sink: {insert: {uri: 'URI', collection: kills.NAME, form: full}}\n",
        ..KEPT
    },
    Profile {
        name: "transactional",
        says: "Kafka → MongoDB transactional",
        file: "guarantee: effectively-once\nin_flight: {events: 3000, batch: 200}\n\
               sink: {transactional: {uri: 'URI', collection: kills.NAME, form: full, gather_wait: 200ms}}\n",
        ..KEPT
    },
    Profile {
        name: "at-least-once",
        says: "Kafka → Kafka, at-least-once",
        wanted: Wanted::AtLeastOnce,
        victims: &[Engine, Engine, Broker],
        file: "guarantee: at-least-once\nin_flight: {events: 3000, batch: 200}\n\
               sink: {kafka: {brokers: 'BROKERS', topic: NAME-out, placing: same}}\n",
        ..KEPT
    },
    Profile {
        name: "exactly-once",
        says: "Kafka → Kafka, exactly-once",
        victims: &[Engine, Engine, Broker],
        file: "guarantee: effectively-once\nin_flight: {events: 3000, batch: 200}\n\
               sink: {kafka: {brokers: 'BROKERS', topic: NAME-out, placing: same, exactly_once: {transactional_id: NAME, age_max: 200ms}}}\n",
        ..KEPT
    },
    Profile {
        name: "envelope",
        says: "Kafka → envelope → Kafka, at-least-once",
        wanted: Wanted::AtLeastOnce,
        victims: &[Engine, Engine, Broker],
        file: "guarantee: at-least-once\ntransforms: [encode: {}]\nin_flight: {events: 3000, batch: 200}\n\
               sink: {kafka: {brokers: 'BROKERS', topic: NAME-out, placing: same}}\n",
        ..KEPT
    },
    Profile {
        name: "envelope-once",
        says: "Kafka → envelope → Kafka, exactly-once",
        victims: &[Engine, Engine, Broker],
        file: "guarantee: effectively-once\ntransforms: [encode: {}]\nin_flight: {events: 3000, batch: 200}\n\
               sink: {kafka: {brokers: 'BROKERS', topic: NAME-out, placing: same, exactly_once: {transactional_id: NAME, age_max: 200ms}}}\n",
        ..KEPT
    },
    Profile {
        name: "vector",
        says: "Kafka → embed → MongoDB vector, effectively-once",
        file: "guarantee: effectively-once\ntransforms: [embed: {payload: text}]\nthreads: {pool: 1}\n\
               in_flight: {events: 500, batch: 20}\n\
               sink: {vector: {uri: 'URI', collection: kills.NAME, by: source, form: full}}\n",
        feed: TEXTS,
        ..KEPT
    },
    Profile {
        name: "changes",
        says: "change stream → MongoDB insert",
        source: Source::Changes,
        victims: &[Engine, Server],
        file: "guarantee: effectively-once\nin_flight: {events: 3000, batch: 200}\n\
               sink: {insert: {uri: 'URI', collection: kills.NAME, form: bson}}\n",
        ..KEPT
    },
];

/// Profiles that each lack one guard. The profile with another server comes last.
///
/// The guard of `insert` and `changes` is the id of a document. The guard of `transactional` is the position
/// in the transaction of the documents. Rows without a guard give documents new ids, or store positions
/// elsewhere. No row removes the fencing of a process whose partition moved: tests of the sinks cover it.
/// Without the epoch of `transactional` an audit would find nothing here, because records of a topic have the
/// same numbers for every reader. Documents of a scan have other numbers for each reader: there, a test of
/// `stores` removes the epoch.
pub const UNGUARDED: &[Profile] = &[
    Profile {
        name: "kept-before-written",
        says: "positions kept before the sink acknowledged (at-most-once)",
        wanted: Wanted::Loss,
        victims: &[Engine],
        // Small commands, one at a time, so that a command is always in flight.
        file: "guarantee: at-most-once\nin_flight: {events: 3000, batch: 10}\nthreads: {pool: 1}\n\
               sink: {insert: {uri: 'URI', collection: kills.NAME, form: full, connections: 1}}\n",
        hurry: &["in_flight.batch=500", "sink.insert.connections=4"],
        ..KEPT
    },
    Profile {
        name: "not-tried-again",
        says: "a batch that failed is not tried again (at-most-once)",
        wanted: Wanted::Loss,
        victims: &[Server],
        file: "guarantee: at-most-once\nin_flight: {events: 3000, batch: 200}\n\
               sink: {insert: {uri: 'URI', collection: kills.NAME, form: full}}\n",
        ..KEPT
    },
    Profile {
        name: "no-delivery",
        says: "records wait 1 s and are not tried again (at-most-once)",
        wanted: Wanted::Loss,
        victims: &[Broker],
        file: "guarantee: at-most-once\nin_flight: {events: 3000, batch: 200}\n\
               sink: {kafka: {brokers: 'BROKERS', topic: NAME-out, placing: same, delivery_timeout: 1s, properties: {linger.ms: 500}}}\n",
        ..KEPT
    },
    Profile {
        name: "ids-of-their-own",
        says: "documents with new ids, offsets outside of a transaction",
        wanted: Wanted::Copies,
        victims: &[Engine],
        file: "guarantee: at-least-once\ncommit_every: 2s\nin_flight: {events: 3000, batch: 200}\n\
               sink: {insert: {uri: 'URI', collection: kills.NAME, form: full, identity: object_id, source_field: from}}\n",
        ..KEPT
    },
    Profile {
        name: "no-transactions",
        says: "no transactions into Kafka (at-least-once)",
        wanted: Wanted::Copies,
        victims: &[Engine],
        file: "guarantee: at-least-once\ncommit_every: 2s\nin_flight: {events: 3000, batch: 200}\n\
               sink: {kafka: {brokers: 'BROKERS', topic: NAME-out, placing: same}}\n",
        ..KEPT
    },
    Profile {
        name: "changes-named-anew",
        says: "changes with new ids, positions outside of a transaction",
        wanted: Wanted::Copies,
        source: Source::Changes,
        victims: &[Engine],
        file: "guarantee: at-least-once\ncommit_every: 2s\nin_flight: {events: 3000, batch: 200}\n\
               sink: {insert: {uri: 'URI', collection: kills.NAME, form: bson, identity: object_id, source_field: from}}\n",
        ..KEPT
    },
    Profile {
        name: "no-journal",
        says: "a server that does not sync what it acknowledges",
        wanted: Wanted::Loss,
        server: Durability::Relaxed,
        victims: &[Server],
        file: "guarantee: effectively-once\ncommit_every: 100ms\nin_flight: {events: 3000, batch: 200}\n\
               sink: {insert: {uri: 'URI', collection: kills.NAME, form: full}}\n",
        ..KEPT
    },
];

impl Profile {
    /// Its file, with the addresses.
    pub fn text(&self, brokers: &str, uri: &str) -> String {
        let source = match self.source {
            Source::Topic => FROM_KAFKA,
            Source::Changes => FROM_CHANGES,
        };
        let text = format!("name: NAME\n{source}{}", self.file);
        text.replace("BROKERS", brokers).replace("URI", uri).replace("NAME", self.name)
    }

    /// Whether it writes to a topic.
    pub fn writes_a_topic(&self) -> bool {
        self.file.contains("NAME-out")
    }

    /// Whether a field of its documents names their source.
    pub fn names_anew(&self) -> bool {
        self.file.contains("source_field: from")
    }
}
