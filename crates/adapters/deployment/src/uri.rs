//! Reads a connection string and converts it to options of the lean client.

use std::path::PathBuf;
use std::time::Duration;

use mongodb::error::ErrorKind;
use mongodb::options::{
    Acknowledgment, AuthMechanism, ClientOptions, Compressor as DriverCompressor,
    ConnectionString as DriverString, ReadConcern as DriverReadConcern, ReadConcernLevel, ReadPreference,
    SelectionCriteria, ServerAddress, Socks5Proxy, Tls as DriverTls, WriteConcern as DriverConcern,
};
use plimsoll_measure::duration::Span;
use plimsoll_wire::{
    self as wire, Address, Compressor, ConnectOptions, Credential, Mechanism, Proof, SOCKS_PORT, SocksProxy,
    Tls, TlsSettings, Trust,
};

use crate::concern::{Concerns, W, WriteConcern};
use crate::connection_string::{ConnectionString, Pool};
use crate::error::{Error, driver_message};

/// The time limit of a connection, and of the search for a primary, when the URI sets none.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The port of a URI's host without one.
const DEFAULT_PORT: u16 = 27017;
/// The name in the server's logs when the URI sets none.
const APPLICATION: &str = "plimsoll";

/// Reads a URI, with defaults for the timeouts and the application's name. Resolves SRV records. Options without effect are left
/// out: see [`warnings`].
///
/// # Errors
/// [`Error::Uri`] if the text is not a connection string.
pub async fn driver_options(uri: &str) -> Result<ClientOptions, Error> {
    let parsed = parse(uri)?;
    let mut options = ClientOptions::parse(&parsed.for_driver).await.map_err(|error| unreadable(&error))?;
    check_supported(&options)?;
    options.app_name.get_or_insert_with(|| APPLICATION.to_owned());
    let most = parsed.timeout.unwrap_or(Duration::MAX);
    let selection = options.server_selection_timeout.filter(|limit| !limit.is_zero());
    let selection = selection.unwrap_or(CONNECT_TIMEOUT).min(most);
    options.connect_timeout = Some(connect_limit(options.connect_timeout, selection).min(most));
    options.server_selection_timeout = Some(selection);
    Ok(options)
}

/// The time limit of a connection. Zero means no limit: then the search for a server limits it.
const fn connect_limit(named: Option<Duration>, selection: Duration) -> Duration {
    match named {
        None => CONNECT_TIMEOUT,
        Some(Duration::ZERO) => selection,
        Some(limit) => limit,
    }
}

/// Distinguishes a failure of the name service from a fault in the text.
fn unreadable(error: &mongodb::error::Error) -> Error {
    match error.kind.as_ref() {
        ErrorKind::DnsResolve { .. } => Error::Unresolved,
        _ => Error::Uri(driver_message(error)),
    }
}

/// Refuses a text that is not a connection string, without resolving a name.
///
/// # Errors
/// [`Error::Uri`] with the fault.
pub fn check_uri(uri: &str) -> Result<(), Error> {
    parse(uri).map(drop)
}

/// The write concern of a URI with the settings that it names; `None` without one. Resolves nothing.
///
/// # Errors
/// If the text is not a connection string.
pub fn write_concern_of(uri: &str) -> Result<Option<WriteConcern>, Error> {
    let parsed = parse(uri)?;
    let read = DriverString::parse(&parsed.for_driver).map_err(|error| unreadable(&error))?;
    read.write_concern.as_ref().map(typed_concern).transpose()
}

/// The options of a URI for a pool of connections. Resolves nothing.
pub fn pool_options(uri: &str) -> Pool {
    ConnectionString::parse(uri).map(|parsed| parsed.pool).unwrap_or_default()
}

/// One warning for each option of a URI without effect on connections of the lean client outside of a load: options of a pool,
/// such as `maxPoolSize`, and options that only the official driver has.
pub fn pool_warnings(uri: &str) -> Vec<String> {
    let Pool { max, min, others, of_driver } = pool_options(uri);
    let sizes = [max.map(|_| "maxPoolSize"), min.map(|_| "minPoolSize")];
    let named = sizes.into_iter().flatten().chain(others);
    let said = |name| {
        format!(
            "the option `{name}` of the address has no effect here: Plimsoll opens the connections that it needs, and keeps them"
        )
    };
    let only_driver = |name| {
        format!("the option `{name}` of the address has no effect here: only the official driver has it")
    };
    named.map(said).chain(of_driver.into_iter().map(only_driver)).collect()
}

