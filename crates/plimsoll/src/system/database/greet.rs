//! What a server says that it is, and what is in the collection before the load.

use plimsoll_measure::environment::ServerFacts;
use plimsoll_mongo::collection::{self, Before};
use plimsoll_mongo::setup::Setup;
use plimsoll_server::probe::Probe;
use plimsoll_wire::Connection;

use crate::exit::{Deserves, Exit, Failure, Outcome};
use crate::place::Place;
use crate::scenario::Loaded;

/// Asks the server what it is, and looks at the collection.
pub(super) async fn greet(place: &Place, setup: &Setup, loaded: &Loaded) -> Outcome<(ServerFacts, Before)> {
    let mut facts = describe(place).await?;
    let mut before = look_at(place, setup, loaded).await?;
    for other in &place.others {
        facts.addresses.extend(other.site.addresses().iter().map(ToString::to_string));
        facts.open &= other.site.is_open();
        let more = look_at(other, setup, loaded).await?;
        before.documents += more.documents;
        before.vanishing = before.vanishing.or(more.vanishing);
    }
    Ok((facts, before))
}

/// What a server says it is.
///
/// # Errors
/// When it cannot be asked.
pub async fn describe(place: &Place) -> Outcome<ServerFacts> {
    let mut probe = Probe::connect(&place.site.options()).await.deserves(Exit::Server)?;
    let mut facts = probe.facts().await.deserves(Exit::Server)?;
    facts.kind = place.kind;
    facts.open = place.site.is_open();
    facts.addresses = place.site.addresses().iter().map(ToString::to_string).collect();
    if let Some(server) = &place.server {
        server.server().describe(&mut facts);
    }
    Ok(facts)
}

/// Looks at the collection on one server and makes it ready.
async fn look_at(place: &Place, setup: &Setup, loaded: &Loaded) -> Outcome<Before> {
    let mut connection = Connection::connect(&place.site.options()).await.deserves(Exit::Server)?;
    let prepared = collection::prepare(&mut connection, &setup.namespace, loaded.scenario.existing).await;
    let before = prepared.map_err(|error| {
        let exit =
            if matches!(error, collection::Error::NotEmpty { .. }) { Exit::Usage } else { Exit::Server };
        Failure { exit, error: error.into() }
    })?;
    check_size(setup, &connection)?;
    Ok(before)
}

/// Documents over the server's limit are refused before any load.
fn check_size(setup: &Setup, connection: &Connection) -> Outcome<()> {
    let limit = connection.limits().max_bson_object_bytes as usize;
    let (_, largest) = setup.source.as_ref().map_or((0, 0), |source| source.len_bounds());
    if largest > limit {
        let error = anyhow::anyhow!(
            "document: up to {largest} bytes, and this server takes {limit}; make its texts or arrays smaller"
        );
        return Err(Failure { exit: Exit::Usage, error });
    }
    Ok(())
}
