//! Tests the insert sink.

use std::sync::atomic::{AtomicU64, Ordering};

use bson::doc;
use plimsoll_pipeline::meter::Count;
use plimsoll_pipeline::{Batch, FailureClass, Partition, Record, SinkFactory, Verdict};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::document::identity::Identity;
use plimsoll_stores::scenario::{IdKind, Insert};
use plimsoll_stores::sink::insert::Inserts;
use plimsoll_stores::topics::Topics;

use crate::bench::{
    ask, batch, count, documents, payload, refused, shared, sink, start, unique, uri, write, write_through,
};
use crate::contract;

fn inserts(server: &plimsoll_host::Server, db: &str, with: impl FnOnce(&mut Insert)) -> Inserts {
    let mut typed = Insert::new(uri(server), format!("{db}.c"));
    typed.form = Form::Bson;
    with(&mut typed);
    typed.build().unwrap()
}

#[test]
fn every_id_kind_satisfies_the_contract() {
    let server = shared();
    for (db, identity) in [("in_source", IdKind::Source), ("in_oid", IdKind::ObjectId)] {
        let factory = inserts(&server, db, |typed| typed.identity = identity);
        contract::check(&factory, || count(&server, db, "c"));
    }
}

#[test]
fn every_form_satisfies_the_contract() {
    let server = shared();
    for (db, form) in [("in_full", Form::Full), ("in_meta", Form::Metadata)] {
        contract::check(&inserts(&server, db, |typed| typed.form = form), || count(&server, db, "c"));
    }
}

#[test]
fn an_unavailable_server_is_awaited() {
    let mut server = start();
    let factory = inserts(&server, "d", |_| ());
    contract::check_absence(&mut server, &factory);
}

#[test]
fn a_document_is_the_payload_with_the_source_as_id() {
    let server = shared();
    let factory = inserts(&server, "in_name", |_| ());
    assert_eq!(write(&mut *sink(&factory), batch("orders", 3, 7, 8)), Verdict::WRITTEN);
    let found = documents(&server, "in_name", "c");
    let topic = Topics::of(&"in_name.c".parse().unwrap(), Default::default()).default_number("orders");
    let name = Identity { topic, partition: 3, offset: 7 }.to_bytes().to_vec();
    assert_eq!(found[0].get_binary_generic("_id").unwrap(), &name);
    assert_eq!((found[0].get_i64("n").unwrap(), found[0].get_str("text").unwrap()), (7, "event 7"));
    let registered = documents(&server, "in_name", "plimsoll_topics");
    assert_eq!(registered, [doc! {"_id": i64::from(topic), "topic": "orders"}]);
}

#[test]
fn writes_and_flushes_of_all_workers_are_counted_from_replies() {
    let server = shared();
    let factory = inserts(&server, "in_writes", |_| ());
    let tally = factory.tally().unwrap();
    let counted = || [Count::InsertWrites, Count::InsertFlushes].map(|count| tally.of(count));
    assert_eq!(write(&mut *sink(&factory), batch("t", 0, 0, 10)), Verdict::WRITTEN);
    assert_eq!(counted(), [10, 1]);
    // Five events exist already: they count as replays, not as writes.
    let verdict = write(&mut *factory.build(1).unwrap(), batch("t", 0, 5, 15));
    assert_eq!(verdict, Verdict::Written { replayed: 5, refused: Vec::new() });
    assert_eq!(counted(), [15, 2]);
}

#[test]
fn a_time_series_is_refused_where_ids_must_be_unique() {
    let server = shared();
    ask(&server, "in_series", doc! {"create": "c", "timeseries": {"timeField": "t"}});
    for identity in [IdKind::Source, IdKind::Payload] {
        let factory = inserts(&server, "in_series", |typed| typed.identity = identity);
        let error = factory.build(0).err().unwrap().to_string();
        assert!(error.contains("in_series.c is a time series collection"), "{error}");
    }
    assert!(inserts(&server, "in_series", |typed| typed.identity = IdKind::ObjectId).build(0).is_ok());
}

#[test]
fn a_topic_number_conflict_is_reported_before_any_write() {
    let server = shared();
    let factory = inserts(&server, "in_topics", |typed| {
        typed.topics = [("a".to_owned(), 7), ("b".to_owned(), 7)].into();
    });
    let mut sink = sink(&factory);
    assert_eq!(write(&mut *sink, batch("a", 0, 0, 5)), Verdict::WRITTEN);
    let Verdict::Failed(failure) = write(&mut *sink, batch("b", 0, 0, 5)) else { panic!("it was written") };
    assert_eq!(failure.class, FailureClass::Final);
    assert!(
        failure.reason.contains("same number 7") && failure.reason.contains("topics:"),
        "{}",
        failure.reason
    );
    let other = inserts(&server, "in_topics", |_| ());
    let Verdict::Failed(failure) = write(&mut *crate::bench::sink(&other), batch("a", 0, 5, 9)) else {
        panic!("written")
    };
    assert!(failure.reason.contains("restore the old `topics`"), "{}", failure.reason);
    assert_eq!(count(&server, "in_topics", "c"), 5);
}

