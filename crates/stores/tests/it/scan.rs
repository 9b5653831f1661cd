//! The scan source.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use plimsoll_pipeline::{Control, Ended};
use plimsoll_server::Server;
use plimsoll_stores::positions::Positions;
use plimsoll_stores::scenario;

use crate::bench::{ask, documents, shared, uri};
use crate::collect::{Collect, run};

fn scan(server: &Server, db: &str, more: &str) -> plimsoll_stores::source::scan::Scan {
    let typed = format!(r#"{{"uri": "{}", "collection": "{db}.c"{more}}}"#, uri(server));
    serde_json::from_str::<scenario::Scan>(&typed).unwrap().build().unwrap()
}

fn positions(server: &Server, db: &str) -> Positions {
    let typed = format!(r#"{{"uri": "{}", "collection": "{db}.positions"}}"#, uri(server));
    serde_json::from_str::<scenario::Positions>(&typed).unwrap().build("p").unwrap()
}

/// Documents whose `_id`s are of many types.
fn fill(server: &Server, db: &str) -> Vec<Document> {
    let number = |n: i32| doc! {"_id": n, "n": n};
    let text = |n: i32| doc! {"_id": format!("text {n:04}"), "n": n};
    let id = |n: i32| doc! {"_id": bson::oid::ObjectId::from_bytes([n as u8; 12]), "n": n};
    let mut all: Vec<_> = (0..350).map(number).chain((0..350).map(text)).chain((0..100).map(id)).collect();
    all.push(doc! {"_id": 5.5, "n": -1});
    all.push(doc! {"_id": {"a": 1}, "n": -2});
    all.push(doc! {"_id": true, "n": -3});
    all.push(doc! {"_id": bson::DateTime::from_millis(7), "n": -4});
    all.push(doc! {"_id": Bson::Null, "n": -5});
    ask(server, db, doc! {"insert": "c", "documents": all});
    documents(server, db, "c")
}

#[test]
fn a_scan_reads_everything_in_the_order_of_the_ids_whatever_their_types() {
    let server = shared();
    let all = fill(&server, "sc_all");
    let collect = Collect::default();
    let ended = run(
        scan(&server, "sc_all", ""),
        &collect,
        positions(&server, "sc_all"),
        &Arc::new(Control::default()),
    );
    assert_eq!(ended.unwrap(), Ended::Exhausted);
    let arrived = collect.take();
    assert_eq!(arrived.iter().map(|arrived| arrived.document()).collect::<Vec<_>>(), all);
    assert_eq!(
        arrived.iter().map(|arrived| arrived.offset).collect::<Vec<_>>(),
        (0..805).collect::<Vec<_>>()
    );
}

#[test]
fn ranges_hold_each_document_once() {
    let server = shared();
    let all = fill(&server, "sc_ranges");
    let collect = Collect::default();
    let splits = r#", "splits": [100, "text 0100", {"$oid": "323232323232323232323232"}], "filter": {"n": {"$gte": 0}}"#;
    run(
        scan(&server, "sc_ranges", splits),
        &collect,
        positions(&server, "sc_ranges"),
        &Arc::new(Control::default()),
    )
    .unwrap();
    let arrived = collect.take();
    let mut partitions = vec![Vec::new(); 4];
    arrived.iter().for_each(|one| partitions[one.partition as usize].push(one.document()));
    let expected: Vec<_> = all.into_iter().filter(|one| one.get_i32("n").unwrap() >= 0).collect();
    assert!(partitions.iter().all(|partition| !partition.is_empty()));
    assert_eq!(partitions.concat(), expected);
}

#[test]
fn a_scan_goes_on_behind_what_was_settled() {
    let server = shared();
    let all = fill(&server, "sc_resume");
    let (collect, mut arrived, mut runs) = (Collect::default(), Vec::new(), 0);
    loop {
        let control = Arc::new(Control::default());
        std::thread::scope(|scope| {
            let watch = (collect.clone(), Arc::clone(&control));
            scope.spawn(move || {
                // Ends the pipeline after some batches; when it reads to the end before, nothing is wrong either.
                for _ in 0..10_000 {
                    if watch.0.len() >= 150 {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
                watch.1.drain();
            });
            run(scan(&server, "sc_resume", ""), &collect, positions(&server, "sc_resume"), &control).unwrap();
        });
        let some = collect.take();
        runs += 1;
        if some.is_empty() {
            break;
        }
        arrived.extend(some);
        assert!(runs < 100);
    }
    let found: Vec<_> = arrived.iter().map(|arrived| arrived.document()).collect();
    assert_eq!(found, all, "drained pipelines commit what they settled, so nothing comes twice");
}
