//! Sends a load to a simulated replica set through elections, and audits it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bson::Bson;
use plimsoll_deployment::Deployment;
use plimsoll_host::replica_set::{Options, ReplicaSet};
use plimsoll_ledger::{Allocation, Findings, Ledger, OtherWriters, Touched};
use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::engine::{Engine, Progress};
use plimsoll_load::mix::By;
use plimsoll_load::phase::{DRAIN, Documents, Load, Overdue, Phase, Timing, UNREACHABLE_FOR};
use plimsoll_load::retry::Retry;
use plimsoll_load::runtime::Spin;
use plimsoll_load::stop::Stop;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_load::worker::Control;
use plimsoll_measure::clock::{self, SECOND_NS};
use plimsoll_measure::outcome::Outcome;
use plimsoll_mongo::audit::{Scope, scan};
use plimsoll_mongo::lean::Lean;
use plimsoll_mongo::setup::Setup;

use crate::scripts::{TIMEOUT, ledger, plan, run};

/// The operations of a load.
const OPERATIONS: u64 = 3_000;
/// The documents after which the set changes.
const EVENT_AFTER: usize = 500;
/// The collection of every plan.
const NAMESPACE: &str = "d.c";
/// The time limit of a load, in nanoseconds.
const PATIENCE_NS: u64 = 120 * SECOND_NS;

/// The result of a load.
struct Loaded {
    setup: Arc<Setup>,
    acknowledged: u64,
    failed: u64,
    retries: u64,
    findings: Findings,
}

impl Loaded {
    /// The `_id`s of lost documents.
    fn lost(&self) -> BTreeSet<[u8; 12]> {
        let id = |number: &u64| self.setup.run.receipt(*number).to_object_id();
        self.findings.examples.lost.iter().map(id).collect()
    }
}

fn phase(retry: Option<Retry>) -> Phase {
    let load = Load {
        name: "insert".into(),
        mix: vec![(0, 1.0)],
        mix_by: By::Count,
        arrivals: Arrivals::Closed { writers: 4 },
        connections: Default::default(),
        overdue: Overdue::Send,
        documents: Documents::Made,
        timing: Timing::default(),
        tags: BTreeMap::new(),
    };
    Phase {
        name: "phase".into(),
        key: None,
        loads: vec![load],
        stop: Stop { operations: Some(OPERATIONS), ..Stop::default() },
        drain: DRAIN,
        unreachable_for: UNREACHABLE_FOR,
        seed: 1,
        faults: Vec::new(),
        retry,
        limits: Vec::new(),
    }
}

