//! Reads a connection string by the rules of MongoDB's Connection String and URI Options specifications.
//!
//! A malformed string is an error. An unknown option, or a known one with an invalid value, is left out with
//! a warning, as the specifications want: a URI that was written for another driver or an older server keeps
//! working. The official driver refuses such options, so it gets the string without them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use plimsoll_wire::Address;

/// A valid connection string, and the reasons why some of its options have no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionString {
    /// The string without options that the official driver does not know, or with an invalid value.
    pub for_driver: String,
    /// One sentence for each option without effect.
    pub warnings: Vec<String>,
    /// `timeoutMS`: the time limit of an operation, of a connection and of the search for a server.
    pub timeout: Option<Duration>,
    /// `socketTimeoutMS`: the time limit of one exchange on an open connection.
    pub socket_timeout: Option<Duration>,
    /// `serverSelectionTimeoutMS`: the longest wait for a server.
    pub selection: Option<Duration>,
    /// The names of the given options that only the lean client has: [`LEAN_OPTIONS`].
    pub lean_only: Vec<&'static str>,
    /// The pool of connections.
    pub pool: Pool,
    /// `tlsAllowInvalidHostnames`, alone or by `tlsInsecure`.
    pub allows_invalid_hostnames: bool,
    /// The names of the options that change a connection or an operation, as the user wrote them: neither options of a pool, nor
    /// switches that are off, nor options without effect.
    pub given: Vec<String>,
    /// Whether the scheme `mongodb+srv` turns TLS on.
    pub scheme_turns_tls_on: bool,
}

/// The options of a pool of connections. An option with the value `0` or `false` counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// `maxPoolSize`: the most connections.
    pub max: Option<u32>,
    /// `minPoolSize`: the fewest connections.
    pub min: Option<u32>,
    /// The names of the given options that only a pool has: `maxIdleTimeMS` and the like.
    pub others: Vec<&'static str>,
    /// The names of the given options of the official driver that the lean client lacks: `heartbeatFrequencyMS` and the like.
    pub of_driver: Vec<&'static str>,
}

/// Options that the lean client honours and the official driver does not know.
const LEAN_OPTIONS: [&str; 3] = ["timeoutMS", "socketTimeoutMS", "tlsAllowInvalidHostnames"];
/// Options that only a client with a pool can honour.
const POOL_OPTIONS: [&str; 2] = ["maxIdleTimeMS", "maxConnecting"];
/// Options of a pool, and options that no client honours, in lower case. Other warnings name them.
const NOT_OF_A_CONNECTION: [&str; 6] = [
    "authmechanismproperties",
    "maxconnecting",
    "maxidletimems",
    "maxpoolsize",
    "minpoolsize",
    "waitqueuetimeoutms",
];
/// Switches that change a connection or an operation although they are off: they are on by default, or the server's default counts.
const NOT_OFF_BY_DEFAULT: [&str; 3] = ["journal", "retryreads", "retrywrites"];
/// Options that find servers: an address of one server has no use for them.
const OF_DISCOVERY: [&str; 5] =
    ["directconnection", "loadbalanced", "replicaset", "srvmaxhosts", "srvservicename"];

/// Options that only the official driver honours.
const DRIVER_OPTIONS: [&str; 3] =
    ["heartbeatFrequencyMS", "serverMonitoringMode", "enableOverloadRetargeting"];
/// Options that turn on TLS by themselves.
const TLS_OPTIONS: [&str; 4] =
    ["tlsinsecure", "tlsallowinvalidcertificates", "tlscafile", "tlscertificatekeyfile"];

/// The fault of a malformed connection string, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidConnectionString(String);

type Parsed<T> = Result<T, InvalidConnectionString>;

/// The values of an option.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// The application's name.
    Name,
    Boolean,
    /// An integer from the first number to the second.
    Integer(i64, i64),
    /// A text of this set, in upper or lower case.
    OneOf(&'static [&'static str]),
    /// Compressors, separated by commas; unknown compressors are left out.
    Compressors,
    /// Pairs `key:value`, separated by commas.
    Pairs,
    /// A number of nodes, or a tag.
    W,
}

