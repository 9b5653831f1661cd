//! Where the deployment is, and where its primary is after a failover.
//!
//! The URI is read by the official driver. A server that takes writes is reached directly by the lean client; when the one
//! that was known takes none, or is away, the driver's server selection says where the primary is now.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use mongodb::Client;
use mongodb::options::{
    AuthMechanism, ClientOptions, Compressor as DriverCompressor, ConnectionString, Tls as DriverTls,
};
use plimsoll_wire::{Address, Compressor, ConnectOptions, Connection, Credential, Mechanism, Tls, Trust};

/// How long a connection, or the search for a primary, may take when the URI does not say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The name in the server's logs.
const APPLICATION: &str = "plimsoll-pipeline";

/// A deployment, and the address of its primary as it was known last.
#[derive(Debug)]
pub struct Site {
    uri: String,
    template: ConnectOptions,
    /// Whether the URI means exactly the server it names.
    direct: bool,
    known: RwLock<Address>,
}

/// Why a deployment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The URI cannot be used: it will not pass.
    #[error("the server's address cannot be used: {0}")]
    Refused(String),
    /// The server is away, or takes no writes: it may pass.
    #[error(transparent)]
    Wire(#[from] plimsoll_wire::Error),
    /// No member takes writes: it may pass.
    #[error(
        "no primary was found ({0}): check that the replica set has one, and that its members' names resolve here"
    )]
    NoPrimary(String),
}

impl SiteError {
    /// Whether another attempt cannot help.
    pub fn is_final(&self) -> bool {
        use plimsoll_wire::Error as Wire;
        match self {
            Self::Refused(_) => true,
            Self::Wire(error) => {
                matches!(error, Wire::Authentication { .. } | Wire::TooOld { .. } | Wire::TlsSettings { .. })
            }
            Self::NoPrimary(_) => false,
        }
    }
}

impl Site {
    /// The deployment that `uri` names. Nothing is sent, but names of SRV records are resolved. `timeout` bounds each
    /// command on its connections. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// [`SiteError::Refused`] when the URI cannot be used.
    pub async fn new(uri: &str, timeout: Duration) -> Result<Self, SiteError> {
        let options = parse(uri).await?;
        let host = options.hosts.first().ok_or_else(|| SiteError::Refused("it names no host".into()))?;
        let address: Address = read(&host.to_string())?;
        let template = connect_options(&options, address.clone(), timeout)?;
        let direct = options.direct_connection == Some(true);
        Ok(Self { uri: uri.to_owned(), template, direct, known: RwLock::new(address) })
    }

    /// The URI as given.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// How long a command may take.
    pub fn timeout(&self) -> Option<Duration> {
        self.template.timeout
    }

