//! Refuses scenario keys that do not apply to a service.

use plimsoll_load::retry::Retry;
use plimsoll_mongo::scenario::Section;

use plimsoll_scenario::Plan;
use plimsoll_scenario::Scenario;

/// Refuses database keys for a service.
///
/// # Errors
/// When the scenario sets such a key. The error names the alternative.
pub fn check(scenario: &Scenario, plan: &Plan) -> anyhow::Result<()> {
    let is_indexed = plan.indexes.iter().any(|keys| !keys.is_empty());
    let indexes = ("indexes", is_indexed, "a service makes its indexes itself");
    let typed = data(scenario).into_iter().chain(concerns(scenario)).chain(client(scenario));
    for (key, is_there, instead) in typed.chain([indexes]) {
        anyhow::ensure!(
            !is_there,
            "{key}: only for a database, but this scenario loads a service: {instead}"
        );
    }
    check_proof(scenario, plan)
}

/// A key of databases, whether the scenario sets it, and the alternative.
type Key = (&'static str, bool, &'static str);

/// The keys of documents and collections.
fn data(scenario: &Scenario) -> [Key; 4] {
    let bodies = "the documents of a service are the bodies of its requests";
    let keeps = "a service keeps its collections itself";
    [
        ("document", scenario.document.is_some(), bodies),
        ("documents_from", scenario.documents_from.is_some(), bodies),
        ("existing", scenario.existing != Section::default().existing, keeps),
        ("shard", scenario.shard.is_some(), keeps),
    ]
}

/// The keys of concerns and read preferences.
fn concerns(scenario: &Scenario) -> [Key; 3] {
    let settings = "a service has its own settings for that";
    [
        ("write_concern", scenario.write_concern != Section::default().write_concern, settings),
        ("read_concern", scenario.read_concern.is_some(), settings),
        ("read_preference", scenario.read_preference.is_some(), settings),
    ]
}

/// The keys of the client and its connections.
fn client(scenario: &Scenario) -> [Key; 5] {
    let database = Section::default();
    let per_connection = "use `requests_per_connection` under `http.limits`";
    let once = "requests are sent once, because the service may have executed them";
    [
        ("connections", scenario.connections != database.connections, per_connection),
        ("client", scenario.client != database.client, "use `http.protocol`"),
        ("timeout", scenario.timeout != database.timeout, "use `http.timeout`"),
        ("retry", !matches!(scenario.retry, None | Some(Retry::None)), once),
        ("servers", !scenario.servers.is_empty(), "a service is loaded at one URL"),
    ]
}

/// Refuses expectations of an audit that no request makes possible.
fn check_proof(scenario: &Scenario, plan: &Plan) -> anyhow::Result<()> {
    let proof = scenario.expect.keys().find(|metric| metric.starts_with("integrity."));
    anyhow::ensure!(
        proof.is_none() || plan.service().iter().any(|(_, request)| request.reads_back()),
        "expect.{}: a service proves nothing by itself, so there is no audit: give a request a `read_back`, or expect checks or errors",
        proof.map_or("", String::as_str)
    );
    Ok(())
}