/// The largest number of an option in milliseconds, connections or hosts.
const MAX: i64 = i32::MAX as i64;
/// The `maxPoolSize` of a pool without a limit.
const POOL_WITHOUT_LIMIT: &str = "2147483647";
/// The bytes of an application's name that servers accept.
const NAME_MAX: usize = 128;
/// The mechanisms of the official driver and of the lean client.
const MECHANISMS: [&str; 4] = ["SCRAM-SHA-1", "SCRAM-SHA-256", "MONGODB-X509", "PLAIN"];
/// Mechanisms that this build does not contain.
const ABSENT_MECHANISMS: [&str; 4] = ["GSSAPI", "MONGODB-AWS", "MONGODB-OIDC", "MONGODB-CR"];
/// Options that depend on a `readPreference`: without a valid `readPreference` they have no effect.
const OF_A_PREFERENCE: [&str; 2] = ["readpreferencetags", "maxstalenessseconds"];
/// Options that depend on a `proxyHost`: without one they are an error; in a `mongodb+srv`
/// URI they are left out with a warning.
const OF_A_PROXY: [&str; 3] = ["proxyport", "proxyusername", "proxypassword"];
/// TLS checks that `tlsInsecure` sets as a whole.
const TLS_CHECKS: [&str; 4] = [
    "tlsallowinvalidcertificates",
    "tlsallowinvalidhostnames",
    "tlsdisablecertificaterevocationcheck",
    "tlsdisableocspendpointcheck",
];
/// Options that the official driver does not know. It knows some values of `uuidRepresentation` only, and uses none.
const NOT_OF_THE_DRIVER: [&str; 6] = [
    "sockettimeoutms",
    "timeoutms",
    "tlsallowinvalidhostnames",
    "tlsdisablecertificaterevocationcheck",
    "tlsdisableocspendpointcheck",
    "uuidrepresentation",
];

/// Every known option in lower case, with its values.
const OPTIONS: [(&str, Kind); 48] = [
    ("appname", Kind::Name),
    ("authmechanism", Kind::Text),
    ("authmechanismproperties", Kind::Pairs),
    ("authsource", Kind::Text),
    ("compressors", Kind::Compressors),
    ("connecttimeoutms", Kind::Integer(0, MAX)),
    ("directconnection", Kind::Boolean),
    ("heartbeatfrequencyms", Kind::Integer(500, MAX)),
    ("journal", Kind::Boolean),
    ("loadbalanced", Kind::Boolean),
    ("localthresholdms", Kind::Integer(0, MAX)),
    ("maxconnecting", Kind::Integer(1, MAX)),
    ("maxidletimems", Kind::Integer(0, MAX)),
    ("maxpoolsize", Kind::Integer(0, MAX)),
    ("maxstalenessseconds", Kind::Integer(-1, MAX)),
    ("minpoolsize", Kind::Integer(0, MAX)),
    ("proxyhost", Kind::Text),
    ("proxypassword", Kind::Text),
    ("proxyport", Kind::Text),
    ("proxyusername", Kind::Text),
    ("readconcernlevel", Kind::Text),
    (
        "readpreference",
        Kind::OneOf(&["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"]),
    ),
    ("readpreferencetags", Kind::Pairs),
    ("replicaset", Kind::Text),
    ("retryreads", Kind::Boolean),
    ("retrywrites", Kind::Boolean),
    ("servermonitoringmode", Kind::OneOf(&["auto", "poll", "stream"])),
    ("serverselectiontimeoutms", Kind::Integer(0, MAX)),
    ("sockettimeoutms", Kind::Integer(0, MAX)),
    ("srvmaxhosts", Kind::Integer(0, MAX)),
    ("srvservicename", Kind::Text),
    ("ssl", Kind::Boolean),
    ("timeoutms", Kind::Integer(0, MAX)),
    ("tls", Kind::Boolean),
    ("tlsallowinvalidcertificates", Kind::Boolean),
    ("tlsallowinvalidhostnames", Kind::Boolean),
    ("tlscafile", Kind::Text),
    ("tlscertificatekeyfile", Kind::Text),
    ("tlscertificatekeyfilepassword", Kind::Text),
    ("tlsdisablecertificaterevocationcheck", Kind::Boolean),
    ("tlsdisableocspendpointcheck", Kind::Boolean),
    ("tlsinsecure", Kind::Boolean),
    (
        "uuidrepresentation",
        Kind::OneOf(&["standard", "csharpLegacy", "javaLegacy", "pythonLegacy", "unspecified"]),
    ),
    ("w", Kind::W),
    ("waitqueuetimeoutms", Kind::Integer(0, MAX)),
    ("wtimeoutms", Kind::Integer(0, MAX)),
    ("zlibcompressionlevel", Kind::Integer(-1, 9)),
    ("enableoverloadretargeting", Kind::Boolean),
];

