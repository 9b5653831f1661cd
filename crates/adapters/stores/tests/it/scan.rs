//! Tests the scan source.

use std::sync::{Arc, OnceLock};

use bson::{Bson, Document, doc};
use plimsoll_host::{Server, scripted};
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::{
    Batch, Control, Ended, Error, Parts, Pipeline, Settings, Transform, TransformError, TransformFactory,
};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::scenario::{self, Vector};
use plimsoll_stores::sink::vector::By;

use crate::bench::{ask, documents, positions, positions_of, shared, uri};
use crate::collect::{Collect, run};

fn scan(server: &Server, db: &str, more: &str) -> plimsoll_stores::source::scan::Scan {
    let typed = format!(r#"{{"uri": "{}", "collection": "{db}.c"{more}}}"#, uri(server));
    serde_json::from_str::<scenario::Scan>(&typed).unwrap().build().unwrap()
}

/// Inserts documents whose `_id`s are of many types.
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
fn a_scan_reads_all_id_types_in_order() {
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

/// Servers can hold documents with deeper nesting than sinks send; such a document must not end a scan.
#[test]
fn a_deeply_nested_document_is_an_event() {
    let (server, db) = (shared(), "sc_deep");
    let deep = (0..120).fold(doc! {"n": 1}, |inner, _| doc! {"a": inner});
    let all = vec![doc! {"_id": 1}, doc! {"_id": 2, "deep": deep}, doc! {"_id": 3}];
    ask(&server, db, doc! {"insert": "c", "documents": all.clone()});
    let collect = Collect::default();
    let control = Arc::new(Control::default());
    let ended = run(scan(&server, db, ""), &collect, positions(&server, db), &control);
    assert_eq!(ended.unwrap(), Ended::Exhausted);
    assert_eq!(collect.take().iter().map(|arrived| arrived.document()).collect::<Vec<_>>(), all);
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
fn a_scan_resumes_after_settled_documents() {
    let server = shared();
    let all = fill(&server, "sc_resume");
    let (collect, mut arrived, mut runs) = (Collect::default(), Vec::new(), 0);
    loop {
        let control = Arc::new(Control::default());
        std::thread::scope(|scope| {
            let watch = (collect.clone(), Arc::clone(&control));
            scope.spawn(move || {
                // Ends the pipeline after some batches; an earlier end of the scan is not a failure.
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
    assert_eq!(found, all, "drained pipelines commit settled events, so no event comes twice");
}

/// Gives every event a vector, like an embedding transform.
struct Embeds;

impl TransformFactory for Embeds {
    fn build(&self, _: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(Self))
    }

    fn name(&self) -> &str {
        "embeds"
    }
}

impl Transform for Embeds {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        (0..batch.events().len()).for_each(|index| batch.set_vector(index, &[0.5]));
        Ok(())
    }
}

/// Embeds the numbers of a collection, for a pipeline of this name.
fn embed(server: &Server, db: &str, pipeline: &str, by: By) -> Result<Ended, Error> {
    let vector = Vector { form: Form::Bson, by, ..Vector::new(uri(server), format!("{db}.embedded")) };
    let parts = Parts {
        sources: vec![Box::new(scan(server, db, r#", "filter": {"n": {"$gte": 0}}"#))],
        transforms: vec![Box::new(Embeds)],
        sink: Box::new(vector.build().unwrap()),
        dead_letters: None,
        positions: Some(Arc::new(positions_of(server, db, pipeline))),
    };
    let settings = Settings { guarantee: Guarantee::EffectivelyOnce, ..Settings::default() };
    Pipeline::build(parts, settings, Arc::new(Control::default()))?.run()
}

#[test]
fn a_collection_is_embedded_under_its_own_ids_and_again_after_changes() {
    let (server, db) = (shared(), "sc_embed");
    let all = fill(&server, db);
    let words = embed(&server, db, "p", By::Key).unwrap_err().to_string();
    assert!(words.contains("`by: payload`"), "{words}");
    assert_eq!(embed(&server, db, "p", By::Payload).unwrap(), Ended::Exhausted);
    let all = all.iter().filter(|one| one.get_i32("n").unwrap() >= 0);
    let ids: Vec<_> = all.map(|one| one.get("_id").cloned().unwrap()).collect();
    let embedded = || documents(&server, db, "embedded");
    assert_eq!(embedded().iter().map(|one| one.get("_id").cloned().unwrap()).collect::<Vec<_>>(), ids);
    assert!(embedded().iter().all(|one| one.get_array("vector").is_ok()));
    // The removal of document 0 shifts the changed document to an earlier offset of the scan.
    ask(&server, db, doc! {"delete": "c", "deletes": [{"q": {"_id": 0}, "limit": 1}]});
    ask(&server, db, doc! {"update": "c", "updates": [{"q": {"_id": 100}, "u": {"$set": {"n": 7777}}}]});
    assert_eq!(embed(&server, db, "again", By::Payload).unwrap(), Ended::Exhausted);
    let found = embedded();
    let changed = found.iter().find(|one| one.get("_id") == Some(&Bson::Int32(100))).unwrap();
    assert_eq!((changed.get_i32("n").unwrap(), found.len()), (7777, ids.len()));
}

#[test]
fn a_scan_sends_the_read_concern_of_its_address() {
    let empty = doc! {"cursor": {"firstBatch": [], "id": 0_i64, "ns": "d.c"}, "ok": 1.0};
    let server =
        scripted::Server::start(move |command| command.contains_key("find").then(|| empty.clone())).unwrap();
    let uri = format!("mongodb://{}/?readConcernLevel=bogus&readPreference=secondary", server.address());
    let typed = format!(r#"{{"uri": "{uri}", "collection": "d.c"}}"#);
    let source = serde_json::from_str::<scenario::Scan>(&typed).unwrap().build().unwrap();
    let ended = run(source, &Collect::default(), positions(&shared(), "sc_concern"), &Arc::default());
    assert_eq!(ended.unwrap(), Ended::Exhausted);
    let find = server.commands().into_iter().find(|command| command.contains_key("find")).unwrap();
    assert_eq!(find.get_document("readConcern").unwrap(), &doc! {"level": "bogus"});
    assert!(find.get("$readPreference").is_none(), "a server outside a set answers every read: {find}");
}

/// Member `index` of a replica set of two; member 0 is the primary. A query without a filter finds two documents.
fn member(index: usize, names: Arc<OnceLock<[String; 2]>>) -> scripted::Server {
    let script = move |command: &Document| match command.keys().next().map(String::as_str) {
        Some("hello" | "isMaster" | "ismaster") => Some(doc! {
            "isWritablePrimary": index == 0, "ismaster": index == 0, "secondary": index == 1, "setName": "rs",
            "setVersion": 1, "hosts": names.get()?.to_vec(), "me": &names.get()?[index], "primary": &names.get()?[0],
            "minWireVersion": 0, "maxWireVersion": 25, "maxBsonObjectSize": 1 << 24,
            "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "ok": 1.0,
        }),
        Some("find") => {
            let is_first = command.get_document("filter").is_ok_and(Document::is_empty);
            let found = if is_first { vec![doc! {"_id": 1}, doc! {"_id": 2}] } else { Vec::new() };
            Some(doc! {"cursor": {"firstBatch": found, "id": 0_i64, "ns": "d.c"}, "ok": 1.0})
        }
        _ => None,
    };
    scripted::Server::start(script).unwrap()
}

#[test]
fn a_scan_with_a_read_preference_reads_a_secondary() {
    let names = Arc::<OnceLock<[String; 2]>>::default();
    let members = [0, 1].map(|index| member(index, names.clone()));
    names.set([0, 1].map(|index: usize| members[index].address().to_string())).unwrap();
    for (mode, expected) in [("secondary", 1), ("primary", 0)] {
        let uri =
            format!("mongodb://{}/?replicaSet=rs&readPreference={mode}", names.get().unwrap().join(","));
        let typed = format!(r#"{{"uri": "{uri}", "collection": "d.c"}}"#);
        let scan = serde_json::from_str::<scenario::Scan>(&typed).unwrap().build().unwrap();
        let collect = Collect::default();
        let positions = positions(&shared(), &format!("sc_{mode}"));
        run(scan, &collect, positions, &Arc::new(Control::default())).unwrap();
        assert_eq!(collect.take().len(), 2, "{mode}");
        let finds = |member: usize| {
            let heard = members[member].commands().into_iter();
            heard.filter(|command| command.contains_key("find")).collect::<Vec<_>>()
        };
        let read = finds(expected);
        assert!(!read.is_empty() && (mode == "primary" || finds(0).is_empty()), "{mode}");
        let sent = read[0].get_document("$readPreference").ok().map(|sent| sent.get_str("mode").unwrap());
        assert_eq!(sent, (mode == "secondary").then_some(mode));
        assert_eq!(read[0].get_document("readConcern").unwrap(), &doc! {"level": "majority"});
    }
}
