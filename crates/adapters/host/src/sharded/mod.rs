//! Runs a simulated sharded cluster: routers on ports of this process in front of shards that are simulated replica sets.
//!
//! Routers share one catalogue, as mongos share the config servers. An operation with the shard key reaches
//! one shard. Any other operation reaches all shards that may hold its documents. Each shard counts its
//! commands by name, so that a test sees where operations go. Chunks move only while their collection is
//! empty, there is no balancer, and hashes are not MongoDB's. A test moves single documents.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use bson::{Bson, RawDocument, doc};

use crate::replica_set::{self, ReplicaSet};
use crate::serve::{AnswerDelay, Listener};

pub use crate::serve::Error;

mod catalogue;
mod router;
mod shard;

use catalogue::{Catalogue, Sharded};
use router::Router;
use shard::Shard;

/// The limit of shards, and of routers.
pub const SHARDS_MAX: usize = 16;

/// The settings of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The number of shards, from 1 to [`SHARDS_MAX`].
    pub shards: usize,
    /// The number of routers, from 1 to [`SHARDS_MAX`].
    pub routers: usize,
    /// Whether routers return documents that another shard owns, as MongoDB's never should.
    pub shows_orphans: bool,
    /// Whether the shards are in a network that clients cannot reach: routers then list unreachable
    /// addresses.
    pub is_private: bool,
    /// The settings of each shard; its name is `shard0`, `shard1`, …
    pub shard: replica_set::Options,
}

impl Default for Options {
    /// Two shards of three members behind one router.
    fn default() -> Self {
        Self {
            shards: 2,
            routers: 1,
            shows_orphans: false,
            is_private: false,
            shard: replica_set::Options::default(),
        }
    }
}

/// A sharded cluster on free ports of 127.0.0.1. Dropping it closes all connections and ends all threads.
#[derive(Debug)]
pub struct Cluster {
    sets: Vec<ReplicaSet>,
    shards: Arc<Vec<Shard>>,
    catalogue: Arc<Mutex<Catalogue>>,
    // Dropped after the sets: by then no command waits for an election.
    routers: Vec<Listener<Router>>,
}

