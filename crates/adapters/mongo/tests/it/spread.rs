//! Tests one load over several servers, one of which goes down: operations for the others do not wait.

use std::time::Duration;

use plimsoll_host::proxy::{Disturbance, Proxy};
use plimsoll_host::scripted::Server;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::clock::{self, MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::outcome::Outcome;
use plimsoll_mongo::spread::{Lane, Spread};

use crate::scripts::{deployment, ledger, name, run, setup, taken};

/// The pause before an unreachable server is tried again.
const PAUSE: Duration = Duration::from_millis(600);
/// The longest allowed wait of an operation, in nanoseconds: shorter than an attempt at a silent server, and
/// far longer than an answer.
const WAIT_MAX_NS: u64 = 180 * MILLISECOND_NS;
/// The time limit for a recovered server to get operations again, in nanoseconds.
const BACK_MAX_NS: u64 = 60 * SECOND_NS;

fn server() -> Server {
    Server::start(|command| (name(command) == "insert").then(|| taken(command))).unwrap()
}

async fn insert(target: &Spread, lane: &mut Lane, number: u64) -> (Outcome, u64) {
    assert_eq!(target.prepare(lane, 0, number), Prepared::Ready);
    let sent = clock::now();
    let reply = target.send(lane).await;
    (reply.outcome, clock::now().since(sent))
}

/// A target over two servers, the second of which is behind a proxy.
fn pair() -> ([Server; 2], Proxy, Spread) {
    let servers = [server(), server()];
    let proxy = Proxy::start(servers[1].address(), 1).unwrap();
    let deployments = [servers[0].address(), proxy.address()].map(|address| deployment(address.port()));
    let setup = setup(r#"{"insert": {}}"#);
    let target = Spread::new(setup.clone(), &deployments, ledger(&setup));
    (servers, proxy, target)
}

fn operations(target: &Spread) -> Vec<u64> {
    target.shares().iter().map(|share| share.operations).collect()
}

#[test]
fn no_operation_waits_for_an_unreachable_server_and_a_recovered_server_is_used_again() {
    let (servers, proxy, target) = pair();
    run(async {
        let mut lane = target.open().await.unwrap();
        for number in 0..4 {
            assert_eq!(insert(&target, &mut lane, number).await.0, Outcome::Acknowledged);
        }
        proxy.disturb(Disturbance::Cut);
        assert_ne!(insert(&target, &mut lane, 5).await.0, Outcome::Acknowledged, "broken by the cut");
        // From now on the server accepts connections but never answers.
        proxy.disturb(Disturbance::Stall);
        let mut waits = Vec::new();
        for number in 6..10 {
            tokio::time::sleep(PAUSE).await;
            let (outcome, wait) = insert(&target, &mut lane, number).await;
            assert_eq!(outcome, Outcome::Acknowledged);
            waits.push(wait);
        }
        assert!(waits.iter().min().unwrap() < &WAIT_MAX_NS, "{waits:?}");
        assert_eq!((&operations(&target)[..], target.shares()[1].skipped), (&[6, 3][..], 2));

        proxy.end_disturbances();
        let began = clock::now();
        let mut number = 11;
        while operations(&target)[1] == 3 {
            assert!(clock::now().since(began) < BACK_MAX_NS, "the recovered server gets no operation");
            tokio::time::sleep(PAUSE / 10).await;
            assert_eq!(insert(&target, &mut lane, number).await.0, Outcome::Acknowledged);
            number += 2;
        }
    });
    assert!(target.shares()[1].unavailable.is_some(), "the outage is recorded");
    assert!(servers[1].commands().iter().filter(|command| command.contains_key("insert")).count() >= 3);
}

#[test]
fn a_further_connection_does_not_wait_for_an_unreachable_server() {
    let (_servers, proxy, target) = pair();
    run(async {
        let mut lane = target.open().await.unwrap();
        proxy.disturb(Disturbance::Cut);
        assert_ne!(insert(&target, &mut lane, 1).await.0, Outcome::Acknowledged);
        proxy.disturb(Disturbance::Stall);
        let began = clock::now();
        let mut further = target.open().await.unwrap();
        assert!(clock::now().since(began) < 4 * SECOND_NS, "a silent server is given up after 5 s");
        assert_eq!(insert(&target, &mut further, 1).await.0, Outcome::Acknowledged);
    });
}

#[test]
fn the_ledger_is_complete_during_a_reconnect_probe() {
    let (_servers, proxy, target) = pair();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut lane = target.open().await.unwrap();
        proxy.disturb(Disturbance::Cut);
        insert(&target, &mut lane, 1).await;
        proxy.disturb(Disturbance::Stall);
        tokio::time::sleep(PAUSE).await;
        insert(&target, &mut lane, 2).await;
    });
    let counts = target.close().expect("a probe does not hold the ledger").ledger.counts();
    assert_eq!((counts.acknowledged, counts.unknown), (1, 1));
}
