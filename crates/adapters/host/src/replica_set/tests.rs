//! Tests a simulated replica set: replication, elections, rollbacks, retryable writes.

use super::*;
use crate::serve::client::Client;
use bson::{Document, RawDocumentBuf, doc, rawdoc};
use plimsoll_measure::clock::{self, SECOND_NS};

fn set(lag: usize) -> ReplicaSet {
    ReplicaSet::start(Options { lag, ..Options::default() }).unwrap()
}

fn ask(set: &ReplicaSet, member: usize, command: Document) -> Document {
    Client::of(set.addresses()[member]).ask(&RawDocumentBuf::try_from(command).unwrap())
}

fn insert(set: &ReplicaSet, member: usize, id: i32, w: impl Into<Bson>) -> Document {
    let concern = doc! {"w": w.into(), "wtimeout": 20_000_i64};
    ask(set, member, doc! {"insert": "c", "documents": [{"_id": id}], "writeConcern": concern, "$db": "d"})
}

fn count(set: &ReplicaSet, member: usize) -> i32 {
    let preference = doc! {"mode": "secondaryPreferred"};
    ask(set, member, doc! {"count": "c", "$readPreference": preference, "$db": "d"}).get_i32("n").unwrap()
}

fn code(answer: &Document) -> i32 {
    answer.get_i32("code").unwrap_or(0)
}

fn counts(set: &ReplicaSet) -> [i32; 3] {
    [0, 1, 2].map(|member| count(set, member))
}

#[test]
fn members_describe_themselves_and_their_primary() {
    let set = set(0);
    let hello = |member| ask(&set, member, doc! {"hello": 1, "$db": "admin"});
    let (first, second) = (hello(0), hello(1));
    for (hello, leads) in [(&first, true), (&second, false)] {
        assert_eq!(hello.get_bool("isWritablePrimary").unwrap(), leads);
        assert_eq!(hello.get_bool("secondary").unwrap(), !leads);
        assert_eq!(hello.get_str("setName").unwrap(), "rs");
        assert_eq!(hello.get_array("hosts").unwrap().len(), 3);
        assert_eq!(hello.get_str("primary").unwrap(), set.addresses()[0].to_string());
        assert_eq!(hello.get_object_id("electionId").is_ok(), leads);
        assert!(hello.get_document("topologyVersion").unwrap().get_i64("counter").unwrap() > 0);
    }
    set.step_down();
    let stepped = hello(0);
    assert!(!stepped.contains_key("primary") && !stepped.get_bool("isWritablePrimary").unwrap());
    set.elect(1).unwrap();
    let later = hello(1).get_object_id("electionId").unwrap();
    assert!(later.bytes() > first.get_object_id("electionId").unwrap().bytes(), "an election ID grows");
}

#[test]
fn a_waiting_greeting_is_answered_when_the_set_changes() {
    let set = set(0);
    let mut client = Client::of(set.addresses()[2]);
    let known =
        client.ask(&rawdoc! {"hello": 1, "$db": "admin"}).get_document("topologyVersion").unwrap().clone();
    let wait = doc! {"hello": 1, "topologyVersion": known, "maxAwaitTimeMS": 30_000_i64, "$db": "admin"};
    client.send(0, &RawDocumentBuf::try_from(wait).unwrap());
    set.step_down();
    set.elect(1).unwrap();
    assert!(client.receive().get_document("topologyVersion").unwrap().get_i64("counter").unwrap() > 1);
}

#[test]
fn secondaries_lag_until_a_write_waits_for_the_majority() {
    let set = set(2);
    (0..5).for_each(|id| assert_eq!(insert(&set, 0, id, 1).get_i32("n").unwrap(), 1));
    assert_eq!(counts(&set), [5, 3, 3]);
    insert(&set, 0, 5, "majority");
    assert_eq!(counts(&set), [6, 6, 6]);
}

#[test]
fn a_secondary_refuses_writes_and_answers_reads_that_allow_it() {
    let set = set(0);
    let write =
        doc! {"insert": "c", "documents": [{"_id": 1}], "lsid": {"id": 1}, "txnNumber": 1_i64, "$db": "d"};
    let refused = ask(&set, 1, write);
    assert_eq!(code(&refused), 10107);
    assert_eq!(refused.get_array("errorLabels").unwrap(), &[Bson::from("RetryableWriteError")]);
    assert!(!insert(&set, 1, 1, 1).contains_key("errorLabels"), "a write without a number is not retryable");
    assert_eq!(code(&ask(&set, 1, doc! {"find": "c", "$db": "d"})), 13435);
    assert_eq!(count(&set, 1), 0);
}

