//! Tests reads with a preference: the member that answers, the command that it gets, and the check of the
//! returned document.

use std::sync::{Arc, Mutex, OnceLock};

use bson::{Document, doc};
use plimsoll_deployment::Deployment;
use plimsoll_host::scripted::Server;
use plimsoll_ledger::{Allocation, Audit, Findings, Ledger, Run, State};
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_mongo::driver::Driver;
use plimsoll_mongo::lean::Lean;
use plimsoll_mongo::operation_builder::OperationBuilder;
use plimsoll_mongo::setup::{Copies, Setup};
use plimsoll_mongo::worker_ledger::WorkerLedger;

use crate::scripts::{TIMEOUT, ledger, name, plan, run, taken};

/// The reads of each test: enough for every member to get its turn.
const READS: u64 = 6;
/// Every member counts as near, even on a busy machine.
const NEAR: &str = "localThresholdMS=100000&serverSelectionTimeoutMS=20000";
const SECONDARY: &str = r#"{"find": {"filter": {"a": 1}, "read_preference": "secondary"}}"#;

/// A replica set of a primary and two secondaries, in the data centers a, b and c.
struct Set {
    servers: Vec<Option<Server>>,
    names: Arc<OnceLock<Vec<String>>>,
    /// The document that secondaries find.
    copy: Arc<Mutex<Option<Document>>>,
}

impl Set {
    fn start(members: usize) -> Self {
        let names = Arc::<OnceLock<Vec<String>>>::default();
        let copy = Arc::<Mutex<Option<Document>>>::default();
        let member = |index: usize| {
            let (names, copy) = (names.clone(), copy.clone());
            Server::start(move |command| answer(command, index, names.get()?, &copy.lock().unwrap())).unwrap()
        };
        let servers: Vec<_> = (0..members).map(member).collect();
        names.set(servers.iter().map(|server| server.address().to_string()).collect()).unwrap();
        Self { servers: servers.into_iter().map(Some).collect(), names, copy }
    }

    fn uri(&self, member: usize, options: &str) -> String {
        format!("mongodb://{}/?{options}", self.names.get().unwrap()[member])
    }

    /// The finds that each member got.
    fn finds(&self) -> Vec<Vec<Document>> {
        let of = |server: &Option<Server>| {
            let heard = server.as_ref().map(Server::commands).unwrap_or_default();
            heard.into_iter().filter(|command| command.contains_key("find")).collect()
        };
        self.servers.iter().map(of).collect()
    }
}

fn answer(command: &Document, member: usize, names: &[String], copy: &Option<Document>) -> Option<Document> {
    let dc = ["a", "b", "c"][member];
    match name(command) {
        "hello" | "isMaster" | "ismaster" => Some(doc! {
            "helloOk": true, "isWritablePrimary": member == 0, "ismaster": member == 0, "secondary": member > 0,
            "setName": "rs", "setVersion": 1, "hosts": names[..names.len().min(2)].to_vec(),
            "passives": names[names.len().min(2)..].to_vec(), "me": &names[member], "primary": &names[0],
            "tags": {"dc": dc}, "minWireVersion": 0, "maxWireVersion": 25,
            "maxBsonObjectSize": 1 << 24, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
            "logicalSessionTimeoutMinutes": 30, "ok": 1.0,
        }),
        "find" => Some(doc! {
            "cursor": {"firstBatch": copy.iter().cloned().collect::<Vec<_>>(), "id": 0_i64, "ns": "d.c"}, "ok": 1.0,
        }),
        "insert" if member == 0 => Some(taken(command)),
        _ => None,
    }
}

/// A plan with the concerns of the deployment.
fn setup(operations: &[(&str, &str)], deployment: &Deployment) -> Arc<Setup> {
    let mut setup = plan("{}", operations);
    setup.inherit(deployment.concerns(), Copies::Several);
    Arc::new(setup)
}

async fn lean(set: &Set, member: usize, options: &str, operation: &str) -> Lean {
    let (setup, deployment, ledger) = parts(set, member, options, operation).await;
    Lean::new(setup, deployment, ledger)
}

async fn driver(set: &Set, options: &str, operation: &str) -> Driver {
    let (setup, deployment, ledger) = parts(set, 0, options, operation).await;
    Driver::new(setup, deployment, ledger)
}

