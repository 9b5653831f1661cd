//! Kills the database of a service under load: every acknowledged write exists after its restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use plimsoll_host::Profile;
use plimsoll_measure::clock::{self, SECOND_NS};

use crate::program::{server, uri};
use crate::service::{Client, Service};
use crate::writer::{Writer, feed, follow};

const WRITERS: usize = 8;
/// The start of the readings' times.
const START_MS: i64 = 1_789_000_000_000;
/// The number of acknowledged writes before the kill, and after the restart of the database.
const BEFORE: u64 = 600;
const AFTER: u64 = 200;
/// The number of users who follow all writers and have read their feeds, so that new activities are pushed to
/// them.
const FOLLOWERS: usize = 4;
/// The time limit of every wait, in nanoseconds.
const PATIENCE_NS: u64 = 120 * SECOND_NS;

/// The acknowledgements that writers received.
#[derive(Default)]
struct Acknowledged {
    acknowledged: AtomicU64,
    failed: AtomicU64,
    over: AtomicBool,
}

/// Sends readings, batches and activities until it is over. Unacknowledged writes are not repeated.
fn load(address: &str, name: String, acknowledged_writes: &Acknowledged) -> Writer {
    let (mut client, mut writer) = (Client::connect(address), Writer::new(name, START_MS));
    while !acknowledged_writes.over.load(Ordering::Relaxed) {
        match writer.send(&mut client) {
            Ok(201 | 207) => {
                acknowledged_writes.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => {
                acknowledged_writes.failed.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(20));
            }
            // The service itself survives, but may close a connection.
            Err(_) => client = Client::connect(address),
        }
    }
    writer
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let began = clock::now();
    while !is_there() {
        assert!(clock::now().since(began) < PATIENCE_NS, "timed out waiting for {what}");
        sleep(Duration::from_millis(5));
    }
}

fn killed_under_load(design: &str) {
    let mut database = server(Profile::Journaled, &[]);
    let address = database.address();
    let patience = format!("{}&serverSelectionTimeoutMS=2000", uri(&database));
    let design_word = format!("readings.design={design}");
    let mut service = Service::start(&[
        "--server",
        &patience,
        "--set",
        &design_word,
        "--set",
        "feeds.depth=10000",
        "--set",
        "feeds.cache=1000",
    ]);
    let names: Vec<_> = (0..WRITERS).map(|n| format!("s{n}")).collect();
    let followers: Vec<_> = (0..FOLLOWERS).map(|n| format!("follower-{n}")).collect();
    for follower in &followers {
        follow(&mut service.client(), follower, &names);
        assert!(feed(&mut service.client(), follower).is_empty(), "nothing yet");
    }
    let acknowledged_writes = Arc::new(Acknowledged::default());
    let writers: Vec<_> = names
        .into_iter()
        .map(|name| {
            let (address, acknowledged_writes) = (service.address.clone(), Arc::clone(&acknowledged_writes));
            thread::spawn(move || load(&address, name, &acknowledged_writes))
        })
        .collect();
    let acknowledged = || acknowledged_writes.acknowledged.load(Ordering::Relaxed);
    wait_for("the load", || acknowledged() >= BEFORE);
    database.kill().unwrap();
    wait_for("an answer without the database", || acknowledged_writes.failed.load(Ordering::Relaxed) > 0);
    let before = acknowledged();
    database.restart().unwrap();
    assert_eq!(database.address(), address);
    wait_for("the load after the restart", || acknowledged() >= before + AFTER);
    acknowledged_writes.over.store(true, Ordering::Relaxed);
    assert!(service.process.try_wait().unwrap().is_none(), "the service survived");
    let writers: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    writers.iter().for_each(|writer| writer.check(&mut service.client()));
    for follower in followers {
        let seen = feed(&mut service.client(), &follower);
        let posted = writers.iter().flat_map(|writer| &writer.activities);
        let unseen: Vec<_> = posted.filter(|id| !seen.contains(*id)).collect();
        assert!(unseen.is_empty(), "{follower} does not see {unseen:?}");
    }
    assert!(acknowledged() >= BEFORE + AFTER);
}

#[test]
fn kill_9_of_the_database_loses_no_acknowledged_write() {
    killed_under_load("document");
}

/// Tests that `cargo xtask test --all` runs.
mod long {
    use super::*;

    #[test]
    #[ignore = "long: cargo xtask test --all runs it"]
    fn kill_9_of_the_database_loses_no_acknowledged_bucket_write() {
        killed_under_load("bucket");
    }

    #[test]
    #[ignore = "long: cargo xtask test --all runs it"]
    fn kill_9_of_the_database_loses_no_acknowledged_time_series_write() {
        killed_under_load("time_series");
    }
}