#[test]
fn a_repeated_write_is_answered_from_its_record_also_by_the_next_primary() {
    let set = set(0);
    let write = |number: i64, id: i32| {
        doc! {"insert": "c", "documents": [{"_id": id}], "lsid": {"id": 7}, "txnNumber": number, "$db": "d"}
    };
    assert_eq!(ask(&set, 0, write(1, 1)), doc! {"n": 1, "ok": 1.0});
    assert_eq!(ask(&set, 0, write(1, 1)), doc! {"n": 1, "ok": 1.0});
    set.fail_over().unwrap();
    let primary = set.primary().unwrap();
    assert_eq!(ask(&set, primary, write(1, 1)), doc! {"n": 1, "ok": 1.0});
    assert!(ask(&set, primary, write(2, 1)).contains_key("writeErrors"), "another number is another write");
    assert_eq!(count(&set, primary), 1);
}

#[test]
fn a_failover_rolls_back_the_writes_that_no_majority_has() {
    let set = set(3);
    insert(&set, 0, 0, "majority");
    (1..10).for_each(|id| assert_eq!(insert(&set, 0, id, 1).get_i32("n").unwrap(), 1));
    let (killed, winner) = set.fail_over().unwrap();
    assert_eq!((killed, count(&set, winner)), (0, 7));
    insert(&set, winner, 9, "majority");
    set.restart(0).unwrap();
    assert_eq!(counts(&set), [8, 8, 8]);
    let lost: Vec<_> = set.rolled_back().into_iter().map(|(_, id)| id).collect();
    assert_eq!(lost, [7, 8].map(Bson::Int32), "the ninth was inserted again");
}

#[test]
fn an_isolated_primary_acknowledges_alone_and_rolls_back_when_it_rejoins() {
    let set = set(0);
    insert(&set, 0, 0, "majority");
    set.isolate(0);
    set.elect(1).unwrap();
    let hello = ask(&set, 0, doc! {"hello": 1, "$db": "admin"});
    assert!(hello.get_bool("isWritablePrimary").unwrap(), "it does not know better");
    insert(&set, 0, 1, 1);
    insert(&set, 1, 2, "majority");
    assert_eq!(set.rolled_back(), []);
    set.rejoin(0);
    assert_eq!(set.rolled_back(), [("d.c".to_owned(), Bson::Int32(1))]);
    assert_eq!(counts(&set), [2, 2, 2]);
}

#[test]
fn a_waiting_majority_write_is_interrupted_by_a_step_down() {
    let set = set(0);
    set.hold(true);
    let write = doc! {
        "insert": "c", "documents": [{"_id": 1}], "lsid": {"id": 1}, "txnNumber": 1_i64,
        "writeConcern": {"w": "majority"}, "$db": "d",
    };
    let mut client = Client::of(set.addresses()[0]);
    client.send(0, &RawDocumentBuf::try_from(write).unwrap());
    while count(&set, 0) == 0 {
        std::thread::yield_now();
    }
    set.step_down();
    let answer = client.receive();
    assert_eq!(answer.get_document("writeConcernError").unwrap().get_i32("code").unwrap(), 11602);
    assert!(answer.contains_key("errorLabels"));
}

#[test]
fn a_candidate_without_the_votes_of_a_majority_is_not_elected() {
    let set = set(0);
    set.hold(true);
    insert(&set, 0, 1, 1);
    set.kill(2);
    let error = set.elect(1).unwrap_err();
    assert_eq!(error, NotElected { member: 1, votes: 1, majority: 2 }, "the primary's log is later");
    assert_eq!(code(&insert(&set, 0, 2, 1)), 0, "the set stays as it is");
}

#[test]
fn the_seed_chooses_among_equal_candidates() {
    let winner = |seed| {
        let set = ReplicaSet::start(Options { members: 7, seed, ..Options::default() }).unwrap();
        set.fail_over().unwrap().1
    };
    let winners: Vec<_> = (0..6).map(winner).collect();
    assert!(winners.iter().any(|other| *other != winners[0]), "{winners:?}");
    assert_eq!(winner(3), winners[3]);
}

#[test]
fn a_member_may_lose_or_change_a_document_without_the_others() {
    let set = set(0);
    (0..3).for_each(|id| {
        let document = doc! {"_id": id, "x": id};
        ask(&set, 0, doc! {"insert": "c", "documents": [document], "writeConcern": {"w": 3}, "$db": "d"});
    });
    assert_eq!(set.lose(1, "d.c", 0), Some(Bson::Int32(0)));
    assert_eq!(counts(&set), [3, 2, 3]);
    assert_eq!(set.flip(2, "d.c", 1), Some(Bson::Int32(1)));
    let read = |member| {
        let preference = doc! {"mode": "secondaryPreferred"};
        ask(&set, member, doc! {"find": "c", "filter": {"_id": 1}, "$readPreference": preference, "$db": "d"})
    };
    assert_eq!(read(0), read(1));
    assert_ne!(read(0), read(2));
    assert_eq!((set.lose(1, "d.c", 2), set.flip(1, "d.other", 0)), (None, None));
}

#[test]
fn greetings_tell_the_last_entry_and_the_last_one_of_a_majority() {
    let set = set(5);
    insert(&set, 0, 1, 1);
    let times = || {
        let hello = ask(&set, 0, doc! {"hello": 1, "$db": "admin"});
        let last = hello.get_document("lastWrite").unwrap();
        ["opTime", "majorityOpTime"]
            .map(|it| last.get_document(it).unwrap().get_timestamp("ts").unwrap().time)
    };
    assert_eq!(times(), [2, 1]);
    assert_eq!(times(), [2, 2], "time passes between greetings");
}

