//! Tests that every design writes with the database's write concern and acknowledges no reading without it.

use bson::{Bson, Document, doc};
use mongodb::{Client, Database};
use plimsoll_host::scripted::Server;
use plimsoll_telemetry::reading::Reading;
use plimsoll_telemetry::readings::{Design, IngestError, Readings, Settings, Stored};

const DESIGNS: [Design; 3] = [Design::Document, Design::Bucket, Design::TimeSeries];

/// A scripted server without a second member. It acknowledges the preparation of a database, so each design opens and the
/// first reading fails.
fn alone() -> Server {
    Server::start(|command: &Document| {
        let is = |name: &str| command.contains_key(name);
        if is("findAndModify") {
            return Some(doc! {"value": Bson::Null, "ok": 1.0});
        }
        if is("find") {
            return Some(
                doc! {"cursor": {"id": 0_i64, "ns": "concern.readings", "firstBatch": []}, "ok": 1.0},
            );
        }
        if is("create") || is("createIndexes") {
            return Some(doc! {"ok": 1.0});
        }
        (is("insert") || is("update")).then(|| written(command))
    })
    .unwrap()
}

/// The reply to a write of one document with a failed write concern.
fn written(command: &Document) -> Document {
    let concern = command.get_document("writeConcern").ok();
    let members = concern.and_then(|concern| concern.get("w"));
    if !matches!(members, Some(Bson::Int32(14) | Bson::Int64(14))) {
        return doc! {"n": 1, "nModified": 1, "ok": 1.0};
    }
    let error = doc! {
        "code": 100, "codeName": "UnsatisfiableWriteConcern", "errmsg": "Not enough data-bearing nodes",
    };
    doc! {"n": 1, "nModified": 1, "writeConcernError": error, "ok": 1.0}
}

/// Opens a database and sends one reading.
async fn ingest(database: &Database, design: Design) -> Result<Stored, IngestError> {
    let readings = Readings::open(database, Settings { design, ..Settings::default() }).await.unwrap();
    let (at_ms, metrics) = (1_789_999_200_000, vec![("m".into(), 1.0)]);
    readings.ingest(Reading { sensor: "s".into(), at_ms, event: None, metrics }).await
}

#[track_caller]
fn is_not_acknowledged(said: &Result<Stored, IngestError>, design: Design) {
    let Err(IngestError::Store(fault)) = said else { panic!("{design:?}: {said:?}") };
    assert!(fault.text.contains("Not enough data-bearing nodes"), "{design:?}: {fault}");
}

#[tokio::test]
async fn every_design_uses_the_write_concern_and_respects_its_failure() {
    let server = alone();
    for design in DESIGNS {
        for (members, is_met) in [(1, true), (14, false)] {
            let uri = format!("mongodb://{}/?directConnection=true&w={members}", server.address());
            let database = Client::with_uri_str(uri).await.unwrap().database("concern");
            let said = ingest(&database, design).await;
            match is_met {
                true => assert_eq!(said, Ok(Stored::New), "{design:?}"),
                false => is_not_acknowledged(&said, design),
            }
        }
    }
}
