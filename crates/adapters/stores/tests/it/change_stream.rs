//! Tests the change stream source.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use plimsoll_host::Server;
use plimsoll_measure::clock;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::{
    Claim, Control, Ended, Error, Executor, Partition, Parts, Pipeline, Position, PositionError,
    PositionStore, Settings, SinkFactory,
};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::positions::Positions;
use plimsoll_stores::scenario::{self, Insert, Transactional};
use plimsoll_stores::sink::insert::Inserts;
use plimsoll_stores::sink::keyed::{Keyed, PayloadId};
use plimsoll_stores::source::change_stream::Payload;

use crate::bench::{LIMIT, ask, documents, positions, positions_of, shared, start, uri};
use crate::collect::{Arrived, Collect, run};

fn source(
    server: &Server,
    db: &str,
    payload: Payload,
) -> plimsoll_stores::source::change_stream::ChangeStream {
    let typed = format!(r#"{{"uri": "{}", "watch": "{db}.c", "start": "now"}}"#, uri(server));
    let mut typed: scenario::ChangeStream = serde_json::from_str(&typed).unwrap();
    typed.payload = payload;
    typed.build().unwrap()
}

fn insert(server: &Server, db: &str, numbers: std::ops::Range<i32>) {
    let documents: Vec<Document> = numbers.map(|n| doc! {"_id": n, "n": n}).collect();
    ask(
        server,
        db,
        doc! {"insert": "c", "documents": documents, "writeConcern": {"w": "majority", "j": true}},
    );
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let start = clock::now();
    while !holds() {
        assert!(u128::from(clock::now().since(start)) < LIMIT.as_nanos(), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads changes while `meanwhile` runs, until `count` have arrived.
fn read(server: &Server, db: &str, payload: Payload, count: usize, meanwhile: impl FnOnce()) -> Vec<Arrived> {
    let (collect, control) = (Collect::default(), Arc::new(Control::default()));
    std::thread::scope(|scope| {
        let running =
            scope.spawn(|| run(source(server, db, payload), &collect, positions(server, db), &control));
        let at = Partition::new(format!("{db}.c"), 0);
        wait_for("the start of the stream is stored", || {
            running.is_finished() || positions(server, db).look(&at).unwrap().position.is_some()
        });
        meanwhile();
        wait_for("all changes arrive", || running.is_finished() || collect.len() >= count);
        control.drain();
        assert_eq!(running.join().unwrap().unwrap(), Ended::Drained);
    });
    collect.take()
}

fn offsets(arrived: &[Arrived]) -> Vec<u64> {
    arrived.iter().map(|arrived| arrived.offset).collect()
}

#[test]
fn a_change_stream_resumes_at_its_position() {
    let server = shared();
    ask(&server, "cs_resume", doc! {"create": "c"});
    let first = read(&server, "cs_resume", Payload::Document, 50, || insert(&server, "cs_resume", 0..50));
    assert_eq!(offsets(&first), (0..50).collect::<Vec<_>>());
    assert_eq!(first[7].document(), doc! {"_id": 7, "n": 7});
    assert_eq!(first[7].key.as_deref(), doc! {"_id": 7}.to_vec().ok().as_deref());
    // These changes happen while no pipeline reads.
    insert(&server, "cs_resume", 50..60);
    ask(
        &server,
        "cs_resume",
        doc! {"update": "c", "updates": [{"q": {"_id": 7}, "u": {"$set": {"n": 700}}}]},
    );
    ask(&server, "cs_resume", doc! {"delete": "c", "deletes": [{"q": {"_id": 8}, "limit": 1}]});
    let second = read(&server, "cs_resume", Payload::Document, 12, || ());
    assert_eq!(offsets(&second), (50..62).collect::<Vec<_>>());
    let operations: Vec<_> = second[9..].iter().map(|arrived| arrived.operation.clone().unwrap()).collect();
    assert_eq!(operations, ["insert", "update", "delete"]);
    assert_eq!(second[10].document(), doc! {"_id": 7, "n": 700});
    assert_eq!((second[11].payload.as_ref(), second[11].key.clone()), (None, doc! {"_id": 8}.to_vec().ok()));
}

#[test]
fn the_whole_event_can_be_the_payload() {
    let server = shared();
    ask(&server, "cs_event", doc! {"create": "c"});
    let events = read(&server, "cs_event", Payload::Event, 3, || insert(&server, "cs_event", 0..3));
    let event = events[2].document();
    assert_eq!(event.get_str("operationType").unwrap(), "insert");
    assert_eq!(event.get_document("fullDocument").unwrap(), &doc! {"_id": 2, "n": 2});
}

/// Moves changes while `meanwhile` runs, then aborts. Nothing is committed before the abort.
fn follow(
    server: &Server,
    db: &str,
    sink: impl SinkFactory + 'static,
    positions: impl PositionStore + 'static,
    meanwhile: impl FnOnce(),
) -> Result<Ended, Error> {
    let control = Arc::new(Control::default());
    let parts = Parts {
        sources: vec![Box::new(source(server, db, Payload::Document))],
        transforms: vec![],
        sink: Box::new(sink),
        dead_letters: None,
        positions: Some(Arc::new(positions)),
    };
    let settings = Settings {
        guarantee: Guarantee::EffectivelyOnce,
        executor: Executor::Pool(1),
        commit_every: LIMIT,
        ..Settings::default()
    };
    let pipeline = Pipeline::build(parts, settings, Arc::clone(&control)).unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(move || pipeline.run());
        meanwhile();
        control.abort();
        running.join().unwrap()
    })
}

/// A sink that identifies changes by their source.
fn inserts_of(server: &Server, db: &str) -> Inserts {
    let typed = Insert { form: Form::Bson, ..Insert::new(uri(server), format!("{db}.out")) };
    typed.build().unwrap()
}

/// The numbers in the destination, in order.
fn numbers(server: &Server, db: &str) -> Vec<i32> {
    let found = documents(server, db, "out");
    let mut numbers: Vec<_> = found.iter().map(|found| found.get_i32("n").unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

/// The positions of a process that may be killed: later writes are ignored.
struct Mortal {
    positions: Positions,
    dead: Arc<AtomicBool>,
    refused: Arc<AtomicBool>,
}

impl PositionStore for Mortal {
    fn claim(&self, partition: &Partition) -> Result<Claim, PositionError> {
        self.positions.claim(partition)
    }

    fn keep(&self, positions: &[(Partition, Position)]) -> Result<(), PositionError> {
        match self.dead.load(Ordering::Relaxed) {
            true => {
                self.refused.store(true, Ordering::Relaxed);
                Err(PositionError::Unavailable { verb: "written", reason: "killed".into() })
            }
            false => self.positions.keep(positions),
        }
    }
}

#[test]
fn a_crash_before_the_first_commit_repeats_the_same_changes() {
    let (server, db) = (shared(), "cs_first");
    ask(&server, db, doc! {"create": "c"});
    let (dead, next) = (Arc::new(AtomicBool::new(false)), Cell::new(0));
    let change = |count: i32| {
        insert(&server, db, next.get()..next.get() + count);
        next.set(next.get() + count);
    };
    let mortal =
        Mortal { positions: positions(&server, db), dead: Arc::clone(&dead), refused: Arc::default() };
    let ended = follow(&server, db, inserts_of(&server, db), mortal, || {
        wait_for("it reads", || {
            change(1);
            numbers(&server, db).len() >= 5
        });
        dead.store(true, Ordering::Relaxed);
    });
    assert_eq!(ended.unwrap(), Ended::Aborted);
    let first = numbers(&server, db)[0];
    // These changes happen while no pipeline reads.
    change(20);
    let ended = follow(&server, db, inserts_of(&server, db), positions(&server, db), || {
        change(3);
        wait_for("the last arrives", || numbers(&server, db).last() == Some(&(next.get() - 1)));
    });
    assert_eq!(ended.unwrap(), Ended::Aborted);
    assert_eq!(numbers(&server, db), (first..next.get()).collect::<Vec<_>>());
}

#[test]
fn a_stream_without_stored_start_is_not_read() {
    let (server, db) = (shared(), "cs_unkept");
    ask(&server, db, doc! {"create": "c"});
    let (dead, refused) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicBool>::default());
    let mortal = Mortal { positions: positions(&server, db), dead, refused: Arc::clone(&refused) };
    let error = follow(&server, db, inserts_of(&server, db), mortal, || {
        wait_for("the refusal", || refused.load(Ordering::Relaxed));
        insert(&server, db, 0..3);
    });
    let words = error.unwrap_err().to_string();
    assert!(words.contains("positions cannot be written: killed; the pipeline stops"), "{words}");
    assert!(numbers(&server, db).is_empty());
}

/// Another pipeline counts other changes from zero: the destination must not mistake them for existing events.
#[test]
fn a_new_stream_identifies_its_changes_differently() {
    let (server, db) = (shared(), "cs_anew");
    ask(&server, db, doc! {"create": "c"});
    let at = Partition::new(format!("{db}.c"), 0);
    for (pipeline, changes) in [("p", 0..5), ("q", 5..10)] {
        let store = positions_of(&server, db, pipeline);
        let ended = follow(&server, db, inserts_of(&server, db), positions_of(&server, db, pipeline), || {
            wait_for("it begins", || store.look(&at).unwrap().position.is_some());
            let count = changes.end as usize;
            insert(&server, db, changes);
            wait_for("all arrive", || numbers(&server, db).len() == count);
        });
        assert_eq!(ended.unwrap(), Ended::Aborted);
    }
    assert_eq!(numbers(&server, db), (0..10).collect::<Vec<_>>());
}

#[test]
fn changes_and_positions_are_written_in_one_transaction() {
    let (server, db) = (shared(), "cs_tx");
    ask(&server, db, doc! {"create": "c"});
    let typed = Transactional {
        form: Form::Bson,
        gather_events: 20,
        gather_wait: "20ms".parse().unwrap(),
        ..Transactional::new(uri(&server), format!("{db}.out"))
    };
    let (store, at) = (typed.positions("p").unwrap(), Partition::new(format!("{db}.c"), 0));
    let next = || store.look(&at).unwrap().position.map(|position| position.next);
    for round in 0..4_i32 {
        let (sink, positions) = (typed.build("p").unwrap(), typed.positions("p").unwrap());
        let ended = follow(&server, db, sink, positions, || {
            wait_for("it begins", || next().is_some());
            let first = round * 200;
            (0..10).for_each(|part| insert(&server, db, first + part * 20..first + part * 20 + 20));
            // Ends the pipeline in the middle of the changes, in the last round after all of them.
            let enough = if round == 3 { 800 } else { round as u64 * 200 + 30 };
            wait_for("some arrive", || next() >= Some(enough));
        });
        assert_eq!(ended.unwrap(), Ended::Aborted);
    }
    assert_eq!((numbers(&server, db), next()), ((0..800).collect::<Vec<_>>(), Some(800)));
}

/// An idle stream must store newer positions: its last change may leave the server's history, and a stream
/// cannot be resumed from there.
#[test]
fn an_idle_stream_follows_the_history_and_misses_nothing() {
    let server = shared();
    ask(&server, "cs_idle", doc! {"create": "c"});
    let at = Partition::new("cs_idle.c", 0);
    let token = || positions(&server, "cs_idle").look(&at).unwrap().position.and_then(|at| at.token);
    let found = read(&server, "cs_idle", Payload::Document, 5, || {
        let first = token();
        assert!(first.is_some());
        wait_for("the position advances", || {
            ask(&server, "cs_elsewhere", doc! {"insert": "c", "documents": [{"n": 1}]});
            token() != first
        });
        insert(&server, "cs_idle", 0..5);
    });
    assert_eq!(offsets(&found), (0..5).collect::<Vec<_>>());
}

#[test]
fn a_killed_server_is_followed_and_no_change_is_missed() {
    let mut server = start();
    ask(&server, "d", doc! {"create": "c"});
    let first = read(&server, "d", Payload::Document, 20, || insert(&server, "d", 0..20));
    assert_eq!(first.len(), 20);
    server.kill().unwrap();
    server.restart().unwrap();
    let second = read(&server, "d", Payload::Document, 20, || insert(&server, "d", 20..40));
    let numbers: Vec<_> = second.iter().map(|arrived| arrived.document().get_i32("n").unwrap()).collect();
    assert_eq!(numbers, (20..40).collect::<Vec<_>>());
    assert_eq!(offsets(&second), (20..40).collect::<Vec<_>>());
}

#[test]
fn a_server_without_change_streams_is_refused_at_the_start() {
    let server = shared();
    let collect = Collect::default();
    let typed =
        r#"{"uri": "mongodb://127.0.0.1:1/?directConnection=true&connectTimeoutMS=100", "start": "now"}"#;
    let source = serde_json::from_str::<scenario::ChangeStream>(typed).unwrap().build().unwrap();
    let error =
        run(source, &collect, positions(&server, "cs_none"), &Arc::new(Control::default())).unwrap_err();
    assert!(error.to_string().contains("the changes cannot be read"), "{error}");
}

/// The keyed copy of a collection in the same database.
fn copy(server: &Server, db: &str) -> Keyed {
    let typed = format!(r#"{{"uri": "{}", "collection": "{db}.out"}}"#, uri(server));
    serde_json::from_str::<scenario::Keyed>(&typed).unwrap().build(PayloadId::OfKey).unwrap()
}

#[test]
fn a_keyed_copy_follows_updates_and_deletes_also_after_a_crash() {
    let (server, db) = (shared(), "cs_copy");
    ask(&server, db, doc! {"create": "c"});
    let at = Partition::new(format!("{db}.c"), 0);
    let update = |id: i32, n: i32| {
        ask(&server, db, doc! {"update": "c", "updates": [{"q": {"_id": id}, "u": {"$set": {"n": n}}}]});
    };
    let delete = |id: i32| {
        ask(&server, db, doc! {"delete": "c", "deletes": [{"q": {"_id": id}, "limit": 1}]});
    };
    let is_copied = || documents(&server, db, "out") == documents(&server, db, "c");
    let ended = follow(&server, db, copy(&server, db), positions(&server, db), || {
        wait_for("the start is stored", || positions(&server, db).look(&at).unwrap().position.is_some());
        insert(&server, db, 0..20);
        (0..10).for_each(|id| update(id, id + 100));
        (5..15).for_each(delete);
        wait_for("the copy is complete", || documents(&server, db, "c").len() == 10 && is_copied());
    });
    assert_eq!(ended.unwrap(), Ended::Aborted);
    // Nothing was committed, so the next pipeline repeats every change before the new ones.
    update(0, 900);
    delete(1);
    let ended = follow(&server, db, copy(&server, db), positions(&server, db), || {
        insert(&server, db, 30..31);
        wait_for("the copy is complete again", is_copied);
    });
    assert_eq!(ended.unwrap(), Ended::Aborted);
    assert_eq!(documents(&server, db, "out")[0], doc! {"_id": 0, "n": 900});
}

#[test]
fn a_stream_without_a_stored_position_begins_only_with_start_now() {
    let (server, db) = (shared(), "cs_refuse");
    let typed = format!(r#"{{"uri": "{}", "watch": "{db}.c"}}"#, uri(&server));
    let source = serde_json::from_str::<scenario::ChangeStream>(&typed).unwrap().build().unwrap();
    let error = run(source, &Collect::default(), positions(&server, db), &Arc::new(Control::default()));
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("no stored position of `cs_refuse.c`") && error.contains("`start: now`"),
        "{error}"
    );
}
