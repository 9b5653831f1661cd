//! Holds the server of a series: inspects, measures and drops the collections and databases of the runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use bson::rawdoc;
use plimsoll_deployment::inspect::{self as mongo, Wanted};
use plimsoll_deployment::{Namespace, collection};
use plimsoll_host::probe::Probe;
use plimsoll_measure::clock;
use plimsoll_measure::environment::ServerFacts;
use plimsoll_measure::inspection::{Collection, FORMAT, Inspection, Size};
use plimsoll_measure::matrix::together;
use plimsoll_wire::Connection;
use tokio::runtime::Runtime;

use crate::cpus::{Cpus, pinned};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provenance::HostedAs;
use plimsoll_run::server_provisioning::{Choice, RunningServer, StartOptions};
use plimsoll_run::stale_runs;
use plimsoll_systems::service_database;

/// The time limit of one inspection: scans of large collections end earlier by their own limits.
const INSPECTION_MAX: Duration = Duration::from_secs(180);
/// The number of sample documents of an inspection after a run.
const SAMPLES: u32 = 2;
/// The largest number of names that a refusal lists.
const NAMED_MAX: usize = 3;

/// The moment of an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the run: the collection, and the other collections of its database.
    Before,
    /// After the run: documents, fields, sizes and times of the collection.
    After,
}

/// The contents of a collection before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The collection does not exist.
    Missing,
    /// The collection exists and is empty.
    Empty,
    /// This number of documents, all of earlier attempts of the run.
    Leftovers(u64),
    /// This number of documents, not all of them of earlier attempts.
    Foreign(u64),
}

/// One server, or several servers that share the load.
#[derive(Clone, Debug)]
pub struct Server {
    place: RunningServer,
    uri: String,
    cache_bytes: Option<u64>,
    runtime: Arc<Runtime>,
}

impl Server {
    /// Finds the server, or starts it on `cpus`.
    ///
    /// # Errors
    /// When it cannot be installed, started or reached.
    pub fn open(
        choice: &Choice,
        start: StartOptions,
        cpus: Option<&Cpus>,
        runtime: &Arc<Runtime>,
    ) -> Outcome<Self> {
        let place = pinned(cpus, || RunningServer::open(choice, start, runtime)).deserves(Exit::Failed)??;
        let uri = match choice {
            Choice::Uri(uri) => uri.clone(),
            _ => {
                let address =
                    place.deployment.addresses().first().map(ToString::to_string).unwrap_or_default();
                format!("mongodb://{address}/?directConnection=true")
            }
        };
        Ok(Self { place, uri, cache_bytes: start.cache_bytes, runtime: Arc::clone(runtime) })
    }

    /// The server as a run in this process loads it.
    pub const fn place(&self) -> &RunningServer {
        &self.place
    }

    /// Its address for another process.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Arguments that describe how this program started the server. Empty for a running server.
    pub fn arguments(&self) -> Vec<String> {
        let Some(server) = &self.place.server else { return Vec::new() };
        let mut facts = ServerFacts::default();
        server.server().describe(&mut facts);
        let cache_bytes = self.cache_bytes.map(|asked| self.cache_bytes_max().unwrap_or(asked));
        vec!["--hosted-as".to_owned(), HostedAs::of(facts, cache_bytes).to_string()]
    }

    /// The storage engine's cache in bytes, as reported by the server: some servers round it.
    fn cache_bytes_max(&self) -> Option<u64> {
        let sampled = self.within(async {
            let mut probe = Probe::connect(&self.place.deployment.options()).await?;
            Ok(probe.sample(clock::now()).await?.cache_bytes_max)
        });
        sampled.ok().flatten()
    }

    /// Its processes on this machine.
    pub fn pids(&self) -> Vec<u32> {
        self.place.pids()
    }

    /// Whether it was running before the series and stays afterwards.
    pub const fn stays(&self) -> bool {
        self.place.server.is_none()
    }

