//! Tests the promises of the workflow engine's store.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use plimsoll_stores::workflow::Mongo;
use plimsoll_workflow::contract;
use plimsoll_workflow::port::{Find, Store, StoreError};
use tokio::runtime::{Builder, Runtime};

use crate::bench::{shared, start, uri};

const PARTITIONS: u16 = 8;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn the_store_keeps_every_promise() {
    let (server, next) = (shared(), AtomicU32::new(0));
    let empty = || async {
        let db = format!("workflow_{}", next.fetch_add(1, Ordering::Relaxed));
        Mongo::open(&uri(&server), &db, 2, PARTITIONS).await.unwrap()
    };
    runtime().block_on(async {
        contract::check(empty).await.unwrap();
        let pass = || tokio::time::sleep(Duration::from_millis(120));
        contract::check_expiry(&empty().await, 100, pass).await.unwrap();
    });
}

#[test]
fn a_store_in_transactions_keeps_every_promise() {
    let (server, next) = (shared(), AtomicU32::new(0));
    let empty = || async {
        let db = format!("workflow_transactions_{}", next.fetch_add(1, Ordering::Relaxed));
        Mongo::open_in_transactions(&uri(&server), &db, 2, PARTITIONS).await.unwrap()
    };
    runtime().block_on(async { contract::check(empty).await.unwrap() });
}

#[test]
fn a_store_works_again_after_the_server_was_killed_and_keeps_its_number_of_partitions() {
    let mut server = start();
    let uri = uri(&server);
    runtime().block_on(async {
        let store = Mongo::open(&uri, "workflow", 1, PARTITIONS).await.unwrap();
        let one = Find { limit: 1, ..Find::default() };
        let find = || store.find(&one);
        assert!(find().await.unwrap().is_empty());
        server.kill().unwrap();
        let dead = find().await;
        assert!(matches!(dead, Err(StoreError::Unavailable(_))), "{dead:?}");
        server.restart().unwrap();
        assert!(find().await.unwrap().is_empty());
        assert_eq!(Mongo::open(&uri, "workflow", 1, 64).await.unwrap().partitions(), PARTITIONS);
    });
}

#[test]
fn an_unusable_uri_is_refused() {
    runtime().block_on(async {
        let refused = Mongo::open("nonsense://", "workflow", 1, 1).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    });
}
