//! Tests that a killed server loses no acknowledged activity.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt;
use mongodb::Database;
use plimsoll_host::Profile;
use plimsoll_service::Clock;
use plimsoll_telemetry::feeds::{Error, Feeds, Settings};

use crate::server::{database, start};
use crate::web::feeds::activity;

/// The ids of all activities in a database.
pub async fn stored(database: &Database) -> BTreeSet<String> {
    let all = database.collection::<bson::Document>("activities").find(bson::doc! {}).await.unwrap();
    let all: Vec<bson::Document> = all.try_collect().await.unwrap();
    all.iter().map(|one| one.get_str("_id").unwrap().to_owned()).collect()
}

/// Posts activities one by one until stopped, and records the acknowledged ones.
async fn post(feeds: Feeds, user: String, acknowledged: Arc<Mutex<BTreeSet<String>>>, stop: Arc<AtomicBool>) {
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let id = format!("{user}-{n}");
        match feeds.post(activity(&id, &user, n)).await {
            Ok(_) => drop(acknowledged.lock().unwrap().insert(id)),
            Err(Error::Database(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_the_server_loses_no_acknowledged_activity() {
    let mut server = start(Profile::Journaled);
    let feeds =
        Feeds::open(&database(&server, "kill").await, Settings::default(), Clock::start()).await.unwrap();
    feeds.follow("reader", &["u0".into(), "u1".into()]).await.unwrap();
    let (acknowledged, stop) = (Arc::<Mutex<BTreeSet<String>>>::default(), Arc::new(AtomicBool::new(false)));
    let posters: Vec<_> = (0..8)
        .map(|n| {
            tokio::spawn(post(feeds.clone(), format!("u{n}"), Arc::clone(&acknowledged), Arc::clone(&stop)))
        })
        .collect();
    while acknowledged.lock().unwrap().len() < 100 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.kill().unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    stop.store(true, Ordering::SeqCst);
    for poster in posters {
        poster.await.unwrap();
    }
    server.restart().unwrap();
    let found = stored(&database(&server, "kill").await).await;
    let acknowledged = acknowledged.lock().unwrap();
    let lost: Vec<_> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "lost {} of {}: {lost:?}", lost.len(), acknowledged.len());
}
