//! Finds or starts the servers that the runs of a matrix share, and clears them after each run.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use plimsoll_deployment::Namespace;
use plimsoll_load::worker::Control;
use plimsoll_measure::inspection::Size;
use tokio::runtime::Runtime;

use super::prepare::Prepared;
use super::shared::{check_taken, clear, look};
use crate::isolation::Venue;
use crate::matrix::cost::Keep;
use crate::matrix::runs::Planned;
use plimsoll_run::audit::is_intact;
use plimsoll_run::check;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::lifecycle::{self, Closed};
use plimsoll_run::run_dir::RunDir;
use plimsoll_run::server_provisioning::{Choice, Manner, Place};
use plimsoll_run::system::{Database, Ground, Subject, System, service_database};

/// What runs are made on.
#[derive(Debug)]
pub enum Stage {
    /// A database that all share, and the collections that were there before, empty: they are used and stay.
    Shared(Box<Place>, BTreeSet<String>),
    /// A server that stays, with a database for each service.
    Databases,
    /// Each has its own, or goes to what is there.
    Apart,
}

/// What is left of a run.
#[derive(Debug, Default)]
pub struct Left {
    /// What it wrote took, as far as that is known.
    pub size: Option<Size>,
    /// Why something of it stays.
    pub said: Option<String>,
}

impl Stage {
    /// Finds or starts what all runs share, and looks whether there is room for what they will write.
    ///
    /// # Errors
    /// When it cannot be reached, or what is there is in the way.
    pub fn open(prepared: &Prepared<'_>, manner: Manner, runtime: &Runtime) -> Outcome<Self> {
        match (prepared.venue, prepared.subjects.first().map(|subject| subject.server())) {
            (Venue::Database, Some(Some(choice))) => {
                let place = Place::open(choice, manner, runtime)?;
                let standing = runtime.block_on(look(prepared, &place))?;
                Ok(Self::Shared(Box::new(place), standing))
            }
            (Venue::Databases, _) => {
                look_for_databases(prepared, manner, runtime)?;
                Ok(Self::Databases)
            }
            _ => Ok(Self::Apart),
        }
    }

    /// What one run loads.
    ///
    /// # Errors
    /// What cannot be reached or started.
    pub fn system(
        &self,
        subject: &dyn Subject,
        ground: Ground<'_>,
        dir: &RunDir,
        manner: Manner,
        control: &Control,
    ) -> Outcome<Box<dyn System>> {
        let runtime = lifecycle::runtime()?;
        let Self::Shared(place, _) = self else { return subject.open(ground, dir, manner, control, runtime) };
        let mut place = Place::clone(place);
        check::put_proxies(&mut place, ground.loaded, ground.plan)?;
        Ok(Box::new(Database::open(ground, place, runtime)?))
    }

    /// Looks what a run took, and drops it if it is ours, nothing in it is wrong, and nobody wants to keep it.
    pub fn clear(
        &self,
        run: &Planned,
        closed: Closed,
        subject: &dyn Subject,
        keep: Keep,
        runtime: &Runtime,
    ) -> Left {
        match self {
            Self::Shared(place, standing) => {
                clear_collection(place, run, &closed, standing.contains(&run.collection), keep, runtime)
            }
            Self::Databases | Self::Apart => {
                let size = closed.system.size();
                let said = self.end(run, closed, subject, keep, runtime);
                Left { size, said: said.err().map(|error| format!("{error:#}")) }
            }
        }
    }

    /// Ends a run's service, and what it kept with it unless that is wanted.
    fn end(
        &self,
        run: &Planned,
        closed: Closed,
        subject: &dyn Subject,
        keep: Keep,
        runtime: &Runtime,
    ) -> anyhow::Result<()> {
        let Closed { system, path, .. } = closed;
        if keep == Keep::Everything {
            return system.keep(&path).map(drop);
        }
        // The service ends before its database: it would write on.
        drop(system);
        self.forget(run, subject, runtime)
    }

    /// Drops what a run made where the server stays, whether or not it came to its load.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn forget(&self, run: &Planned, subject: &dyn Subject, runtime: &Runtime) -> anyhow::Result<()> {
        match (self, subject.server()) {
            (Self::Databases, Some(choice)) => drop_database(choice, &run.collection, runtime),
            _ => Ok(()),
        }
    }

    /// Moves the storage of the servers that all share into the directory of the matrix.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn keep(self, directory: &Path) -> anyhow::Result<()> {
        if let Self::Shared(place, _) = self {
            place.keep(directory)?;
        }
        Ok(())
    }
}

fn clear_collection(
    place: &Place,
    run: &Planned,
    closed: &Closed,
    is_standing: bool,
    keep: Keep,
    runtime: &Runtime,
) -> Left {
    let Ok(namespace) = run.collection.parse::<Namespace>() else { return Left::default() };
    let intact = closed.run.integrity.as_ref().is_some_and(is_intact);
    let stays = if is_standing {
        Some("was there before")
    } else if !intact {
        Some("holds what the audit found wrong or could not read")
    } else {
        None
    };
    let dropping = stays.is_none() && keep == Keep::Nothing;
    let said = stays.map(|why| format!("{namespace} {why}: it stays"));
    match runtime.block_on(clear(place, &namespace, dropping)) {
        Ok(size) => Left { size, said },
        Err(error) => {
            let failed = || format!("{namespace} could not be dropped: {error:#}");
            Left { size: None, said: said.or_else(|| Some(failed())) }
        }
    }
}

/// Every database that a run will be given must not be there: it is dropped after it.
fn look_for_databases(prepared: &Prepared<'_>, manner: Manner, runtime: &Runtime) -> Outcome<()> {
    let mut taken = Vec::new();
    for run in prepared.to_make() {
        let Some(choice) = prepared.subjects[run.cell].server() else { continue };
        let place = Place::open(choice, manner, runtime)?;
        if runtime.block_on(service_database::exists(&place, &run.collection)).deserves(Exit::Server)? {
            taken.push(format!("the database {}", run.collection));
        }
    }
    let why = "each run needs a database of its own that is not there";
    check_taken(&taken, why, "service.telemetry.settings.database.name=…").deserves(Exit::Usage)
}

fn drop_database(choice: &Choice, name: &str, runtime: &Runtime) -> anyhow::Result<()> {
    let place = Place::open(choice, Manner::quiet(service_database::PATIENCE), runtime)
        .map_err(|failure| failure.error);
    let dropped = place.and_then(|place| runtime.block_on(service_database::end(&place, name)));
    dropped.with_context(|| format!("the database {name} could not be dropped"))
}
