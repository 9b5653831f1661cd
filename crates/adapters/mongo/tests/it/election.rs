//! Tests loads on a simulated replica set through elections, and their audits.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::Bson;
use plimsoll_deployment::Deployment;
use plimsoll_host::replica_set::{Options, ReplicaSet};
use plimsoll_ledger::Allocation;
use plimsoll_load::retry::Retry;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_mongo::lean::Lean;
use plimsoll_mongo::setup::Copies;
use plimsoll_mongo::shared_bounds::SharedBounds;
use plimsoll_mongo::worker_ledger::WorkerLedger;
use plimsoll_wire::{ReadMode, ReadPreference};

use crate::loads::{self, Loaded, NAMESPACE, OPERATIONS, WRITERS, wait_until};
use crate::scripts::{TIMEOUT, ledger, plan, run};

/// The number of stored documents after which the set changes.
const EVENT_AFTER: usize = 500;

const MAJORITY: &str = r#"{"write_concern": {"w": "majority"}}"#;
const ONE: &str = r#"{"write_concern": {"w": 1}}"#;

fn set(lag: usize) -> ReplicaSet {
    ReplicaSet::start(Options { lag, ..Options::default() }).unwrap()
}

/// Sends a load; `event` changes the set during it.
fn load(
    set: &ReplicaSet,
    write_concern: &str,
    retry: Option<Retry>,
    event: impl FnOnce(&ReplicaSet) + Send,
) -> Loaded {
    loads::load(&set.uri(), write_concern, retry, || {
        wait_until(|| set.documents(NAMESPACE) >= EVENT_AFTER);
        event(set);
    })
}

#[test]
fn a_load_at_majority_survives_a_killed_primary_without_a_failed_operation() {
    let set = set(5);
    let loaded = load(&set, MAJORITY, None, |set| {
        set.fail_over().unwrap();
    });
    loaded.check_unharmed();
    assert!(loaded.retries > 0, "the operations in flight were sent again");
    assert_eq!(set.documents(NAMESPACE) as u64, OPERATIONS);
}

#[test]
fn a_load_at_majority_survives_a_step_down_while_writes_wait_for_replication() {
    let set = set(0);
    let loaded = load(&set, MAJORITY, None, |set| {
        set.hold(true);
        // Waits until all writers wait for a majority.
        wait_until(|| set.unconfirmed() >= WRITERS);
        set.isolate(0);
        set.elect(1).unwrap();
        set.hold(false);
        // The old primary learns of the election: its waiting writes are interrupted and rolled back.
        set.rejoin(0);
    });
    loaded.check_unharmed();
    assert!(loaded.retries >= WRITERS as u64, "{} retries", loaded.retries);
    assert!(set.rolled_back().is_empty(), "each rolled back document was inserted again");
}

#[test]
fn without_retries_the_operations_in_flight_fail_and_nothing_acknowledged_is_lost() {
    let set = set(0);
    let loaded = load(&set, MAJORITY, Some(Retry::None), |set| {
        set.fail_over().unwrap();
    });
    assert!(loaded.failed > 0 && loaded.retries == 0, "{} failed", loaded.failed);
    assert_eq!(loaded.findings.lost, 0, "{:?}", loaded.findings);
}

#[test]
fn the_audit_names_exactly_the_documents_that_a_failover_rolled_back() {
    let set = set(20);
    let loaded = load(&set, ONE, None, |set| {
        let (killed, _) = set.fail_over().unwrap();
        set.restart(killed).unwrap();
    });
    assert_eq!((loaded.acknowledged, loaded.failed), (OPERATIONS, 0));
    let object_id = |id: Bson| if let Bson::ObjectId(id) = id { id.bytes() } else { panic!("{id}") };
    let rolled_back: BTreeSet<_> = set.rolled_back().into_iter().map(|(_, id)| object_id(id)).collect();
    assert_eq!(loaded.lost(), rolled_back);
    // Up to 4 of the 20 entries were in flight and were sent again.
    assert!((16..=20).contains(&loaded.findings.lost), "{:?}", loaded.findings);
    assert_eq!(loaded.findings.found + loaded.findings.lost, OPERATIONS);
}

#[test]
fn an_explicit_retry_needs_no_permission_of_the_uri() {
    let set = set(5);
    let uri = format!("{}&retryWrites=false", set.uri());
    let more = r#"{"write_concern": {"w": "majority"}, "retry": "driver"}"#;
    let loaded = loads::load(&uri, more, Some(Retry::Driver), || {
        wait_until(|| set.documents(NAMESPACE) >= EVENT_AFTER);
        set.fail_over().unwrap();
    });
    loaded.check_unharmed();
    assert!(loaded.retries > 0, "the operations in flight were sent again");
}

/// Inserts a document over a lane. Returns the outcome, and whether the lane must be opened again.
async fn insert(target: &Lean, lane: &mut <Lean as Target>::Lane) -> (Outcome, bool) {
    assert_eq!(target.prepare(lane, 0, 0), Prepared::Ready);
    (target.send(lane).await.outcome, target.is_broken(lane))
}

