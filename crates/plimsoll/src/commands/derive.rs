//! Implements `plimsoll scenarios derive`: prints a scenario that resembles an existing collection.

use std::time::Duration;

use plimsoll_deployment::Namespace;
use plimsoll_deployment::inspect::{Sampled, sample};
use plimsoll_scenario::derive::{CopyValues, Origin, Profile, scenario};
use plimsoll_wire::Connection;

use super::inspect::{failure, namespace, tell_unused_options};
use crate::cli::DeriveArgs;
use crate::terminal::{console, print, say};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::lifecycle::runtime;
use plimsoll_run::server_provisioning::{Choice, RunningServer, StartOptions};

/// The time limit of one answer; the server gets a shorter limit.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Samples the collection and prints the scenario.
///
/// # Errors
/// The arguments are invalid, the collection is missing, or the server is unreachable.
pub fn derive(args: &DeriveArgs) -> Outcome<Exit> {
    let namespace = namespace(&args.collection).deserves(Exit::Usage)?;
    let choice: Choice = args.server.parse().deserves(Exit::Usage)?;
    tell_unused_options(&args.server);
    let runtime = runtime()?;
    let options = StartOptions { console: console(false), ..StartOptions::quiet(TIMEOUT) };
    let place = RunningServer::open(&choice, options, &runtime)?;
    let mut profile = Profile::default();
    let sampled = runtime.block_on(read(&place, &namespace, args.sample, &mut profile))?;
    sampled.collection.notes.iter().for_each(|note| say(&format!("plimsoll: {namespace}: {note}")));
    let origin = Origin {
        collection: &sampled.collection,
        choice: sampled.choice,
        copy_values: if args.copy_values { CopyValues::Yes } else { CopyValues::No },
    };
    print(&scenario(&profile, &origin)?);
    Ok(Exit::Held)
}

async fn read(
    place: &RunningServer,
    namespace: &Namespace,
    most: u32,
    profile: &mut Profile,
) -> Outcome<Sampled> {
    let mut connection = Connection::connect(&place.deployment.options()).await.deserves(Exit::Server)?;
    sample(&mut connection, namespace, most, &mut |document| profile.see(document)).await.map_err(failure)
}
