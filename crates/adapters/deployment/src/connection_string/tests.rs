//! Tests every rule of MongoDB's Connection String, URI Options and Authentication specifications.

use plimsoll_wire::SocksProxy;

use super::*;

/// Valid strings without a warning.
const VALID: &[&str] = &[
    // Hosts.
    "mongodb://localhost",
    "mongodb://localhost/",
    "mongodb://localhost:27018",
    "mongodb://127.0.0.1",
    "mongodb://127.0.0.1:27018/",
    "mongodb://[::1]",
    "mongodb://[::1]:27777",
    "mongodb://[fe80::1]:27018/",
    "mongodb://[2001:db8::1],[::1]:27018",
    "mongodb://example.com:27018,127.0.0.1,[::1]:27019/",
    "mongodb://localhost:1",
    "mongodb://localhost:65535",
    "mongodb://%2Ftmp%2Fmongodb-27017.sock",
    "mongodb://%2Ftmp%2Fmongodb-27017.sock/admin",
    "mongodb://%2Ftmp%2Fone.sock,%2Ftmp%2Ftwo.sock",
    "mongodb://a_b.example",
    "mongodb+srv://cluster.example.com",
    "mongodb+srv://user:word@cluster.example.com/db?retryWrites=true&w=majority",
    "mongodb+srv://cluster.example.com/?srvMaxHosts=2&srvServiceName=other",
    // Users and databases.
    "mongodb://ann:word@localhost",
    "mongodb://ann:word@localhost/db",
    "mongodb://ann@localhost",
    "mongodb://ann:@localhost",
    "mongodb://a%40b:w%3Ar%2Fd%25@localhost/db",
    "mongodb://%C3%A9va:w%C3%B6rd@localhost",
    "mongodb://$am:f$$@localhost",
    "mongodb://ann:word@%2Ftmp%2Fmongodb.sock/db",
    "mongodb://localhost/d%26b",
    "mongodb://localhost?replicaSet=rs0",
    "mongodb://ann:word@localhost/admin.coll",
    // Mechanisms.
    "mongodb://ann:word@localhost/?authMechanism=SCRAM-SHA-1",
    "mongodb://ann:word@localhost/?authMechanism=SCRAM-SHA-256&authSource=users",
    "mongodb://CN%3Dann@localhost/?authMechanism=MONGODB-X509&authSource=$external",
    "mongodb://localhost/?authMechanism=MONGODB-X509",
    "mongodb://ann:word@localhost/?authMechanism=PLAIN&authSource=$external",
    "mongodb://ann:word@localhost/?authMechanism=PLAIN",
    // Concerns and reads.
    "mongodb://localhost/?w=1",
    "mongodb://localhost/?w=0",
    "mongodb://localhost/?w=majority&wTimeoutMS=5&journal=true",
    "mongodb://localhost/?w=twoRegions&journal=false",
    "mongodb://localhost/?readConcernLevel=majority",
    "mongodb://localhost/?readConcernLevel=ofTheFuture",
    "mongodb://localhost/?readPreference=primaryPreferred",
    "mongodb://localhost/?readPreference=nearest&maxStalenessSeconds=120",
    "mongodb://localhost/?readPreference=nearest&maxStalenessSeconds=-1",
    "mongodb://localhost/?readPreference=secondary&readPreferenceTags=dc:ny,rack:1&readPreferenceTags=dc:ny&readPreferenceTags=",
    // Connections.
    "mongodb://localhost/?appName=shop",
    "mongodb://localhost/?appName=shop@home",
    "mongodb://ann:word@localhost/?replicaSet=rs0&appName=shop@home",
    "mongodb://localhost/?connectTimeoutMS=20000&socketTimeoutMS=1000&timeoutMS=500",
    "mongodb://localhost/?connectTimeoutMS=0&serverSelectionTimeoutMS=0&socketTimeoutMS=0&timeoutMS=0",
    "mongodb://localhost/?directConnection=true",
    "mongodb://a,b/?directConnection=false",
    "mongodb://localhost/?replicaSet=rs0&serverSelectionTimeoutMS=100&localThresholdMS=0",
    "mongodb://localhost/?heartbeatFrequencyMS=500&serverMonitoringMode=poll",
    "mongodb://localhost/?retryReads=false&retryWrites=true",
    "mongodb://localhost/?loadBalanced=true",
    "mongodb://localhost/?loadBalanced=false&replicaSet=rs0",
    "mongodb://localhost/?maxPoolSize=10&minPoolSize=2&maxConnecting=3&maxIdleTimeMS=1000&waitQueueTimeoutMS=0",
    "mongodb://localhost/?maxPoolSize=0&minPoolSize=5",
    "mongodb://localhost/?uuidRepresentation=standard",
    "mongodb://localhost/?uuidRepresentation=unspecified&enableOverloadRetargeting=true",
    "mongodb://localhost/?CONNECTTIMEOUTMS=1&ReplicaSet=rs",
    // Compression.
    "mongodb://localhost/?compressors=zlib&zlibCompressionLevel=9",
    "mongodb://localhost/?compressors=snappy,zlib,zstd",
    "mongodb://localhost/?zlibCompressionLevel=-1",
    // TLS.
    "mongodb://localhost/?tls=true",
    "mongodb://localhost/?ssl=true",
    "mongodb://localhost/?tls=true&ssl=true",
    "mongodb://localhost/?tls=true&tlsCAFile=%2Fca.pem&tlsCertificateKeyFile=key.pem",
    "mongodb://localhost/?tls=true&tlsInsecure=true",
    "mongodb://localhost/?tls=true&tlsAllowInvalidCertificates=true&tlsAllowInvalidHostnames=true",
    "mongodb://localhost/?tls=true&tlsAllowInvalidHostnames=false",
    "mongodb://localhost/?tlsAllowInvalidHostnames=false",
    "mongodb://localhost/?ssl=true&tlsAllowInvalidHostnames=true",
    "mongodb://localhost/?tlsCAFile=%2Fca.pem&tlsAllowInvalidHostnames=true",
    "mongodb+srv://cluster.example.com/?tlsAllowInvalidHostnames=true",
    "mongodb://localhost/?tls=true&tlsDisableOCSPEndpointCheck=true",
    "mongodb://localhost/?tls=true&tlsDisableCertificateRevocationCheck=true",
    // SOCKS proxies.
    "mongodb://localhost/?proxyHost=10.0.0.1",
    "mongodb://localhost/?proxyHost=proxy.example.com&proxyPort=1080",
    "mongodb://a,b/?replicaSet=rs&proxyHost=c&proxyPort=12345",
    "mongodb://localhost/?proxyHost=a&proxyPort=1080&proxyUsername=b&proxyPassword=c%20d",
];

