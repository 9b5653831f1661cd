//! Reads a server's facts from its answers.

use std::collections::BTreeMap;

use bson::raw::RawBsonRef;
use bson::{Bson, Document, RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_measure::environment::ServerFacts;

use super::answers::Answers;
use super::field::{at, text};
use super::normalise::storage_engine;
use super::product;

/// The parameters that change how a server handles a load.
const PARAMETERS: [&str; 9] = [
    "featureCompatibilityVersion",
    "journalCommitInterval",
    "syncdelay",
    "enableFlowControl",
    "flowControlTargetLagSeconds",
    "storageEngineConcurrentWriteTransactions",
    "wiredTigerConcurrentWriteTransactions",
    "notablescan",
    "transactionLifetimeLimitSeconds",
];
/// The sections of the configuration that change how a server handles a load. Security and key paths are left out.
const SECTIONS: [&str; 4] = ["storage", "replication", "sharding", "setParameter"];
/// The limit of reported parameters, and of characters in each.
const PARAMETERS_MAX: usize = 64;
const VALUE_LEN_MAX: usize = 200;

/// A request for the parameters by name; a server omits unknown names.
pub(crate) fn parameters_request() -> RawDocumentBuf {
    let mut request = Document::new();
    request.insert("getParameter", 1);
    request.extend(PARAMETERS.iter().map(|name| ((*name).to_owned(), Bson::Int32(1))));
    RawDocumentBuf::try_from(request).unwrap_or_else(|_| rawdoc! { "getParameter": "*" })
}

/// The facts, without the addresses. `host` is the host of the connection.
pub(crate) fn facts(answers: &Answers, host: &str) -> ServerFacts {
    ServerFacts {
        version: answers.build.as_deref().and_then(|build| text(build, &["version"])),
        product: product::name(answers, host),
        storage_engine: answers.status.as_deref().and_then(storage_engine),
        topology: answers.hello.as_deref().map(topology),
        default_write_concern: answers.concern.as_deref().and_then(write_concern),
        parameters: parameters(answers),
        ..ServerFacts::default()
    }
}

fn topology(hello: &RawDocument) -> String {
    match (text(hello, &["msg"]).as_deref(), text(hello, &["setName"])) {
        (Some("isdbgrid"), _) => "mongos".to_owned(),
        (_, Some(name)) => format!("replica set {name}"),
        _ => "standalone".to_owned(),
    }
}

fn write_concern(concern: &RawDocument) -> Option<String> {
    json(at(concern, &["defaultWriteConcern"])?)
}

fn json(value: RawBsonRef<'_>) -> Option<String> {
    Some(Bson::try_from(value).ok()?.into_relaxed_extjson().to_string())
}

fn parameters(answers: &Answers) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if let Some(answer) = &answers.parameters {
        let asked =
            PARAMETERS.iter().filter_map(|name| Some(((*name).to_owned(), plain(at(answer, &[name])?)?)));
        all.extend(asked);
    }
    for section in SECTIONS {
        let options = answers.options.as_deref().and_then(|options| at(options, &["parsed", section]));
        if let Some(RawBsonRef::Document(options)) = options {
            flatten(section, options, &mut all);
        }
    }
    all.into_iter().take(PARAMETERS_MAX).collect()
}

/// Adds `storage.wiredTiger.engineConfig.cacheSizeGB` and similar paths, each with its value. The limit on
/// their number and BSON's own limit bound the recursion.
fn flatten(prefix: &str, options: &RawDocument, all: &mut BTreeMap<String, String>) {
    for (key, value) in options.iter().map_while(Result::ok) {
        let name = format!("{prefix}.{}", key.as_str());
        match value {
            RawBsonRef::Document(inner) if name.len() < VALUE_LEN_MAX => flatten(&name, inner, all),
            value if all.len() < PARAMETERS_MAX => all.extend(plain(value).map(|value| (name, value))),
            _ => {}
        }
    }
}

/// A value in one line; texts have no quotes.
fn plain(value: RawBsonRef<'_>) -> Option<String> {
    let text = value.as_str().map_or_else(|| json(value), |text| Some(text.to_owned()))?;
    Some(text.chars().take(VALUE_LEN_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_described_by_its_answers() {
        let answers = Answers {
            build: Some(rawdoc! {"version": "8.0.4"}),
            hello: Some(rawdoc! {"setName": "rs0"}),
            status: Some(rawdoc! {"storageEngine": {"name": "wiredTiger"}}),
            concern: Some(rawdoc! {"defaultWriteConcern": {"w": "majority", "wtimeout": 0}}),
            options: Some(rawdoc! {"parsed": {
                "storage": {"dbPath": "/data", "wiredTiger": {"engineConfig": {"cacheSizeGB": 1.5}}},
                "security": {"keyFile": "/secret"},
            }}),
            parameters: Some(rawdoc! {"syncdelay": 60.0, "notablescan": false, "ok": 1.0}),
        };
        let facts = facts(&answers, "db1");
        assert_eq!(facts.version.as_deref(), Some("8.0.4"));
        assert_eq!(facts.topology.as_deref(), Some("replica set rs0"));
        assert_eq!(facts.storage_engine.as_deref(), Some("wiredTiger"));
        assert_eq!(facts.default_write_concern.as_deref(), Some(r#"{"w":"majority","wtimeout":0}"#));
        let names: Vec<&str> = facts.parameters.keys().map(String::as_str).collect();
        let cache = "storage.wiredTiger.engineConfig.cacheSizeGB";
        assert_eq!(names, ["notablescan", "storage.dbPath", cache, "syncdelay"]);
        assert_eq!(facts.parameters[cache], "1.5");
    }

    #[test]
    fn a_mongos_is_recognised_by_its_message() {
        assert_eq!(topology(&rawdoc! {"msg": "isdbgrid"}), "mongos");
        assert_eq!(topology(&rawdoc! {}), "standalone");
    }

    #[test]
    fn a_silent_server_has_no_facts() {
        assert_eq!(facts(&Answers::default(), "db1"), ServerFacts::default());
    }
}
