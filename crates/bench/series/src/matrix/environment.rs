//! Holds the server that the runs of a matrix share, and clears their collections and databases.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use plimsoll_deployment::Namespace;
use plimsoll_load::worker::Control;
use plimsoll_measure::inspection::Size;
use plimsoll_measure::matrix::CellRun;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::lifecycle::{self, Closed};
use plimsoll_run::run_dir::RunDir;
use plimsoll_run::server_provisioning::StartOptions;
use plimsoll_run::system::{Isolation, RunContext, Subject, System};
use plimsoll_systems::audit::is_intact;
use plimsoll_systems::check;
use plimsoll_systems::{database::Database, service_database};
use tokio::runtime::Runtime;

use super::cost::Keep;
use super::prepare::Prepared;
use super::runs::cell;
use crate::server::{Contents, Server, refuse};

/// The servers of a matrix.
#[derive(Debug)]
pub struct Environment {
    /// The database that all runs share, if any.
    shared: Option<Server>,
    /// The shared server's empty collections that existed before the matrix: the runs use them, and they
    /// stay.
    existing: BTreeSet<String>,
    /// Whether each run has its own database on a running server.
    has_databases: bool,
    keep: Keep,
    runtime: Arc<Runtime>,
}

/// The leftovers of a run.
#[derive(Debug, Default)]
pub struct Remains {
    /// The size of its data, as far as known.
    pub size: Option<Size>,
    /// The reason why data stays.
    pub note: Option<String>,
}

impl Environment {
    /// Finds or starts the shared server, and checks the collections or databases of the missing runs.
    ///
    /// # Errors
    /// When the server cannot be reached, a collection is not empty, or a database exists.
    pub fn open(prepared: &Prepared<'_>, start: StartOptions) -> Outcome<Self> {
        let runtime = Arc::new(lifecycle::runtime()?);
        let has_databases = matches!(prepared.isolation, Isolation::Database { .. });
        let (shared, existing, keep) = (None, BTreeSet::new(), prepared.keep);
        let mut environment = Self { shared, existing, has_databases, keep, runtime };
        // A complete matrix needs no server.
        if prepared.missing().next().is_none() {
            return Ok(environment);
        }
        if has_databases {
            environment.check_databases(prepared, start)?;
        } else if prepared.isolation == Isolation::Collection
            && let Some(choice) = prepared.subjects.first().and_then(|subject| subject.server())
        {
            let server = Server::open(choice, start, None, &environment.runtime)?;
            environment.existing = check_collections(prepared, &server)?;
            environment.shared = Some(server);
        }
        Ok(environment)
    }

    /// Checks that the databases of the missing runs do not exist, because each is dropped after its run.
    fn check_databases(&self, prepared: &Prepared<'_>, start: StartOptions) -> Outcome<()> {
        let mut taken = Vec::new();
        for (_, run) in prepared.missing() {
            let Some(choice) = prepared.subjects[cell(run)].server() else { continue };
            let server = Server::open(choice, start, None, &self.runtime)?;
            if server.has_database(&run.collection).deserves(Exit::Server)? {
                taken.push(format!("the database {}", run.collection));
            }
        }
        refuse(&taken, "its own new database", "service.telemetry.settings.database.name")
            .deserves(Exit::Usage)
    }

    /// The system that one run loads.
    ///
    /// # Errors
    /// When it cannot be reached or started.
    pub fn system(
        &self,
        subject: &dyn Subject,
        context: RunContext<'_>,
        dir: &RunDir,
        start: StartOptions,
        control: &Control,
    ) -> Outcome<Box<dyn System>> {
        let runtime = lifecycle::runtime()?;
        let Some(server) = &self.shared else { return subject.open(context, dir, start, control, runtime) };
        let mut place = server.place().clone();
        check::put_proxies(&mut place, context.loaded, context.plan)?;
        Ok(Box::new(Database::open(context, place, runtime)?))
    }

    /// Measures the data of a run. Drops the data unless it existed before, has violations, or is to stay.
    pub fn clear(&self, run: &CellRun, closed: Closed, subject: &dyn Subject) -> Remains {
        let Some(server) = &self.shared else {
            let size = closed.system.size();
            let note = self.end(run, closed, subject).err().map(|error| format!("{error:#}"));
            return Remains { size, note };
        };
        let Ok(namespace) = run.collection.parse::<Namespace>() else { return Remains::default() };
        let intact = closed.run.integrity.as_ref().is_some_and(is_intact);
        let why = match (self.existing.contains(&run.collection), intact) {
            (true, _) => Some("existed before"),
            (false, false) => Some("holds documents that the audit found wrong or could not read"),
            (false, true) => None,
        };
        let dropping = why.is_none() && self.keep == Keep::Nothing;
        let note = why.map(|why| format!("{namespace} {why}: it stays"));
        let size = server.size(&namespace);
        let dropped = if dropping { server.drop_collection(&namespace) } else { Ok(()) };
        match size.and_then(|size| dropped.map(|()| size)) {
            Ok(size) => Remains { size, note },
            Err(error) => {
                let failed = || format!("{namespace} could not be dropped: {error:#}");
                Remains { size: None, note: note.or_else(|| Some(failed())) }
            }
        }
    }

    /// Ends a run's service, and drops its data unless it is to stay.
    fn end(&self, run: &CellRun, closed: Closed, subject: &dyn Subject) -> anyhow::Result<()> {
        let Closed { system, path, .. } = closed;
        if self.keep == Keep::Everything {
            return system.keep(&path).map(drop);
        }
        // The service ends before its database is dropped; otherwise it would continue to write.
        drop(system);
        self.forget(run, subject)
    }

    /// Drops the database of a run on a running server, whether or not the run reached its load.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn forget(&self, run: &CellRun, subject: &dyn Subject) -> anyhow::Result<()> {
        let Some(choice) = subject.server().filter(|_| self.has_databases) else { return Ok(()) };
        let start = StartOptions::quiet(service_database::PATIENCE);
        let server = Server::open(choice, start, None, &self.runtime).map_err(|failure| failure.error)?;
        server.drop_database(&run.collection)
    }

    /// Moves the storage of the shared server into the directory of the matrix, if it is to stay.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn end_all(self, directory: &Path) -> anyhow::Result<()> {
        match self.shared {
            Some(server) if self.keep == Keep::Everything => server.keep(directory),
            _ => Ok(()),
        }
    }
}

/// Checks that existing collections of the missing runs are empty.
fn check_collections(prepared: &Prepared<'_>, server: &Server) -> Outcome<BTreeSet<String>> {
    let (mut existing, mut taken) = (BTreeSet::new(), Vec::new());
    for (_, CellRun { collection, .. }) in prepared.missing() {
        match server.contents(&collection.parse().deserves(Exit::Usage)?, &[]).deserves(Exit::Server)? {
            Contents::Missing => {}
            Contents::Empty => _ = existing.insert(collection.clone()),
            Contents::Leftovers(documents) | Contents::Foreign(documents) => {
                taken.push(format!("{collection} ({documents} documents)"));
            }
        }
    }
    refuse(&taken, "a missing or empty collection", "collection").deserves(Exit::Usage)?;
    Ok(existing)
}