impl ConnectionString {
    /// Reads a connection string. Resolves nothing.
    ///
    /// # Errors
    /// If the string is malformed, options contradict each other, or the build lacks the mechanism.
    pub fn parse(text: &str) -> Parsed<Self> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| invalid("it has no scheme: begin with mongodb:// or mongodb+srv://"))?;
        let is_srv = match scheme {
            "mongodb" => false,
            "mongodb+srv" => true,
            _ => {
                return Err(invalid(format!(
                    "the scheme `{scheme}` is unknown: use mongodb:// or mongodb+srv://"
                )));
            }
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let place = Place::parse(authority, database, is_srv);
        check_question_mark(query, place.is_ok())?;
        let Place { user, hosts } = place?;
        let mut options = Options::parse(query)?;
        if is_srv && !options.has("proxyhost") {
            options.leave_out(&OF_A_PROXY, "`proxyHost`");
        }
        options.check_pairs(is_srv, hosts.len())?;
        options.warn_of_no_client();
        options.leave_out_orphans(is_srv);
        options.check_user(user.as_ref())?;
        if options.has("proxyhost") && hosts.iter().any(|host| host.contains("%2F") || host.contains("%2f")) {
            return Err(invalid("`proxyHost` excludes Unix sockets: a SOCKS proxy connects to hosts"));
        }
        if options.has("tlscertificatekeyfilepassword") {
            return Err(invalid(
                "this build reads unencrypted keys only: remove `tlsCertificateKeyFilePassword`",
            ));
        }
        let mut for_driver = format!("{scheme}://{authority}/{database}");
        options.append_to(&mut for_driver);
        let limit = |key| options.of(key).and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
        let (timeout, socket_timeout) = (limit("timeoutms"), limit("sockettimeoutms"));
        let insecure = |key| options.of(key) == Some("true");
        Ok(Self {
            for_driver,
            timeout: timeout.filter(|limit| !limit.is_zero()),
            socket_timeout: socket_timeout.filter(|limit| !limit.is_zero()),
            selection: limit("serverselectiontimeoutms").filter(|limit| !limit.is_zero()),
            lean_only: LEAN_OPTIONS.into_iter().filter(|name| options.has_effect(name)).collect(),
            pool: options.pool(),
            allows_invalid_hostnames: insecure("tlsinsecure") || insecure("tlsallowinvalidhostnames"),
            given: options.given(),
            scheme_turns_tls_on: is_srv && !["tls", "ssl"].iter().any(|key| options.of(key) == Some("false")),
            warnings: options.warnings,
        })
    }

    /// The time limit of one exchange: `timeoutMS`, or else `socketTimeoutMS`.
    pub fn exchange_limit(&self) -> Option<Duration> {
        self.timeout.or(self.socket_timeout)
    }
}

