//! Looks up, measures and drops the database of a service that the run starts.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bson::rawdoc;
use plimsoll_deployment::{Namespace, collection, inspect};
use plimsoll_measure::inspection::{Collection, Size};
use plimsoll_measure::matrix::together;
use plimsoll_wire::Connection;

use plimsoll_run::server_provisioning::RunningServer;

/// The time limit for measuring or dropping a database.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Name prefixes of the storage engine's journal: a directory, or files next to the tables. It is allocated ahead of need, and
/// repeats data of the tables.
const JOURNAL: [&str; 3] = ["journal", "WiredTigerLog", "WiredTigerPreplog"];
/// The largest depth of directories that are followed.
const DEPTH_MAX: usize = 8;

/// Whether a server has such a database.
///
/// # Errors
/// When the server refuses, or the connection fails.
pub async fn exists(place: &RunningServer, name: &str) -> anyhow::Result<bool> {
    let mut connection = Connection::connect(&place.deployment.options()).await?;
    Ok(!collection::names(&mut connection, name).await?.is_empty())
}

/// Drops a database.
///
/// # Errors
/// When the server refuses, or the connection fails.
pub async fn end(place: &RunningServer, name: &str) -> anyhow::Result<()> {
    let mut connection = Connection::connect(&place.deployment.options()).await?;
    connection.command(name, &rawdoc! {"dropDatabase": 1}).await?;
    Ok(())
}

/// The size of a database. For a server that Plimsoll started, the size on disk is that of all its files, including its oplog
/// but not its journal. The server's own report covers only some collections.
pub async fn size(place: &RunningServer, name: &str) -> Option<Size> {
    let mut connection = Connection::connect(&place.deployment.options()).await.ok()?;
    if place.server.is_some() {
        // Sizes on disk are those of the last checkpoint. If the server refuses to make one, the older sizes count.
        let _ = connection.command("admin", &rawdoc! {"fsync": 1}).await;
    }
    let mut sizes = Vec::new();
    for collection in collection::names(&mut connection, name).await.ok()? {
        let namespace = Namespace { db: name.to_owned(), collection };
        sizes.push(collection::size(&mut connection, &namespace).await.unwrap_or_default());
    }
    let reported = together(&sizes)?;
    let Some(server) = &place.server else { return Some(reported) };
    let files = files_bytes(server.server().storage(), DEPTH_MAX);
    Some(Size { data_bytes: reported.data_bytes, storage_bytes: Some(files), ..Size::default() })
}

/// The quick statistics of each collection of a database. Empty if the server does not answer.
pub async fn look(place: &RunningServer, name: &str) -> Vec<Collection> {
    let Ok(mut connection) = Connection::connect(&place.deployment.options()).await else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for collection in collection::names(&mut connection, name).await.unwrap_or_default() {
        let namespace = Namespace { db: name.to_owned(), collection };
        all.extend(inspect::brief(&mut connection, &namespace).await.ok());
    }
    all
}

/// The bytes of all files below a directory, without the journal.
fn files_bytes(directory: &Path, depth: usize) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_journal = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        JOURNAL.iter().any(|journal| name.to_string_lossy().starts_with(journal))
    };
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() && depth > 0 => files_bytes(&entry.path(), depth - 1),
        Ok(found) if found.is_file() => found.len(),
        _ => 0,
    };
    entries.filter(|entry| !is_journal(entry)).map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use plimsoll_host::scripted::Server;
    use plimsoll_run::server_provisioning::{Choice, StartOptions};

    use super::*;

    /// A server that lists `c` and `d` of the database `d` in two batches, the first of them with `first`.
    fn listing(first: &'static [&'static str]) -> Server {
        let entries = |names: &[&str]| names.iter().map(|name| doc! {"name": *name}).collect::<Vec<_>>();
        let ns = "d.$cmd.listCollections";
        let start = Server::start(move |command| match command.keys().next()?.as_str() {
            "listCollections" => {
                Some(doc! {"cursor": {"firstBatch": entries(first), "id": 7_i64, "ns": ns}, "ok": 1.0})
            }
            "getMore" => {
                let rest: &[&str] = if first.is_empty() { &["c", "d"] } else { &["d"] };
                Some(doc! {"cursor": {"nextBatch": entries(rest), "id": 0_i64, "ns": ns}, "ok": 1.0})
            }
            "collStats" => Some(doc! {"size": 10, "count": 1, "storageSize": 20, "ok": 1.0}),
            _ => None,
        });
        start.unwrap()
    }

    #[test]
    fn collections_in_later_batches_of_a_list_exist_and_have_sizes() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let none: &[&str] = &[];
        for first in [none, &["c"]] {
            let server = listing(first);
            let choice = Choice::Uri(format!("mongodb://{}/?directConnection=true", server.address()));
            let place = RunningServer::open(&choice, StartOptions::quiet(PATIENCE), &runtime);
            let place = place.unwrap_or_else(|failure| panic!("{failure:?}"));
            assert!(runtime.block_on(exists(&place, "d")).unwrap(), "{first:?}");
            let size = runtime.block_on(size(&place, "d")).unwrap();
            assert_eq!(size.data_bytes, Some(20), "{first:?}");
        }
    }

    #[test]
    fn files_count_at_any_depth_and_the_journal_does_not() {
        let dir = tempfile::tempdir().unwrap();
        for (path, bytes) in [
            ("a", 10),
            ("data/b", 20),
            ("data/journal/c", 400),
            ("data/deep/d", 30),
            ("data/WiredTigerLog.001", 900),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; bytes]).unwrap();
        }
        assert_eq!(files_bytes(dir.path(), DEPTH_MAX), 60);
        assert_eq!(files_bytes(&dir.path().join("none"), DEPTH_MAX), 0);
    }
}