    /// A connection to a server that takes writes: where it was last, or where the driver finds it. Waits as long as the
    /// URI's `connectTimeoutMS` and `serverSelectionTimeoutMS` allow, 5 s each if it does not say.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect(&self) -> Result<Connection, SiteError> {
        match self.open(self.known()).await {
            Ok(connection) if self.direct || takes_writes(&connection) => Ok(connection),
            Err(error) if self.direct || error.is_final() => Err(error),
            _ => self.follow().await,
        }
    }

    /// Goes where the primary is now.
    async fn follow(&self) -> Result<Connection, SiteError> {
        let primary = find_primary(&self.uri).await?;
        let connection = self.open(primary.clone()).await?;
        if !takes_writes(&connection) {
            return Err(SiteError::NoPrimary(format!("{primary} was the primary and is none now")));
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = primary;
        Ok(connection)
    }

    async fn open(&self, address: Address) -> Result<Connection, SiteError> {
        Ok(Connection::connect(&ConnectOptions { address, ..self.template.clone() }).await?)
    }

    fn known(&self) -> Address {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The driver's options of a URI.
///
/// # Errors
/// [`SiteError::Refused`] when it is none.
pub async fn parse(uri: &str) -> Result<ClientOptions, SiteError> {
    let parsed = ClientOptions::parse(uri).await;
    let mut options = parsed.map_err(|error| {
        SiteError::Refused(format!("{error}; write for example mongodb://localhost:27017"))
    })?;
    options.app_name.get_or_insert_with(|| APPLICATION.to_owned());
    options.connect_timeout.get_or_insert(CONNECT_TIMEOUT);
    options.server_selection_timeout.get_or_insert(CONNECT_TIMEOUT);
    Ok(options)
}

/// Whether a URI tells the server who connects: by a user, or by a certificate. Nothing is resolved for it.
pub fn authenticates(uri: &str) -> bool {
    let Ok(parsed) = ConnectionString::parse(uri) else { return false };
    let certified = matches!(&parsed.tls, Some(DriverTls::Enabled(tls)) if tls.cert_key_file_path.is_some());
    parsed.credential.is_some() || certified
}

fn takes_writes(connection: &Connection) -> bool {
    let hello = connection.hello();
    hello.is_writable_primary || hello.is_mongos
}

/// The primary's address, by the driver's server selection.
async fn find_primary(uri: &str) -> Result<Address, SiteError> {
    let lost = |error: mongodb::error::Error| SiteError::NoPrimary(error.to_string());
    let options = parse(uri).await?;
    let first = options.hosts.first().map(ToString::to_string).unwrap_or_default();
    let client = Client::with_options(options).map_err(lost)?;
    let hello = client.database("admin").run_command(mongodb::bson::doc! {"hello": 1}).await;
    client.shutdown().await;
    let hello = hello.map_err(lost)?;
    read(hello.get_str("me").unwrap_or(&first))
}

fn read(address: &str) -> Result<Address, SiteError> {
    address.parse().map_err(|error: plimsoll_wire::AddressError| SiteError::Refused(error.to_string()))
}

fn connect_options(
    options: &ClientOptions,
    address: Address,
    timeout: Duration,
) -> Result<ConnectOptions, SiteError> {
    let mut connect = ConnectOptions::new(address);
    connect.credential = credential(options)?;
    connect.tls = tls(options)?;
    connect.connect_timeout = options.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    connect.timeout = Some(timeout);
    connect.application = options.app_name.clone().unwrap_or_else(|| APPLICATION.to_owned());
    for compressor in options.compressors.iter().flatten() {
        connect.compression.push(match compressor {
            DriverCompressor::Zstd { .. } => Compressor::Zstd,
            DriverCompressor::Zlib { .. } => Compressor::Zlib,
            other => {
                return Err(SiteError::Refused(format!("{other:?} is not spoken here: take zstd or zlib")));
            }
        });
    }
    Ok(connect)
}

fn credential(options: &ClientOptions) -> Result<Option<Credential>, SiteError> {
    let Some(credential) = &options.credential else { return Ok(None) };
    let mechanism = match &credential.mechanism {
        None => None,
        Some(AuthMechanism::ScramSha1) => Some(Mechanism::ScramSha1),
        Some(AuthMechanism::ScramSha256) => Some(Mechanism::ScramSha256),
        Some(other) => {
            let why = format!("{other:?} is not spoken here: use a user of SCRAM-SHA-1 or SCRAM-SHA-256");
            return Err(SiteError::Refused(why));
        }
    };
    let (Some(user), Some(password)) = (&credential.username, &credential.password) else {
        return Err(SiteError::Refused("it names a user without a password".into()));
    };
    let source = credential.source.clone().or_else(|| options.default_database.clone());
    let mut credential = Credential::new(user, password, source.unwrap_or_else(|| "admin".into()));
    credential.mechanism = mechanism;
    Ok(Some(credential))
}

fn tls(options: &ClientOptions) -> Result<Option<Tls>, SiteError> {
    let Some(DriverTls::Enabled(settings)) = &options.tls else { return Ok(None) };
    if settings.cert_key_file_path.is_some() {
        return Err(SiteError::Refused(
            "client certificates are not spoken here: use a user and a password".into(),
        ));
    }
    let trust = match (&settings.allow_invalid_certificates, &settings.ca_file_path) {
        (Some(true), _) => Trust::Anyone,
        (_, Some(path)) => Trust::Authorities(std::fs::read(path).map_err(|error| {
            SiteError::Refused(format!("cannot read {}: {error}; correct tlsCAFile", path.display()))
        })?),
        _ => Trust::PublicRoots,
    };
    Ok(Some(Tls::new(&trust)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(uri: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Site::new(uri, Duration::from_secs(1))).unwrap_err().to_string()
    }

    #[test]
    fn a_uri_tells_who_connects_by_a_user_or_a_certificate_and_not_by_tls_alone() {
        assert!(authenticates("mongodb://ann:x@localhost/?authSource=admin"));
        assert!(authenticates("mongodb://localhost/?tls=true&tlsCertificateKeyFile=/k.pem"));
        for uri in ["mongodb://localhost", "mongodb://localhost/?tls=true", "localhost"] {
            assert!(!authenticates(uri), "{uri}");
        }
    }

    #[test]
    fn what_cannot_be_used_says_how_to_write_it() {
        assert!(refusal("localhost:27017").contains("mongodb://localhost:27017"));
        let plain = refusal("mongodb://u:p@localhost/?authMechanism=PLAIN&authSource=%24external");
        assert!(plain.contains("SCRAM-SHA-256"), "{plain}");
        let ca = refusal("mongodb://localhost/?tls=true&tlsCAFile=/no/such/file");
        assert!(ca.contains("correct tlsCAFile"), "{ca}");
    }
}
