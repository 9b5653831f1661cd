//! Where the server is: the primary of a replica set, every mongos, or the one server named; and where it is again
//! after a failover.
//!
//! A URI is read by the official driver, SRV records included. A server that takes writes is reached directly; for
//! anything else the driver's topology monitoring finds the primary. A server that says it is a member of a replica set
//! names the others, so that one address is enough to follow the set, unless the URI says `directConnection=true`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use mongodb::Client;
use mongodb::options::{ClientOptions, ServerAddress};
use plimsoll_wire::{Address, ConnectOptions, Connection, Hello};

pub use error::Error;
use uri::{addresses, check_promise, connect_options};

mod error;
mod uri;

/// How long the driver may look for a primary when the URI does not say.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may take when the URI does not say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A deployment: how to reach it now, and how to find it again.
#[derive(Debug)]
pub struct Site {
    uri: String,
    template: ConnectOptions,
    routers: bool,
    /// Whether the server to go to may become another one.
    moves: bool,
    addresses: RwLock<Vec<Address>>,
    set: RwLock<Set>,
    turn: AtomicUsize,
}

/// A replica set, as its members told last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Set {
    /// Its name, once a member has told it.
    name: Option<String>,
    /// Its members by the names that the set has for them.
    members: Vec<String>,
}

impl Site {
    /// Finds the deployment that `uri` names. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// Why it cannot be read, reached or used.
    pub async fn find(uri: &str, timeout: Duration) -> Result<Self, Error> {
        let options = ClientOptions::parse(uri).await.map_err(|error| Error::Uri(error.to_string()))?;
        check_promise(&options)?;
        let addresses = addresses(&options)?;
        let template = connect_options(&options, addresses[0].clone(), timeout)?;
        let mut site = Self {
            uri: uri.to_owned(),
            template,
            routers: false,
            moves: false,
            addresses: RwLock::new(addresses),
            set: RwLock::default(),
            turn: AtomicUsize::new(0),
        };
        let hello = site.greet_any().await?;
        site.routers = hello.is_mongos;
        let direct = options.direct_connection == Some(true);
        let replicated =
            hello.set_name.is_some() || options.repl_set_name.is_some() || options.hosts.len() > 1;
        site.moves = replicated && !direct && !hello.is_mongos;
        if !hello.is_writable_primary && !hello.is_mongos && !direct {
            site.refresh().await?;
        } else if !hello.is_mongos {
            site.keep(vec![site.current()]);
        }
        Ok(site)
    }

