//! Tests a replica set known by one member: the target follows its primary, before and after a failover.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bson::{Document, doc};
use plimsoll_deployment::Deployment;
use plimsoll_host::scripted::Server;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_mongo::lean::Lean;

use crate::scripts::{TIMEOUT, ledger, name, run, setup, taken};

/// Attempts to connect after a failover: the first attempt finds the new primary, a later attempt connects to
/// it.
const ATTEMPTS: usize = 5;

/// Two members of a replica set, one of which is the primary.
struct Members {
    servers: Vec<Option<Server>>,
    names: Arc<OnceLock<Vec<String>>>,
    primary: Arc<AtomicUsize>,
}

/// The greeting that the members know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Greeting {
    Hello,
    /// Only `isMaster`, the former name.
    Former,
}

impl Members {
    fn start() -> Self {
        Self::greeting(Greeting::Hello)
    }

    fn greeting(greeting: Greeting) -> Self {
        let (names, primary) = (Arc::<OnceLock<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let member = |index: usize| {
            let (names, primary) = (names.clone(), primary.clone());
            Server::start(move |command| {
                if greeting == Greeting::Former && name(command) == "hello" {
                    return Some(doc! {"ok": 0.0, "code": 59, "errmsg": "no such command: 'hello'"});
                }
                answer(command, index, names.get()?, primary.load(Ordering::Relaxed))
            })
            .unwrap()
        };
        let servers: Vec<_> = (0..2).map(member).collect();
        names.set(servers.iter().map(|server| server.address().to_string()).collect()).unwrap();
        Self { servers: servers.into_iter().map(Some).collect(), names, primary }
    }

    fn elect(&self, member: usize) {
        self.primary.store(member, Ordering::Relaxed);
    }

    fn uri(&self, member: usize, options: &str) -> String {
        format!("mongodb://{}/{options}", self.names.get().unwrap()[member])
    }

    /// The number of documents inserted on a member.
    fn inserts(&self, member: usize) -> usize {
        let heard = self.servers[member].as_ref().unwrap().commands();
        heard.iter().filter(|command| command.contains_key("insert")).count()
    }
}

fn answer(command: &Document, member: usize, names: &[String], primary: usize) -> Option<Document> {
    let leads = member == primary;
    match name(command) {
        "hello" | "isMaster" | "ismaster" => Some(doc! {
            "isWritablePrimary": leads, "ismaster": leads, "secondary": !leads,
            "setName": "rs", "setVersion": 1, "hosts": names.to_vec(), "me": &names[member],
            "primary": &names[primary], "minWireVersion": 0, "maxWireVersion": 25,
            "maxBsonObjectSize": 1 << 24, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
            "logicalSessionTimeoutMinutes": 30, "ok": 1.0,
        }),
        "insert" if leads => Some(taken(command)),
        "insert" => Some(doc! {"ok": 0.0, "code": 10107, "errmsg": "not primary"}),
        _ => None,
    }
}

/// Opens a connection with retries, as the engine does.
async fn reopen(target: &Lean) -> Option<<Lean as Target>::Lane> {
    for _ in 0..ATTEMPTS {
        if let Ok(lane) = target.open().await {
            return Some(lane);
        }
    }
    None
}

async fn insert(target: &Lean, lane: &mut <Lean as Target>::Lane) -> Outcome {
    assert_eq!(target.prepare(lane, 0, 0), Prepared::Ready);
    target.send(lane).await.outcome
}

fn target(deployment: Deployment) -> Lean {
    let setup = setup(r#"{"insert": {}}"#);
    let ledger = ledger(&setup);
    Lean::new(setup, Arc::new(deployment), ledger)
}

const REFUSED: Outcome = Outcome::Rejected(Rejection::NotPrimary);

#[test]
fn one_member_is_enough_to_follow_the_set_after_a_failover() {
    let members = Members::start();
    run(async {
        let target = target(Deployment::find(&members.uri(0, ""), TIMEOUT).await.unwrap());
        let mut lane = target.open().await.unwrap();
        assert_eq!(insert(&target, &mut lane).await, Outcome::Acknowledged);
        members.elect(1);
        assert_eq!(insert(&target, &mut lane).await, REFUSED);
        assert!(target.is_broken(&lane), "the lane must connect to the new primary");
        let mut lane = reopen(&target).await.unwrap();
        assert_eq!(insert(&target, &mut lane).await, Outcome::Acknowledged);
    });
    assert_eq!((members.inserts(0), members.inserts(1)), (2, 1));
}

#[test]
fn the_other_members_are_known_when_the_given_member_is_down() {
    let mut members = Members::start();
    run(async {
        let target = target(Deployment::find(&members.uri(0, ""), TIMEOUT).await.unwrap());
        members.elect(1);
        drop(members.servers[0].take());
        let mut lane = reopen(&target).await.unwrap();
        assert_eq!(insert(&target, &mut lane).await, Outcome::Acknowledged);
    });
    assert_eq!(members.inserts(1), 1);
}

#[test]
fn a_given_secondary_leads_to_the_primary_by_either_greeting() {
    for greeting in [Greeting::Hello, Greeting::Former] {
        let members = Members::greeting(greeting);
        run(async {
            let target = target(Deployment::find(&members.uri(1, ""), TIMEOUT).await.unwrap());
            let mut lane = target.open().await.unwrap();
            assert_eq!(insert(&target, &mut lane).await, Outcome::Acknowledged);
        });
        assert_eq!((members.inserts(0), members.inserts(1)), (1, 0));
    }
}

#[test]
fn a_server_of_another_set_is_refused_before_any_command() {
    let members = Members::start();
    for options in ["?replicaSet=other", "?replicaSet=other&directConnection=true"] {
        let error = run(async { Deployment::find(&members.uri(0, options), TIMEOUT).await.unwrap_err() });
        let message = error.to_string();
        assert!(message.contains("the replica set `rs`, not to the replica set `other`"), "{message}");
        assert!(error.is_final());
    }
    let heard = members.servers[0].as_ref().unwrap().commands();
    assert!(
        heard.iter().all(|command| ["hello", "isMaster", "ismaster"].contains(&name(command))),
        "{heard:?}"
    );
    run(async { Deployment::find(&members.uri(0, "?replicaSet=rs"), TIMEOUT).await.unwrap() });
}

#[test]
fn a_direct_connection_stays_on_its_member() {
    let members = Members::start();
    run(async {
        let deployment = Deployment::find(&members.uri(0, "?directConnection=true"), TIMEOUT).await.unwrap();
        let target = target(deployment);
        let mut lane = target.open().await.unwrap();
        members.elect(1);
        assert_eq!(insert(&target, &mut lane).await, REFUSED);
        let mut lane = reopen(&target).await.unwrap();
        assert_eq!(insert(&target, &mut lane).await, REFUSED);
    });
    assert_eq!((members.inserts(0), members.inserts(1)), (2, 0));
}
