//! Tests that this client and the official driver get the same replies to the same commands.

use bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::Client;
use plimsoll_wire::Connection;

use crate::client::{WAYS, connect_by, run};
use crate::server::Server;

/// The fields that differ between calls of any client.
const VOLATILE: [&str; 7] =
    ["$clusterTime", "operationTime", "electionId", "opTime", "localTime", "connectionId", "topologyVersion"];

async fn through_driver(client: &Client, db: &str, command: &Document) -> Document {
    match client.database(db).run_command(command.clone()).await {
        Ok(reply) => clean(reply),
        Err(error) => match *error.kind {
            mongodb::error::ErrorKind::Command(error) => {
                doc! {"code": error.code, "codeName": error.code_name, "errmsg": error.message}
            }
            other => panic!("{command}: {other:?}"),
        },
    }
}

async fn through_wire(connection: &mut Connection, db: &str, command: &Document) -> Document {
    let body = RawDocumentBuf::try_from(command).unwrap();
    match connection.command(db, &body).await {
        Ok(reply) => clean(Document::try_from(reply).unwrap()),
        Err(plimsoll_wire::Error::Server(error)) => {
            doc! {"code": error.code, "codeName": error.name, "errmsg": error.message}
        }
        Err(other) => panic!("{command}: {other:?}"),
    }
}

fn clean(mut reply: Document) -> Document {
    for key in VOLATILE {
        reply.remove(key);
    }
    if let Some(Bson::Document(cursor)) = reply.get_mut("cursor") {
        cursor.remove("id");
    }
    reply
}

/// The commands. Each runs on a database with the same content for both clients; `DB` stands for its name.
fn commands() -> Vec<Document> {
    let many: Vec<Document> =
        (0..300).map(|id| doc! {"_id": id, "x": id % 7, "text": "t".repeat(50)}).collect();
    vec![
        doc! {"ping": 1},
        doc! {"insert": "c", "documents": many},
        doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 1000}], "ordered": true},
        doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 1000}, {"_id": 2}], "ordered": false},
        doc! {"update": "c", "updates": [{"q": {"x": 3}, "u": {"$inc": {"y": 1}}, "multi": true}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 5000}, "u": {"$set": {"z": 1}}, "upsert": true}]},
        doc! {"delete": "c", "deletes": [{"q": {"x": 6}, "limit": 0}]},
        doc! {"find": "c", "filter": {"x": 2}, "sort": {"_id": -1}, "limit": 5},
        doc! {"find": "c", "filter": {}, "sort": {"_id": 1}, "batchSize": 3},
        doc! {"count": "c", "query": {"x": 1}},
        doc! {"distinct": "c", "key": "x"},
        doc! {"aggregate": "c", "pipeline": [{"$group": {"_id": "$x", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}], "cursor": {}},
        doc! {"findAndModify": "c", "query": {"_id": 0}, "update": {"$set": {"seen": true}}, "new": true},
        doc! {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}]},
        doc! {"find": "c", "filter": {"$nonsense": 1}},
        doc! {"noSuchCommand": 1},
        doc! {"insert": "c", "documents": []},
    ]
}

#[test]
fn the_official_driver_gets_the_same_replies_as_a_plain_and_as_a_compressed_connection() {
    let server = Server::shared();
    run(async {
        let uri = format!("mongodb://{}/?directConnection=true&retryWrites=false", server.address());
        let client = Client::with_uri_str(uri).await.unwrap();
        let mut connections = Vec::new();
        for way in WAYS {
            connections.push(connect_by(server.address(), way).await);
        }
        for command in commands() {
            let by_driver = through_driver(&client, "same_d", &command).await.to_string();
            for (connection, db) in connections.iter_mut().zip(["same_0", "same_1", "same_2"]) {
                let by_wire = through_wire(connection, db, &command).await.to_string();
                assert_eq!(by_wire.replace(db, "same_d"), by_driver, "{db}: {command}");
            }
        }
    });
}