/// Valid strings, and a part of the warning.
const WARNED: &[(&str, &str)] = &[
    ("mongodb://localhost/?foo=bar", "`foo` of the address is unknown"),
    ("mongodb://localhost/?wtimeout=5&wTimeoutMS=10", "`wtimeout` of the address is unknown"),
    ("mongodb://localhost/?fsync=true&j=true", "`fsync`"),
    ("mongodb://localhost/?replicaSet=one&replicaSet=two", "`one` counts"),
    ("mongodb://localhost/?maxIdleTimeMS=", "empty"),
    (
        "mongodb://localhost/?authMechanismProperties=TOKEN_RESOURCE:x",
        "`authMechanismProperties` of the address has no effect",
    ),
    (
        "mongodb://localhost/?readPreference=invalid&readPreferenceTags=dc:ny",
        "`readPreferenceTags` of the address has no effect",
    ),
    (
        "mongodb://localhost/?maxStalenessSeconds=120&readPreference=invalid",
        "`maxStalenessSeconds` of the address has no effect",
    ),
    (
        "mongodb://localhost/?readPreference=&READPREFERENCETAGS=dc:ny",
        "`READPREFERENCETAGS` of the address has no effect without a valid `readPreference`",
    ),
    (
        "mongodb+srv://cluster.example.com/?proxyPort=1080",
        "`proxyPort` of the address has no effect without `proxyHost`",
    ),
    (
        "mongodb+srv://cluster.example.com/?proxyUsername=a",
        "`proxyUsername` of the address has no effect without `proxyHost`",
    ),
    (
        "mongodb://localhost/?uuidRepresentation=javaLegacy",
        "`uuidRepresentation` of the address has no effect",
    ),
    (
        "mongodb://localhost/?zlibCompressionLevel=9",
        "`zlibCompressionLevel` of the address has no effect without `compressors=zlib`",
    ),
    (
        "mongodb://localhost/?compressors=snappy,zstd&zlibCompressionLevel=9",
        "`zlibCompressionLevel` of the address has no effect without `compressors=zlib`",
    ),
    (
        "mongodb://localhost/?tlsAllowInvalidHostnames=true",
        "`tlsAllowInvalidHostnames` of the address has no effect without `tls=true`",
    ),
    (
        "mongodb+srv://cluster.example.com/?tls=false&tlsAllowInvalidHostnames=true",
        "`tlsAllowInvalidHostnames` of the address has no effect without `tls=true`",
    ),
    (
        "mongodb://localhost/?tls=true&tlsDisableOCSPEndpointCheck=false",
        "`tlsDisableOCSPEndpointCheck` of the address has no effect: no client checks the revocation",
    ),
    ("mongodb://localhost/?waitQueueTimeoutMS=7", "`waitQueueTimeoutMS` of the address has no effect"),
    ("mongodb://localhost/?journal=", "empty"),
    ("mongodb://localhost/?tls=invalid", "not true or false"),
    ("mongodb://localhost/?tlsInsecure=yes", "not true or false"),
    ("mongodb://localhost/?tlsAllowInvalidCertificates=1", "not true or false"),
    ("mongodb://localhost/?tlsAllowInvalidHostnames=1", "not true or false"),
    ("mongodb://localhost/?directConnection=invalid", "not true or false"),
    ("mongodb://localhost/?loadBalanced=1", "not true or false"),
    ("mongodb://localhost/?retryWrites=invalid", "not true or false"),
    ("mongodb://localhost/?retryReads=invalid", "not true or false"),
    ("mongodb://localhost/?journal=invalid", "not true or false"),
    ("mongodb://localhost/?w=-2", "a number from 0"),
    ("mongodb://localhost/?wTimeoutMS=-2", "an integer from 0"),
    ("mongodb://localhost/?wTimeoutMS=invalid", "an integer from 0"),
    ("mongodb://localhost/?connectTimeoutMS=-2", "an integer from 0"),
    ("mongodb://localhost/?connectTimeoutMS=invalid", "an integer from 0"),
    ("mongodb://localhost/?socketTimeoutMS=-2", "an integer from 0"),
    ("mongodb://localhost/?timeoutMS=-2", "an integer from 0"),
    ("mongodb://localhost/?serverSelectionTimeoutMS=-2", "an integer from 0"),
    ("mongodb://localhost/?heartbeatFrequencyMS=499", "an integer from 500"),
    ("mongodb://localhost/?localThresholdMS=-2", "an integer from 0"),
    ("mongodb://localhost/?maxIdleTimeMS=invalid", "an integer from 0"),
    ("mongodb://localhost/?maxPoolSize=-1", "an integer from 0"),
    ("mongodb://localhost/?minPoolSize=invalid", "an integer from 0"),
    ("mongodb://localhost/?maxConnecting=0", "an integer from 1"),
    ("mongodb+srv://cluster.example.com/?srvMaxHosts=-1", "an integer from 0"),
    ("mongodb+srv://cluster.example.com/?srvMaxHosts=foo", "an integer from 0"),
    ("mongodb://localhost/?serverMonitoringMode=invalid", "one of auto, poll, stream"),
    ("mongodb://localhost/?readPreference=invalid", "one of primary"),
    ("mongodb://localhost/?readPreference=secondary&readPreferenceTags=invalid", "a list of NAME:VALUE"),
    ("mongodb://localhost/?readPreference=secondary&maxStalenessSeconds=-2", "an integer from -1"),
    ("mongodb://localhost/?readPreference=secondary&maxStalenessSeconds=invalid", "an integer from -1"),
    ("mongodb://localhost/?compressors=lz4", "snappy, zlib or zstd"),
    ("mongodb://localhost/?compressors=zlib,lz4", "only `zlib` counts"),
    ("mongodb://localhost/?zlibCompressionLevel=-2", "an integer from -1"),
    ("mongodb://localhost/?zlibCompressionLevel=10", "an integer from -1"),
    ("mongodb://localhost/?uuidRepresentation=invalid", "one of standard"),
    ("mongodb://localhost/?appName=", "empty"),
];

