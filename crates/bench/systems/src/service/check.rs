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
    let database = Section::default();
    let meant = [
        (
            "document",
            scenario.document.is_some(),
            "the documents of a service are the bodies of its requests",
        ),
        (
            "documents_from",
            scenario.documents_from.is_some(),
            "the documents of a service are the bodies of its requests",
        ),
        ("existing", scenario.existing != database.existing, "a service keeps its collections itself"),
        (
            "write_concern",
            scenario.write_concern != database.write_concern,
            "a service has its own settings for that",
        ),
        ("read_concern", scenario.read_concern.is_some(), "a service has its own settings for that"),
        ("read_preference", scenario.read_preference.is_some(), "a service has its own settings for that"),
        (
            "connections",
            scenario.connections != database.connections,
            "use `requests_per_connection` under `http.limits`",
        ),
        ("client", scenario.client != database.client, "use `http.protocol`"),
        ("timeout", scenario.timeout != database.timeout, "use `http.timeout`"),
        ("shard", scenario.shard.is_some(), "a service keeps its collections itself"),
        (
            "retry",
            !matches!(scenario.retry, None | Some(Retry::None)),
            "requests are sent once, because the service may have executed them",
        ),
        ("servers", !scenario.servers.is_empty(), "a service is loaded at one URL"),
        ("indexes", plan.indexes.iter().any(|keys| !keys.is_empty()), "a service makes its indexes itself"),
    ];
    for (key, is_there, instead) in meant {
        anyhow::ensure!(
            !is_there,
            "{key}: only for a database, but this scenario loads a service: {instead}"
        );
    }
    let proof = scenario.expect.keys().find(|metric| metric.starts_with("integrity."));
    anyhow::ensure!(
        proof.is_none() || plan.service().iter().any(|(_, request)| request.read_back.is_some()),
        "expect.{}: a service proves nothing by itself, so there is no audit: give a request a `read_back`, or expect checks or errors",
        proof.map_or("", String::as_str)
    );
    Ok(())
}
