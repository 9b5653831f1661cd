//! Reads the counters of a PostgreSQL server.

use std::collections::BTreeMap;

use plimsoll_workflow::port::{StoreError, Stored};
use tokio_postgres::Row;

use super::address::{Address, PATIENCE};
use super::session::Session;

/// The counters of the connected database and of the log. A counter has the same name as in a run's other
/// databases if the meaning is the same.
const COUNTERS: &str = "SELECT xact_commit AS transactions_committed, xact_rollback AS transactions_aborted, \
     tup_returned AS rows_read, tup_fetched AS documents_returned, tup_inserted AS documents_inserted, \
     tup_updated AS documents_updated, tup_deleted AS documents_deleted, blks_read AS blocks_read, blks_hit AS blocks_hit, \
     deadlocks, wal_records AS log_records, wal_bytes::bigint AS log_bytes, wal_sync AS log_flushes \
     FROM pg_stat_database, pg_stat_wal WHERE datname = current_database()";

/// Totals of the database of `uri` since the server's start, by name. Its processes report their counts once a second at most.
///
/// # Errors
///
/// If the server does not answer.
pub async fn counters(uri: &str) -> Stored<BTreeMap<String, u64>> {
    let row = one(uri, COUNTERS).await?;
    let columns = row.columns().iter().enumerate();
    let total = |index| u64::try_from(row.get::<_, Option<i64>>(index).unwrap_or(0)).unwrap_or(0);
    Ok(columns.map(|(index, column)| (column.name().to_owned(), total(index))).collect())
}

/// The version of the server of `uri`, such as `15.18`.
///
/// # Errors
///
/// If the server does not answer.
pub async fn version(uri: &str) -> Stored<String> {
    let row = one(uri, "SHOW server_version").await?;
    let text: String = row.get(0);
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

/// The only row of a statement's result.
async fn one(uri: &str, text: &str) -> Stored<Row> {
    let rows = Session::open(&Address::of(uri)?, PATIENCE).await?.rows(text, &[]).await?;
    rows.into_iter().next().ok_or_else(|| StoreError::Unavailable("the server gave no row".into()))
}
