//! Checks and drops the run's own collection or database on a running server.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use plimsoll_deployment::{Namespace, collection};
use plimsoll_measure::run::Run;
use plimsoll_wire::Connection;
use tokio::runtime::Runtime;

use super::prepare::Prepared;
use crate::isolation::Own;
use crate::matrix;
use plimsoll_run::audit::is_intact;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provisioning::Place;
use plimsoll_run::stale_runs;
use plimsoll_run::system::service_database;

/// A run of a comparison is its directory's only load.
const ITSELF: &str = "";

/// The room of one run.
#[derive(Clone, Copy)]
pub struct Rooms<'a> {
    /// Whose run it is.
    pub side: &'a Prepared,
    /// The run's number.
    pub number: u32,
    /// Its directory.
    pub path: &'a Path,
    /// What asks the server.
    pub runtime: &'a Runtime,
}

impl Rooms<'_> {
    /// Whether nothing is to be dropped after the run: it has no room of its own on a server that stays, or that was there
    /// before, empty.
    ///
    /// # Errors
    /// When something is in it.
    pub fn stands(self) -> Outcome<bool> {
        let (Some(place), Some(name)) = (&self.side.standing, self.side.own.name(self.number)) else {
            return Ok(true);
        };
        if let Own::Databases { path, .. } = &self.side.own {
            let is_there =
                self.runtime.block_on(service_database::exists(place, &name)).deserves(Exit::Server)?;
            return check_free(is_there, &name, path).map(|()| false).deserves(Exit::Usage);
        }
        let namespace: Namespace = name.parse().deserves(Exit::Usage)?;
        let left = stale_runs::runs(self.path, &[ITSELF]);
        self.runtime.block_on(is_standing(place, &namespace, &left)).deserves(Exit::Server)
    }

    /// Drops it. A collection in which the audit found something wrong stays.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub fn clear(self, run: Option<&Run>) -> Outcome<()> {
        let (Some(place), Some(name)) = (&self.side.standing, self.side.own.name(self.number)) else {
            return Ok(());
        };
        if matches!(self.side.own, Own::Databases { .. }) {
            let dropped = self.runtime.block_on(service_database::end(place, &name));
            return dropped.with_context(|| format!("drop the database {name}")).deserves(Exit::Server);
        }
        let intact = run.and_then(|run| run.integrity.as_ref()).is_some_and(is_intact);
        if intact {
            let namespace: Namespace = name.parse().deserves(Exit::Usage)?;
            self.runtime.block_on(matrix::clear(place, &namespace, true)).deserves(Exit::Server)?;
        }
        Ok(())
    }
}

fn check_free(is_there: bool, name: &str, path: &str) -> anyhow::Result<()> {
    ensure!(
        !is_there,
        "the database {name} is there: each run needs one that is not. Name another one with --set {path}=…, or drop it \
         yourself if it is what a run left behind that was cut off"
    );
    Ok(())
}

/// Whether a collection is there, empty. What earlier tries of the run have `left` is dropped.
async fn is_standing(place: &Place, namespace: &Namespace, left: &[String]) -> anyhow::Result<bool> {
    for place in place.all() {
        let mut connection = Connection::connect(&place.site.options()).await?;
        if !collection::exists(&mut connection, namespace).await? {
            continue;
        }
        match collection::count(&mut connection, namespace).await? {
            0 => return Ok(true),
            _ if is_left(&mut connection, namespace, left).await? => {
                collection::drop_collection(&mut connection, namespace).await?;
            }
            documents => bail!(
                "{namespace} is not empty ({documents} documents): each run needs a collection that is not there or empty. Name \
                 another one with --set collection=…, or drop it yourself if it is what a run left behind that was cut off"
            ),
        }
    }
    Ok(false)
}

async fn is_left(
    connection: &mut Connection,
    namespace: &Namespace,
    left: &[String],
) -> anyhow::Result<bool> {
    if left.is_empty() {
        return Ok(false);
    }
    let ends = collection::ends(connection, namespace).await?;
    Ok(ends.is_some_and(|ends| stale_runs::is_all_of(&ends, left)))
}
