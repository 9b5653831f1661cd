//! Finds or starts the server of one run, inspects it, and clears it by rule.

use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use bson::rawdoc;
use plimsoll_deployment::inspect::{self as mongo, Wanted};
use plimsoll_deployment::{Namespace, collection};
use plimsoll_host::probe::Probe;
use plimsoll_measure::clock;
use plimsoll_measure::duration::Span;
use plimsoll_measure::environment::ServerFacts;
use plimsoll_measure::inspection::{Collection, FORMAT, Inspection};
use plimsoll_wire::Connection;
use tokio::runtime::Runtime;

use super::cpus::{Cpus, held};
use plimsoll_run::console::Console;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provenance::HostedAs;
use plimsoll_run::server_provisioning::{Choice, Manner, Place};
use plimsoll_run::stale_runs;

/// How long one look may take in all: scans of large collections end by themselves before.
const LOOK_MAX: Duration = Duration::from_secs(180);
/// Documents that are kept of the collection after a run.
const SAMPLES: u32 = 2;

/// How a server is started.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Which.
    pub choice: &'a Choice,
    /// The CPUs that it may use.
    pub cpus: Option<&'a Cpus>,
    /// The storage engine's cache, in bytes.
    pub cache_bytes: Option<u64>,
    /// How long it may take for one answer to the suite itself.
    pub patience: Span,
    /// Whether nothing is said on the way.
    pub console: &'static dyn Console,
}

/// When the collection is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the run: with its neighbours in the database.
    Before,
    /// After it: with documents, fields, sizes and times.
    After,
}

/// A server, for one run.
#[derive(Debug)]
pub struct Hosted<'a> {
    place: Place,
    uri: String,
    cache_bytes: Option<u64>,
    runtime: &'a Runtime,
}

impl<'a> Hosted<'a> {
    /// Finds or starts the server.
    ///
    /// # Errors
    /// When it cannot be installed, started or reached.
    pub fn open(start: Start<'_>, runtime: &'a Runtime) -> Outcome<Self> {
        let timeout = Duration::from_nanos(start.patience.as_ns());
        let manner = Manner { timeout, console: start.console, cache_bytes: start.cache_bytes };
        let place =
            held(start.cpus, || Place::open(start.choice, manner, runtime)).deserves(Exit::Failed)??;
        let uri = match start.choice {
            Choice::Uri(uri) => uri.clone(),
            _ => {
                let address = place.site.addresses().first().map(ToString::to_string).unwrap_or_default();
                format!("mongodb://{address}/?directConnection=true")
            }
        };
        Ok(Self { place, uri, cache_bytes: start.cache_bytes, runtime })
    }

    /// How another process reaches it.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Words that tell a run what the server is that we started for it; none where it only has an address.
    pub fn words(&self) -> Vec<String> {
        let Some(server) = &self.place.server else { return Vec::new() };
        let mut facts = ServerFacts::default();
        server.server().describe(&mut facts);
        let cache_bytes = self.cache_bytes.map(|asked| self.cache_bytes_max().unwrap_or(asked));
        vec!["--hosted-as".to_owned(), HostedAs::of(facts, cache_bytes).to_string()]
    }

    /// The storage engine's cache as the server has it, in bytes: some round what they are given. Nothing where it does not
    /// say.
    fn cache_bytes_max(&self) -> Option<u64> {
        let told = self.within(async {
            let mut probe = Probe::connect(&self.place.site.options()).await?;
            Ok(probe.sample(clock::now()).await?.cache_bytes_max)
        });
        told.ok().flatten()
    }

    /// Its process, if it runs on this machine.
    pub fn pids(&self) -> Vec<u32> {
        self.place.pids()
    }

    /// Whether it is still there when the run has ended.
    pub const fn stays(&self) -> bool {
        self.place.server.is_none()
    }

    /// Looks at a collection, which need not be there.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn look(&self, namespace: &Namespace, when: When) -> anyhow::Result<Inspection> {
        self.within(async {
            let server = self.place.facts().await?;
            let mut connection = self.connect().await?;
            let ours = self.place.server.is_some();
            if when == When::After && ours {
                // Sizes on disk are those of the last checkpoint. A server that cannot be told to make one stays as it is.
                let _ = connection.command("admin", &rawdoc! {"fsync": 1}).await;
            }
            let inspection = match mongo::inspect(&mut connection, &wanted(namespace, when)).await {
                Ok(inspection) => inspection,
                Err(mongo::Error::Wire(error)) => return Err(error.into()),
                Err(_) => nothing(),
            };
            Ok(Inspection { server, ..with(inspection, namespace) })
        })
    }

    /// Documents in a collection, by its metadata.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn count(&self, namespace: &Namespace) -> anyhow::Result<u64> {
        self.within(async {
            let mut connection = self.connect().await?;
            Ok(collection::count(&mut connection, namespace).await?)
        })
    }

    /// Whether everything in a collection is of one of these runs.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn is_all_of(&self, namespace: &Namespace, runs: &[String]) -> anyhow::Result<bool> {
        if runs.is_empty() {
            return Ok(false);
        }
        self.within(async {
            let mut connection = self.connect().await?;
            let ends = collection::ends(&mut connection, namespace).await?;
            Ok(ends.is_some_and(|ends| stale_runs::is_all_of(&ends, runs)))
        })
    }

    /// Drops a collection, and makes sure that nothing of it is left.
    ///
    /// # Errors
    /// When the server refuses, or something is left.
    pub fn drop_collection(&self, namespace: &Namespace) -> anyhow::Result<()> {
        self.within(async {
            let mut connection = self.connect().await?;
            collection::drop_collection(&mut connection, namespace).await?;
            let left = collection::count(&mut connection, namespace).await?;
            ensure!(
                left == 0,
                "{namespace} was dropped and holds {left} documents again: who else writes there?"
            );
            Ok(())
        })
        .with_context(|| format!("drop {namespace}"))
    }

    async fn connect(&self) -> anyhow::Result<Connection> {
        Ok(Connection::connect(&self.place.site.options()).await?)
    }

    fn within<T>(&self, asked: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let limited = async { tokio::time::timeout(LOOK_MAX, asked).await };
        match self.runtime.block_on(limited) {
            Ok(answer) => answer,
            Err(_) => bail!("the server takes longer than {} s to answer", LOOK_MAX.as_secs()),
        }
    }
}

fn wanted(namespace: &Namespace, when: When) -> Wanted {
    match when {
        When::Before => Wanted { databases: vec![namespace.db.clone()], ..Wanted::default() },
        When::After => Wanted { collections: vec![namespace.clone()], samples: SAMPLES, ..Wanted::default() },
    }
}

/// The inspection with the collection first, whether it is there or not.
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

/// What is said of a collection that is in the way.
pub fn in_the_way(namespace: &Namespace, documents: u64) -> anyhow::Error {
    anyhow!(
        "{namespace} is not empty ({documents} documents): name another collection with overrides, or say existing drop to \
         drop it before the test"
    )
}

/// A look at nothing.
pub fn nothing() -> Inspection {
    let taken_ms = clock::wall_ms();
    Inspection { format: FORMAT, taken: clock::utc(taken_ms), taken_ms, ..Inspection::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collection_comes_first_even_if_it_is_not_there() {
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