/// Malformed strings and contradictions, and a part of the message.
const INVALID: &[(&str, &str)] = &[
    ("", "no scheme"),
    ("localhost", "no scheme"),
    ("mongo://localhost", "`mongo` is unknown"),
    ("mongodb://", "a host is missing"),
    ("mongodb:///", "a host is missing"),
    ("mongodb://,", "a host is missing"),
    ("mongodb://localhost,", "a host is missing"),
    ("mongodb://localhost:27017,,b", "a host is missing"),
    ("mongodb://:27017", "a host is missing"),
    ("mongodb://?w=1", "a host is missing"),
    ("mongodb:///db", "a host is missing"),
    ("mongodb://ann:word@", "a host is missing"),
    ("mongodb://ann:word@/db", "a host is missing"),
    ("mongodb://localhost::27017", "several colons"),
    ("mongodb://localhost:", "the port ``"),
    ("mongodb://localhost:-1", "the port `-1`"),
    ("mongodb://localhost:0", "the port `0`"),
    ("mongodb://localhost:65536", "the port `65536`"),
    ("mongodb://localhost:foo", "the port `foo`"),
    ("mongodb://127.0.0.1:65536/", "the port"),
    ("mongodb://[::1]:-1", "the port"),
    ("mongodb://[::1]:", "the port"),
    ("mongodb://[::1]x", "in place of a port"),
    ("mongodb://[::1", "closing bracket"),
    ("mongodb://[zz::1]", "not an IPv6 address"),
    ("mongodb://[fe80::1%25eth0]", "the zone `eth0` of the IPv6 address `fe80::1` is unsupported"),
    ("mongodb://::1", "a host is missing"),
    ("mongodb://fe80::1", "several colons"),
    ("mongodb://local host", "a character"),
    ("mongodb:///tmp/mongodb-27017.sock", "a host is missing"),
    ("mongodb://ann:word@/tmp/mongodb-27017.sock", "a host is missing"),
    ("mongodb://a:b:c@localhost", "the password contains `:`"),
    ("mongodb://ann:w@rd@localhost", "the password contains `@`"),
    ("mongodb://a@b@localhost", "the user contains `@`"),
    ("mongodb://a[b@localhost", "the user contains `[`"),
    ("mongodb://ann:w/rd@localhost", "contains `/`: write it as %2F"),
    ("mongodb://ann:w?rd@localhost", "of the user or the password as %3F"),
    ("mongodb://a?n:word@localhost/db?w=1", "of the user or the password as %3F"),
    ("mongodb://ann:w@rd?x@localhost", "of the user or the password as %3F"),
    ("mongodb://localhost/?foo=a@b", "of an option as %40"),
    ("mongodb://@localhost", "the user before `@` is empty"),
    ("mongodb://:word@localhost", "the user before `@` is empty"),
    ("mongodb://a%nn:word@localhost", "without two hex digits"),
    ("mongodb://ann:wo%rd@localhost", "without two hex digits"),
    ("mongodb://ann:%ff@localhost", "not UTF-8"),
    ("mongodb://localhost/a/b", "contains `/`"),
    ("mongodb://localhost/a b", "contains ` `"),
    ("mongodb://localhost/a%22b", "contains `\"`"),
    ("mongodb://localhost/$db", "contains `$`"),
    ("mongodb://localhost/?w", "no value"),
    ("mongodb://localhost/?=1", "no name"),
    ("mongodb://localhost/?replicaSet=a=b", "two `=`"),
    ("mongodb://localhost/?appName=%zz", "without two hex digits"),
    ("mongodb://localhost/?authSource=", "is empty"),
    ("mongodb://localhost/?tls=true&ssl=false", "differ"),
    ("mongodb://localhost/?tls=false&ssl=true", "differ"),
    (
        "mongodb://localhost/?tlsInsecure=true&tlsAllowInvalidCertificates=true",
        "`tlsInsecure` and `tlsAllowInvalidCertificates` exclude each other",
    ),
    ("mongodb://localhost/?tlsAllowInvalidCertificates=false&tlsInsecure=false", "exclude each other"),
    ("mongodb://localhost/?tlsInsecure=true&tlsAllowInvalidHostnames=false", "exclude each other"),
    ("mongodb://localhost/?tlsInsecure=true&tlsDisableOCSPEndpointCheck=true", "exclude each other"),
    (
        "mongodb://localhost/?tlsInsecure=false&tlsDisableCertificateRevocationCheck=true",
        "exclude each other",
    ),
    (
        "mongodb://localhost/?tlsAllowInvalidCertificates=true&tlsDisableOCSPEndpointCheck=true",
        "exclude each other",
    ),
    (
        "mongodb://localhost/?tlsAllowInvalidCertificates=true&tlsDisableCertificateRevocationCheck=false",
        "exclude each other",
    ),
    (
        "mongodb://localhost/?tlsDisableOCSPEndpointCheck=true&tlsDisableCertificateRevocationCheck=true",
        "exclude each other",
    ),
    ("mongodb://a,b/?directConnection=true", "takes one host"),
    ("mongodb+srv://cluster.example.com/?directConnection=true", "not mongodb+srv"),
    ("mongodb://a,b/?loadBalanced=true", "takes one host"),
    ("mongodb://a/?loadBalanced=true&replicaSet=rs", "excludes `replicaSet`"),
    ("mongodb://a/?loadBalanced=true&directConnection=true", "excludes `directConnection"),
    ("mongodb+srv://cluster.example.com/?loadBalanced=true&srvMaxHosts=1", "excludes `srvMaxHosts`"),
    ("mongodb+srv://cluster.example.com/?replicaSet=rs&srvMaxHosts=1", "excludes `replicaSet`"),
    ("mongodb://localhost/?srvMaxHosts=2", "needs mongodb+srv"),
    ("mongodb://localhost/?srvServiceName=other", "needs mongodb+srv"),
    ("mongodb+srv://cluster.example.com:27017", "without a port"),
    ("mongodb+srv://a.example.com,b.example.com", "takes one host name"),
    ("mongodb+srv://%2Ftmp%2Fa.sock", "not a Unix socket"),
    ("mongodb://localhost/?minPoolSize=5&maxPoolSize=4", "exceeds"),
    ("mongodb://localhost/?proxyHost=a&proxyHost=b", "`proxyHost` appears twice"),
    ("mongodb://localhost/?proxyHost=a&proxyPort=1&proxyPort=2", "`proxyPort` appears twice"),
    (
        "mongodb://localhost/?proxyHost=a&proxyUsername=a&proxyUsername=b&proxyPassword=c",
        "`proxyUsername` appears twice",
    ),
    (
        "mongodb://localhost/?proxyHost=a&proxyUsername=a&proxyPassword=1&proxyPassword=2",
        "`proxyPassword` appears twice",
    ),
    ("mongodb://localhost/?w=0&journal=true", "excludes `journal=true`"),
    ("mongodb://localhost/?proxyPort=1080", "needs `proxyHost`"),
    ("mongodb://localhost/?proxyUsername=a&proxyPassword=b", "needs `proxyHost`"),
    ("mongodb://localhost/?proxyHost=a&proxyUsername=b", "need each other"),
    ("mongodb://localhost/?proxyHost=a&proxyPassword=b", "need each other"),
    ("mongodb://localhost/?proxyHost=a&proxyPort=-5", "1 to 65535"),
    ("mongodb://localhost/?proxyHost=a&proxyPort=65536", "1 to 65535"),
    ("mongodb://localhost/?proxyHost=", "is empty"),
    ("mongodb://localhost/?proxyHost=a&proxyPort=0", "1 to 65535"),
    ("mongodb://localhost/?proxyHost=a&proxyPort=socks", "1 to 65535"),
    ("mongodb://localhost/?proxyHost=a&proxyUsername=&proxyPassword=", "must not be empty"),
    ("mongodb://localhost/?proxyHost=a&proxyUsername=b&proxyPassword=", "must not be empty"),
    ("mongodb://%2Ftmp%2Fmongodb-27017.sock/?proxyHost=a", "excludes Unix sockets"),
    ("mongodb://localhost/?authMechanism=SCRAM-SHA-256", "needs a user and a password"),
    ("mongodb://ann@localhost/?authMechanism=SCRAM-SHA-1", "needs a user and a password"),
    ("mongodb://localhost/?authMechanism=PLAIN", "needs a user and a password"),
    ("mongodb://ann:word@localhost/?authMechanism=MONGODB-X509", "takes no password"),
    ("mongodb://ann@localhost/?authMechanism=MONGODB-X509&authSource=users", "$external"),
    ("mongodb://ann:word@localhost/?authMechanism=MONGODB-CR", "this build has no MONGODB-CR"),
    // Valid, but this build does not have them.
    ("mongodb://ann@localhost/?authMechanism=GSSAPI", "this build has no GSSAPI"),
    ("mongodb://localhost/?authMechanism=MONGODB-AWS", "this build has no MONGODB-AWS"),
    ("mongodb://localhost/?authMechanism=MONGODB-OIDC", "this build has no MONGODB-OIDC"),
    ("mongodb://localhost/?tls=true&tlsCertificateKeyFilePassword=word", "unencrypted keys only"),
];

