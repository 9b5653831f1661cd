//! Tests changes that end a stream: earlier changes still arrive.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bson::doc;
use plimsoll_host::Server;
use plimsoll_pipeline::{Control, Ended, Error, Partition};
use plimsoll_stores::scenario;

use crate::bench::{ask, positions, shared, uri};
use crate::collect::{Collect, run};

/// Follows a collection through stages until its stream ends, or until `enough`. Returns the end and the number of changes.
fn follow(
    server: &Server,
    db: &str,
    stages: &str,
    enough: impl Fn() -> bool,
) -> (Result<Ended, Error>, usize) {
    let typed =
        format!(r#"{{"uri": "{}", "watch": "{db}.c", "start": "now", "stages": {stages}}}"#, uri(server));
    let source = serde_json::from_str::<scenario::ChangeStream>(&typed).unwrap().build().unwrap();
    let (collect, control) = (Collect::default(), Arc::new(Control::default()));
    let ended = thread::scope(|scope| {
        let running = scope.spawn(|| run(source, &collect, positions(server, db), &control));
        for _ in 0..1200 {
            thread::sleep(Duration::from_millis(50));
            if running.is_finished() || enough() {
                break;
            }
        }
        control.abort();
        running.join().unwrap()
    });
    (ended, collect.len())
}

/// Stores the start of a collection's changes.
fn begin(server: &Server, db: &str) {
    let at = Partition::new(format!("{db}.c"), 0);
    let is_kept = || positions(server, db).look(&at).unwrap().position.is_some();
    assert_eq!(follow(server, db, "[]", is_kept).0.unwrap(), Ended::Aborted);
}

/// At every start of the pipeline, the changes arrive in one reply with the end of the stream.
#[test]
fn changes_before_a_collection_was_dropped_arrive() {
    let (server, db) = (shared(), "cs_dropped");
    ask(&server, db, doc! {"create": "c"});
    begin(&server, db);
    let documents: Vec<_> = (0..5).map(|n| doc! {"_id": n}).collect();
    ask(&server, db, doc! {"insert": "c", "documents": documents});
    ask(&server, db, doc! {"drop": "c"});
    let (ended, arrived) = follow(&server, db, "[]", || false);
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("dropped or renamed"), "{error}");
    assert_eq!(arrived, 5);
}

/// Without these parts a delete, a replacement and a change of the collection look alike.
#[test]
fn a_change_without_a_part_ends_the_stream_and_is_not_read() {
    let server = shared();
    let changes = [
        doc! {"insert": "c", "documents": [{"_id": 2}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 2}}}]},
        doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
    ];
    let [insert, update, delete] = &changes;
    let rows = [
        (insert, r#"[{"$project": {"fullDocument": 1, "operationType": 1}}]"#, "documentKey"),
        (update, r#"[{"$unset": "fullDocument"}]"#, "fullDocument"),
        (insert, r#"[{"$project": {"documentKey": 1, "operationType": 1}}]"#, "fullDocument"),
        (delete, r#"[{"$unset": "documentKey"}]"#, "documentKey"),
        (update, r#"[{"$unset": "operationType"}]"#, "operationType"),
    ];
    for (index, (change, stages, part)) in rows.into_iter().enumerate() {
        let db = format!("cs_stages_{index}");
        ask(&server, &db, doc! {"insert": "c", "documents": [{"_id": 1, "n": 1}]});
        begin(&server, &db);
        ask(&server, &db, change.clone());
        let read = || positions(&server, &db).look(&Partition::new(format!("{db}.c"), 0)).unwrap().position;
        let (ended, arrived) = follow(&server, &db, stages, || read().is_some_and(|at| at.next > 0));
        let error = ended.unwrap_err().to_string();
        assert!(error.contains(&format!("no `{part}`")) && error.contains("`stages`"), "{stages}: {error}");
        assert_eq!((arrived, read().unwrap().next), (0, 0), "{stages}");
    }
}

/// The server looks an updated document up later than it changed.
#[test]
fn an_update_of_a_document_that_was_deleted_since_arrives_without_a_document() {
    let (server, db) = (shared(), "cs_deleted_since");
    ask(&server, db, doc! {"insert": "c", "documents": [{"_id": 1, "n": 1}]});
    begin(&server, db);
    ask(&server, db, doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 2}}}]});
    ask(&server, db, doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]});
    ask(&server, db, doc! {"drop": "c"});
    let stages = r#"[{"$unset": "updateDescription"}]"#;
    let (ended, arrived) = follow(&server, db, stages, || false);
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("dropped or renamed"), "{error}");
    assert_eq!(arrived, 2);
}