    /// A deployment of one server without authentication or TLS.
    pub fn single(address: Address, timeout: Duration) -> Self {
        let uri = format!("mongodb://{address}/?directConnection=true");
        let mut template = ConnectOptions::new(address.clone());
        template.timeout = Some(timeout);
        template.connect_timeout = CONNECT_TIMEOUT;
        Self {
            uri,
            template,
            routers: false,
            moves: false,
            addresses: RwLock::new(vec![address]),
            set: RwLock::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// The same deployment by way of other addresses, one for each of its own in their order: proxies before it. They stay
    /// where they are whatever becomes of the deployment.
    ///
    /// # Errors
    /// [`Error::NoWay`] when the deployment cannot be reached under another address.
    pub fn by_way_of(&self, addresses: Vec<Address>) -> Result<Self, Error> {
        if self.template.tls.is_some() {
            return Err(Error::NoWay);
        }
        let uri = format!("mongodb://{}/?directConnection=true", addresses.first().ok_or(Error::NoWay)?);
        let template = ConnectOptions { address: addresses[0].clone(), ..self.template.clone() };
        Ok(Self {
            uri,
            template,
            routers: self.routers || addresses.len() > 1,
            moves: false,
            addresses: RwLock::new(addresses),
            set: RwLock::default(),
            turn: AtomicUsize::new(0),
        })
    }

    /// Whether it is reached by way of mongos.
    pub const fn has_routers(&self) -> bool {
        self.routers
    }

    /// Whether an address is all that it takes to reach it: no user and no TLS.
    pub const fn is_open(&self) -> bool {
        self.template.tls.is_none() && self.template.credential.is_none()
    }

    /// The URI as given.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Every address that load goes to: one, or each mongos.
    pub fn addresses(&self) -> Vec<Address> {
        self.addresses.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Options for a connection to the next address; each mongos has its turn.
    pub fn options(&self) -> ConnectOptions {
        let addresses = self.addresses();
        let turn = if self.routers { self.turn.fetch_add(1, Ordering::Relaxed) } else { 0 };
        ConnectOptions { address: addresses[turn % addresses.len()].clone(), ..self.template.clone() }
    }

    /// Opens a connection to a server that takes writes; after a failure the topology is looked up again, so that the
    /// next attempt goes where the primary is then.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(&self) -> Result<Connection, Error> {
        let opened = Connection::connect(&self.options()).await;
        if let Ok(connection) = &opened {
            self.learn(connection.hello());
        }
        match opened {
            Ok(connection) if takes_writes(connection.hello()) || !self.moves => Ok(connection),
            Ok(_) => {
                self.refresh().await?;
                Err(Error::NoPrimary("the member that was the primary is none now".into()))
            }
            Err(error) => {
                if self.moves {
                    self.refresh().await?;
                }
                Err(error.into())
            }
        }
    }

    /// Keeps what a member says of its replica set.
    fn learn(&self, hello: &Hello) {
        if let Some(name) = &hello.set_name {
            let set = Set { name: Some(name.clone()), members: hello.hosts.clone() };
            *self.set.write().unwrap_or_else(PoisonError::into_inner) = set;
        }
    }

    fn current(&self) -> Address {
        self.addresses()[0].clone()
    }

    fn keep(&self, addresses: Vec<Address>) {
        *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// The greeting of the first address that answers, which becomes the first of all.
    async fn greet_any(&self) -> Result<Hello, Error> {
        let mut failure = None;
        for address in self.addresses() {
            let options = ConnectOptions { address: address.clone(), ..self.template.clone() };
            match Connection::connect(&options).await {
                Ok(connection) => {
                    self.learn(connection.hello());
                    let mut addresses = self.addresses();
                    addresses.sort_by_key(|other| *other != address);
                    self.keep(addresses);
                    return Ok(connection.hello().clone());
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.map_or_else(|| Error::Uri("it names no host".into()), Error::Wire))
    }

    /// Asks the official driver where the primary is.
    async fn refresh(&self) -> Result<(), Error> {
        let set = self.set.read().unwrap_or_else(PoisonError::into_inner).clone();
        let primary = primary(&self.uri, set).await.map_err(|error| Error::NoPrimary(error.to_string()))?;
        self.keep(vec![primary]);
        Ok(())
    }
}

fn takes_writes(hello: &Hello) -> bool {
    hello.is_writable_primary || hello.is_mongos
}

/// The primary's address, by the driver's server selection. It starts from the hosts of the URI and the members of the set
/// that are known, so that any of them may be away.
async fn primary(uri: &str, set: Set) -> Result<Address, Box<dyn std::error::Error + Send + Sync>> {
    let mut options = ClientOptions::parse(uri).await?;
    options.repl_set_name = options.repl_set_name.or(set.name);
    let members = set.members.iter().filter_map(|member| ServerAddress::parse(member).ok());
    for member in members {
        if !options.hosts.contains(&member) {
            options.hosts.push(member);
        }
    }
    options.server_selection_timeout.get_or_insert(SELECTION_TIMEOUT);
    let client = Client::with_options(options)?;
    let hello = client.database("admin").run_command(mongodb::bson::doc! {"hello": 1}).await;
    client.shutdown().await;
    let hello = hello?;
    let name = hello.get_str("me").or_else(|_| hello.get_str("primary"))?;
    Ok(name.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(uri: &str) -> Result<Site, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Site::find(uri, Duration::from_secs(1)))
    }

    #[test]
    fn what_is_no_uri_says_how_to_write_one() {
        let message = find("localhost:27017").unwrap_err().to_string();
        assert!(message.contains("mongodb://localhost:27017"), "{message}");
    }

    #[test]
    fn a_closed_port_is_refused_by_name() {
        let message = find("mongodb://127.0.0.1:1").unwrap_err().to_string();
        assert!(message.contains("127.0.0.1:1 refused the connection"), "{message}");
    }

    #[test]
    fn mechanisms_that_the_lean_client_does_not_speak_are_said_so() {
        let message = find("mongodb://u:p@127.0.0.1:1/?authMechanism=PLAIN&authSource=$external")
            .unwrap_err()
            .to_string();
        assert!(message.contains("SCRAM-SHA-256") && message.contains("client: driver"), "{message}");
    }
}