/// The options of a URI that a client loses if it gets only the addresses, as the user wrote them, and `tls` if `mongodb+srv://` turns
/// it on. Options of a pool and options without effect are left out: [`pool_warnings`] and [`warnings`] name them. DNS records can
/// add three options. `authSource` counts only with a user ([`authenticates`]). `replicaSet` and `loadBalanced` concern the
/// connection by the URI itself. Resolves nothing.
pub fn options_beyond_addresses(uri: &str) -> Vec<String> {
    let Ok(parsed) = ConnectionString::parse(uri) else { return Vec::new() };
    let tls = parsed.scheme_turns_tls_on.then(|| "tls".to_owned());
    let tls = tls.filter(|name| !parsed.given.contains(name));
    parsed.given.into_iter().chain(tls).collect()
}

/// The options of a URI that choose a member or a version of the data for reads.
pub fn read_options(uri: &str) -> Vec<&'static str> {
    let Ok(parsed) = ConnectionString::parse(uri) else { return Vec::new() };
    let Ok(read) = DriverString::parse(&parsed.for_driver) else { return Vec::new() };
    let elsewhere = read.read_preference.is_some_and(|preference| preference != ReadPreference::Primary);
    let named = [(elsewhere, "readPreference"), (read.read_concern.is_some(), "readConcernLevel")];
    named.into_iter().filter_map(|(is_named, name)| is_named.then_some(name)).collect()
}

/// One sentence for each option of a URI that has no effect: unknown to every client, or with an invalid value.
pub fn warnings(uri: &str) -> Vec<String> {
    ConnectionString::parse(uri).map(|parsed| parsed.warnings).unwrap_or_default()
}

/// The `serverSelectionTimeoutMS` of a URI. Resolves nothing.
pub fn selection_limit(uri: &str) -> Option<Duration> {
    ConnectionString::parse(uri).ok()?.selection
}

/// The given options of a URI that only the lean client has. Resolves nothing.
pub fn lean_options(uri: &str) -> Vec<&'static str> {
    ConnectionString::parse(uri).map(|parsed| parsed.lean_only).unwrap_or_default()
}

/// One sentence for each option of a URI that has no effect on connections of the official driver alone.
pub fn warnings_of_driver(uri: &str) -> Vec<String> {
    let said = |name| {
        format!(
            "the option `{name}` of the address has no effect here: the official driver connects, and does not know it"
        )
    };
    lean_options(uri).into_iter().map(said).collect()
}

/// The URI for the official driver. It lacks the options that [`warnings`] names, which that driver refuses,
/// and the options that only the lean client knows.
///
/// # Errors
/// [`Error::Uri`] if the text is not a connection string.
pub fn for_driver(uri: &str) -> Result<String, Error> {
    Ok(parse(uri)?.for_driver)
}

pub(crate) fn parse(uri: &str) -> Result<ConnectionString, Error> {
    ConnectionString::parse(uri).map_err(|error| Error::Uri(error.to_string()))
}

/// Whether a URI identifies the client, by a user or by a certificate. Resolves nothing.
pub fn authenticates(uri: &str) -> bool {
    let Ok(parsed) = ConnectionString::parse(uri) else { return false };
    let Ok(parsed) = DriverString::parse(&parsed.for_driver) else { return false };
    let has_certificate =
        matches!(&parsed.tls, Some(DriverTls::Enabled(tls)) if tls.cert_key_file_path.is_some());
    parsed.credential.is_some() || has_certificate
}

/// Refuses a URI that turns acknowledgements off: the scenario sets write concerns, and `w=0` would contradict them.
pub(crate) fn check_acknowledged(options: &ClientOptions) -> Result<(), Error> {
    let w = options.write_concern.as_ref().and_then(|concern| concern.w.as_ref());
    if w == Some(&Acknowledgment::Nodes(0)) { Err(Error::Unacknowledged) } else { Ok(()) }
}

pub(crate) fn addresses(options: &ClientOptions) -> Result<Vec<Address>, Error> {
    let addresses: Vec<_> = options.hosts.iter().map(address).collect::<Result<_, _>>()?;
    if addresses.is_empty() { Err(Error::Uri("it names no host".into())) } else { Ok(addresses) }
}

