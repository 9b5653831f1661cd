//! Queries the facts of a server, and the state of the collection before the load.

use plimsoll_deployment::collection::{self, InitialState};
use plimsoll_measure::environment::ServerFacts;
use plimsoll_mongo::setup::{Copies, Setup};
use plimsoll_wire::Connection;

use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};
use plimsoll_run::server_provisioning::RunningServer;
use plimsoll_scenario::Loaded;

/// The servers before the load.
pub(super) struct Probed {
    pub(super) facts: ServerFacts,
    /// The collection on all servers together.
    pub(super) before: InitialState,
    /// Whether a server keeps several copies of the documents.
    pub(super) copies: Copies,
}

/// Queries all servers, and adds up their collections.
pub(super) async fn probe(place: &RunningServer, setup: &Setup, loaded: &Loaded) -> Outcome<Probed> {
    let mut facts = place.facts().await.deserves(Exit::Server)?;
    let (mut before, mut copies) = look_at(place, setup, loaded).await?;
    for other in &place.others {
        facts.addresses.extend(other.deployment.addresses().iter().map(ToString::to_string));
        facts.open &= other.deployment.is_open();
        let (more, theirs) = look_at(other, setup, loaded).await?;
        copies = if theirs == Copies::Several { theirs } else { copies };
        before.documents += more.documents;
        before.vanishing = before.vanishing.or(more.vanishing);
    }
    Ok(Probed { facts, before, copies })
}

/// Inspects and prepares the collection on one server.
async fn look_at(place: &RunningServer, setup: &Setup, loaded: &Loaded) -> Outcome<(InitialState, Copies)> {
    let mut connection = Connection::connect(&place.deployment.options()).await.deserves(Exit::Server)?;
    let prepared = collection::prepare(&mut connection, &setup.namespace, loaded.scenario.existing).await;
    let before = prepared.map_err(|error| {
        let exit =
            if matches!(error, collection::Error::NotEmpty { .. }) { Exit::Usage } else { Exit::Server };
        Failure { exit, error: error.into() }
    })?;
    check_size(setup, &connection)?;
    let copies = if connection.hello().is_replicated() { Copies::Several } else { Copies::One };
    Ok((before, copies))
}

/// Refuses documents over the server's size limit before any load.
fn check_size(setup: &Setup, connection: &Connection) -> Outcome<()> {
    let limit = connection.limits().max_bson_object_bytes as usize;
    let (_, largest) = setup.source.as_ref().map_or((0, 0), |source| source.len_bounds());
    if largest > limit {
        let error = anyhow::anyhow!(
            "document: up to {largest} bytes, but the limit of this server is {limit}; make its texts or arrays smaller"
        );
        return Err(Failure { exit: Exit::Usage, error });
    }
    Ok(())
}