/// The official driver's reading of the string without the options that it does not know.
fn driver(text: &str) -> Result<(), String> {
    mongodb::options::ConnectionString::parse(text).map(drop).map_err(|error| error.to_string())
}

#[test]
fn valid_strings_are_accepted_by_us_and_by_the_driver() {
    for text in VALID {
        let parsed = ConnectionString::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(parsed.warnings, [] as [String; 0], "{text}");
        driver(&parsed.for_driver)
            .unwrap_or_else(|error| panic!("{text} became {}: {error}", parsed.for_driver));
    }
}

/// Resolves a string up to the first connection. No DNS record of an SRV address and no TLS file exists here.
fn opened(text: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let made = runtime.block_on(crate::Deployment::new(text, crate::COMMAND_TIMEOUT));
    made.map(drop).map_err(|error| error.to_string())
}

/// Valid strings that a deployment refuses, each with the reason.
const REFUSED_LATER: [(&str, &str); 4] = [
    ("loadBalanced=true", "loadBalanced=true is unsupported"),
    ("w=0", "write_concern: {w: 0}"),
    ("tlsCAFile=", "correct tlsCAFile"),
    ("+srv:", "name service"),
];

#[test]
fn valid_strings_pass_up_to_the_first_connection() {
    for text in VALID {
        let refused = REFUSED_LATER.iter().find(|(part, _)| text.contains(part));
        match (opened(text), refused) {
            (Ok(()), None) => {}
            (Err(error), Some((_, words))) if error.contains(words) => {}
            (result, _) => panic!("{text}: {result:?}"),
        }
    }
}