/// The driver keeps the brackets of an IPv6 address; a socket and TLS take it without them.
fn address(host: &ServerAddress) -> Result<Address, Error> {
    match host {
        ServerAddress::Tcp { host, port } => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            Ok(Address { host: bare.to_owned(), port: port.unwrap_or(DEFAULT_PORT) })
        }
        ServerAddress::Unix { path } => Ok(Address::unix(path)),
        other => Err(Error::Refused(format!("the address {other} is unsupported: name a host and a port"))),
    }
}

/// Refuses options that no client supports.
fn check_supported(options: &ClientOptions) -> Result<(), Error> {
    if options.load_balanced == Some(true) {
        return Err(Error::Refused("loadBalanced=true is unsupported: name the servers themselves".into()));
    }
    Ok(())
}

/// The concerns of the URI, for operations that set none.
pub(crate) fn concerns(options: &ClientOptions) -> Result<Concerns, Error> {
    let preference = match &options.selection_criteria {
        Some(SelectionCriteria::ReadPreference(preference)) => Some(preference),
        _ => None,
    };
    concerns_from(options.write_concern.as_ref(), options.read_concern.as_ref(), preference)
}

/// The concerns of a URI, for operations that set none. Resolves nothing.
///
/// # Errors
/// If the text is not a connection string, or no client supports a concern.
pub fn concerns_of(uri: &str) -> Result<Concerns, Error> {
    let parsed = parse(uri)?;
    let read = DriverString::parse(&parsed.for_driver).map_err(|error| unreadable(&error))?;
    concerns_from(read.write_concern.as_ref(), read.read_concern.as_ref(), read.read_preference.as_ref())
}

fn concerns_from(
    write: Option<&DriverConcern>,
    read: Option<&DriverReadConcern>,
    preference: Option<&ReadPreference>,
) -> Result<Concerns, Error> {
    Ok(Concerns {
        write: write.map(write_concern).transpose()?.flatten(),
        read: read.map(|concern| read_level(&concern.level)).transpose()?,
        preference: preference.map(read_preference).transpose()?,
    })
}

fn read_level(level: &ReadConcernLevel) -> Result<String, Error> {
    Ok(match level {
        ReadConcernLevel::Local => "local".to_owned(),
        ReadConcernLevel::Majority => "majority".to_owned(),
        ReadConcernLevel::Linearizable => "linearizable".to_owned(),
        ReadConcernLevel::Available => "available".to_owned(),
        ReadConcernLevel::Snapshot => "snapshot".to_owned(),
        ReadConcernLevel::Custom(level) => level.clone(),
        other => {
            return Err(Error::Refused(format!(
                "readConcernLevel={other:?} is unsupported: write local or majority"
            )));
        }
    })
}

fn read_preference(preference: &ReadPreference) -> Result<wire::ReadPreference, Error> {
    let (mode, options) = match preference {
        ReadPreference::Primary => (wire::ReadMode::Primary, None),
        ReadPreference::PrimaryPreferred { options } => (wire::ReadMode::PrimaryPreferred, options.as_ref()),
        ReadPreference::Secondary { options } => (wire::ReadMode::Secondary, options.as_ref()),
        ReadPreference::SecondaryPreferred { options } => {
            (wire::ReadMode::SecondaryPreferred, options.as_ref())
        }
        ReadPreference::Nearest { options } => (wire::ReadMode::Nearest, options.as_ref()),
        other => {
            return Err(Error::Refused(format!(
                "readPreference={other:?} is unsupported: write secondaryPreferred"
            )));
        }
    };
    let tag_sets = options.and_then(|options| options.tag_sets.as_ref()).into_iter().flatten();
    let tag_sets =
        tag_sets.map(|tags| tags.iter().map(|(key, value)| (key.clone(), value.clone())).collect());
    let lag = options.and_then(|options| options.max_staleness);
    let max_staleness_s = lag.map(|lag| u32::try_from(lag.as_secs()).unwrap_or(u32::MAX));
    Ok(wire::ReadPreference { mode, tag_sets: tag_sets.collect(), max_staleness_s })
}

/// The write concern of the URI; a scenario's own replaces it as a whole.
fn write_concern(concern: &DriverConcern) -> Result<Option<wire::WriteConcern>, Error> {
    typed_concern(concern)?.to_wire().map_err(|problem| Error::Uri(problem.to_owned()))
}