/// A valid connection string to other hosts: with its user, its database and its options, but without those that find servers.
/// `auth_source` counts unless the string has its own. A single host is connected to directly.
pub fn moved(text: &str, hosts: &[Address], auth_source: Option<&str>) -> String {
    let (_, rest) = text.split_once("://").unwrap_or(("", text));
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = place.split_once('/').unwrap_or((place, ""));
    let user = authority.rsplit_once('@').map(|(user, _)| format!("{user}@")).unwrap_or_default();
    let is_named = |pair: &str, names: &[&str]| {
        let name = pair.split('=').next().unwrap_or_default();
        names.iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    let mut options: Vec<String> =
        (hosts.len() == 1).then(|| "directConnection=true".to_owned()).into_iter().collect();
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !is_named(pair, &OF_DISCOVERY));
    options.extend(kept.map(str::to_owned));
    if let Some(source) = auth_source.filter(|_| !options.iter().any(|pair| is_named(pair, &["authSource"])))
    {
        options.push(format!("authSource={}", utf8_percent_encode(source, NON_ALPHANUMERIC)));
    }
    let sign = if options.is_empty() { "" } else { "?" };
    let hosts: Vec<_> = hosts.iter().map(|host| host.to_string().replace('/', "%2F")).collect();
    format!("mongodb://{user}{}/{database}{sign}{}", hosts.join(","), options.join("&"))
}

/// The parts before the options.
struct Place<'a> {
    user: Option<User>,
    hosts: Vec<&'a str>,
}

impl<'a> Place<'a> {
    fn parse(authority: &'a str, database: &str, is_srv: bool) -> Parsed<Self> {
        if database.contains('@') {
            return Err(invalid("the user or the password contains `/`: write it as %2F"));
        }
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(User::parse(user)?), hosts),
            None => (None, authority),
        };
        let hosts: Vec<&str> = hosts.split(',').collect();
        hosts.iter().try_for_each(|host| check_host(host, is_srv))?;
        if is_srv && hosts.len() > 1 {
            return Err(invalid("mongodb+srv:// takes one host name, whose DNS record names the servers"));
        }
        check_database(database)?;
        Ok(Self { user, hosts })
    }
}

/// The part before the `@`.
struct User {
    name: String,
    has_password: bool,
}

impl User {
    fn parse(text: &str) -> Parsed<Self> {
        let (name, password) = match text.split_once(':') {
            Some((name, password)) => (name, Some(password)),
            None => (text, None),
        };
        for (part, called) in [(name, "user"), (password.unwrap_or_default(), "password")] {
            if let Some(found) = part.chars().find(|it| ":/?#[]@".contains(*it)) {
                return Err(invalid(format!(
                    "the {called} contains `{found}`: write it as %{:02X}",
                    u32::from(found)
                )));
            }
            decoded(part, called)?;
        }
        if name.is_empty() {
            return Err(invalid("the user before `@` is empty: write user:password@host, or remove the `@`"));
        }
        Ok(Self { name: decoded(name, "user")?, has_password: password.is_some() })
    }
}