#[test]
fn a_duplicate_in_another_index_is_refused_and_one_in_the_source_field_is_a_replay() {
    let server = shared();
    unique(&server, "in_unique", "c", "n");
    let factory = inserts(&server, "in_unique", |_| ());
    let mut sink = sink(&factory);
    assert_eq!(write(&mut *sink, batch("t", 0, 0, 10)), Verdict::WRITTEN);
    // Offsets 5 to 9 were written before; 20 and 22 have numbers that are taken.
    let mut mixed = batch("t", 0, 5, 10);
    for (offset, number) in [(20, 3), (21, 21), (22, 4)] {
        mixed.push(Record { offset, appended_ms: 0, key: None, payload: Some(&payload(number)) });
    }
    let verdict = write(&mut *sink, mixed);
    assert_eq!(refused(&verdict), [5, 7]);
    let Verdict::Written { replayed, refused } = verdict else { panic!() };
    assert_eq!(replayed, 5);
    assert!(refused[0].reason.contains("duplicate key"), "{refused:?}");
    assert_eq!(count(&server, "in_unique", "c"), 11);
}

#[test]
fn an_unfit_event_is_refused_by_index_and_others_are_written() {
    let server = shared();
    ask(&server, "in_bad", doc! {"create": "c", "validator": {"n": {"$gte": 0}}});
    let factory = inserts(&server, "in_bad", |_| ());
    let mut bad = Batch::new(Partition::new("t", 0));
    let large = doc! {"n": 1, "x": "y".repeat(17 << 20)}.to_vec().unwrap();
    let invalid = doc! {"n": -1}.to_vec().unwrap();
    let payloads =
        [Some(&payload(0)[..]), Some(b"{}"), None, Some(&large), Some(&invalid), Some(&payload(5)[..])];
    for (offset, payload) in (0..).zip(payloads) {
        bad.push(Record { offset, appended_ms: 0, key: None, payload });
    }
    let verdict = write(&mut *sink(&factory), bad);
    assert_eq!(refused(&verdict), [1, 2, 3, 4]);
    let Verdict::Written { refused, .. } = verdict else { panic!() };
    for (place, words) in
        [(0, "not a BSON"), (1, "no payload"), (2, "exceed the server's limit"), (3, "validation")]
    {
        assert!(refused[place].reason.contains(words), "{:?}", refused[place]);
    }
    assert_eq!(count(&server, "in_bad", "c"), 2);
}

#[test]
fn an_invalid_collection_name_stops_the_pipeline() {
    let server = shared();
    ask(&server, "in_view", doc! {"create": "v", "viewOn": "c", "pipeline": []});
    let typed = Insert { form: Form::Bson, ..Insert::new(uri(&server), "in_view.v") };
    let Verdict::Failed(failure) = write(&mut *sink(&typed.build().unwrap()), batch("t", 0, 0, 5)) else {
        panic!("written")
    };
    assert_eq!(failure.class, FailureClass::Final, "{failure:?}");
}

#[test]
fn a_killed_server_neither_loses_nor_duplicates_events() {
    let mut server = start();
    let factory = inserts(&server, "d", |typed| typed.connections = 3);
    let kills: u32 = 3;
    // The collections must exist before the first kill: a kill during their creation can leave an incomplete collection on the
    // embedded server.
    write_through(&mut *sink(&factory), batch("t", 0, 0, 1));
    for round in 0..kills {
        let first = u64::from(round) * 4000;
        let (mut sink, written) = (sink(&factory), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (0..40).map(|part| first + part * 100).for_each(|at| {
                    write_through(&mut *sink, batch("t", 0, at, at + 100));
                    written.fetch_add(1, Ordering::Relaxed);
                });
            });
            while written.load(Ordering::Relaxed) < 5 + 10 * u64::from(round) && !writer.is_finished() {
                std::thread::yield_now();
            }
            assert!(!writer.is_finished(), "everything was written before the server could be killed");
            server.kill().unwrap();
            server.restart().unwrap();
            writer.join().unwrap();
        });
    }
    assert_eq!(count(&server, "d", "c"), u64::from(kills) * 4000);
    let numbers: Vec<_> =
        documents(&server, "d", "c").iter().map(|found| found.get_i64("n").unwrap()).collect();
    assert_eq!(
        numbers,
        (0..i64::from(kills) * 4000).collect::<Vec<_>>(),
        "each once, in the order of its offset"
    );
}

#[test]
fn a_source_field_identifies_duplicates() {
    let server = shared();
    let factory = inserts(&server, "in_copies", |typed| {
        (typed.identity, typed.source_field) = (IdKind::ObjectId, Some("src".into()));
    });
    let mut sink = sink(&factory);
    (0..2).for_each(|_| assert_eq!(write(&mut *sink, batch("t", 0, 0, 3)), Verdict::WRITTEN));
    let sources: Vec<_> = documents(&server, "in_copies", "c")
        .iter()
        .map(|found| Identity::from_bytes(found.get_binary_generic("src").unwrap()).unwrap().offset)
        .collect();
    assert_eq!(sources, [0, 1, 2, 0, 1, 2]);
    assert_eq!(factory.promise().identity, plimsoll_pipeline::Identity::Copies);
}