fn typed_concern(concern: &DriverConcern) -> Result<WriteConcern, Error> {
    let w = match &concern.w {
        None => None,
        Some(Acknowledgment::Majority) => Some(W::Name("majority".to_owned())),
        Some(Acknowledgment::Nodes(number)) => Some(W::Number(*number)),
        Some(Acknowledgment::Custom(tag)) => Some(W::Name(tag.clone())),
        Some(other) => {
            return Err(Error::Refused(format!("w={other:?} is unsupported: write a number or majority")));
        }
    };
    let timeout =
        concern.w_timeout.map(|limit| Span::from_ns(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)));
    Ok(WriteConcern { w, j: concern.journal, timeout })
}

pub(crate) fn connect_options(
    options: &ClientOptions,
    any_host: bool,
    address: Address,
    timeout: Duration,
) -> Result<ConnectOptions, Error> {
    let mut connect = ConnectOptions::new(address);
    connect.credential = credential(options)?;
    connect.tls = tls(options, any_host)?;
    connect.proxy = options.socks5_proxy.as_ref().map(socks_proxy);
    connect.connect_timeout = options.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    connect.timeout = Some(timeout);
    if let Some(name) = &options.app_name {
        connect.application.clone_from(name);
    }
    compress(options, &mut connect)?;
    Ok(connect)
}

fn socks_proxy(proxy: &Socks5Proxy) -> SocksProxy {
    let bare = proxy.host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    SocksProxy {
        host: bare.unwrap_or(&proxy.host).to_owned(),
        port: proxy.port.unwrap_or(SOCKS_PORT),
        credential: proxy.authentication.clone(),
    }
}

fn compress(options: &ClientOptions, connect: &mut ConnectOptions) -> Result<(), Error> {
    for compressor in options.compressors.iter().flatten() {
        match compressor {
            DriverCompressor::Snappy => connect.compression.push(Compressor::Snappy),
            DriverCompressor::Zstd { .. } => connect.compression.push(Compressor::Zstd),
            DriverCompressor::Zlib { level } => {
                connect.compression.push(Compressor::Zlib);
                connect.zlib_level = level.and_then(|level| i32::try_from(level).ok());
            }
            other => {
                return Err(Error::Refused(format!(
                    "{other:?} is unsupported: the compressors are snappy, zlib and zstd"
                )));
            }
        }
    }
    Ok(())
}

fn credential(options: &ClientOptions) -> Result<Option<Credential>, Error> {
    let Some(credential) = &options.credential else { return Ok(None) };
    let proof = match &credential.mechanism {
        None => Proof::Scram(None),
        Some(AuthMechanism::ScramSha1) => Proof::Scram(Some(Mechanism::ScramSha1)),
        Some(AuthMechanism::ScramSha256) => Proof::Scram(Some(Mechanism::ScramSha256)),
        Some(AuthMechanism::Plain) => Proof::Plain,
        Some(AuthMechanism::MongoDbX509) => Proof::Certificate,
        Some(other) => return Err(Error::Refused(format!("the authMechanism {other:?} is unsupported"))),
    };
    let is_certificate = proof == Proof::Certificate;
    let user = credential.username.clone();
    let (user, password) = match (user, &credential.password) {
        (user, _) if is_certificate => (user.unwrap_or_default(), ""),
        // A server that wants a password refuses the empty one, with the user's name.
        (user, password) => (user.unwrap_or_default(), password.as_deref().unwrap_or_default()),
    };
    let external = matches!(proof, Proof::Plain | Proof::Certificate).then(|| "$external".to_owned());
    let source = credential.source.clone().or(external).or_else(|| options.default_database.clone());
    let mut credential = Credential::new(user, password, source.unwrap_or_else(|| "admin".into()));
    credential.proof = proof;
    Ok(Some(credential))
}

