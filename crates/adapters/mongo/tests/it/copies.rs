//! Tests that audits compare the members of replica sets and the shards of clusters, and name each document that differs.

use std::collections::BTreeSet;

use bson::Bson;
use plimsoll_host::replica_set::{Options, ReplicaSet};
use plimsoll_host::sharded::{self, Cluster};
use plimsoll_measure::clock;
use plimsoll_mongo::audit::{Audited, Listener};
use serde_json::json;

use crate::loads::{self, Loaded, NAMESPACE, OPERATIONS};
use crate::scripts::plan;
use crate::sharded::shard;

fn set() -> ReplicaSet {
    ReplicaSet::start(Options { lag: 3, ..Options::default() }).unwrap()
}

fn load(uri: &str, write_concern: &str) -> Loaded {
    loads::load(uri, &format!(r#"{{"write_concern": {write_concern}}}"#), None, || {})
}

fn object_ids(ids: impl IntoIterator<Item = Option<Bson>>) -> BTreeSet<[u8; 12]> {
    let bytes = |id: Option<Bson>| match id {
        Some(Bson::ObjectId(id)) => id.bytes(),
        other => panic!("{other:?}"),
    };
    ids.into_iter().map(bytes).collect()
}

#[test]
fn equal_members_are_compared_and_named_by_nothing() {
    let set = set();
    let audited = load(&set.uri(), r#"{"w": 1}"#).audit().unwrap();
    let others: Vec<String> = set.addresses()[1..].iter().map(ToString::to_string).collect();
    assert_eq!((&audited.compared.members.compared, audited.holds()), (&others, true), "{audited:?}");
    assert_eq!(audited.compared.members.open, Vec::<String>::new());
    assert_eq!(audited.findings.found, OPERATIONS);
}

#[test]
fn a_member_that_lost_or_changed_a_document_is_named_with_the_document() {
    let set = set();
    let loaded = load(&set.uri(), r#"{"w": "majority"}"#);
    // The first audit lets the members catch up; afterwards they lose and change documents.
    let lost = object_ids([7, 4_000].map(|position| set.lose(1, NAMESPACE, position)));
    let flipped = object_ids([set.flip(2, NAMESPACE, 100)]);
    let audited = loaded.audit().unwrap();
    assert!(audited.findings.holds() && !audited.holds(), "the primary has every document: {audited:?}");
    let [(first, missing), (second, corrupted)] = &audited.compared.differences[..] else {
        panic!("{:?}", audited.compared)
    };
    assert_eq!([first, second].map(String::as_str), [1, 2].map(|member| set.addresses()[member].to_string()));
    assert_eq!((loaded.ids(&missing.missing), missing.count), (lost, 2));
    assert_eq!((loaded.ids(&corrupted.corrupted), corrupted.count), (flipped, 1));
}

#[test]
fn a_document_that_the_primary_alone_lost_is_lost_and_named_as_only_on_the_others() {
    let set = set();
    let loaded = load(&set.uri(), r#"{"w": "majority"}"#);
    let lost = object_ids([set.lose(0, NAMESPACE, 9)]);
    let audited = loaded.audit().unwrap();
    assert_eq!(loaded.ids(&audited.findings.examples.lost), lost);
    for (_, differences) in &audited.compared.differences {
        assert_eq!((loaded.ids(&differences.extra), differences.count), (lost.clone(), 1));
    }
    assert_eq!(audited.compared.differences.len(), 2);
}

/// The only sentence on a member that is not compared.
#[track_caller]
fn open(audited: &Audited) -> &str {
    let [sentence] = &audited.compared.members.open[..] else { panic!("{:?}", audited.compared) };
    assert_eq!(audited.compared.members.compared.len(), 1);
    sentence
}

#[test]
fn a_member_that_lags_or_is_down_stays_open_and_is_told() {
    let set = set();
    set.isolate(2);
    let loaded = load(&set.uri(), r#"{"w": "majority"}"#);
    let lagging = loaded.audit().unwrap();
    let member = set.addresses()[2].to_string();
    let sentence = open(&lagging);
    assert!(sentence.contains(&member) && sentence.contains("did not catch up within 1s"), "{sentence}");
    set.kill(2);
    let down = loaded.audit().unwrap();
    assert!(open(&down).contains(&format!("{member} refused the connection")), "{}", open(&down));
    set.restart(2).unwrap();
    assert_eq!(loaded.audit().unwrap().compared.members.compared.len(), 2);
}

fn cluster(shows_orphans: bool) -> Cluster {
    started(sharded::Options { shows_orphans, ..sharded::Options::default() })
}

/// A cluster with the collection of the loads, sharded by a hash.
fn started(options: sharded::Options) -> Cluster {
    let cluster = Cluster::start(&options).unwrap();
    shard(
        &cluster,
        &plan("{}", &[("insert", r#"{"insert": {}}"#)]),
        json!({"key": {"_id": "hashed"}}),
        OPERATIONS,
    );
    cluster
}

#[test]
fn each_shard_is_counted_and_the_sum_agrees_with_the_mongos() {
    let cluster = cluster(false);
    let audited = load(&cluster.uri(), r#"{"w": 1}"#).audit().unwrap();
    let held: Vec<u64> = (0..2).map(|index| cluster.shard(index).documents(NAMESPACE) as u64).collect();
    let counted: Vec<u64> = audited.placed.shards.documents.values().copied().collect();
    assert_eq!((&counted, counted.iter().sum::<u64>()), (&held, OPERATIONS));
    assert!(audited.holds() && audited.placed.shards.skipped.is_empty(), "{audited:?}");
    assert_eq!(audited.compared.members.compared.len(), 4, "two further members of each shard");
}

#[test]
fn an_orphan_is_no_duplicate_unless_the_mongos_shows_it() {
    for shows_orphans in [false, true] {
        let cluster = cluster(shows_orphans);
        let loaded = load(&cluster.uri(), r#"{"w": 1}"#);
        let strays = object_ids([cluster.stray(NAMESPACE, 5, 0, 1)]);
        let audited = loaded.audit().unwrap();
        let placement = &audited.placed.placement;
        assert_eq!(audited.placed.shards.documents.values().sum::<u64>(), OPERATIONS + 1);
        if shows_orphans {
            assert_eq!((loaded.ids(&placement.doubled.1), placement.orphans), (strays.clone(), 0));
            assert_eq!(loaded.ids(&audited.findings.examples.duplicated), strays);
        } else {
            assert_eq!((placement.orphans, placement.doubled.0, audited.holds()), (1, 0, true));
        }
    }
}

#[test]
fn a_document_that_a_member_of_a_shard_lost_is_named_with_the_member() {
    let cluster = cluster(false);
    let loaded = load(&cluster.uri(), r#"{"w": "majority"}"#);
    let lost = object_ids([cluster.shard(1).lose(2, NAMESPACE, 3)]);
    let audited = loaded.audit().unwrap();
    let [(member, differences)] = &audited.compared.differences[..] else { panic!("{:?}", audited.compared) };
    assert_eq!(*member, cluster.shard(1).addresses()[2].to_string());
    assert_eq!((loaded.ids(&differences.missing), differences.count), (lost, 1));
}

/// Moves documents after the scan with this number. The first scan is that of the mongos; then follow each
/// shard's primary and its members.
struct Migrating<'a> {
    cluster: &'a Cluster,
    scans: usize,
    after: std::ops::Range<usize>,
    from: usize,
    moved: BTreeSet<[u8; 12]>,
}

impl Listener for Migrating<'_> {
    fn read(&mut self, _: u64) {
        self.scans += 1;
        if self.after.contains(&self.scans) {
            let moved = self.cluster.migrate(NAMESPACE, 7, self.from, 1 - self.from);
            self.moved.extend(object_ids([moved]));
        }
    }
}

/// Audits a cluster in which a document leaves the shard `from` after each of these scans.
fn audit_migrating(after: std::ops::Range<usize>, from: usize) -> Audited {
    let cluster = cluster(false);
    let loaded = load(&cluster.uri(), r#"{"w": "majority"}"#);
    let mut migrating =
        Migrating { cluster: &cluster, scans: 0, after: after.clone(), from, moved: BTreeSet::new() };
    let audited = loaded.audit_with(&mut migrating).unwrap();
    assert_eq!(migrating.moved.len(), after.len());
    audited
}

#[test]
fn a_document_that_migrates_during_the_audit_is_no_difference() {
    // The old shard is read after the document has left, and the new shard before it arrives; or a shard's
    // members are read after its primary.
    for (after, from) in [(2..3, 1), (2..3, 0), (5..6, 1), (5..6, 0), (3..7, 1)] {
        let audited = audit_migrating(after.clone(), from);
        assert!(audited.holds(), "{after:?} {from}: {:?} {:?}", audited.compared, audited.placed);
        assert_eq!(audited.findings.found, OPERATIONS);
        assert_eq!(audited.compared.members.open, Vec::<String>::new());
    }
}

#[test]
fn a_document_that_a_member_lost_is_named_although_others_migrate() {
    let cluster = cluster(false);
    let loaded = load(&cluster.uri(), r#"{"w": "majority"}"#);
    let lost = object_ids([cluster.shard(1).lose(2, NAMESPACE, 100)]);
    let mut migrating =
        Migrating { cluster: &cluster, scans: 0, after: 2..3, from: 1, moved: BTreeSet::new() };
    let audited = loaded.audit_with(&mut migrating).unwrap();
    let [(_, differences)] = &audited.compared.differences[..] else { panic!("{:?}", audited.compared) };
    assert_eq!((loaded.ids(&differences.missing), differences.count), (lost, 1));
}

/// Calls a function once, after the scan of the mongos.
struct AfterTheMongos<F>(Option<F>);

impl<F: FnOnce() + Send> Listener for AfterTheMongos<F> {
    fn read(&mut self, _: u64) {
        self.0.take().into_iter().for_each(|event| event());
    }
}

#[test]
fn a_shard_that_fails_is_named_and_ends_the_audit_of_no_other() {
    let cluster = cluster(false);
    let loaded = load(&cluster.uri(), r#"{"w": "majority"}"#);
    let held = cluster.shard(1).documents(NAMESPACE) as u64;
    let fail_over = || assert!(cluster.shard(0).fail_over().is_some());
    let audited = loaded.audit_with(&mut AfterTheMongos(Some(fail_over))).unwrap();
    let [sentence] = &audited.placed.shards.open[..] else { panic!("{:?}", audited.placed) };
    assert!(sentence.starts_with("The shard shard0 was not read: "), "{sentence}");
    let documents: Vec<_> = audited.placed.shards.documents.iter().collect();
    assert_eq!(documents, [(&"shard1".to_owned(), &held)]);
    assert_eq!((audited.compared.members.compared.len(), audited.holds()), (2, true), "{audited:?}");
}

#[test]
fn a_member_that_accepts_connections_and_stays_silent_is_left_after_the_longest_lag() {
    let set = set();
    let loaded = load(&set.uri(), r#"{"w": "majority"}"#);
    set.kill(2);
    let _silent = std::net::TcpListener::bind(set.addresses()[2]).unwrap();
    let began = clock::now();
    let audited = loaded.audit().unwrap();
    assert!(open(&audited).contains(&set.addresses()[2].to_string()), "{}", open(&audited));
    // The longest lag is 1 s; a connection without it takes 10 s.
    assert!(clock::now().since(began) < 5 * clock::SECOND_NS, "{} ns", clock::now().since(began));
}

#[test]
fn a_shard_that_lags_is_named_and_its_documents_are_found_at_local() {
    let cluster = cluster(false);
    let loaded = load(&cluster.uri(), r#"{"w": 1}"#);
    cluster.shard(1).hold(true);
    cluster.shard(1).elect(1).unwrap();
    let audited = loaded.audit().unwrap();
    let [sentence] = &audited.placed.shards.open[..] else { panic!("{:?}", audited.placed) };
    assert!(sentence.starts_with("The shard shard1 lags, so the audit read it"), "{sentence}");
    assert!(sentence.contains("did not catch up within 1s"), "{sentence}");
    assert_eq!((audited.findings.found, audited.holds()), (OPERATIONS, true), "{audited:?}");
    let held = [0, 1].map(|index| cluster.shard(index).documents(NAMESPACE) as u64);
    assert!(audited.placed.shards.documents.values().copied().eq(held), "{:?}", audited.placed);
    let members = &audited.compared.members;
    assert_eq!(
        (members.compared.len(), members.open.len()),
        (2, 2),
        "the members of shard1 lag: {members:?}"
    );
}

#[test]
fn a_document_that_a_lagging_shard_lost_is_lost() {
    let cluster = cluster(false);
    let loaded = load(&cluster.uri(), r#"{"w": "majority"}"#);
    cluster.shard(1).hold(true);
    cluster.shard(1).elect(1).unwrap();
    let lost = object_ids([cluster.shard(1).lose(1, NAMESPACE, 3)]);
    let audited = loaded.audit().unwrap();
    assert_eq!(loaded.ids(&audited.findings.examples.lost), lost);
    assert!(!audited.placed.shards.open.is_empty() && !audited.holds(), "{audited:?}");
}

#[test]
fn shards_that_cannot_be_reached_leave_a_sentence() {
    let cluster = started(sharded::Options { is_private: true, ..sharded::Options::default() });
    let audited = load(&cluster.uri(), r#"{"w": 1}"#).audit().unwrap();
    let [sentence] = &audited.placed.shards.skipped[..] else { panic!("{:?}", audited.placed) };
    assert!(sentence.starts_with("The shards were not read past the mongos"), "{sentence}");
    assert!(sentence.contains("127.0.0.1:1 refused the connection"), "{sentence}");
    assert!(audited.holds() && audited.placed.shards.documents.is_empty(), "{audited:?}");
}