/// Sends a load of inserts with a write concern. `event` changes the set during the load.
fn load(
    set: &ReplicaSet,
    write_concern: &str,
    retry: Option<Retry>,
    event: impl FnOnce(&ReplicaSet) + Send,
) -> Loaded {
    let more = format!(r#"{{"write_concern": {write_concern}}}"#);
    let setup = Arc::new(plan(&more, &[("insert", r#"{"insert": {}}"#)]));
    let site = Arc::new(run(Deployment::find(&set.uri(), TIMEOUT)).unwrap());
    let lean = Arc::new(Lean::new(setup.clone(), site.clone(), ledger(&setup)));
    let mut engine = Engine::new(vec![lean], 1, Share::WHOLE, Spin::Off).unwrap();
    let (mut acknowledged, mut failed, mut retries) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let began = clock::now();
            while set.documents(NAMESPACE) < EVENT_AFTER && clock::now().since(began) < PATIENCE_NS {
                std::thread::yield_now();
            }
            event(set);
        });
        let count = |progress| {
            if let Progress::Second(second) = progress {
                acknowledged += second.tallies.iter().map(|tally| tally.count).sum::<u64>();
                failed += second.tallies.iter().map(|tally| tally.errors.total()).sum::<u64>();
                retries += second.tallies.iter().map(|tally| tally.retries).sum::<u64>();
            }
        };
        engine.run(&phase(retry), &Control::default(), &mut [], count).unwrap();
    });
    let lean = engine.into_targets().into_iter().next().and_then(Arc::into_inner).unwrap();
    let closed = lean.close().unwrap();
    let mut whole = Ledger::new(setup.run, Allocation::new(setup.block(), 1, None).unwrap());
    whole.adopt(closed.worker, closed.ledger);
    let findings = run(async {
        let servers = [site.connect().await.unwrap().address().clone()];
        let servers = servers.map(plimsoll_wire::ConnectOptions::new);
        let scope = Scope::of(&setup, &Touched::None, OtherWriters::Excluded);
        scan(&servers, &whole, scope, &mut ()).await.unwrap()
    });
    Loaded { setup, acknowledged, failed, retries, findings }
}

fn set(lag: usize) -> ReplicaSet {
    ReplicaSet::start(Options { lag, ..Options::default() }).unwrap()
}

const MAJORITY: &str = r#"{"w": "majority"}"#;
const ONE: &str = r#"{"w": 1}"#;

/// With retries a load at majority meets no failure, and loses nothing.
#[track_caller]
fn check_unharmed(loaded: &Loaded) {
    assert_eq!((loaded.acknowledged, loaded.failed), (OPERATIONS, 0), "{} retries", loaded.retries);
    let found = &loaded.findings;
    assert_eq!((found.acknowledged, found.found, found.lost), (OPERATIONS, OPERATIONS, 0), "{found:?}");
    assert_eq!((found.duplicated, found.phantom, found.unknown_present), (0, 0, 0), "{found:?}");
}

#[test]
fn a_load_at_majority_survives_a_killed_primary_without_a_failed_operation() {
    let set = set(5);
    let loaded = load(&set, MAJORITY, None, |set| {
        set.fail_over().unwrap();
    });
    check_unharmed(&loaded);
    assert!(loaded.retries > 0, "the operations in flight were sent again");
    assert_eq!(set.documents(NAMESPACE) as u64, OPERATIONS);
}

#[test]
fn a_load_at_majority_survives_a_step_down_while_writes_wait_for_replication() {
    let set = set(0);
    let loaded = load(&set, MAJORITY, None, |set| {
        set.hold(true);
        // Until all four writers wait for a majority.
        while set.unconfirmed() < 4 {
            std::thread::yield_now();
        }
        set.isolate(0);
        set.elect(1).unwrap();
        set.hold(false);
        // The old primary learns of the election: its waiting writes are interrupted and rolled back.
        set.rejoin(0);
    });
    check_unharmed(&loaded);
    assert!(loaded.retries >= 4, "{} retries", loaded.retries);
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
    // Of 20 entries, up to 4 were in flight and sent again.
    assert!((16..=20).contains(&loaded.findings.lost), "{:?}", loaded.findings);
    assert_eq!(loaded.findings.found + loaded.findings.lost, OPERATIONS);
}

#[test]
fn an_isolated_primary_of_an_earlier_election_gets_no_writes() {
    let set = set(0);
    run(async {
        let site = Arc::new(Deployment::find(&set.uri(), TIMEOUT).await.unwrap());
        set.isolate(0);
        set.elect(1).unwrap();
        // The new primary is known once it was asked; afterwards the former one is not believed.
        let secondary = plimsoll_wire::ReadPreference::of(plimsoll_wire::ReadMode::Secondary);
        site.connect_for(&secondary).await.unwrap();
        let setup = Arc::new(plan("{}", &[("insert", r#"{"insert": {}}"#)]));
        let target = Lean::new(setup.clone(), site, ledger(&setup));
        let mut lane = target.open().await.unwrap();
        assert_eq!(target.prepare(&mut lane, 0, 0), Prepared::Ready);
        assert_eq!(target.send(&mut lane).await.outcome, Outcome::Acknowledged);
    });
    assert_eq!(set.documents(NAMESPACE), 1, "the later primary has it");
    set.rejoin(0);
    assert_eq!(set.rolled_back(), []);
}
