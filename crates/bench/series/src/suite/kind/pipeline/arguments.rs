//! Translates the columns of a row into arguments of `plimsoll pipeline run`.

use std::path::Path;

use anyhow::{bail, ensure};
use plimsoll_pipeline::config::ExecutorConfig;

use crate::suite::kind::arguments;
use crate::suite::typed::Row;
use plimsoll_stream::read;

const POOL: &str = "pool";
const PER_PARTITION: &str = "per_partition";

/// The row's overrides of the file, then those of its columns.
///
/// # Errors
/// When a column is invalid. The error names the first.
pub fn sets(name: &str, row: &Row) -> anyhow::Result<Vec<String>> {
    let mut all = row.overrides.clone();
    all.extend(row.in_flight.map(|events| format!("in_flight.events={events}")));
    all.extend(threads(name, row)?);
    Ok(all)
}

fn threads(name: &str, row: &Row) -> anyhow::Result<Option<String>> {
    match (row.executor.as_deref(), row.threads) {
        (None, None) => Ok(None),
        (None | Some(POOL), Some(threads)) => Ok(Some(format!("threads={{pool: {threads}}}"))),
        (Some(POOL), None) => {
            let (file, _) = read(Path::new(name), &row.overrides)?;
            ensure!(matches!(file.threads, ExecutorConfig::Pool(_)), "executor pool: set `threads`");
            Ok(None)
        }
        (Some(PER_PARTITION), None) => Ok(Some(format!("threads={PER_PARTITION}"))),
        (Some(PER_PARTITION), Some(_)) => {
            bail!("executor per_partition: each partition has a thread: leave `threads` out")
        }
        (Some(other), _) => bail!("executor {other}: write {POOL} or {PER_PARTITION}, or leave it out"),
    }
}

/// The arguments of a run with the limits of the row.
pub fn of(name: &str, sets: &[String], row: &Row) -> Vec<String> {
    let after = row.duration.map(|time| ["--for".to_owned(), time.to_string()]);
    let events = row.fill.map(|fill| ["--events".to_owned(), fill.events.to_string()]);
    arguments(&["pipeline", "run", name], sets)
        .into_iter()
        .chain(after.into_iter().chain(events).flatten())
        .collect()
}
