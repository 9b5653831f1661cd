//! Tests that operations on a simulated sharded cluster reach the shards that they should.

use std::path::Path;
use std::sync::Arc;

use plimsoll_deployment::Deployment;
use plimsoll_host::sharded::{Cluster, Options};
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::Outcome;
use plimsoll_mongo::lean::Lean;
use plimsoll_mongo::setup::{Context, Setup};
use plimsoll_mongo::sharding::{Plan, Sharding, apply};
use plimsoll_mongo::spread::Spread;
use serde_json::json;

use crate::loads::{self, NAMESPACE, OPERATIONS, WRITERS, wait_until};
use crate::scripts::{TIMEOUT, ledger, plan, run};

fn cluster(routers: usize) -> Cluster {
    Cluster::start(&Options { routers, ..Options::default() }).unwrap()
}

/// Shards the collection of a plan as a scenario's `shard` section says.
pub fn shard(cluster: &Cluster, setup: &Setup, sharding: serde_json::Value, documents: u64) {
    let typed: Sharding = serde_json::from_value(sharding).unwrap();
    let context = Context { seed: 1, run: setup.run, base: Path::new(".") };
    let plan = Plan::build(&typed, setup, Some(documents), context).unwrap();
    run(async {
        let deployment = Deployment::find(&cluster.uri(), TIMEOUT).await.unwrap();
        apply(&mut deployment.connect().await.unwrap(), &plan, |_| {}).await.unwrap();
    });
}

/// The number of commands with this name that each shard received.
fn received(cluster: &Cluster, name: &str) -> [u64; 2] {
    [0, 1].map(|shard| cluster.received(shard).get(name).copied().unwrap_or(0))
}

fn documents(cluster: &Cluster) -> [usize; 2] {
    [0, 1].map(|shard| cluster.shard(shard).documents(NAMESPACE))
}

async fn send<T: Target>(target: &T, lane: &mut T::Lane, operation: usize) {
    assert_eq!(target.prepare(lane, operation, 0), Prepared::Ready);
    assert_eq!(target.send(lane).await.outcome, Outcome::Acknowledged);
}

#[test]
fn operations_by_key_reach_one_shard_and_all_others_every_shard() {
    let cluster = cluster(1);
    let operations = [
        ("insert", r#"{"insert": {"batch": 100}}"#),
        ("one", r#"{"find": {}}"#),
        ("all", r#"{"find": {"filter": {}}}"#),
    ];
    let setup = Arc::new(plan("{}", &operations));
    shard(&cluster, &setup, json!({"key": {"_id": 1}, "chunks": 2, "spread": true}), 200);
    run(async {
        let deployment = Arc::new(Deployment::find(&cluster.uri(), TIMEOUT).await.unwrap());
        let target = Lean::new(setup.clone(), deployment, ledger(&setup));
        let mut lane = target.open().await.unwrap();
        send(&target, &mut lane, 0).await;
        assert_eq!(
            (documents(&cluster), received(&cluster, "insert")),
            ([100, 0], [1, 0]),
            "the first chunk"
        );
        send(&target, &mut lane, 0).await;
        assert_eq!((documents(&cluster), received(&cluster, "insert")), ([100, 100], [1, 1]));
        for _ in 0..10 {
            send(&target, &mut lane, 1).await;
        }
        assert_eq!(
            received(&cluster, "find").iter().sum::<u64>(),
            10,
            "each find by receipt reaches one shard"
        );
        let before = received(&cluster, "find");
        send(&target, &mut lane, 2).await;
        assert_eq!(received(&cluster, "find"), before.map(|count| count + 1));
    });
}

#[test]
fn a_load_on_a_hashed_key_is_spread_over_shards_and_routers_and_survives_an_election() {
    let cluster = cluster(2);
    let setup = plan("{}", &[("insert", r#"{"insert": {}}"#)]);
    shard(&cluster, &setup, json!({"key": {"_id": "hashed"}}), OPERATIONS);
    let loaded = loads::load(&cluster.uri(), r#"{"write_concern": {"w": "majority"}}"#, None, || {
        wait_until(|| cluster.shard(0).documents(NAMESPACE) >= 200);
        cluster.shard(0).fail_over().unwrap();
    });
    loaded.check_unharmed();
    let documents = documents(&cluster);
    assert_eq!(documents.iter().sum::<usize>() as u64, OPERATIONS);
    let half = OPERATIONS as usize / 2;
    assert!(documents.iter().all(|count| count.abs_diff(half) < half / 10), "{documents:?}");
    // The connections of the load take turns, so that each router has half of the writers.
    let routed = [0, 1].map(|router| cluster.routed(router));
    let share = OPERATIONS / WRITERS as u64 / 4;
    assert!(routed.iter().all(|count| *count > share), "{routed:?}");
}

#[test]
fn a_spread_over_several_clusters_is_even_to_the_operation() {
    let clusters = [cluster(1), cluster(1)];
    let setup = Arc::new(plan("{}", &[("insert", r#"{"insert": {}}"#)]));
    run(async {
        let mut deployments = Vec::new();
        for cluster in &clusters {
            deployments.push(Arc::new(Deployment::find(&cluster.uri(), TIMEOUT).await.unwrap()));
        }
        let target = Spread::new(setup.clone(), &deployments, ledger(&setup));
        let mut lane = target.open().await.unwrap();
        for number in 0..20 {
            assert_eq!(target.prepare(&mut lane, 0, number), Prepared::Ready);
            assert_eq!(target.send(&mut lane).await.outcome, Outcome::Acknowledged);
        }
    });
    assert_eq!(clusters.each_ref().map(|cluster| received(cluster, "insert")), [[10, 0], [10, 0]]);
}
