//! Reads the database's own counters, so that a run can report their growth.

use std::collections::BTreeMap;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_postgres::workflow as postgres;
use plimsoll_wire::Connection;

use crate::store_server::StoreServer;

/// The counters of MongoDB: the name in a run, and the path in `serverStatus`.
const MONGODB: [(&str, &[&str]); 18] = [
    ("commands", &["opcounters", "command"]),
    ("queries", &["opcounters", "query"]),
    ("inserts", &["opcounters", "insert"]),
    ("updates", &["opcounters", "update"]),
    ("deletes", &["opcounters", "delete"]),
    ("documents_returned", &["metrics", "document", "returned"]),
    ("documents_inserted", &["metrics", "document", "inserted"]),
    ("documents_updated", &["metrics", "document", "updated"]),
    ("documents_deleted", &["metrics", "document", "deleted"]),
    ("transactions_started", &["transactions", "totalStarted"]),
    ("transactions_committed", &["transactions", "totalCommitted"]),
    ("transactions_aborted", &["transactions", "totalAborted"]),
    ("write_conflicts", &["metrics", "operation", "writeConflicts"]),
    ("requests", &["network", "numRequests"]),
    ("bytes_in", &["network", "bytesIn"]),
    ("bytes_out", &["network", "bytesOut"]),
    ("log_flushes", &["wiredTiger", "log", "log sync operations"]),
    ("log_bytes", &["wiredTiger", "log", "log bytes written"]),
];

/// Totals since the server's start, by name.
pub(crate) type Totals = BTreeMap<String, u64>;

/// The totals of a database; empty if it does not answer.
pub(crate) async fn read(server: &StoreServer) -> Totals {
    match server {
        StoreServer::Mongodb(server) => {
            let Ok(mut connection) = Connection::connect(&server.deployment.options()).await else {
                return Totals::new();
            };
            let reply: Result<RawDocumentBuf, _> =
                connection.command("admin", &rawdoc! {"serverStatus": 1}).await;
            reply.map(|status| mongodb(&status)).unwrap_or_default()
        }
        StoreServer::Postgres { uri, .. } => postgres::counters(uri).await.unwrap_or_default(),
    }
}

fn mongodb(status: &RawDocument) -> Totals {
    let read = |(name, path): &(&str, &[&str])| Some(((*name).to_owned(), number(status, path)?));
    MONGODB.iter().filter_map(read).collect()
}

fn number(document: &RawDocument, path: &[&str]) -> Option<u64> {
    let (first, rest) = path.split_first()?;
    match (document.get(*first).ok()??, rest.is_empty()) {
        (RawBsonRef::Document(inner), false) => number(inner, rest),
        (RawBsonRef::Int32(number), true) => u64::try_from(number).ok(),
        (RawBsonRef::Int64(number), true) => u64::try_from(number).ok(),
        (RawBsonRef::Double(number), true) if number >= 0.0 => Some(number as u64),
        _ => None,
    }
}

/// The growth of each counter that both totals hold. A restart resets a counter: if its value fell, its growth is unknown.
pub(crate) fn growth(before: &Totals, after: &Totals) -> Totals {
    let grown = |(name, after): (&String, &u64)| Some((name.clone(), after.checked_sub(*before.get(name)?)?));
    after.iter().filter_map(grown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_their_paths_and_missing_ones_are_left_out() {
        let status = rawdoc! {"opcounters": {"insert": 5_i64, "command": 7}, "network": {"bytesIn": 9.0}, "transactions": 1};
        let totals = mongodb(&status);
        let expected = [("bytes_in", 9), ("commands", 7), ("inserts", 5)];
        assert_eq!(totals, expected.map(|(name, count)| (name.to_owned(), count)).into());
    }

    #[test]
    fn a_counter_that_fell_has_no_growth() {
        let totals = |a: u64, b: u64| Totals::from([("a".to_owned(), a), ("b".to_owned(), b)]);
        assert_eq!(growth(&totals(1, 9), &totals(4, 2)), Totals::from([("a".to_owned(), 3)]));
        assert_eq!(growth(&Totals::new(), &totals(4, 2)), Totals::new());
    }
}
