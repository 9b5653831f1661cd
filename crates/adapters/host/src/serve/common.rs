//! Answers the commands that every server supports.

use bson::{DateTime, RawDocumentBuf, rawdoc};
use plimsoll_measure::clock;
use plimsoll_wire::frame;

use super::reply;
use super::{DOCUMENT_LEN_MAX, Request};

/// The wire version of MongoDB 8.0.
const WIRE_VERSION_MAX: i32 = 25;
/// The limit of documents in one write command.
const WRITE_BATCH_MAX: i32 = 100_000;

/// Answers a command that every server supports, or refuses it as unknown. `product` names the server.
pub(crate) fn answer(request: &Request<'_>, product: &str, out: &mut Vec<u8>) {
    match request.name {
        "hello" | "isMaster" | "ismaster" => hello(out),
        "buildInfo" | "buildinfo" => build_info(product, out),
        "ping" | "endSessions" | "killSessions" | "refreshSessions" => reply::ok(out),
        name => reply::unknown(out, name),
    }
}

fn hello(out: &mut Vec<u8>) {
    reply::append(out, &description());
}

/// The greeting of a standalone server.
pub(crate) fn description() -> RawDocumentBuf {
    let now = DateTime::from_millis(i64::try_from(clock::wall_ms()).unwrap_or_default());
    rawdoc! {
        "helloOk": true,
        "isWritablePrimary": true,
        "ismaster": true,
        "maxBsonObjectSize": int(DOCUMENT_LEN_MAX),
        "maxMessageSizeBytes": int(frame::LEN_MAX),
        "maxWriteBatchSize": WRITE_BATCH_MAX,
        "localTime": now,
        "logicalSessionTimeoutMinutes": 30,
        "minWireVersion": 0,
        "maxWireVersion": WIRE_VERSION_MAX,
        "readOnly": false,
        "ok": 1.0,
    }
}

fn int(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Reports the server's own name and Plimsoll's version, so that it is not mistaken for MongoDB.
fn build_info(product: &str, out: &mut Vec<u8>) {
    let answer = rawdoc! {
        "version": env!("CARGO_PKG_VERSION"),
        "plimsoll": product,
        "maxBsonObjectSize": int(DOCUMENT_LEN_MAX),
        "ok": 1.0,
    };
    reply::append(out, &answer);
}
