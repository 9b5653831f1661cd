//! Prepares and drops collections on scripted servers that answer in other forms than MongoDB.

use bson::{Bson, Document, doc};
use plimsoll_deployment::Namespace;
use plimsoll_deployment::collection::{self, Existing, InitialState};
use plimsoll_host::scripted::Server;
use plimsoll_wire::{ConnectOptions, Connection};

/// Drops a collection on a server that answers `drop` with `reply`. Returns the message of the error, empty without one.
fn dropped(reply: &Document) -> String {
    let reply = reply.clone();
    let server = Server::start(move |command| command.contains_key("drop").then(|| reply.clone())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = ConnectOptions::new(server.address().to_string().parse().unwrap());
    let namespace = Namespace { db: "d".into(), collection: "c".into() };
    runtime.block_on(async {
        let mut connection = Connection::connect(&options).await.unwrap();
        let dropped = collection::drop_collection(&mut connection, &namespace).await;
        dropped.err().map(|error| error.to_string()).unwrap_or_default()
    })
}

#[test]
fn a_missing_collection_in_any_form_is_no_error_of_drop() {
    for reply in [
        doc! {"ok": 1.0, "ns": "d.c", "nIndexesWas": 1},
        doc! {"ok": 0.0, "code": 26, "codeName": "NamespaceNotFound", "errmsg": "ns not found"},
        doc! {"ok": 0.0, "code": 26, "errmsg": "no such collection"},
        doc! {"ok": 0.0, "code": 1, "errmsg": "ns not found"},
        doc! {"ok": 0.0, "code": 59, "codeName": "CommandNotFound", "errmsg": "drop failed: ns not found"},
        doc! {"ok": 0.0, "code": 8, "codeName": "NamespaceNotFound", "errmsg": "gone"},
        doc! {"ok": 0.0, "codeName": "NamespaceNotFound", "errmsg": "gone"},
        doc! {"ok": 1.0, "writeErrors": [{"index": 0, "code": 1, "errmsg": "ns not found"}]},
        doc! {"ok": 0, "errmsg": "ns not found", "$err": "ns not found"},
        doc! {"ok": 0.0, "errmsg": "NS does not exist: d.c"},
        doc! {"ok": 1.0, "writeErrors": [{"index": 0, "code": 26, "errmsg": "gone"}]},
        doc! {"ok": 1.0, "writeErrors": [{"index": 0, "errmsg": "ns not found"}]},
        doc! {"ok": 1.0, "writeErrors": []},
    ] {
        assert_eq!(dropped(&reply), "", "{reply}");
    }
}

#[test]
fn a_refusal_of_drop_is_an_error_in_either_form() {
    let refusal = doc! {"code": 13, "codeName": "Unauthorized", "errmsg": "not authorized: ns not found"};
    let mut failed = doc! {"ok": 0.0};
    failed.extend(refusal.clone());
    for reply in [failed, doc! {"ok": 1.0, "writeErrors": [refusal]}] {
        let message = dropped(&reply);
        assert!(message.contains("not authorized") && message.contains("code 13"), "{reply}: {message}");
    }
}

#[test]
fn a_collection_whose_absence_has_no_code_is_empty() {
    let missing = || Some(doc! {"ok": 0.0, "errmsg": "ns not found"});
    let server = Server::start(move |command| match command.keys().next()?.as_str() {
        "count" | "listIndexes" => missing(),
        "listCollections" => Some(doc! {"cursor": {"firstBatch": [], "id": 0_i64}, "ok": 1.0}),
        _ => None,
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = ConnectOptions::new(server.address().to_string().parse().unwrap());
    let namespace = Namespace { db: "d".into(), collection: "c".into() };
    let state = runtime.block_on(async {
        let mut connection = Connection::connect(&options).await.unwrap();
        collection::prepare(&mut connection, &namespace, Existing::Refuse).await.unwrap()
    });
    assert_eq!(state, InitialState::default());
}

#[test]
fn a_list_in_batches_is_read_to_its_end() {
    let entries = |names: &[&str]| {
        let entry =
            |name: &&str| doc! {"name": *name, "type": "collection", "options": {"capped": *name == "c"}};
        names.iter().map(entry).collect::<Vec<_>>()
    };
    let server = Server::start(move |command| match command.keys().next()?.as_str() {
        "listCollections" => {
            let first = doc! {"firstBatch": entries(&["a", "b"]), "id": 7_i64, "ns": "d.$cmd.listCollections"};
            Some(doc! {"cursor": first, "ok": 1.0})
        }
        "getMore" if command.get_str("collection").is_ok_and(|it| it == "$cmd.listCollections") => {
            let (names, next) = if command.get_i64("getMore").is_ok_and(|id| id == 7) { (["e", "f"], 8_i64) } else { (["c", "d"], 0) };
            Some(doc! {"cursor": {"nextBatch": entries(&names), "id": next, "ns": "d.$cmd.listCollections"}, "ok": 1.0})
        }
        "listIndexes" => Some(doc! {"cursor": {"firstBatch": [], "id": 0_i64}, "ok": 1.0}),
        _ => None,
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = ConnectOptions::new(server.address().to_string().parse().unwrap());
    runtime.block_on(async {
        let mut connection = Connection::connect(&options).await.unwrap();
        for (name, exists, is_capped) in
            [("a", true, false), ("c", true, true), ("f", true, false), ("x", false, false)]
        {
            let namespace = Namespace { db: "d".into(), collection: name.into() };
            assert_eq!(collection::exists(&mut connection, &namespace).await.unwrap(), exists, "{name}");
            let vanishing = collection::vanishing(&mut connection, &namespace).await.unwrap();
            assert_eq!(vanishing.is_some(), is_capped, "{name}");
        }
        let names = collection::names(&mut connection, "d").await.unwrap();
        assert_eq!(names, ["a", "b", "e", "f", "c", "d"]);
    });
}

#[test]
fn a_server_that_ignores_the_filter_of_a_list_shows_no_other_collection() {
    let capped = || doc! {"name": "other", "type": "collection", "options": {"capped": true}};
    let server = Server::start(move |command| match command.keys().next()?.as_str() {
        "listCollections" => Some(doc! {"cursor": {"firstBatch": [capped()], "id": 0_i64}, "ok": 1.0}),
        "listIndexes" => Some(doc! {"cursor": {"firstBatch": [], "id": 0_i64}, "ok": 1.0}),
        _ => None,
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = ConnectOptions::new(server.address().to_string().parse().unwrap());
    runtime.block_on(async {
        let mut connection = Connection::connect(&options).await.unwrap();
        for (name, exists) in [("c", false), ("other", true)] {
            let namespace = Namespace { db: "d".into(), collection: name.into() };
            assert_eq!(collection::exists(&mut connection, &namespace).await.unwrap(), exists, "{name}");
            let vanishing = collection::vanishing(&mut connection, &namespace).await.unwrap();
            assert_eq!(vanishing.is_some(), exists, "{name}");
        }
    });
}

#[test]
fn a_unique_index_is_recognised_in_every_form_of_its_option() {
    let has_unique = |key: Document, unique: Bson| {
        let reply = doc! {"cursor": {"firstBatch": [{"v": 2, "key": key, "name": "i", "unique": unique}], "id": 0_i64}, "ok": 1.0};
        let server =
            Server::start(move |command| command.contains_key("listIndexes").then(|| reply.clone())).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = ConnectOptions::new(server.address().to_string().parse().unwrap());
        let namespace = Namespace { db: "d".into(), collection: "c".into() };
        runtime.block_on(async {
            let mut connection = Connection::connect(&options).await.unwrap();
            collection::has_unique_index(&mut connection, &namespace).await.unwrap()
        })
    };
    for unique in [Bson::Boolean(true), Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0)] {
        assert!(has_unique(doc! {"u": 1}, unique.clone()), "{unique}");
        assert!(!has_unique(doc! {"_id": 1}, unique.clone()), "{unique}");
    }
    for unique in [Bson::Boolean(false), Bson::Int32(0), Bson::Int64(0), Bson::Double(0.0), Bson::Null] {
        assert!(!has_unique(doc! {"u": 1}, unique.clone()), "{unique}");
    }
}