    /// Inspects a collection, which may be missing.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn inspect(&self, namespace: &Namespace, when: When) -> anyhow::Result<Inspection> {
        self.within(async {
            let server = self.place.facts().await?;
            let mut connection = connect(&self.place).await?;
            if when == When::After {
                checkpoint(&self.place, &mut connection).await;
            }
            let inspection = match mongo::inspect(&mut connection, &wanted(namespace, when)).await {
                Ok(inspection) => inspection,
                Err(mongo::Error::Wire(error)) => return Err(error.into()),
                Err(_) => nothing(),
            };
            Ok(Inspection { server, ..with(inspection, namespace) })
        })
    }

    /// The contents of a collection on all servers; `earlier` are the identities of earlier attempts of the run.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn contents(&self, namespace: &Namespace, earlier: &[String]) -> anyhow::Result<Contents> {
        self.within(async {
            let mut all = Contents::Missing;
            for place in self.place.all() {
                let mut connection = connect(place).await?;
                all = all.and(contents(&mut connection, namespace, earlier).await?);
            }
            Ok(all)
        })
    }

    /// Drops a collection on all servers, and checks that it stays empty.
    ///
    /// # Errors
    /// When a server refuses, or documents remain.
    pub fn drop_collection(&self, namespace: &Namespace) -> anyhow::Result<()> {
        self.within(async {
            for place in self.place.all() {
                let mut connection = connect(place).await?;
                collection::drop_collection(&mut connection, namespace).await?;
                let left = collection::count(&mut connection, namespace).await?;
                ensure!(
                    left == 0,
                    "{namespace} was dropped and holds {left} documents again: stop the other program that writes to it"
                );
            }
            Ok(())
        })
        .with_context(|| format!("drop {namespace}"))
    }

    /// The size of a collection on all servers.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn size(&self, namespace: &Namespace) -> anyhow::Result<Option<Size>> {
        self.within(async {
            let mut sizes = Vec::new();
            for place in self.place.all() {
                let mut connection = connect(place).await?;
                checkpoint(place, &mut connection).await;
                sizes.push(collection::size(&mut connection, namespace).await.unwrap_or_default());
            }
            Ok(together(&sizes))
        })
    }

    /// Whether a database exists.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn has_database(&self, name: &str) -> anyhow::Result<bool> {
        self.within(service_database::exists(&self.place, name))
    }

    /// Drops a database.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn drop_database(&self, name: &str) -> anyhow::Result<()> {
        let dropped = self.within(service_database::end(&self.place, name));
        dropped.with_context(|| format!("the database {name} could not be dropped"))
    }

    /// Moves the storage of every server that this program started into a directory.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn keep(self, directory: &Path) -> anyhow::Result<()> {
        self.place.keep(directory).map(drop)
    }

    fn within<T>(&self, asked: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let limited = async { tokio::time::timeout(INSPECTION_MAX, asked).await };
        match self.runtime.block_on(limited) {
            Ok(answer) => answer,
            Err(_) => bail!("the server takes longer than {} s to answer", INSPECTION_MAX.as_secs()),
        }
    }
}

impl Contents {
    /// The contents on two servers together.
    const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Foreign(one), Self::Foreign(two) | Self::Leftovers(two))
            | (Self::Leftovers(one), Self::Foreign(two)) => Self::Foreign(one + two),
            (Self::Leftovers(one), Self::Leftovers(two)) => Self::Leftovers(one + two),
            (held @ (Self::Foreign(_) | Self::Leftovers(_)), _)
            | (_, held @ (Self::Foreign(_) | Self::Leftovers(_))) => held,
            (Self::Empty, _) | (_, Self::Empty) => Self::Empty,
            (Self::Missing, Self::Missing) => Self::Missing,
        }
    }
}

async fn connect(place: &RunningServer) -> anyhow::Result<Connection> {
    Ok(Connection::connect(&place.deployment.options()).await?)
}

