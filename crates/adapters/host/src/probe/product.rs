//! Recognises the product of a server by its answers and its host names.

use bson::RawDocument;
use bson::raw::RawBsonRef;

use super::answers::Answers;
use super::field::{at, text};

/// Azure's service on the open-source DocumentDB. Its former name is Cosmos DB for MongoDB vCore.
const AZURE_VCORE: &str = "Azure DocumentDB (Cosmos DB vCore)";
/// Azure's older service, which charges request units.
const AZURE_RU: &str = "Azure Cosmos DB (RU)";

/// The name and version of the product. `host` is the host of the connection. None for MongoDB's own server,
/// which has no product field, and for an unknown product.
pub(super) fn name(answers: &Answers, host: &str) -> Option<String> {
    let build = answers.build.as_deref();
    let own = build.and_then(of_build);
    let own = own.or_else(|| answers.hello.as_deref().and_then(of_hello));
    let reported = || build.and_then(|build| text(build, &["version"]));
    let service = || by_host(answers, host).or_else(|| by_type(answers));
    own.or_else(|| service().map(|service| with_version(service, reported())))
        .or_else(|| is_java(answers).then(|| with_version("mongo-java-server as MongoDB", reported())))
}

/// The products that `buildInfo` names with their own version.
fn of_build(build: &RawDocument) -> Option<String> {
    let version = |path: &[&str]| text(build, path).map(|version| version.trim_start_matches('v').to_owned());
    if let Some(name) = text(build, &["plimsoll"]) {
        return Some(format!("Plimsoll's {name}"));
    }
    let ferret = || version(&["ferretdb", "version"]).or_else(|| version(&["ferretdbVersion"]));
    let secantus = version(&["secantusVersion"]).map(|version| ("SecantusDB", version));
    let (name, version) = secantus.or_else(|| Some(("FerretDB", ferret()?)))?;
    Some(with_version(name, Some(version)))
}

/// The products on the open-source DocumentDB: `hello` lists the versions of its parts, the extension's own first.
fn of_hello(hello: &RawDocument) -> Option<String> {
    let versions = |key| match at(hello, &["internal", key])? {
        RawBsonRef::Array(versions) => Some(versions.into_iter().next()?.ok()?.as_str()?.to_owned()),
        _ => None,
    };
    let kind = text(hello, &["internal", "kind"]).unwrap_or_default();
    if let Some(version) = versions("cosmos_versions") {
        return Some(with_version(AZURE_VCORE, Some(version)));
    }
    let product = if kind.starts_with("azure") { AZURE_VCORE } else { "DocumentDB" };
    Some(with_version(product, Some(versions("documentdb_versions")?)))
}

/// A service in a cloud, by the names of its hosts. The server repeats them in `hello`, so a tunnel hides no service.
fn by_host(answers: &Answers, host: &str) -> Option<&'static str> {
    let hello = answers.hello.as_deref();
    let named = ["me", "primary"].into_iter().filter_map(|key| text(hello?, &[key]));
    let members = hello.and_then(|hello| hello.get_array("hosts").ok()).into_iter().flatten();
    let members = members.filter_map(|member| member.ok()?.as_str().map(str::to_owned));
    named.chain(members).chain([host.to_owned()]).find_map(|name| service(&name))
}

fn service(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let name = name.rsplit_once(':').map_or(name.as_str(), |(name, _)| name);
    if let Some(domain) = name.trim_end_matches(".cn").strip_suffix(".amazonaws.com") {
        let has = |label| domain.split('.').any(|part| part == label);
        return has("docdb-elastic")
            .then_some("Amazon DocumentDB (elastic)")
            .or_else(|| has("docdb").then_some("Amazon DocumentDB"));
    }
    // The last part is `com`, `cn` or `us`.
    let (domain, _) = name.rsplit_once('.')?;
    let services = [
        (".mongocluster.cosmos.azure", AZURE_VCORE),
        (".mongo.cosmos.azure", AZURE_RU),
        (".documents.azure", AZURE_RU),
    ];
    services.into_iter().find_map(|(suffix, product)| domain.ends_with(suffix).then_some(product))
}

/// Recognises Cosmos DB (RU) by the field `_t`, which it adds to its answers.
fn by_type(answers: &Answers) -> Option<&'static str> {
    let mut both = [&answers.build, &answers.hello].into_iter().flatten();
    both.any(|answer| text(answer, &["_t"]).is_some()).then_some(AZURE_RU)
}

/// Whether the server is mongo-java-server, which reports only the version of MongoDB that it imitates. Its process is `java`, and
/// its `buildInfo` lacks the fields that every build of MongoDB has.
fn is_java(answers: &Answers) -> bool {
    let process = answers.status.as_deref().and_then(|status| text(status, &["process"]));
    let is_short = answers.build.as_deref().is_some_and(|build| at(build, &["bits"]).is_none());
    process.as_deref() == Some("java") && is_short
}

