//! Runs a small kill campaign of the workflow engine on each store: three kills of each kind. `cargo xtask
//! bench workflow-kills` runs a large campaign.

#[path = "../../benches/workflow_kills/campaign/mod.rs"]
mod campaign;

use std::fs;
use std::time::Duration;

use campaign::audit::{self, Found};
use campaign::clients::DEFINITION;
use campaign::kind::{Backend, Kind};
use campaign::ledger::{self, Entry, Ledger};
use campaign::processes::{self, Comparison};
use campaign::round::Round;
use campaign::{Plan, table};
use plimsoll_workflow::file;
use plimsoll_workflow::instance::StartRequest;
use plimsoll_workflow::memory::{Memory, Removal};
use plimsoll_workflow::port::{Record, Store as _};
use plimsoll_workflow::step::start;

fn check(store: Backend) {
    let dir = tempfile::tempdir().unwrap();
    let seed = plimsoll_measure::clock::wall_ms();
    let lease = "2s".parse().unwrap();
    let plan = Plan { kills: 12, seed: Some(seed), out: dir.path().to_owned(), store: Some(store), lease };
    assert!(campaign::run(&plan).unwrap(), "seed {seed}: see the table above");
    let text = fs::read_to_string(dir.path().join("rounds.ndjson")).unwrap();
    let rounds: Vec<Round> = text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    for kind in Kind::ALL {
        let kills = rounds.iter().flat_map(|round| &round.kills).filter(|one| **one == kind).count();
        assert_eq!(kills, 3, "{}", kind.name());
    }
    assert!(rounds.iter().all(|round| round.found.explained > 0 && round.found.done > 0), "{text}");
    // A second run in the same directory finds all rounds done, and runs none.
    assert!(campaign::run(&plan).unwrap());
    assert_eq!(fs::read_to_string(dir.path().join("rounds.ndjson")).unwrap(), text);
}

#[test]
fn kills_of_engines_server_and_network_lose_and_duplicate_nothing_on_mongodb() {
    check(Backend::Mongodb);
}

#[test]
fn kills_of_engines_server_and_network_lose_and_duplicate_nothing_on_postgres() {
    check(Backend::Postgres);
}

/// Two processes share the partitions and the work, and the second process takes over after kill -9 of the
/// first.
fn check_two_processes(store: Backend) {
    let dir = tempfile::tempdir().unwrap();
    let comparison = Comparison {
        processes: vec![2],
        load: Duration::from_secs(2),
        clients: 4,
        rounds: 1,
        lease: "3s".parse().unwrap(),
        stores: vec![store],
        out: dir.path().to_owned(),
    };
    let turn = processes::compare(&comparison).unwrap().remove(0);
    assert!(turn.holds() && turn.requests_per_s > 0.0 && turn.ends_per_s > 0.0, "{turn:?}");
    assert_eq!(turn.partitions, [8, 8]);
    // The lease, a third of it until the next request for partitions, and a second for a busy machine.
    assert!(turn.failover_s.unwrap() < 3.0 + 1.0 + 1.0, "{turn:?}");
}

#[test]
fn two_processes_share_the_work_and_the_second_takes_over_on_mongodb() {
    check_two_processes(Backend::Mongodb);
}

#[test]
fn two_processes_share_the_work_and_the_second_takes_over_on_postgres() {
    check_two_processes(Backend::Postgres);
}

#[test]
fn a_ledger_is_read_back_with_the_signals_of_each_instance() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.ndjson");
    let ledger = Ledger::create(&path).unwrap();
    for (instance, signal) in [("a", None), ("a", Some(1)), ("b", None), ("a", Some(0))] {
        ledger.add(&Entry { instance: instance.into(), signal }).unwrap();
    }
    let read = ledger::read(&path).unwrap();
    assert_eq!((ledger.len(), read.len()), (4, 2));
    assert_eq!((&read["a"], &read["b"]), (&vec![1, 0], &vec![]));
}

/// The record of an instance that has applied these signals.
fn applied(instance: &str, seen: &[u64]) -> Record {
    let (definition, program) = file::read(DEFINITION).unwrap();
    let request = StartRequest {
        id: instance.into(),
        definition: definition.name,
        key: None,
        parent: None,
        depth: 0,
        input: serde_json::json!({"seen": seen}),
    };
    Record::of(&start(&program, request, 1).unwrap(), 1, 1, 0).unwrap()
}

#[test]
fn lost_repeated_and_strange_signals_and_instances_are_noticed() {
    let store = Memory::new(1, Removal::WithCommit);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let found = runtime.block_on(async {
        let records = [applied("repeated", &[0, 1, 1]), applied("lost", &[0]), applied("unsent", &[0, 9])];
        store.start(&records).await.unwrap();
        store.start(&[applied("foreign", &[])]).await.unwrap();
        let sent = [("repeated", vec![0, 1]), ("lost", vec![0, 1]), ("unsent", vec![0]), ("missing", vec![])];
        let ledger = sent.map(|(instance, signals)| (instance.to_owned(), signals)).into();
        audit::compared(&store, &ledger).await.unwrap()
    });
    assert_eq!((found.lost, found.duplicated, found.strange), (2, 1, 2), "{found:?}");
    // All instances wait for their first call, which has not begun: a client sees no reason.
    assert_eq!((found.unexplained, found.explained), (3, 0), "{found:?}");
}

#[test]
fn a_round_holds_only_if_nothing_is_wrong_and_something_was_killed() {
    let whole = Found { instances: 2, signals: 6, done: 1, explained: 1, ..Found::default() };
    let round = |found: Found| Round {
        number: 0,
        backend: Backend::Postgres,
        kills: vec![Kind::Engine],
        found,
        ends: 0,
        trouble: None,
        took_s: 1,
    };
    for (found, holds) in [
        (whole.clone(), true),
        (Found { lost: 1, ..whole.clone() }, false),
        (Found { duplicated: 1, ..whole.clone() }, false),
        (Found { strange: 1, ..whole.clone() }, false),
        (Found { unexplained: 1, ..whole.clone() }, false),
        (Found { broken: 1, ..whole.clone() }, false),
        (Found { done: 0, ..whole.clone() }, false),
        (Found::default(), false),
    ] {
        assert_eq!(round(found.clone()).holds(), holds, "{found:?}");
    }
    assert!(!Round { kills: Vec::new(), ..round(whole.clone()) }.holds());
    assert!(!Round { trouble: Some("it stood still".into()), ..round(whole.clone()) }.holds());
    let text = table::whole(7, &[round(whole.clone()), round(Found { lost: 1, ..whole })]);
    assert!(text.starts_with("seed 7\n") && text.contains("DOES NOT HOLD"), "{text}");
}
