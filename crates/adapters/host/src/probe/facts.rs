//! Reads a server's facts off its own answers.

use std::collections::BTreeMap;

use bson::raw::RawBsonRef;
use bson::{Bson, Document, RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_measure::environment::ServerFacts;

use super::field::{at, text};
use super::normalise::storage_engine;

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
/// The most parameters that are kept, and the most characters of each.
const PARAMETERS_MAX: usize = 64;
const VALUE_LEN_MAX: usize = 200;

/// The answers of a server; absent where it gave none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) build: Option<RawDocumentBuf>,
    pub(crate) hello: Option<RawDocumentBuf>,
    pub(crate) status: Option<RawDocumentBuf>,
    pub(crate) concern: Option<RawDocumentBuf>,
    pub(crate) options: Option<RawDocumentBuf>,
    pub(crate) parameters: Option<RawDocumentBuf>,
}

/// A request for the parameters by name; a server leaves out unknown ones.
pub(crate) fn parameters_request() -> RawDocumentBuf {
    let mut request = Document::new();
    request.insert("getParameter", 1);
    request.extend(PARAMETERS.iter().map(|name| ((*name).to_owned(), Bson::Int32(1))));
    RawDocumentBuf::try_from(request).unwrap_or_else(|_| rawdoc! { "getParameter": "*" })
}

/// The facts, without the addresses.
pub(crate) fn facts(said: &Said) -> ServerFacts {
    ServerFacts {
        version: said.build.as_deref().and_then(|build| text(build, &["version"])),
        product: said.build.as_deref().and_then(product),
        storage_engine: said.status.as_deref().and_then(storage_engine),
        topology: said.hello.as_deref().map(topology),
        default_write_concern: said.concern.as_deref().and_then(write_concern),
        parameters: parameters(said),
        ..ServerFacts::default()
    }
}

fn product(build: &RawDocument) -> Option<String> {
    let secantus = text(build, &["secantusVersion"]).map(|version| format!("SecantusDB {version}"));
    secantus.or_else(|| text(build, &["plimsoll"]).map(|name| format!("Plimsoll's {name}")))
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

fn parameters(said: &Said) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if let Some(answer) = &said.parameters {
        let asked =
            PARAMETERS.iter().filter_map(|name| Some(((*name).to_owned(), plain(at(answer, &[name])?)?)));
        all.extend(asked);
    }
    for section in SECTIONS {
        let options = said.options.as_deref().and_then(|options| at(options, &["parsed", section]));
        if let Some(RawBsonRef::Document(options)) = options {
            flatten(section, options, &mut all);
        }
    }
    all.into_iter().take(PARAMETERS_MAX).collect()
}

/// `storage.wiredTiger.engineConfig.cacheSizeGB` and the like, each with its value. Two levels of recursion would do; a
/// hostile depth is cut by the limit on their number and by BSON's own.
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

/// A value in one line; texts without quotes.
fn plain(value: RawBsonRef<'_>) -> Option<String> {
    let text = value.as_str().map_or_else(|| json(value), |text| Some(text.to_owned()))?;
    Some(text.chars().take(VALUE_LEN_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_described_by_what_it_says() {
        let said = Said {
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
        let facts = facts(&said);
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
    fn a_router_is_known_by_its_message() {
        assert_eq!(topology(&rawdoc! {"msg": "isdbgrid"}), "mongos");
        assert_eq!(topology(&rawdoc! {}), "standalone");
    }

    #[test]
    fn a_silent_server_has_no_facts() {
        assert_eq!(facts(&Said::default()), ServerFacts::default());
    }
}