fn with_version(name: &str, version: Option<String>) -> String {
    match version {
        Some(version) if !version.is_empty() => format!("{name} {version}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, rawdoc};

    #[track_caller]
    fn check(
        expected: Option<&str>,
        host: &str,
        build: RawDocumentBuf,
        hello: RawDocumentBuf,
        status: RawDocumentBuf,
    ) {
        let answers =
            Answers { build: Some(build), hello: Some(hello), status: Some(status), ..Answers::default() };
        assert_eq!(name(&answers, host).as_deref(), expected);
    }

    /// Checks a product that `buildInfo` names.
    fn by_build(expected: Option<&str>, build: RawDocumentBuf) {
        check(expected, "db1", build, rawdoc! {"isWritablePrimary": true}, rawdoc! {"process": "mongod"});
    }

    #[test]
    fn a_field_of_build_info_names_the_product() {
        by_build(None, rawdoc! {"version": "8.2.1", "gitVersion": "ab"});
        by_build(Some("SecantusDB 0.5.3"), rawdoc! {"version": "8.2.11", "secantusVersion": "0.5.3"});
        by_build(Some("Plimsoll's null server"), rawdoc! {"plimsoll": "null server", "version": "8.0.0"});
        by_build(Some("FerretDB 1.24.2"), rawdoc! {"version": "7.0.77", "ferretdbVersion": "v1.24.2"});
        let second = rawdoc! {"version": "7.0.77", "ferretdb": {"version": "v2.5.0", "package": "docker"}};
        by_build(Some("FerretDB 2.5.0"), second);
        by_build(Some("FerretDB"), rawdoc! {"version": "7.0.77", "ferretdbVersion": ""});
        by_build(Some("Azure Cosmos DB (RU) 4.2.0"), rawdoc! {"_t": "BuildInfoResponse", "version": "4.2.0"});
    }

    #[test]
    fn the_parts_in_hello_name_the_product() {
        let by_hello = |expected: &str, internal: RawDocumentBuf| {
            let hello = rawdoc! {"msg": "isdbgrid", "internal": internal};
            check(Some(expected), "127.0.0.1", rawdoc! {"version": "7.0.0"}, hello, rawdoc! {"ok": 1.0});
        };
        let vcore = "Azure DocumentDB (Cosmos DB vCore) 1.104-1";
        by_hello(vcore, rawdoc! {"cosmos_versions": ["1.104-1", "1.105.0", "12.1-1"]});
        by_hello(vcore, rawdoc! {"documentdb_versions": ["1.104-1"], "kind": "azuredocumentdb"});
        by_hello("DocumentDB 0.117-0", rawdoc! {"documentdb_versions": ["0.117-0", "0.117.0"], "kind": ""});
    }

    #[test]
    fn a_host_name_names_the_service_also_behind_a_tunnel() {
        let build = || rawdoc! {"version": "5.0.0"};
        let by_name = |expected: Option<&str>, name: &str| {
            check(expected, name, build(), rawdoc! {}, rawdoc! {});
            let member = format!("{name}:27017");
            for hello in [
                rawdoc! {"me": member.as_str()},
                rawdoc! {"hosts": ["x:1", member.as_str()]},
                rawdoc! {"primary": member.as_str()},
            ] {
                check(expected, "localhost", build(), hello, rawdoc! {});
            }
        };
        by_name(Some("Amazon DocumentDB 5.0.0"), "c.cluster-ab.us-east-1.docdb.amazonaws.com");
        by_name(Some("Amazon DocumentDB 5.0.0"), "c.node-ab.docdb.cn-north-1.amazonaws.com.cn");
        by_name(Some("Amazon DocumentDB (elastic) 5.0.0"), "e.us-east-1.docdb-elastic.amazonaws.com");
        by_name(Some("Azure DocumentDB (Cosmos DB vCore) 5.0.0"), "c.MongoCluster.cosmos.azure.com");
        by_name(Some("Azure Cosmos DB (RU) 5.0.0"), "a.mongo.cosmos.azure.com");
        by_name(Some("Azure Cosmos DB (RU) 5.0.0"), "a-westus.documents.azure.cn");
        for other in ["ec2-1-2.compute.amazonaws.com", "docdb.amazonaws.com.example.org", "db1", "azure.com"]
        {
            by_name(None, other);
        }
    }

    #[test]
    fn the_shape_of_an_answer_names_the_product() {
        let status = || rawdoc! {"process": "java"};
        let build = || rawdoc! {"version": "5.0.0"};
        check(Some("mongo-java-server as MongoDB 5.0.0"), "db1", build(), rawdoc! {}, status());
        check(None, "db1", rawdoc! {"version": "5.0.0", "bits": 64}, rawdoc! {}, status());
        let typed = rawdoc! {"_t": "IsMasterResponse", "ismaster": true};
        check(Some("Azure Cosmos DB (RU) 5.0.0"), "db1", build(), typed, rawdoc! {});
        check(None, "db1", build(), rawdoc! {}, rawdoc! {"process": "/usr/bin/mongod"});
        assert_eq!(name(&Answers::default(), ""), None);
    }
}