async fn parts(
    set: &Set,
    member: usize,
    options: &str,
    operation: &str,
) -> (Arc<Setup>, Arc<Deployment>, WorkerLedger) {
    let deployment = Deployment::find(&set.uri(member, options), TIMEOUT).await.unwrap();
    let setup = setup(&[("read", operation)], &deployment);
    let ledger = ledger(&setup);
    (setup, Arc::new(deployment), ledger)
}

async fn read<T: Target>(target: &T, lane: &mut T::Lane) -> Outcome {
    assert_eq!(target.prepare(lane, 0, 0), Prepared::Ready);
    target.send(lane).await.outcome
}

/// Reads over several connections; returns the finds of each member and the preference that was sent.
fn check(options: &str, operation: &str, expected: [usize; 3], sent: Option<Document>) {
    let set = Set::start(3);
    run(async {
        let target = lean(&set, 0, &format!("{NEAR}&{options}"), operation).await;
        for _ in 0..READS {
            let mut lane = target.open().await.unwrap();
            assert_eq!(read(&target, &mut lane).await, Outcome::Acknowledged);
        }
    });
    let finds = set.finds();
    assert_eq!(finds.iter().map(Vec::len).collect::<Vec<_>>(), expected, "{options} {operation}");
    for find in finds.iter().flatten() {
        let found = find.get_document("$readPreference").ok();
        assert_eq!(found, sent.as_ref(), "{options} {operation}");
    }
}

