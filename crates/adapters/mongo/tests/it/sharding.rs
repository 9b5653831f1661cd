//! Compares the admin commands of a pre-split with a scripted mongos, word for word.

use std::path::Path;

use bson::{Document, doc, oid::ObjectId};
use plimsoll_host::scripted::Server;
use plimsoll_ledger::Run;
use plimsoll_mongo::scenario::Section;
use plimsoll_mongo::setup::{Context, Setup};
use plimsoll_mongo::sharding::{Error, Plan, Sharding, apply};
use plimsoll_wire::{Address, ConnectOptions, Connection};
use serde_json::json;

const RUN: Run = Run { time_s: 0x6930_0000, tag: [1, 2, 3] };

fn context() -> Context<'static> {
    Context { seed: 1, run: RUN, base: Path::new(".") }
}

fn plan(sharding: serde_json::Value, documents: Option<u64>) -> Result<Plan, Error> {
    let section = Section { collection: "shop.orders".into(), ..Section::default() };
    let setup = Setup::build(&section, &[], context()).unwrap();
    let typed: Sharding = serde_json::from_value(sharding).unwrap();
    Plan::build(&typed, &setup, documents, context())
}

/// A server that greets with `message` (`isdbgrid` for a mongos) and accepts every command.
fn server(message: Option<&'static str>, shards: &'static [&'static str]) -> Server {
    let script = move |command: &Document| {
        let name = command.keys().next().map(String::as_str);
        match name {
            Some("hello") => {
                let mut hello = doc! {
                    "isWritablePrimary": true, "maxWireVersion": 25, "minWireVersion": 0,
                    "maxBsonObjectSize": 1 << 24, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
                    "ok": 1.0,
                };
                hello.extend(message.map(|message| ("msg".to_owned(), message.into())));
                Some(hello)
            }
            Some("listShards") => {
                let shards: Vec<_> = shards.iter().map(|shard| doc! {"_id": *shard}).collect();
                Some(doc! {"shards": shards, "ok": 1.0})
            }
            _ => Some(doc! {"ok": 1.0}),
        }
    };
    Server::start(script).unwrap()
}

/// Applies a plan; returns the reported commands and the received commands, without the greeting.
fn applied(server: &Server, plan: &Plan) -> (Result<(), Error>, Vec<String>, Vec<Document>) {
    let address = Address { host: "127.0.0.1".into(), port: server.address().port() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut reported = Vec::new();
    let result = runtime.block_on(async {
        let mut connection = Connection::connect(&ConnectOptions::new(address)).await.unwrap();
        apply(&mut connection, plan, |text| reported.push(text)).await
    });
    let heard = server.commands().into_iter().filter(|command| !command.contains_key("hello")).collect();
    (result, reported, heard)
}

fn receipt(number: u64) -> ObjectId {
    ObjectId::from_bytes(RUN.receipt(number).to_object_id())
}

#[test]
fn receipts_are_split_evenly_and_moved_to_the_shards_in_turn() {
    let plan = plan(json!({"key": {"_id": 1}, "chunks": 4, "spread": true}), Some(1_000)).unwrap();
    let server = server(Some("isdbgrid"), &["rs0", "rs1", "rs2"]);
    let (result, reported, heard) = applied(&server, &plan);
    result.unwrap();
    let points: Vec<_> = [250, 500, 750].into_iter().map(|number| doc! {"_id": receipt(number)}).collect();
    let expected = [
        doc! {"enableSharding": "shop", "$db": "admin"},
        doc! {"shardCollection": "shop.orders", "key": {"_id": 1}, "$db": "admin"},
        doc! {"split": "shop.orders", "middle": points[0].clone(), "$db": "admin"},
        doc! {"split": "shop.orders", "middle": points[1].clone(), "$db": "admin"},
        doc! {"split": "shop.orders", "middle": points[2].clone(), "$db": "admin"},
        doc! {"listShards": 1, "$db": "admin"},
        doc! {"moveChunk": "shop.orders", "find": points[0].clone(), "to": "rs1", "$db": "admin"},
        doc! {"moveChunk": "shop.orders", "find": points[1].clone(), "to": "rs2", "$db": "admin"},
        doc! {"moveChunk": "shop.orders", "find": points[2].clone(), "to": "rs0", "$db": "admin"},
    ];
    let bytes = |documents: &[Document]| documents.iter().map(|it| it.to_vec().unwrap()).collect::<Vec<_>>();
    assert_eq!(bytes(&heard), bytes(&expected), "{heard:#?}");
    assert_eq!(reported.len(), 8, "each command except the query is reported before it is sent");
    assert_eq!(reported[1], r#"admin: {"shardCollection":"shop.orders","key":{"_id":1}}"#);
}

#[test]
fn a_key_may_be_split_at_values_and_left_to_the_balancer() {
    let plan = plan(json!({"key": {"customer": 1}, "split_at": {"at": ["g", "p"]}}), None).unwrap();
    let server = server(Some("isdbgrid"), &["rs0"]);
    let (result, _, heard) = applied(&server, &plan);
    result.unwrap();
    assert_eq!(
        heard[2..],
        [
            doc! {"split": "shop.orders", "middle": {"customer": "g"}, "$db": "admin"},
            doc! {"split": "shop.orders", "middle": {"customer": "p"}, "$db": "admin"},
        ]
    );
}

#[test]
fn a_server_that_is_not_a_mongos_is_refused_and_gets_no_command() {
    let plan = plan(json!({"key": {"_id": "hashed"}}), None).unwrap();
    let server = server(None, &[]);
    let (result, reported, heard) = applied(&server, &plan);
    assert!(result.unwrap_err().to_string().contains("is not a mongos"));
    assert_eq!((reported.len(), heard.len()), (0, 0));
}

#[test]
fn an_invalid_sharding_is_refused_with_its_place() {
    for (sharding, documents, part) in [
        (json!({"key": {}}), None, "shard.key: name at least one field"),
        (json!({"key": {"_id": 1}, "chunks": 1}), Some(10), "shard.chunks: 1; give a number from 2"),
        (json!({"key": {"_id": 1}, "chunks": 4}), None, "set stop.documents to the number"),
        (json!({"key": {"n": 1}, "chunks": 4}), Some(10), "only receipts can be split evenly"),
        (json!({"key": {"n": 1}, "chunks": 4, "split_at": {"at": [1]}}), Some(10), "keep one"),
        (json!({"key": {"n": 1}, "split_at": {"at": []}}), None, "give from 1 to 8191 values"),
        (json!({"key": {"n": {"$long": {"min": 0, "max": 9}}}}), None, "only constants are valid here"),
    ] {
        let error = plan(sharding.clone(), documents).unwrap_err().to_string();
        assert!(error.contains(part), "{sharding}: {error}");
    }
}