#[test]
fn a_primary_that_was_replaced_before_the_load_gets_no_writes() {
    let set = set(0);
    set.isolate(0);
    set.elect(1).unwrap();
    run(async {
        let deployment = Arc::new(Deployment::find(&set.uri(), TIMEOUT).await.unwrap());
        let setup = Arc::new(plan("{}", &[("insert", r#"{"insert": {}}"#)]));
        let target = Lean::new(setup.clone(), deployment, ledger(&setup));
        let mut lane = target.open().await.unwrap();
        assert_eq!(insert(&target, &mut lane).await, (Outcome::Acknowledged, false));
    });
    assert_eq!(set.documents(NAMESPACE), 1, "the later primary has it");
}

#[test]
fn a_lane_leaves_a_primary_once_a_later_election_is_known() {
    let set = set(0);
    run(async {
        let deployment = Arc::new(Deployment::find(&set.uri(), TIMEOUT).await.unwrap());
        let setup = Arc::new(plan("{}", &[("insert", r#"{"insert": {}}"#)]));
        let target = Lean::new(setup.clone(), deployment.clone(), ledger(&setup));
        let lane = target.open().await.unwrap();
        set.isolate(0);
        set.elect(1).unwrap();
        assert!(!target.is_broken(&lane), "nothing is known of the election");
        deployment.connect_for(&ReadPreference::of(ReadMode::Secondary)).await.unwrap();
        assert!(target.is_broken(&lane));
        let mut lane = target.open().await.unwrap();
        assert_eq!(insert(&target, &mut lane).await, (Outcome::Acknowledged, false));
    });
    assert_eq!(set.documents(NAMESPACE), 1, "the later primary has it");
}

/// Reads documents of another worker over a lane to a primary that was replaced meanwhile; returns the
/// different outcomes.
async fn read_from_replaced(set: &ReplicaSet, level: &str) -> Vec<Outcome> {
    let deployment = Arc::new(Deployment::find(&set.uri(), TIMEOUT).await.unwrap());
    let read = format!(r#"{{"find": {{"read_concern": "{level}"}}}}"#);
    let operations = [("insert", r#"{"insert": {}}"#), ("replace", r#"{"replace": {}}"#), ("read", &read)];
    let mut setup = plan(MAJORITY, &operations);
    setup.inherit(deployment.concerns(), Copies::Several);
    let (setup, shared) = (Arc::new(setup), Arc::<SharedBounds>::default());
    let [writer, reader] = [0, 1].map(|worker| {
        let mut ledger = WorkerLedger::new(Allocation::new(setup.block(), 2, None).unwrap(), worker, None);
        ledger.share(shared.clone());
        Lean::new(setup.clone(), deployment.clone(), ledger)
    });
    let mut first = writer.open().await.unwrap();
    for number in 0..64 {
        assert_eq!(run_once(&writer, &mut first, 0, number).await, Outcome::Acknowledged);
    }
    let mut old = reader.open().await.unwrap();
    set.isolate(0);
    set.elect(1).unwrap();
    deployment.connect_for(&ReadPreference::of(ReadMode::Secondary)).await.unwrap();
    let mut second = writer.open().await.unwrap();
    for number in 0..1000 {
        assert_eq!(run_once(&writer, &mut second, 1, number).await, Outcome::Acknowledged);
    }
    let mut outcomes = Vec::new();
    // A read in 32 draws one of 4,096 places, of which four are in use.
    for number in 0..1_000_000 {
        if reader.prepare(&mut old, 2, number) == Prepared::Ready {
            outcomes.push(reader.send(&mut old).await.outcome);
        }
    }
    assert!(outcomes.len() > 10, "{} reads of documents of the other worker", outcomes.len());
    outcomes.dedup();
    outcomes
}

async fn run_once(
    target: &Lean,
    lane: &mut <Lean as Target>::Lane,
    operation: usize,
    number: u64,
) -> Outcome {
    assert_eq!(target.prepare(lane, operation, number), Prepared::Ready);
    target.send(lane).await.outcome
}

#[test]
fn a_replaced_primary_may_return_old_documents_unless_the_read_is_linearizable() {
    for (level, expected) in
        [("majority", Outcome::Acknowledged), ("linearizable", Outcome::Rejected(Rejection::StaleRead))]
    {
        let set = set(0);
        assert_eq!(run(read_from_replaced(&set, level)), [expected], "{level}");
    }
}

#[test]
fn an_isolated_primary_of_an_earlier_election_gets_no_writes() {
    let set = set(0);
    run(async {
        let deployment = Arc::new(Deployment::find(&set.uri(), TIMEOUT).await.unwrap());
        set.isolate(0);
        set.elect(1).unwrap();
        // The new primary is known after its first answer; from then on the former primary is ignored.
        let secondary = ReadPreference::of(ReadMode::Secondary);
        deployment.connect_for(&secondary).await.unwrap();
        let setup = Arc::new(plan("{}", &[("insert", r#"{"insert": {}}"#)]));
        let target = Lean::new(setup.clone(), deployment, ledger(&setup));
        let mut lane = target.open().await.unwrap();
        assert_eq!(target.prepare(&mut lane, 0, 0), Prepared::Ready);
        assert_eq!(target.send(&mut lane).await.outcome, Outcome::Acknowledged);
    });
    assert_eq!(set.documents(NAMESPACE), 1, "the later primary has it");
    set.rejoin(0);
    assert_eq!(set.rolled_back(), []);
}

#[test]
fn a_primary_that_falls_silent_does_not_hide_its_successor() {
    let set = set(0);
    run(async {
        let deployment =
            Deployment::find(&format!("{}&serverSelectionTimeoutMS=5000", set.uri()), TIMEOUT).await.unwrap();
        let primary = ReadPreference::default();
        assert_eq!(deployment.connect_for(&primary).await.unwrap().address().port, set.addresses()[0].port());
        set.kill(0);
        // The killed member's port accepts connections and answers none, as a frozen process does.
        let _silent = std::net::TcpListener::bind(set.addresses()[0]).unwrap();
        set.elect(1).unwrap();
        let found = deployment.connect_for(&primary).await.unwrap();
        assert_eq!(found.address().port, set.addresses()[1].port());
    });
}