/// The options of a string: one value for each key, or several for `readPreferenceTags`.
#[derive(Default)]
struct Options {
    /// Key in lower case, value as given, value decoded.
    known: Vec<(&'static str, String, String)>,
    /// Each key in lower case, and as the user wrote it first.
    written: BTreeMap<&'static str, String>,
    warnings: Vec<String>,
    /// Whether `readPreference` is given and invalid.
    lacks_preference: bool,
}

impl Options {
    fn parse(query: &str) -> Parsed<Self> {
        let mut options = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| invalid(format!("the option `{pair}` has no value: write {pair}=VALUE")))?;
            if key.is_empty() {
                return Err(invalid(format!("the option `{pair}` has no name: write NAME{pair}")));
            }
            if value.contains('=') {
                return Err(invalid(format!("the option `{key}` has two `=`: write the second one as %3D")));
            }
            options.take(key, value)?;
        }
        Ok(options)
    }

    fn take(&mut self, key: &str, raw: &str) -> Parsed<()> {
        let value = decoded(raw, key)?;
        let lower = key.to_lowercase();
        let Some((name, kind)) = OPTIONS.iter().find(|(name, _)| *name == lower) else {
            self.warn(format!("the option `{key}` of the address is unknown and has no effect"));
            return Ok(());
        };
        self.written.entry(name).or_insert_with(|| key.to_owned());
        if value.is_empty() && matches!(*name, "authsource" | "srvservicename" | "proxyhost") {
            return Err(invalid(format!("the option `{key}` is empty: give a value, or remove it")));
        }
        if value.is_empty() && !matches!(*name, "readpreferencetags" | "proxyusername" | "proxypassword") {
            self.lacks_preference |= *name == "readpreference";
            self.warn(format!("the option `{key}` of the address is empty and has no effect"));
            return Ok(());
        }
        if *name != "readpreferencetags"
            && let Some(first) = self.of(name)
        {
            let first = first.to_owned();
            if name.starts_with("proxy") {
                return Err(invalid(format!("the option `{key}` appears twice: keep one of them")));
            }
            self.warn(format!("the option `{key}` of the address is repeated: `{first}` counts"));
            return Ok(());
        }
        match kind.check(&value) {
            Ok(Some(kept)) => {
                self.warn(format!(
                    "the option `{key}` of the address has unknown values: only `{kept}` counts"
                ));
                self.known.push((name, kept.clone(), kept));
            }
            Ok(None) => self.known.push((name, raw.to_owned(), value)),
            Err(wanted) => {
                self.lacks_preference |= *name == "readpreference";
                self.warn(format!(
                    "the option `{key}` of the address has no effect: `{value}` is not {wanted}"
                ));
            }
        }
        Ok(())
    }

    fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    fn of(&self, key: &str) -> Option<&str> {
        self.known.iter().find(|(known, ..)| *known == key).map(|(.., value)| value.as_str())
    }

    fn has(&self, key: &str) -> bool {
        self.of(key).is_some()
    }

    fn is_true(&self, key: &str) -> bool {
        self.of(key) == Some("true")
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.of(key).and_then(|value| value.parse().ok())
    }

    /// Whether an option has a value other than `0`, `false` and `auto`.
    fn has_effect(&self, name: &str) -> bool {
        self.of(&name.to_lowercase()).is_some_and(|value| !matches!(value, "0" | "false" | "auto"))
    }

    /// Whether connections use TLS.
    fn has_tls(&self, is_srv: bool) -> bool {
        match self.of("tls").or(self.of("ssl")) {
            Some(value) => value == "true",
            None => is_srv || TLS_OPTIONS.iter().any(|name| self.has(name)),
        }
    }

    fn given(&self) -> Vec<String> {
        let is_off = |name: &str, value: &str| value == "false" && !NOT_OFF_BY_DEFAULT.contains(&name);
        let mut named: Vec<String> = Vec::new();
        for (name, _, value) in &self.known {
            let written = self.written(name);
            if !NOT_OF_A_CONNECTION.contains(name) && !is_off(name, value) && !named.contains(&written) {
                named.push(written);
            }
        }
        named
    }

    fn pool(&self) -> Pool {
        let others = POOL_OPTIONS.into_iter().filter(|name| self.has_effect(name));
        let of_driver = DRIVER_OPTIONS.into_iter().filter(|name| self.has_effect(name));
        let size = |key| self.number(key).and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
        Pool {
            max: size("maxpoolsize"),
            min: size("minpoolsize"),
            others: others.collect(),
            of_driver: of_driver.collect(),
        }
    }

    /// Leaves out options that depend on another, missing one, with a warning. The driver refuses the options of an invalid read
    /// preference.
    fn leave_out_orphans(&mut self, is_srv: bool) {
        if !self.has("readpreference") && self.lacks_preference {
            self.leave_out(&OF_A_PREFERENCE, "a valid `readPreference`");
        }
        let compresses = |value: &str| value.split(',').any(|name| name == "zlib");
        if self.number("zlibcompressionlevel") != Some(-1) && !self.of("compressors").is_some_and(compresses)
        {
            self.leave_out(&["zlibcompressionlevel"], "`compressors=zlib`");
        }
        if self.is_true("tlsallowinvalidhostnames") && !self.has_tls(is_srv) {
            self.leave_out(&["tlsallowinvalidhostnames"], "`tls=true`");
        }
    }

    /// Leaves out the given options of `names`, because `needed` is missing. Warns of each.
    fn leave_out(&mut self, names: &[&str], needed: &str) {
        for name in names.iter().filter(|name| self.has(name)).collect::<Vec<_>>() {
            self.known.retain(|(known, ..)| known != name);
            let written = self.written(name);
            self.warn(format!("the option `{written}` of the address has no effect without {needed}"));
        }
    }

    /// An option's name as the user wrote it.
    fn written(&self, name: &str) -> String {
        self.written.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }

    /// Warns of a valid option that neither client has.
    fn warn_of_no_client(&mut self) {
        if self.has("authmechanismproperties") {
            self.warn(
                "the option `authMechanismProperties` of the address has no effect: only mechanisms that this build lacks use it"
                    .to_owned(),
            );
        }
        if self.of("uuidrepresentation").is_some_and(|value| value.to_lowercase().ends_with("legacy")) {
            self.warn(
                "the option `uuidRepresentation` of the address has no effect: Plimsoll changes no UUID, and writes the standard form"
                    .to_owned(),
            );
        }
        let is_vain = |name: &&&str| name.contains("disable") && self.of(name) == Some("false");
        for name in TLS_CHECKS.iter().filter(is_vain).collect::<Vec<_>>() {
            let written = self.written(name);
            self.warn(format!(
                "the option `{written}` of the address has no effect: no client checks the revocation of certificates"
            ));
        }
        if self.number("waitqueuetimeoutms").is_some_and(|limit| limit > 0) {
            self.warn(
                "the option `waitQueueTimeoutMS` of the address has no effect: no client limits the wait for a connection alone; \
                 `timeoutMS` limits the whole operation"
                    .to_owned(),
            );
        }
    }

    /// Refuses options that contradict each other.
    fn check_pairs(&mut self, is_srv: bool, hosts: usize) -> Parsed<()> {
        let balanced = self.is_true("loadbalanced");
        let direct = self.is_true("directconnection");
        let srv_hosts = self.number("srvmaxhosts").unwrap_or(0) > 0;
        let tls_differ = self.has("tls") && self.has("ssl") && self.of("tls") != self.of("ssl");
        let max_pool = self.number("maxpoolsize").filter(|max| *max > 0);
        let proxied = OF_A_PROXY.iter().any(|key| self.has(key));
        let proxy_port =
            self.of("proxyport").is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        let unacknowledged = self.of("w") == Some("0") && self.is_true("journal");
        let broken = [
            (tls_differ, "`tls` and `ssl` differ: keep one of them"),
            (direct && hosts > 1, "`directConnection=true` takes one host"),
            (direct && is_srv, "`directConnection=true` takes a host, not mongodb+srv://"),
            (balanced && hosts > 1, "`loadBalanced=true` takes one host"),
            (balanced && self.has("replicaset"), "`loadBalanced=true` excludes `replicaSet`"),
            (balanced && direct, "`loadBalanced=true` excludes `directConnection=true`"),
            (balanced && srv_hosts, "`loadBalanced=true` excludes `srvMaxHosts`"),
            (!is_srv && self.has("srvmaxhosts"), "`srvMaxHosts` needs mongodb+srv://"),
            (!is_srv && self.has("srvservicename"), "`srvServiceName` needs mongodb+srv://"),
            (srv_hosts && self.has("replicaset"), "`srvMaxHosts` excludes `replicaSet`"),
            (
                max_pool.is_some_and(|max| self.number("minpoolsize").is_some_and(|min| min > max)),
                "`minPoolSize` exceeds `maxPoolSize`",
            ),
            (proxied && !self.has("proxyhost"), "a proxy option needs `proxyHost`"),
            (
                self.has("proxyusername") != self.has("proxypassword"),
                "`proxyUsername` and `proxyPassword` need each other",
            ),
            (!proxy_port, "`proxyPort` must be 1 to 65535"),
            (
                [self.of("proxyusername"), self.of("proxypassword")].contains(&Some("")),
                "`proxyUsername` and `proxyPassword` must not be empty",
            ),
            (unacknowledged, "`w=0` excludes `journal=true`: an unacknowledged write reports nothing"),
        ];
        if let Some((_, text)) = broken.iter().find(|(is_broken, _)| *is_broken) {
            return Err(invalid(*text));
        }
        for (index, key) in TLS_CHECKS.iter().enumerate() {
            let others = TLS_CHECKS[index + 1..].iter().chain(&["tlsinsecure"]);
            // Certificates and host names are checked independently. Each other pair sets one check twice.
            let excluded = others.filter(|other| !(*key == TLS_CHECKS[0] && **other == TLS_CHECKS[1]));
            let is_revocation = |key: &str| key.contains("disable");
            let excluded = excluded
                .filter(|other| **other == "tlsinsecure" || is_revocation(other) && *key != TLS_CHECKS[1]);
            if self.has(key)
                && let Some(other) = excluded.into_iter().find(|other| self.has(other))
            {
                let (other, key) = (self.written(other), self.written(key));
                return Err(invalid(format!("`{other}` and `{key}` exclude each other: keep one of them")));
            }
        }
        Ok(())
    }

    /// Refuses a mechanism that does not fit the user.
    fn check_user(&mut self, user: Option<&User>) -> Parsed<()> {
        let Some(mechanism) = self.of("authmechanism").map(str::to_owned) else { return Ok(()) };
        if ABSENT_MECHANISMS.contains(&mechanism.as_str()) {
            return Err(invalid(format!(
                "this build has no {mechanism}: use one of {}",
                MECHANISMS.join(", ")
            )));
        }
        if !MECHANISMS.contains(&mechanism.as_str()) {
            return Err(invalid(format!(
                "the authMechanism `{mechanism}` is unknown: use one of {}",
                MECHANISMS.join(", ")
            )));
        }
        if mechanism == "MONGODB-X509" {
            if user.is_some_and(|user| user.has_password) {
                return Err(invalid("MONGODB-X509 takes no password: the client's certificate is the proof"));
            }
            if self.of("authsource").is_some_and(|source| source != "$external") {
                return Err(invalid("MONGODB-X509 takes `authSource=$external` only"));
            }
            return Ok(());
        }
        match user {
            Some(user) if user.has_password && !user.name.is_empty() => Ok(()),
            _ => Err(invalid(format!("{mechanism} needs a user and a password: write user:password@host"))),
        }
    }

    fn append_to(&self, text: &mut String) {
        let known = self.known.iter().filter(|(key, ..)| !NOT_OF_THE_DRIVER.contains(key) && *key != "ssl");
        let mut sign = '?';
        for (key, raw, _) in known {
            // The driver refuses the 0 that means no limit.
            let unlimited = *key == "maxpoolsize" && raw == "0";
            let raw = if unlimited { POOL_WITHOUT_LIMIT } else { raw };
            // Writing to a String cannot fail.
            let _ = write!(text, "{sign}{key}={raw}");
            sign = '&';
        }
        if self.has("ssl") && !self.has("tls") {
            let _ = write!(text, "{sign}tls={}", self.of("ssl").unwrap_or("true"));
        }
    }
}

