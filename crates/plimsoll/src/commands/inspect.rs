//! Implements `plimsoll inspect`: lists the contents of a deployment.

use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use plimsoll_deployment::inspect::{self as mongo, FORBIDDEN_MAX, Wanted};
use plimsoll_deployment::{Namespace, pool_warnings, warnings_of_reads};
use plimsoll_measure::inspection::Inspection;
use plimsoll_wire::Connection;

use crate::cli::InspectArgs;
use crate::terminal::{console, print, say, screen};
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};
use plimsoll_run::lifecycle::runtime;
use plimsoll_run::server_provisioning::{Choice, RunningServer, StartOptions};

/// The time limit of one answer; the server gets a shorter limit.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The smallest similarity of a suggested name.
const SIMILAR_MIN: f64 = 0.75;

/// Inspects the deployment and prints its contents.
///
/// # Errors
/// The arguments are invalid, a named item is missing, or the server is unreachable.
pub fn inspect(args: &InspectArgs) -> Outcome<Exit> {
    let wanted = wanted(args).deserves(Exit::Usage)?;
    let choice: Choice = args.server.parse().deserves(Exit::Usage)?;
    tell_unused_options(&args.server);
    let runtime = runtime()?;
    let place = RunningServer::open(
        &choice,
        StartOptions { console: console(args.json), ..StartOptions::quiet(TIMEOUT) },
        &runtime,
    )?;
    let inspection = runtime.block_on(look(&place, &wanted))?;
    tell(&inspection, args)?;
    Ok(if inspection.holds() { Exit::Held } else { Exit::Expectation })
}

/// Warns of options that choose a member or a version of the data: these commands read the primary's own data.
pub(in crate::commands) fn tell_unused_read_options(server: &str) {
    warnings_of_reads(server).iter().for_each(|warning| console(true).warn(warning));
}

/// Warns of options of an address without effect on a command that reads with a few connections.
pub(in crate::commands) fn tell_unused_options(server: &str) {
    tell_unused_read_options(server);
    pool_warnings(server).iter().for_each(|warning| console(true).warn(warning));
}

/// Resolves the arguments.
fn wanted(args: &InspectArgs) -> anyhow::Result<Wanted> {
    let forbidden = args.forbidden.iter().map(|text| text.parse().context("--forbidden"));
    let collections = args.collections.iter().map(|text| namespace(text));
    ensure!(args.forbidden.len() <= FORBIDDEN_MAX, "--forbidden: give at most {FORBIDDEN_MAX} fields");
    Ok(Wanted {
        databases: args.databases.clone(),
        collections: collections.collect::<anyhow::Result<_>>()?,
        samples: args.samples,
        forbidden: forbidden.collect::<anyhow::Result<_>>()?,
    })
}

/// The collection that a `--collection` names.
///
/// # Errors
/// When the text is not `database.collection`.
pub(super) fn namespace(text: &str) -> anyhow::Result<Namespace> {
    let parts = text.split_once('.').filter(|(db, collection)| !db.is_empty() && !collection.is_empty());
    let (db, collection) = parts.ok_or_else(|| {
        anyhow!("--collection {text}: write the database, a dot and the collection, such as plimsoll.vip")
    })?;
    Ok(Namespace { db: db.to_owned(), collection: collection.to_owned() })
}

async fn look(place: &RunningServer, wanted: &Wanted) -> Outcome<Inspection> {
    let server = place.facts().await.deserves(Exit::Server)?;
    let mut connection = Connection::connect(&place.deployment.options()).await.deserves(Exit::Server)?;
    let looked = mongo::inspect(&mut connection, wanted).await;
    Ok(Inspection { server, ..looked.map_err(failure)? })
}

/// The exit code of an error, with the most similar name for a missing name.
pub(super) fn failure(error: mongo::Error) -> Failure {
    let near = match &error {
        mongo::Error::UnknownDatabase { name, known } => nearest(name, known),
        mongo::Error::UnknownCollection { namespace, known } => nearest(&namespace.to_string(), known),
        mongo::Error::Wire(_) => return Failure { exit: Exit::Server, error: error.into() },
    };
    let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Failure { exit: Exit::Usage, error: anyhow!("{error}{hint}") }
}

fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let scored = known.iter().map(|candidate| (strsim::jaro_winkler(name, candidate), candidate));
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 >= SIMILAR_MIN).then_some(best.1)
}

fn tell(inspection: &Inspection, args: &InspectArgs) -> anyhow::Result<()> {
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(inspection).context("write the inspection")?));
    } else {
        print(&plimsoll_report::inspection::summary(inspection, screen()));
    }
    if !inspection.holds() {
        say("plimsoll: found a forbidden field, or could not search for one");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_is_named_with_its_database() {
        let found = namespace("plimsoll.a.b").unwrap();
        assert_eq!((found.db.as_str(), found.collection.as_str()), ("plimsoll", "a.b"));
        for text in ["vip", ".vip", "plimsoll.", ""] {
            let message = namespace(text).unwrap_err().to_string();
            assert!(message.contains("such as plimsoll.vip"), "{message}");
        }
    }

    #[test]
    fn only_a_similar_name_is_suggested() {
        let known = ["plimsoll.vip".to_owned(), "plimsoll.orders".to_owned()];
        assert_eq!(nearest("plimsoll.vpi", &known), Some(&known[0]));
        assert_eq!(nearest("shop.x", &known), None);
    }
}
