//! Tests changes that end a stream: earlier changes still arrive.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bson::doc;
use plimsoll_host::Server;
use plimsoll_pipeline::{Control, Ended, Error, Partition};
use plimsoll_stores::positions::Positions;
use plimsoll_stores::scenario;

use crate::bench::{ask, shared, uri};
use crate::collect::{Collect, run};

fn positions(server: &Server, db: &str) -> Positions {
    let typed = format!(r#"{{"uri": "{}", "collection": "{db}.positions"}}"#, uri(server));
    serde_json::from_str::<scenario::Positions>(&typed).unwrap().build("p").unwrap()
}

/// Follows a collection until its stream ends, or until `enough`. Returns the end and the number of changes.
fn follow(server: &Server, db: &str, enough: impl Fn() -> bool) -> (Result<Ended, Error>, usize) {
    let typed = format!(r#"{{"uri": "{}", "watch": "{db}.c", "start": "now"}}"#, uri(server));
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
    assert_eq!(follow(server, db, is_kept).0.unwrap(), Ended::Aborted);
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
    let (ended, arrived) = follow(&server, db, || false);
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("dropped or renamed"), "{error}");
    assert_eq!(arrived, 5);
}