impl Kind {
    /// Checks a value. Returns its known part if another part is unknown.
    ///
    /// # Errors
    /// The wanted values in words.
    fn check(self, value: &str) -> Result<Option<String>, String> {
        let holds = |held: bool, wanted: &str| if held { Ok(None) } else { Err(wanted.to_owned()) };
        match self {
            Self::Text => Ok(None),
            Self::Name => holds(value.len() <= NAME_MAX, &format!("at most {NAME_MAX} bytes long")),
            Self::Boolean => holds(matches!(value, "true" | "false"), "true or false"),
            Self::Integer(min, max) => holds(
                value.parse::<i64>().is_ok_and(|number| (min..=max).contains(&number)),
                &format!("an integer from {min} to {max}"),
            ),
            Self::OneOf(names) => {
                let is_known = names.iter().any(|name| name.eq_ignore_ascii_case(value));
                holds(is_known, &format!("one of {}", names.join(", ")))
            }
            Self::Compressors => {
                let known: Vec<_> =
                    value.split(',').filter(|name| ["snappy", "zlib", "zstd"].contains(name)).collect();
                let all = known.len() == value.split(',').count();
                if known.is_empty() {
                    holds(false, "snappy, zlib or zstd")
                } else {
                    Ok((!all).then(|| known.join(",")))
                }
            }
            Self::Pairs => {
                let is_pair = |pair: &str| pair.split_once(':').is_some_and(|(key, _)| !key.is_empty());
                holds(value.is_empty() || value.split(',').all(is_pair), "a list of NAME:VALUE")
            }
            Self::W => holds(
                value.parse::<i64>().map_or(true, |number| (0..=MAX).contains(&number)),
                "a tag or a number from 0",
            ),
        }
    }
}