#[test]
fn a_read_goes_to_the_members_that_its_preference_selects() {
    let find = r#"{"find": {"filter": {"a": 1}}}"#;
    let with = |preference: &str| {
        format!(r#"{{"find": {{"filter": {{"a": 1}}, "read_preference": {preference}}}}}"#)
    };
    check("", find, [6, 0, 0], None);
    check("", &with(r#""secondary""#), [0, 3, 3], Some(doc! {"mode": "secondary"}));
    check("", &with(r#""nearest""#), [2, 2, 2], Some(doc! {"mode": "nearest"}));
    check("", &with(r#""primaryPreferred""#), [6, 0, 0], Some(doc! {"mode": "primaryPreferred"}));
    let tagged = with(r#"{"mode": "secondaryPreferred", "tag_sets": [{"dc": "x"}, {"dc": "c"}]}"#);
    let sent = doc! {"mode": "secondaryPreferred", "tags": [{"dc": "x"}, {"dc": "c"}]};
    check("", &tagged, [0, 0, 6], Some(sent));
    check("readPreference=secondary", find, [0, 3, 3], Some(doc! {"mode": "secondary"}));
    check("readPreference=secondary", &with(r#""primary""#), [6, 0, 0], None);
}

#[test]
fn counts_and_aggregations_carry_their_settings() {
    let aggregate =
        r#"{"aggregate": {"pipeline": [], "read_preference": "secondary", "read_concern": "available"}}"#;
    for operation in [aggregate, &aggregate.replace(r#""aggregate": {"pipeline": [], "#, r#""count": {"#)] {
        let set = Set::start(2);
        run(async {
            let target = lean(&set, 0, NEAR, operation).await;
            let mut lane = target.open().await.unwrap();
            read(&target, &mut lane).await;
        });
        let heard = set.servers[1].as_ref().unwrap().commands();
        let sent = heard.iter().find(|command| command.contains_key("aggregate")).unwrap();
        assert_eq!(sent.get_document("$readPreference").unwrap(), &doc! {"mode": "secondary"});
        assert_eq!(sent.get_document("readConcern").unwrap(), &doc! {"level": "available"});
    }
}

#[test]
fn a_direct_connection_reads_from_its_member_whatever_its_role() {
    for (operation, mode) in [
        (r#"{"find": {"filter": {"a": 1}}}"#, "primaryPreferred"),
        (r#"{"find": {"filter": {"a": 1}, "read_preference": "nearest"}}"#, "nearest"),
    ] {
        let set = Set::start(2);
        run(async {
            let target = lean(&set, 1, "directConnection=true", operation).await;
            let mut lane = target.open().await.unwrap();
            assert_eq!(read(&target, &mut lane).await, Outcome::Acknowledged);
        });
        let finds = set.finds();
        assert_eq!((finds[0].len(), finds[1].len()), (0, 1));
        assert_eq!(finds[1][0].get_document("$readPreference").unwrap(), &doc! {"mode": mode});
    }
}

#[test]
fn a_standalone_server_gets_no_read_preference() {
    let found = doc! {"cursor": {"firstBatch": [], "id": 0_i64, "ns": "d.c"}, "ok": 1.0};
    let server = Server::start(move |command| (name(command) == "find").then(|| found.clone())).unwrap();
    run(async {
        let uri = format!("mongodb://{}/?readPreference=secondary", server.address());
        let deployment = Deployment::find(&uri, TIMEOUT).await.unwrap();
        let setup = setup(&[("read", SECONDARY)], &deployment);
        let ledger = ledger(&setup);
        let target = Lean::new(setup, Arc::new(deployment), ledger);
        let mut lane = target.open().await.unwrap();
        assert_eq!(read(&target, &mut lane).await, Outcome::Acknowledged);
    });
    let find = server.commands().into_iter().find(|command| command.contains_key("find")).unwrap();
    assert!(find.get("$readPreference").is_none(), "{find}");
}

#[test]
fn reads_move_to_another_secondary_when_theirs_is_lost() {
    let mut set = Set::start(3);
    run(async {
        let target = lean(&set, 0, NEAR, SECONDARY).await;
        let mut lane = target.open().await.unwrap();
        assert_eq!(read(&target, &mut lane).await, Outcome::Acknowledged);
        let member = set.finds().iter().position(|finds| !finds.is_empty()).unwrap();
        drop(set.servers[member].take());
        assert_ne!(read(&target, &mut lane).await, Outcome::Acknowledged, "it was on its way");
        assert!(!target.is_broken(&lane), "the primary's connection is not lost");
        assert_eq!(read(&target, &mut lane).await, Outcome::Acknowledged);
        assert_eq!(set.finds()[3 - member].len(), 1);
    });
}

#[test]
fn a_missing_member_is_named_before_the_load() {
    let set = Set::start(1);
    let options = "serverSelectionTimeoutMS=1000";
    run(async {
        let message = lean(&set, 0, options, SECONDARY).await.open().await.unwrap_err().to_string();
        assert_names_the_missing(&message);
        let message = driver(&set, options, SECONDARY).await.open().await.unwrap_err().to_string();
        assert_names_the_missing(&message);
    });
}

fn assert_names_the_missing(message: &str) {
    let missing = "no member of the replica set fits the read preference secondary";
    assert!(message.contains(missing) && message.contains("is primary"), "{message}");
}

/// The outcomes of a read of an acknowledged document whose copy on a secondary is `copy`.
async fn read_copy(
    set: &Set,
    preference: &str,
    copy: impl FnOnce(&OperationBuilder) -> Option<Document>,
) -> Outcome {
    let deployment = Deployment::find(&set.uri(0, NEAR), TIMEOUT).await.unwrap();
    let find = format!(r#"{{"find": {{"read_preference": "{preference}"}}}}"#);
    let setup = setup(&[("read", &find), ("insert", r#"{"insert": {}}"#)], &deployment);
    let mut ledger = ledger(&setup);
    let numbers = ledger.take(1).unwrap();
    ledger.settle(numbers, State::Acknowledged);
    let target = Lean::new(setup, Arc::new(deployment), ledger);
    *set.copy.lock().unwrap() = copy(target.builder());
    let mut lane = target.open().await.unwrap();
    read(&target, &mut lane).await
}

fn stored(builder: &OperationBuilder) -> Document {
    let mut bytes = Vec::new();
    builder.write_document(&mut bytes, 0);
    Document::from_reader(bytes.as_slice()).unwrap()
}

#[test]
fn a_lagging_copy_is_no_anomaly_and_a_corrupted_one_is() {
    let set = Set::start(2);
    run(async {
        assert_eq!(
            read_copy(&set, "secondary", |builder| Some(stored(builder))).await,
            Outcome::Acknowledged
        );
        assert_eq!(read_copy(&set, "secondary", |_| None).await, Outcome::Acknowledged, "not yet copied");
        let stale = Outcome::Rejected(Rejection::StaleRead);
        assert_eq!(read_copy(&set, "primary", |_| None).await, stale);
        let altered = |builder: &OperationBuilder| {
            let mut document = stored(builder);
            document.insert("a", 2);
            Some(document)
        };
        let corrupted = Outcome::Rejected(Rejection::CorruptedRead);
        assert_eq!(read_copy(&set, "secondary", altered).await, corrupted);
    });
}

/// A target with one document whose insert got no answer, and that document.
async fn unanswered(uri: &str, level: &str, copies: Copies) -> (Lean, Document) {
    let deployment = Deployment::find(uri, TIMEOUT).await.unwrap();
    let find = format!(r#"{{"find": {{"read_concern": "{level}"}}}}"#);
    let insert = r#"{"insert": {"write_concern": {"w": "majority"}}}"#;
    let mut setup = plan("{}", &[("read", &find), ("insert", insert)]);
    setup.inherit(deployment.concerns(), copies);
    let setup = Arc::new(setup);
    let mut ledger = ledger(&setup);
    assert_eq!(ledger.take(1), Some(0..1));
    let target = Lean::new(setup, Arc::new(deployment), ledger);
    let document = stored(target.builder());
    (target, document)
}

/// The findings of an audit of an empty collection.
fn audit_of_nothing(target: Lean, run: Run) -> Findings {
    let mut ledger = Ledger::new(run, Allocation::new(4096, 1, None).unwrap());
    ledger.adopt(0, target.close().unwrap().ledger);
    Audit::new(&ledger).finish()
}

#[test]
fn a_majority_read_binds_later_reads_and_the_audit() {
    for (level, later, gone) in [
        ("majority", Outcome::Rejected(Rejection::NonMonotonicRead), 1),
        ("linearizable", Outcome::Rejected(Rejection::NonMonotonicRead), 1),
        ("local", Outcome::Acknowledged, 0),
    ] {
        let set = Set::start(2);
        run(async {
            let (target, document) = unanswered(&set.uri(0, NEAR), level, Copies::Several).await;
            let run = target.builder().setup.run;
            let mut lane = target.open().await.unwrap();
            assert_eq!(read(&target, &mut lane).await, Outcome::Acknowledged, "it may be missing");
            *set.copy.lock().unwrap() = Some(document);
            assert_eq!(read(&target, &mut lane).await, Outcome::Acknowledged);
            *set.copy.lock().unwrap() = None;
            let mut other = target.open().await.unwrap();
            assert_eq!(read(&target, &mut other).await, later, "{level}");
            let findings = audit_of_nothing(target, run);
            assert_eq!((findings.read_then_gone, findings.unknown_absent), (gone, 1), "{level}");
        });
    }
}

#[test]
fn a_read_of_a_standalone_server_binds_later_reads_until_a_connection_is_opened() {
    let copy = Arc::<Mutex<Option<Document>>>::default();
    let stored = copy.clone();
    let found = move || stored.lock().unwrap().iter().cloned().collect::<Vec<_>>();
    let server = Server::start(move |command| {
        let batch = doc! {"firstBatch": found(), "id": 0_i64, "ns": "d.c"};
        (name(command) == "find").then(|| doc! {"cursor": batch, "ok": 1.0})
    });
    let server = server.unwrap();
    run(async {
        let uri = format!("mongodb://{}", server.address());
        let (target, document) = unanswered(&uri, "local", Copies::One).await;
        let run = target.builder().setup.run;
        let mut lane = target.open().await.unwrap();
        let backwards = Outcome::Rejected(Rejection::NonMonotonicRead);
        for (then, expected) in [(false, backwards), (true, Outcome::Acknowledged)] {
            *copy.lock().unwrap() = Some(document.clone());
            assert_eq!(read(&target, &mut lane).await, Outcome::Acknowledged);
            *copy.lock().unwrap() = None;
            if then {
                lane = target.open().await.unwrap();
            }
            assert_eq!(read(&target, &mut lane).await, expected);
        }
        let findings = audit_of_nothing(target, run);
        assert_eq!(findings.read_then_gone, 0, "the server may have restarted before the audit");
    });
}

#[test]
fn the_driver_reads_where_the_lean_client_does() {
    let set = Set::start(2);
    run(async {
        let find =
            r#"{"find": {"filter": {"a": 1}, "read_preference": "secondary", "read_concern": "local"}}"#;
        let target = driver(&set, NEAR, find).await;
        let mut lane = target.open().await.unwrap();
        assert_eq!(read(&target, &mut lane).await, Outcome::Acknowledged);
    });
    let finds = set.finds();
    assert_eq!((finds[0].len(), finds[1].len()), (0, 1));
    assert_eq!(finds[1][0].get_document("$readPreference").unwrap(), &doc! {"mode": "secondary"});
    assert_eq!(finds[1][0].get_document("readConcern").unwrap(), &doc! {"level": "local"});
}