#[test]
fn an_option_without_effect_is_left_out_with_a_warning() {
    for (text, part) in WARNED {
        let parsed = ConnectionString::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(
            parsed.warnings.iter().any(|warning| warning.contains(part)),
            "{text}: {:?}",
            parsed.warnings
        );
        driver(&parsed.for_driver)
            .unwrap_or_else(|error| panic!("{text} became {}: {error}", parsed.for_driver));
    }
}

#[test]
fn malformed_strings_are_refused_with_one_sentence() {
    for (text, part) in INVALID {
        let error = ConnectionString::parse(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains('\n') && error.len() < 160, "{text}: {error}");
    }
}

#[test]
fn no_message_shows_a_password() {
    for text in [
        "mongodb://ann:s3cr/et@localhost",
        "mongodb://ann:s3cret%@localhost",
        "mongodb://ann:s3c:ret@h",
        "mongodb://ann:s3c?ret@localhost/",
        "mongodb://ann:s3c/ret?x@h",
        "mongodb://ann:s3c ret?x@h",
        "mongodb://ann:17?s3cret@h",
        "mongodb://ann:17?s3cret&w=x@h",
        "mongodb://ann:17/s3c ret?w=1@h",
        "mongodb://ann:p@17?s3cret=1@h",
    ] {
        let error = ConnectionString::parse(text).unwrap_err().to_string();
        assert!(!error.contains("s3c"), "{error}");
    }
}