fn tls(options: &ClientOptions, any_host: bool) -> Result<Option<Tls>, Error> {
    let Some(DriverTls::Enabled(settings)) = &options.tls else { return Ok(None) };
    let file = |option, path: &PathBuf| {
        std::fs::read(path).map_err(|source| Error::UnreadableFile { option, path: path.clone(), source })
    };
    let trust = match (&settings.allow_invalid_certificates, &settings.ca_file_path) {
        (Some(true), _) => Trust::Anyone,
        (_, Some(path)) => Trust::Authorities(file("tlsCAFile", path)?),
        _ => Trust::PublicRoots,
    };
    let identity = settings.cert_key_file_path.as_ref();
    let identity = identity.map(|path| file("tlsCertificateKeyFile", path)).transpose()?;
    let settings = TlsSettings { trust, any_host, identity };
    Ok(Some(Tls::with(&settings).map_err(plimsoll_wire::Error::from)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_or_a_certificate_identifies_the_client_and_tls_alone_does_not() {
        assert!(authenticates("mongodb://ann:x@localhost/?authSource=admin"));
        assert!(authenticates("mongodb://localhost/?tls=true&tlsCertificateKeyFile=/k.pem"));
        for uri in ["mongodb://localhost", "mongodb://localhost/?tls=true", "localhost"] {
            assert!(!authenticates(uri), "{uri}");
        }
    }

    fn parsed(uri: &str) -> Result<ClientOptions, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(driver_options(uri))
    }

    #[test]
    fn hosts_of_both_families_keep_their_ports() {
        for (uri, expected) in [
            ("mongodb://[::1]:27777", &["[::1]:27777"][..]),
            ("mongodb://[fe80::1]", &["[fe80::1]:27017"]),
            (
                "mongodb://127.0.0.1,localhost:1,db.example",
                &["127.0.0.1:27017", "localhost:1", "db.example:27017"],
            ),
            ("mongodb://%2Ftmp%2Fmongodb.sock", &["/tmp/mongodb.sock"]),
            ("mongodb://u:p@[::1]:5,[2001:db8::2]/d?replicaSet=rs", &["[::1]:5", "[2001:db8::2]:27017"]),
        ] {
            let hosts: Vec<_> =
                addresses(&parsed(uri).unwrap()).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(hosts, expected, "{uri}");
        }
    }

    #[test]
    fn the_write_concern_of_a_uri_is_kept() {
        let concern = |uri: &str| {
            let kept = concerns(&parsed(uri).unwrap()).unwrap();
            assert_eq!(concerns_of(uri).unwrap(), kept, "{uri}");
            kept.write
        };
        let expected = |w, j, timeout_ms| Some(wire::WriteConcern { w, j, timeout_ms });
        assert_eq!(concern("mongodb://a"), None);
        assert_eq!(concern("mongodb://a/?w=majority"), expected(wire::W::Majority, None, None));
        assert_eq!(concern("mongodb://a/?w=2&wTimeoutMS=50"), expected(wire::W::Number(2), None, Some(50)));
        assert_eq!(concern("mongodb://a/?journal=true"), expected(wire::W::Number(1), Some(true), None));
        assert_eq!(concern("mongodb://a/?w=two"), expected(wire::W::Tag("two".into()), None, None));
    }

    #[test]
    fn the_read_settings_of_a_uri_are_kept() {
        let kept = |uri: &str| {
            let kept = concerns(&parsed(uri).unwrap()).unwrap();
            assert_eq!(concerns_of(uri).unwrap(), kept, "{uri}");
            (kept.read, kept.preference)
        };
        assert_eq!(kept("mongodb://a/?readConcernLevel=majority"), (Some("majority".into()), None));
        let secondary = wire::ReadPreference::of(wire::ReadMode::Secondary);
        assert_eq!(kept("mongodb://a/?readPreference=secondary"), (None, Some(secondary.clone())));
        let tagged = "mongodb://a/?readPreference=secondary&readPreferenceTags=dc:e,rack:1&readPreferenceTags=&maxStalenessSeconds=120";
        let east = [("dc".to_owned(), "e".to_owned()), ("rack".to_owned(), "1".to_owned())];
        let tag_sets = vec![east.into(), std::collections::BTreeMap::new()];
        let expected = wire::ReadPreference { tag_sets, max_staleness_s: Some(120), ..secondary };
        assert_eq!(kept(tagged), (None, Some(expected)));
    }

    #[test]
    fn the_time_limit_of_a_uri_bounds_connections_and_the_search_for_a_server() {
        let limits = |uri: &str| {
            let options = parsed(uri).unwrap();
            [options.connect_timeout, options.server_selection_timeout].map(|it| it.unwrap().as_millis())
        };
        assert_eq!(limits("mongodb://a"), [5000, 5000]);
        assert_eq!(limits("mongodb://a/?timeoutMS=500"), [500, 500]);
        assert_eq!(limits("mongodb://a/?timeoutMS=500&connectTimeoutMS=100"), [100, 500]);
        assert_eq!(limits("mongodb://a/?socketTimeoutMS=500"), [5000, 5000]);
        assert_eq!(limits("mongodb://a/?serverSelectionTimeoutMS=0"), [5000, 5000]);
        assert_eq!(limits("mongodb://a/?connectTimeoutMS=0"), [5000, 5000]);
        assert_eq!(limits("mongodb://a/?connectTimeoutMS=0&serverSelectionTimeoutMS=20000"), [20000, 20000]);
        assert_eq!(limits("mongodb://a/?connectTimeoutMS=0&timeoutMS=500"), [500, 500]);
    }

    #[test]
    fn a_user_without_a_password_is_left_to_the_server() {
        let found = credential(&parsed("mongodb://alice@127.0.0.1").unwrap()).unwrap();
        assert_eq!(found.map(|it| it.user), Some("alice".to_owned()));
    }

    #[test]
    fn a_uri_names_its_write_concern_and_its_read_options() {
        let named = write_concern_of("mongodb://a/?journal=false&wTimeoutMS=50").unwrap().unwrap();
        assert_eq!((named.w, named.j, named.timeout), (None, Some(false), Some(Span::from_ns(50_000_000))));
        assert_eq!(write_concern_of("mongodb://a").unwrap(), None);
        let both = "mongodb://a/?readPreference=nearest&readConcernLevel=local";
        assert_eq!(read_options(both), ["readPreference", "readConcernLevel"]);
        assert_eq!(read_options("mongodb://a/?readPreference=primary"), [""; 0]);
    }

    #[test]
    fn every_option_of_a_pool_that_asks_for_something_is_named() {
        let uri = "mongodb://a/?maxPoolSize=2&minPoolSize=1&maxIdleTimeMS=5&maxConnecting=3&heartbeatFrequencyMS=500";
        let (others, of_driver) = (vec!["maxIdleTimeMS", "maxConnecting"], vec!["heartbeatFrequencyMS"]);
        assert_eq!(pool_options(uri), Pool { max: Some(2), min: Some(1), others, of_driver });
        let said = pool_warnings(uri);
        let names = ["maxPoolSize", "minPoolSize", "maxIdleTimeMS", "maxConnecting", "heartbeatFrequencyMS"];
        for (sentence, name) in said.iter().zip(names) {
            assert!(sentence.contains(&format!("`{name}` of the address has no effect here")), "{sentence}");
        }
        assert_eq!(said.len(), names.len());
        assert_eq!(pool_warnings("mongodb://a/?maxPoolSize=0&minPoolSize=0&maxIdleTimeMS=0"), [""; 0]);
    }

    #[test]
    fn every_option_that_addresses_alone_lose_is_named_as_the_user_wrote_it() {
        for (uri, expected) in [
            ("mongodb://a", &[][..]),
            ("mongodb://a/?W=1&journal=false&retryWrites=true", &["W", "journal", "retryWrites"]),
            ("mongodb://a/?tls=false&loadBalanced=false&maxPoolSize=2&waitQueueTimeoutMS=5&fooBar=1", &[]),
            ("mongodb://a/?timeoutMS=oops&proxyHost=p&proxyPort=1", &["proxyHost", "proxyPort"]),
            (
                "mongodb://a/?readPreference=nearest&readPreferenceTags=dc:e&readPreferenceTags=",
                &["readPreference", "readPreferenceTags"],
            ),
            ("mongodb+srv://a.b.c", &["tls"]),
            ("mongodb+srv://a.b.c/?tls=true&srvMaxHosts=2", &["tls", "srvMaxHosts"]),
            ("mongodb+srv://a.b.c/?ssl=false", &[]),
        ] {
            assert_eq!(options_beyond_addresses(uri), expected, "{uri}");
        }
    }

    #[test]
    fn a_load_balancer_is_refused() {
        for (uri, refused) in [
            ("mongodb://a/?loadBalanced=true", true),
            ("mongodb://a/?readPreference=secondary&readConcernLevel=majority", false),
            ("mongodb://a/?retryWrites=true&w=majority&appName=shop", false),
        ] {
            assert_eq!(parsed(uri).is_err(), refused, "{uri}");
        }
    }
}