/// Makes a checkpoint on a server that this program started: sizes on disk are those of the last checkpoint.
/// If the server refuses, the sizes stay old.
async fn checkpoint(place: &RunningServer, connection: &mut Connection) {
    if place.server.is_some() {
        let _ = connection.command("admin", &rawdoc! {"fsync": 1}).await;
    }
}

async fn contents(
    connection: &mut Connection,
    namespace: &Namespace,
    earlier: &[String],
) -> anyhow::Result<Contents> {
    if !collection::exists(connection, namespace).await? {
        return Ok(Contents::Missing);
    }
    let documents = collection::count(connection, namespace).await?;
    if documents == 0 {
        return Ok(Contents::Empty);
    }
    let ends = if earlier.is_empty() { None } else { collection::ends(connection, namespace).await? };
    let is_leftover = ends.is_some_and(|ends| stale_runs::is_all_of(&ends, earlier));
    Ok(if is_leftover { Contents::Leftovers(documents) } else { Contents::Foreign(documents) })
}

fn wanted(namespace: &Namespace, when: When) -> Wanted {
    match when {
        When::Before => Wanted { databases: vec![namespace.db.clone()], ..Wanted::default() },
        When::After => Wanted { collections: vec![namespace.clone()], samples: SAMPLES, ..Wanted::default() },
    }
}

/// Moves the collection to the front, or adds it if it is missing.
fn with(mut inspection: Inspection, namespace: &Namespace) -> Inspection {
    let name = namespace.to_string();
    let (mut own, others): (Vec<_>, Vec<_>) =
        inspection.collections.into_iter().partition(|collection| collection.namespace == name);
    if own.is_empty() {
        own.push(Collection::missing(&name));
    }
    own.extend(others);
    inspection.collections = own;
    inspection
}

/// An empty inspection.
pub fn nothing() -> Inspection {
    let taken_ms = clock::wall_ms();
    Inspection { format: FORMAT, taken: clock::utc(taken_ms), taken_ms, ..Inspection::default() }
}

/// Refuses collections or databases with foreign data; succeeds if there are none.
///
/// # Errors
/// When there are such collections. The error names the first of them, and the key that sets another name.
pub fn refuse(taken: &[String], needed: &str, key: &str) -> anyhow::Result<()> {
    if taken.is_empty() {
        return Ok(());
    }
    let more = if taken.len() > NAMED_MAX { " and more" } else { "" };
    Err(anyhow!(
        "{}{more}: each run needs {needed}. Choose another name with --set {key}=…, or drop what an interrupted run left behind",
        taken[..taken.len().min(NAMED_MAX)].join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_documents_on_one_of_several_servers_decide() {
        use Contents::{Empty, Foreign, Leftovers, Missing};
        for (one, other, both) in [
            (Missing, Missing, Missing),
            (Missing, Empty, Empty),
            (Empty, Leftovers(3), Leftovers(3)),
            (Leftovers(3), Leftovers(4), Leftovers(7)),
            (Leftovers(3), Foreign(4), Foreign(7)),
            (Foreign(4), Missing, Foreign(4)),
        ] {
            assert_eq!((one.and(other), other.and(one)), (both, both));
        }
    }

    #[test]
    fn the_collection_comes_first_even_if_it_is_missing() {
        let namespace: Namespace = "d.b".parse().unwrap();
        let named = |name: &str| Collection { namespace: name.into(), exists: true, ..Collection::default() };
        let names = |collections| {
            let inspection = with(Inspection { collections, ..Inspection::default() }, &namespace);
            inspection.collections.into_iter().map(|it| (it.namespace, it.exists)).collect::<Vec<_>>()
        };
        assert_eq!(names(vec![named("d.a"), named("d.b")]), [("d.b".into(), true), ("d.a".into(), true)]);
        assert_eq!(names(vec![named("d.a")]), [("d.b".into(), false), ("d.a".into(), true)]);
    }
}