#[test]
fn options_that_the_driver_does_not_know_are_read_here() {
    let parsed =
        ConnectionString::parse("mongodb://a/d?timeoutMS=1500&tlsAllowInvalidHostnames=true&tls=true")
            .unwrap();
    assert_eq!(parsed.timeout, Some(Duration::from_millis(1500)));
    let limit =
        |query: &str| ConnectionString::parse(&format!("mongodb://a/?{query}")).unwrap().exchange_limit();
    assert_eq!(limit("socketTimeoutMS=7500"), Some(Duration::from_millis(7500)));
    assert_eq!(limit("socketTimeoutMS=7500&timeoutMS=500"), Some(Duration::from_millis(500)));
    assert_eq!(limit("socketTimeoutMS=0"), None);
    let pool =
        ConnectionString::parse("mongodb://a/?minPoolSize=3&maxIdleTimeMS=5&maxConnecting=2").unwrap().pool;
    assert_eq!((pool.min, pool.others), (Some(3), vec!["maxIdleTimeMS", "maxConnecting"]));
    let of_driver =
        |query: &str| ConnectionString::parse(&format!("mongodb://a/?{query}")).unwrap().pool.of_driver;
    assert_eq!(
        of_driver("heartbeatFrequencyMS=500&serverMonitoringMode=poll&enableOverloadRetargeting=true"),
        ["heartbeatFrequencyMS", "serverMonitoringMode", "enableOverloadRetargeting"]
    );
    assert_eq!(of_driver("serverMonitoringMode=auto&enableOverloadRetargeting=false"), [""; 0]);
    assert_eq!(parsed.lean_only, ["timeoutMS", "tlsAllowInvalidHostnames"]);
    assert!(parsed.allows_invalid_hostnames);
    assert_eq!(parsed.for_driver, "mongodb://a/d?tls=true");
    assert!(ConnectionString::parse("mongodb://a/?tlsInsecure=true").unwrap().allows_invalid_hostnames);
    assert_eq!(ConnectionString::parse("mongodb://a/?timeoutMS=0").unwrap().timeout, None);
}

#[test]
fn a_socks_proxy_is_read_with_its_port_and_its_user() {
    let proxy = |query: &str| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let uri = format!("mongodb://a/?{query}");
        let made = runtime.block_on(crate::Deployment::new(&uri, crate::COMMAND_TIMEOUT)).unwrap();
        made.options().proxy
    };
    let credential = Some(("b".to_owned(), "c d".to_owned()));
    for (query, expected) in [
        ("", None),
        ("proxyHost=10.0.0.1", Some(("10.0.0.1", 1080, None))),
        ("proxyHost=h&proxyPort=7", Some(("h", 7, None))),
        ("proxyHost=h&proxyUsername=b&proxyPassword=c%20d", Some(("h", 1080, credential))),
    ] {
        let expected =
            expected.map(|(host, port, credential)| SocksProxy { host: host.into(), port, credential });
        assert_eq!(proxy(query), expected, "{query}");
    }
}
