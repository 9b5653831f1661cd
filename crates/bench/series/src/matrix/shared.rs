//! Checks, measures and drops collections on the database that all runs of a matrix share.

use std::collections::BTreeSet;

use anyhow::bail;
use bson::rawdoc;
use plimsoll_deployment::{Namespace, collection};
use plimsoll_measure::inspection::Size;
use plimsoll_measure::matrix::together;
use plimsoll_wire::Connection;

use super::prepare::Prepared;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provisioning::Place;

/// Collections or databases that are named when they are in the way.
const NAMED_MAX: usize = 3;

/// The collections of the runs to be made that are there already, empty.
///
/// # Errors
/// When some are there and not empty.
pub async fn look(prepared: &Prepared<'_>, place: &Place) -> Outcome<BTreeSet<String>> {
    let (mut standing, mut taken) = (BTreeSet::new(), Vec::new());
    for place in place.all() {
        let mut connection = Connection::connect(&place.site.options()).await.deserves(Exit::Server)?;
        for name in prepared.to_make().map(|run| &run.collection) {
            let namespace: Namespace = name.parse().deserves(Exit::Usage)?;
            if !collection::exists(&mut connection, &namespace).await.deserves(Exit::Server)? {
                continue;
            }
            match collection::count(&mut connection, &namespace).await.deserves(Exit::Server)? {
                0 => _ = standing.insert(name.clone()),
                documents => taken.push(format!("{name} ({documents} documents)")),
            }
        }
    }
    check_taken(&taken, "a cell needs a collection that is not there or empty", "collection=…")
        .deserves(Exit::Usage)?;
    Ok(standing)
}

/// Refuses what somebody else's data would be in the way of.
///
/// # Errors
/// When anything is `taken`.
pub fn check_taken(taken: &[String], why: &str, mend: &str) -> anyhow::Result<()> {
    if taken.is_empty() {
        return Ok(());
    }
    let more = if taken.len() > NAMED_MAX { " and more" } else { "" };
    bail!(
        "{}{more}: {why}. Name another one with --set {mend}, or drop them yourself if they are what a run left behind \
         that was cut off",
        taken[..taken.len().min(NAMED_MAX)].join(", ")
    )
}

/// What a collection takes on all servers; drops it if asked to.
///
/// # Errors
/// When a server cannot be reached, or refuses to drop it.
pub async fn clear(place: &Place, namespace: &Namespace, dropping: bool) -> anyhow::Result<Option<Size>> {
    let mut sizes = Vec::new();
    for place in place.all() {
        let mut connection = Connection::connect(&place.site.options()).await?;
        if place.server.is_some() {
            // Sizes on disk are those of the last checkpoint. A server that cannot be told to make one stays as it is.
            let _ = connection.command("admin", &rawdoc! {"fsync": 1}).await;
        }
        sizes.push(collection::size(&mut connection, namespace).await.unwrap_or_default());
        if dropping {
            collection::drop_collection(&mut connection, namespace).await?;
        }
    }
    Ok(together(&sizes))
}