/// Refuses a `?` in a user or a password: the rest of it would be read as options, and messages would show a part of it.
fn check_question_mark(query: &str, is_place_valid: bool) -> Parsed<()> {
    let Some((before, _)) = query.rsplit_once('@') else { return Ok(()) };
    let is_known = |pair: &str| {
        let key = pair.split_once('=').map(|(key, _)| key.to_lowercase());
        key.is_some_and(|key| OPTIONS.iter().any(|(name, _)| *name == key))
    };
    if is_place_valid && before.split('&').all(is_known) {
        return Ok(());
    }
    Err(invalid(
        "an `@` follows the `?`: write a `?` of the user or the password as %3F, and an `@` of an option as %40",
    ))
}

/// A host name or an IPv4 address with an optional port, an IPv6 address in brackets, or the encoded path of a Unix socket.
fn check_host(text: &str, is_srv: bool) -> Parsed<()> {
    let host = decoded(text, "host")?;
    if host.is_empty() {
        return Err(invalid("a host is missing"));
    }
    if host.ends_with(".sock") {
        let message = "a Unix socket's path contains `/`: write each one as %2F";
        return if is_srv {
            Err(invalid("mongodb+srv:// takes a host name, not a Unix socket"))
        } else if text.contains('/') {
            Err(invalid(message))
        } else {
            Ok(())
        };
    }
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, tail) = rest.split_once(']').ok_or_else(|| {
                invalid(format!("the host `{host}` lacks the closing bracket of an IPv6 address"))
            })?;
            if let Some((address, zone)) = address.split_once('%') {
                return Err(invalid(format!(
                    "the zone `{zone}` of the IPv6 address `{address}` is unsupported: name a global address or a host name"
                )));
            }
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(invalid(format!("`{address}` is not an IPv6 address")));
            }
            match tail.strip_prefix(':') {
                Some(port) => (address, Some(port)),
                None if tail.is_empty() => (address, None),
                None => return Err(invalid(format!("the host `{host}` has `{tail}` in place of a port"))),
            }
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host.as_str(), None),
        },
    };
    if name.is_empty() {
        return Err(invalid("a host is missing before the port"));
    }
    if name.contains(['/', '?', '#', '[', ']', '@', ' ']) {
        return Err(invalid(format!("the host `{name}` contains a character that host names do not have")));
    }
    match port {
        Some(_) if is_srv => Err(invalid("mongodb+srv:// takes a host name without a port")),
        Some(port) if port.contains(':') => {
            Err(invalid(format!("the host `{host}` has several colons: write an IPv6 address in brackets")))
        }
        Some(port) if !port.parse::<u16>().is_ok_and(|port| port > 0) => {
            Err(invalid(format!("the port `{port}` is not a number from 1 to 65535")))
        }
        _ => Ok(()),
    }
}

fn check_database(text: &str) -> Parsed<()> {
    let name = decoded(text, "database")?;
    if let Some(found) = name.chars().find(|it| "/\\ \"$".contains(*it)) {
        return Err(invalid(format!(
            "the database `{name}` contains `{found}`, which names of databases do not have"
        )));
    }
    Ok(())
}

/// Undoes percent encoding.
fn decoded(text: &str, called: &str) -> Parsed<String> {
    let bytes = text.as_bytes();
    let is_encoded =
        |at: usize| bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if (0..bytes.len()).any(|at| bytes[at] == b'%' && !is_encoded(at)) {
        return Err(invalid(format!(
            "the {called} contains `%` without two hex digits: write the sign itself as %25"
        )));
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| invalid(format!("the {called} is not UTF-8 after percent decoding")))
}

fn invalid(text: impl Into<String>) -> InvalidConnectionString {
    InvalidConnectionString(text.into())
}

#[cfg(test)]
mod tests;