impl Cluster {
    /// Starts the shards and the routers.
    ///
    /// # Errors
    /// [`Error`] if no port is available.
    ///
    /// # Panics
    /// With fewer than one or more than [`SHARDS_MAX`] shards or routers.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let counts = [options.shards, options.routers];
        assert!(counts.iter().all(|count| (1..=SHARDS_MAX).contains(count)), "from 1 to {SHARDS_MAX}");
        let set = |index: usize| {
            ReplicaSet::start(replica_set::Options { name: format!("shard{index}"), ..options.shard.clone() })
        };
        let sets = (0..options.shards).map(set).collect::<Result<Vec<_>, _>>()?;
        let shard = |(index, set): (usize, &ReplicaSet)| Shard {
            name: format!("shard{index}"),
            set: set.shared().clone(),
            counts: Mutex::default(),
        };
        let shards = Arc::new(sets.iter().enumerate().map(shard).collect::<Vec<_>>());
        let catalogue = Arc::<Mutex<Catalogue>>::default();
        let router = |_| {
            let router = Router::new(shards.clone(), catalogue.clone(), options);
            Listener::open(router, AnswerDelay::default())
        };
        let routers = (0..options.routers).map(router).collect::<Result<_, _>>()?;
        Ok(Self { sets, shards, catalogue, routers })
    }

    /// The addresses of the routers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.routers.iter().map(Listener::address).collect()
    }

    /// The connection string of the cluster, which names all routers.
    pub fn uri(&self) -> String {
        let routers: Vec<String> = self.addresses().iter().map(ToString::to_string).collect();
        format!("mongodb://{}/", routers.join(","))
    }

    /// The replica set of a shard.
    pub fn shard(&self, index: usize) -> &ReplicaSet {
        &self.sets[index]
    }

    /// Shards an empty collection, `database.collection`, by the hash of `_id`.
    pub fn shard_by_hash(&self, namespace: &str) {
        let mut catalogue = self.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        catalogue.collections.insert(namespace.to_owned(), Sharded::new(&doc! {"_id": "hashed"}));
    }

    /// Puts a copy of a shard's document on another shard, as an interrupted migration leaves it; returns its `_id`.
    pub fn stray(&self, namespace: &str, position: usize, from: usize, to: usize) -> Option<Bson> {
        let document = self.sets[from].copy(namespace, position)?;
        let id = RawDocument::from_bytes(&document).ok()?.get("_id").ok()??;
        self.sets[to].plant(namespace, &document);
        Bson::try_from(id).ok()
    }

    /// Moves a shard's document to another shard, like a migration that deletes the old copy at once; returns
    /// its `_id`.
    pub fn migrate(&self, namespace: &str, position: usize, from: usize, to: usize) -> Option<Bson> {
        let document = self.sets[from].copy(namespace, position)?;
        self.sets[to].plant(namespace, &document);
        let document = RawDocument::from_bytes(&document).ok()?;
        let id = Bson::try_from(document.get("_id").ok()??).ok()?;
        let mut catalogue = self.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        catalogue.collections.get_mut(namespace)?.move_document(document, to);
        drop(catalogue);
        self.sets[from].uproot(namespace, &id);
        Some(id)
    }

    /// The commands that a shard received from routers so far, by name.
    pub fn received(&self, shard: usize) -> BTreeMap<String, u64> {
        self.shards[shard].counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The commands that a router received so far, without greetings.
    pub fn routed(&self, router: usize) -> u64 {
        self.routers[router].service().commands.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::client::Client;
    use bson::{Document, RawDocumentBuf, doc};

    fn cluster(routers: usize) -> Cluster {
        Cluster::start(&Options { routers, ..Options::default() }).unwrap()
    }

    fn ask(cluster: &Cluster, router: usize, command: Document) -> Document {
        let answer = Client::of(cluster.addresses()[router]).ask(&RawDocumentBuf::try_from(command).unwrap());
        assert_eq!(answer.get_f64("ok").unwrap(), 1.0, "{answer}");
        answer
    }

    /// Shards `d.c` by `customer`: texts from "m" are on the second shard.
    fn shard(cluster: &Cluster) {
        for command in [
            doc! {"enableSharding": "d"},
            doc! {"shardCollection": "d.c", "key": {"customer": 1}},
            doc! {"split": "d.c", "middle": {"customer": "m"}},
            doc! {"moveChunk": "d.c", "find": {"customer": "m"}, "to": "shard1"},
        ] {
            let mut command = command;
            command.insert("$db", "admin");
            ask(cluster, 0, command);
        }
    }

    fn insert(cluster: &Cluster, router: usize, customers: &[&str]) -> Document {
        let documents: Vec<_> =
            customers.iter().map(|name| doc! {"_id": format!("{name}{router}"), "customer": *name}).collect();
        ask(cluster, router, doc! {"insert": "c", "documents": documents, "ordered": false, "$db": "d"})
    }

    /// A command of the transaction with this number; the answer may be an error.
    fn part(cluster: &Cluster, number: i64, mut command: Document) -> Document {
        command.extend(doc! {"lsid": {"id": 9}, "txnNumber": number, "autocommit": false, "$db": "d"});
        if command.contains_key("insert") {
            command.insert("startTransaction", true);
        }
        Client::of(cluster.addresses()[0]).ask(&RawDocumentBuf::try_from(command).unwrap())
    }

    #[test]
    fn a_transaction_is_stored_on_all_of_its_shards_with_its_commit_or_on_none() {
        let cluster = cluster(1);
        shard(&cluster);
        let insert = |number, names: [&str; 2]| {
            let documents = names.map(|name| doc! {"_id": name, "customer": name});
            part(&cluster, number, doc! {"insert": "c", "documents": documents.to_vec()})
        };
        let documents = || [0, 1].map(|shard| cluster.shard(shard).documents("d.c"));
        assert_eq!(insert(1, ["a", "z"]).get_i32("n").unwrap(), 2);
        assert_eq!(documents(), [0, 0]);
        let commit = |number| part(&cluster, number, doc! {"commitTransaction": 1});
        assert_eq!((commit(1).get_f64("ok").unwrap(), documents()), (1.0, [1, 1]));
        insert(2, ["b", "y"]);
        cluster.shard(1).fail_over().unwrap();
        assert_eq!((commit(2).get_i32("code").unwrap(), documents()), (251, [1, 1]));
    }

    fn received(cluster: &Cluster, name: &str) -> [u64; 2] {
        [0, 1].map(|shard| cluster.received(shard).get(name).copied().unwrap_or(0))
    }

    fn find_all(cluster: &Cluster) -> usize {
        let answer = ask(cluster, 0, doc! {"find": "c", "batchSize": 100, "$db": "d"});
        answer.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len()
    }

    #[test]
    fn an_orphan_is_on_a_shard_and_hidden_by_routers_unless_they_show_orphans() {
        for (shows_orphans, found) in [(false, 2), (true, 3)] {
            let cluster = Cluster::start(&Options { shows_orphans, ..Options::default() }).unwrap();
            shard(&cluster);
            insert(&cluster, 0, &["a", "z"]);
            assert_eq!(cluster.stray("d.c", 0, 0, 1), Some(Bson::from("a0")));
            assert_eq!((documents(&cluster), find_all(&cluster)), ([1, 2], found));
        }
    }

    #[test]
    fn a_document_that_migrates_is_shown_by_routers_and_held_by_its_new_shard_alone() {
        let cluster = cluster(1);
        shard(&cluster);
        insert(&cluster, 0, &["a", "z"]);
        assert_eq!(cluster.migrate("d.c", 0, 0, 1), Some(Bson::from("a0")));
        assert_eq!((documents(&cluster), find_all(&cluster)), ([0, 2], 2));
        let answer = ask(&cluster, 0, doc! {"find": "c", "filter": {"_id": "a0"}, "$db": "d"});
        assert_eq!(answer.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len(), 1);
    }

    fn documents(cluster: &Cluster) -> [usize; 2] {
        [0, 1].map(|shard| cluster.shard(shard).documents("d.c"))
    }

    #[test]
    fn documents_go_to_the_shard_of_their_key_through_any_router() {
        let cluster = cluster(2);
        shard(&cluster);
        assert_eq!(insert(&cluster, 0, &["a", "z", "b"]), doc! {"n": 3, "ok": 1.0});
        assert_eq!(insert(&cluster, 1, &["y"]), doc! {"n": 1, "ok": 1.0});
        assert_eq!((documents(&cluster), received(&cluster, "insert")), ([2, 2], [1, 2]));
        assert_eq!((cluster.routed(0), cluster.routed(1)), (5, 1));
    }

    #[test]
    fn a_write_error_names_the_document_of_the_whole_command() {
        let cluster = cluster(1);
        shard(&cluster);
        insert(&cluster, 0, &["z"]);
        let answer = insert(&cluster, 0, &["a", "y", "z", "b"]);
        let error = answer.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
        assert_eq!((answer.get_i32("n").unwrap(), error.get_i32("index").unwrap()), (3, 2));
    }

    #[test]
    fn a_count_and_a_scan_reach_all_shards_and_lose_nothing() {
        let cluster = cluster(1);
        shard(&cluster);
        let names: Vec<String> = (b'a'..=b'z').map(|letter| char::from(letter).to_string()).collect();
        insert(&cluster, 0, &names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ask(&cluster, 0, doc! {"count": "c", "$db": "d"}).get_i32("n").unwrap(), 26);
        let mut found = 0;
        let mut answer = ask(&cluster, 0, doc! {"find": "c", "batchSize": 3, "$db": "d"});
        loop {
            let cursor = answer.get_document("cursor").unwrap();
            let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch"));
            found += batch.unwrap().len();
            let id = cursor.get_i64("id").unwrap();
            if id == 0 {
                break;
            }
            answer = ask(&cluster, 0, doc! {"getMore": id, "collection": "c", "batchSize": 3, "$db": "d"});
        }
        assert_eq!((found, received(&cluster, "find")), (26, [1, 1]));
    }

    #[test]
    fn a_collection_that_is_not_sharded_is_on_the_first_shard() {
        let cluster = cluster(1);
        insert(&cluster, 0, &["a", "z"]);
        assert_eq!((documents(&cluster), received(&cluster, "insert")), ([2, 0], [1, 0]));
        ask(&cluster, 0, doc! {"drop": "c", "$db": "d"});
        assert_eq!(documents(&cluster), [0, 0]);
    }
}