/// A part of the transaction with this number, or its end.
fn part(mut command: Document, number: i64, is_first: bool) -> Document {
    command.extend(doc! {"lsid": {"id": 9}, "txnNumber": number, "autocommit": false, "$db": "d"});
    if is_first {
        command.insert("startTransaction", true);
    }
    command
}

fn insert_part(number: i64, id: i32, is_first: bool) -> Document {
    part(doc! {"insert": "c", "documents": [{"_id": id, "n": 0}]}, number, is_first)
}

fn update_part(number: i64, id: i32) -> Document {
    part(doc! {"update": "c", "updates": [{"q": {"_id": id}, "u": {"$inc": {"n": 1}}}]}, number, false)
}

fn commit(number: i64, w: impl Into<Bson>) -> Document {
    let mut commit = doc! {"commitTransaction": 1};
    commit.insert("writeConcern", doc! {"w": w.into()});
    let mut commit = part(commit, number, false);
    commit.insert("$db", "admin");
    commit
}

fn ids(names: Vec<(String, Bson)>) -> Vec<i32> {
    names.into_iter().filter_map(|(_, id)| id.as_i32()).collect()
}

#[test]
fn a_transaction_is_stored_when_it_is_committed_and_a_repeated_commit_has_the_same_answer() {
    let set = set(0);
    insert(&set, 0, 1, "majority");
    assert_eq!(ask(&set, 0, insert_part(1, 2, true)).get_i32("n").unwrap(), 1);
    assert_eq!(ask(&set, 0, update_part(1, 1)).get_i32("n").unwrap(), 1);
    assert_eq!(counts(&set), [1, 1, 1]);
    let answer = ask(&set, 0, commit(1, "majority"));
    assert_eq!((answer.get_f64("ok").unwrap(), counts(&set)), (1.0, [2, 2, 2]), "{answer}");
    set.fail_over().unwrap();
    let primary = set.primary().unwrap();
    assert_eq!(ask(&set, primary, commit(1, "majority")), answer);
    assert_eq!(ask(&set, 1, insert_part(2, 3, true)).get_i32("n").is_ok(), primary == 1);
    let found = ask(&set, primary, doc! {"find": "c", "filter": {"_id": 1}, "$db": "d"});
    let first = &found.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0];
    assert_eq!(first.as_document().unwrap().get_i32("n").unwrap(), 1, "{found}");
}

#[test]
fn a_new_primary_does_not_know_the_open_transactions_of_the_old_one() {
    let set = set(0);
    ask(&set, 0, insert_part(1, 1, true));
    set.fail_over().unwrap();
    let primary = set.primary().unwrap();
    for command in [insert_part(1, 2, false), commit(1, "majority")] {
        let refused = ask(&set, primary, command);
        assert_eq!(code(&refused), 251, "{refused}");
        assert_eq!(refused.get_array("errorLabels").unwrap(), &[Bson::from("TransientTransactionError")]);
    }
    assert_eq!(count(&set, primary), 0);
}

#[test]
fn a_failover_names_rolled_back_updates_and_transactions_but_none_that_was_sent_again() {
    let set = set(4);
    let update = |number: i64| {
        let updates = [doc! {"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}];
        let (session, concern) = (doc! {"id": 7}, doc! {"w": 1});
        doc! {
            "update": "c", "updates": updates, "lsid": session, "txnNumber": number, "writeConcern": concern,
            "$db": "d",
        }
    };
    insert(&set, 0, 1, "majority");
    ask(&set, 0, update(1));
    ask(&set, 0, insert_part(1, 2, true));
    ask(&set, 0, update_part(1, 1));
    ask(&set, 0, commit(1, 1));
    assert_eq!(count(&set, 0), 2);
    let (killed, winner) = set.fail_over().unwrap();
    set.restart(killed).unwrap();
    let rolled_back = || (ids(set.rolled_back()), ids(set.rolled_back_updates()));
    assert_eq!(rolled_back(), (vec![2], vec![1, 1]));
    assert_eq!(ask(&set, winner, update(1)).get_i32("n").unwrap(), 1);
    assert_eq!(rolled_back(), (vec![2], vec![1]), "the update was sent again");
}

#[test]
fn a_member_with_a_delay_gets_entries_of_that_age_and_no_others() {
    let set = set(0);
    set.delay(2, Duration::from_secs(3600));
    insert(&set, 0, 1, "majority");
    assert_eq!(counts(&set), [1, 1, 0]);
    set.delay(2, Duration::from_millis(1));
    let began = clock::now();
    while count(&set, 2) == 0 {
        assert!(clock::now().since(began) < 60 * SECOND_NS, "the entry is old enough");
        ask(&set, 2, doc! {"hello": 1, "$db": "admin"});
    }
    assert_eq!(counts(&set), [1, 1, 1]);
}
