//! Finds the server to connect to: a replica set's primary, every mongos, or the only server; and the new primary after a
//! failover.
//!
//! The official driver reads the URI, SRV records included. A server that accepts writes is reached directly.
//! Otherwise the members are asked for the primary. A member of a replica set names the others, so one
//! address is enough to follow the set, unless the URI says `directConnection=true`. A primary of an earlier
//! election than the newest known one is not used: it has been replaced without noticing.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use plimsoll_wire::{Address, ConnectOptions, Connection, Error as WireError, Hello, ReadPreference};

use crate::concern::Concerns;
use crate::connection_string::moved;
use crate::error::{Error, is_final};
use crate::uri::{
    CONNECT_TIMEOUT, addresses, check_acknowledged, concerns, connect_options, driver_options, parse,
};

mod reader;

use reader::{LOOK_AGAIN, Members};

/// The time limit of a command if neither the scenario nor the URI sets one.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest silence while no server answers.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// The first wire version whose elections are compared by identity before version (MongoDB 6.0): "Server Discovery And
/// Monitoring", `updateRSFromPrimary`.
const ELECTION_FIRST: i32 = 17;

/// A deployment: connects to its current server, and finds its primary again.
#[derive(Debug)]
pub struct Deployment {
    uri: String,
    template: ConnectOptions,
    /// Whether the addresses are those of mongos routers.
    has_routers: bool,
    /// Whether the server to connect to may change.
    moves: bool,
    /// Whether the user's URI asks for one server, of any set or none.
    is_direct: bool,
    /// Whether the URI allows retries.
    allows: Retries,
    /// The longest wait for a first answer, if the URI sets one.
    selection: Option<Duration>,
    /// The replica set that the URI names: no other server is used.
    expected_set: Option<String>,
    /// The concerns of the URI.
    concerns: Concerns,
    /// The members that can answer reads.
    members: Members,
    addresses: RwLock<Vec<Address>>,
    set: RwLock<ReplicaSet>,
    elections: AtomicU64,
    /// Connections made so far, because routers take turns.
    turn: AtomicUsize,
}

/// The operations for which the URI allows retries by default.
#[derive(Clone, Copy, Debug, Default)]
struct Retries {
    writes: bool,
    reads: bool,
}

/// A replica set, as its members described it last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ReplicaSet {
    /// Its name, once a member has reported it.
    name: Option<String>,
    /// Its members, by their names within the set.
    members: Vec<String>,
    /// The members that never become the primary.
    passives: Vec<String>,
    /// The newest known election of a primary.
    election: Election,
}

/// An election of a primary: its identity and the version of the set's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Election {
    id: Option<[u8; 12]>,
    version: Option<i64>,
    /// Whether the version counts more than the identity.
    is_by_version: bool,
}

impl ReplicaSet {
    /// Whether a server is of this set. Without a known name, any server is.
    fn has(&self, hello: &Hello) -> bool {
        self.name.is_none() || self.name == hello.set_name
    }

    /// Whether a server believes that it is the primary although a later primary is known.
    fn has_replaced(&self, hello: &Hello) -> bool {
        hello.is_writable_primary && Election::of(hello).is_before(&self.election)
    }
}

impl Election {
    fn of(hello: &Hello) -> Self {
        let is_by_version = hello.max_wire_version < ELECTION_FIRST;
        Self { id: hello.election_id, version: hello.set_version, is_by_version }
    }

    /// The newest known election after a primary reported the election `self`; `seen` was the newest one before the report. Old
    /// servers count the two values separately.
    fn after(self, seen: &Self) -> Self {
        if !self.is_by_version {
            return self;
        }
        let id = if self.version.is_some() { self.id.or(seen.id) } else { seen.id };
        Self { id, version: self.version.max(seen.version), ..self }
    }

    /// Whether this election was earlier than `other`.
    fn is_before(&self, other: &Self) -> bool {
        if !self.is_by_version {
            return (self.id, self.version) < (other.id, other.version);
        }
        // Old servers are compared only if both report both values.
        let whole = |it: &Self| it.version.zip(it.id);
        whole(self).zip(whole(other)).is_some_and(|(first, second)| first < second)
    }
}

impl Deployment {
    /// Reads `uri`; resolves SRV records but does not connect. `timeout` bounds each command on its connections; the URI's
    /// `timeoutMS`, or else its `socketTimeoutMS`, replaces [`COMMAND_TIMEOUT`], the default, but no other limit. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// If the URI is unusable.
    pub async fn new(uri: &str, timeout: Duration) -> Result<Self, Error> {
        let parsed = parse(uri)?;
        let options = driver_options(uri).await?;
        check_acknowledged(&options)?;
        let addresses = addresses(&options)?;
        let timeout = parsed.exchange_limit().filter(|_| timeout == COMMAND_TIMEOUT).unwrap_or(timeout);
        let any_host = parsed.allows_invalid_hostnames;
        let template = connect_options(&options, any_host, addresses[0].clone(), timeout)?;
        let moves = options.direct_connection != Some(true);
        Ok(Self {
            uri: uri.to_owned(),
            template,
            has_routers: false,
            moves,
            is_direct: !moves,
            allows: Retries {
                writes: options.retry_writes != Some(false),
                reads: options.retry_reads != Some(false),
            },
            selection: parsed.selection.map(|limit| limit.min(parsed.timeout.unwrap_or(limit))),
            expected_set: options.repl_set_name.clone(),
            concerns: concerns(&options)?,
            members: Members::of(&options),
            addresses: RwLock::new(addresses),
            set: RwLock::new(ReplicaSet { name: options.repl_set_name, ..ReplicaSet::default() }),
            elections: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
        })
    }

    /// Finds the deployment of `uri`: connects once to learn its kind. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// If the URI is unusable or the deployment is unreachable.
    pub async fn find(uri: &str, timeout: Duration) -> Result<Self, Error> {
        Self::find_reporting(uri, timeout, &mut |_| {}).await
    }

    /// Finds the deployment of `uri` as [`Self::find`] does, and reports in one line if no server answers for a second although
    /// the URI's `serverSelectionTimeoutMS` lets it wait longer.
    ///
    /// # Errors
    /// If the URI is unusable or the deployment is unreachable.
    pub async fn find_reporting(
        uri: &str,
        timeout: Duration,
        report: &mut (dyn FnMut(String) + Send),
    ) -> Result<Self, Error> {
        let mut deployment = Self::new(uri, timeout).await?;
        let hello = match deployment.greet_in_time(report).await {
            // A member that restarts names its set later: the driver waits for the set.
            Err(Error::OtherSet { found: None, .. }) if deployment.moves => {
                deployment.follow().await?;
                deployment.greet_any().await?
            }
            greeted => greeted?,
        };
        deployment.has_routers = hello.is_mongos;
        let follows = deployment.moves;
        let is_replica_set = deployment.replica_set().name.is_some() || deployment.addresses().len() > 1;
        deployment.moves = follows && is_replica_set && !hello.is_mongos;
        // A primary that was isolated does not know its successor; the other members do.
        if deployment.has_several_members() {
            deployment.learn_members().await;
        }
        if follows && !deployment.is_primary(&hello) {
            deployment.follow().await?;
        } else if !hello.is_mongos {
            deployment.set_addresses(vec![deployment.first_address()]);
        }
        Ok(deployment)
    }

    /// A deployment of one server without authentication or TLS.
    pub fn single(address: Address, timeout: Duration) -> Self {
        let uri = moved("", std::slice::from_ref(&address), None);
        let mut template = ConnectOptions::new(address.clone());
        template.timeout = Some(timeout);
        template.connect_timeout = CONNECT_TIMEOUT;
        Self::fixed(uri, template, vec![address], false)
    }

    /// The same deployment behind proxies: one proxy for each of its addresses, in their order. The addresses stay the same after
    /// a failover. The options of the URI stay too, except those that find servers.
    ///
    /// # Errors
    /// [`Error::TlsBehindProxy`] if the deployment uses TLS, [`Error::SocksBehindProxy`] if it uses a SOCKS proxy; [`Error::Uri`] without an
    /// address.
    pub fn behind(&self, proxies: Vec<Address>) -> Result<Self, Error> {
        if self.template.tls.is_some() {
            return Err(Error::TlsBehindProxy);
        }
        if self.template.proxy.is_some() {
            return Err(Error::SocksBehindProxy);
        }
        let first = proxies.first().ok_or_else(|| Error::Uri("there is no proxy".into()))?;
        let template = ConnectOptions { address: first.clone(), ..self.template.clone() };
        let has_routers = self.has_routers || proxies.len() > 1;
        // A DNS record may name the source, and the proxies have none.
        let auth_source = template.credential.as_ref().map(|credential| credential.source.as_str());
        let uri = moved(&self.uri, &proxies, auth_source);
        Ok(Self {
            allows: self.allows,
            selection: self.selection,
            expected_set: self.expected_set.clone(),
            concerns: self.concerns.clone(),
            members: self.members.behind(),
            ..Self::fixed(uri, template, proxies, has_routers)
        })
    }

    fn fixed(uri: String, template: ConnectOptions, addresses: Vec<Address>, has_routers: bool) -> Self {
        Self {
            uri,
            template,
            has_routers,
            moves: false,
            is_direct: false,
            allows: Retries::default(),
            selection: None,
            expected_set: None,
            concerns: Concerns::default(),
            members: Members::default(),
            addresses: RwLock::new(addresses),
            set: RwLock::default(),
            elections: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    /// Whether the user's URI asks for one server, of any set or none.
    pub const fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Whether connections go to mongos routers. Known after [`Self::find`].
    pub const fn has_routers(&self) -> bool {
        self.has_routers
    }

    /// Whether writes to a server with this description are retried by default: on a replica set of several members or a mongos, with
    /// sessions, unless the URI says `retryWrites=false`.
    pub fn retries_writes(&self, hello: &Hello) -> bool {
        self.allows.writes && may_elect(hello) && hello.numbers_writes()
    }

    /// Whether reads from a server with this description are retried by default: on a replica set of several members or a mongos,
    /// unless the URI says `retryReads=false`.
    pub fn retries_reads(&self, hello: &Hello) -> bool {
        self.allows.reads && may_elect(hello)
    }

    /// Whether any client that knows an address may connect: without a user and without TLS.
    pub const fn is_open(&self) -> bool {
        self.template.tls.is_none() && self.template.credential.is_none()
    }

    /// The URI as given; behind proxies, with their addresses.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The URI's concerns, for operations that set none.
    pub const fn concerns(&self) -> &Concerns {
        &self.concerns
    }

    /// The time limit of a command.
    pub const fn timeout(&self) -> Option<Duration> {
        self.template.timeout
    }

    /// Every address of connections: one, or each mongos.
    pub fn addresses(&self) -> Vec<Address> {
        self.addresses.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A URI of the addresses alone, without the options of the user's URI.
    pub fn plain_uri(&self) -> String {
        moved("", &self.addresses(), None)
    }

    /// Options for a connection to the next address; routers take turns.
    pub fn options(&self) -> ConnectOptions {
        let addresses = self.addresses();
        let turn = if self.has_routers { self.turn.fetch_add(1, Ordering::Relaxed) } else { 0 };
        self.options_for(addresses[turn % addresses.len()].clone())
    }

    fn options_for(&self, address: Address) -> ConnectOptions {
        ConnectOptions { address, ..self.template.clone() }
    }

    /// Connects to a server that accepts writes: the last known one, or the primary that the members name. With known peers, waits
    /// as long as the URI's `connectTimeoutMS` and `serverSelectionTimeoutMS` allow, 5 s each by default.
    ///
    /// # Errors
    /// The reason why no server could be reached.
    pub async fn connect(&self) -> Result<Connection, Error> {
        match self.open(&self.options()).await {
            Ok(connection) if !self.moves || self.is_primary(connection.hello()) => Ok(connection),
            Err(error) if !self.moves || error.is_final() => Err(error),
            // A server without known peers names no other address to try.
            Err(error @ Error::Wire(_)) if self.is_alone() => Err(error),
            _ => self.follow().await,
        }
    }

    /// Whether no other server is known: the only address has not named a replica set.
    fn is_alone(&self) -> bool {
        self.addresses().len() == 1 && self.replica_set().members.is_empty()
    }

    /// Finds the primary among the members, and stores its address.
    async fn follow(&self) -> Result<Connection, Error> {
        let connection = self.connect_for(&ReadPreference::default()).await?;
        self.set_addresses(vec![connection.address().clone()]);
        Ok(connection)
    }

    async fn open(&self, options: &ConnectOptions) -> Result<Connection, Error> {
        let connection = Connection::connect(options).await?;
        match self.other_set(&options.address, connection.hello()) {
            Some(error) => Err(error),
            None => {
                self.learn(connection.hello());
                Ok(connection)
            }
        }
    }

    /// The error for a server of another replica set than the URI names.
    fn other_set(&self, address: &Address, hello: &Hello) -> Option<Error> {
        let expected = self.expected_set.clone().filter(|set| Some(set) != hello.set_name.as_ref())?;
        Some(Error::OtherSet { address: address.clone(), expected, found: hello.set_name.clone() })
    }

    /// Stores a member's description of the replica set, unless it is a replaced primary or a member of another set.
    fn learn(&self, hello: &Hello) {
        let Some(name) = &hello.set_name else { return };
        let mut set = self.set.write().unwrap_or_else(PoisonError::into_inner);
        if !set.has(hello) || set.has_replaced(hello) {
            return;
        }
        let seen = Election::of(hello).after(&set.election);
        let election = if hello.is_writable_primary { seen } else { set.election };
        if election != set.election {
            self.elections.fetch_add(1, Ordering::Relaxed);
        }
        let (members, passives) = (hello.hosts.clone(), hello.passives.clone());
        *set = ReplicaSet { name: Some(name.clone()), members, passives, election };
    }

    /// The number of elections that the answers of members have shown so far.
    pub fn elections(&self) -> u64 {
        self.elections.load(Ordering::Relaxed)
    }

    /// Whether a server accepts writes of this deployment, and no later primary is known.
    fn is_primary(&self, hello: &Hello) -> bool {
        takes_writes(hello) && self.is_member(hello)
    }

    /// Whether a server belongs to the known replica set, and is no primary of an earlier election.
    fn is_member(&self, hello: &Hello) -> bool {
        let set = self.known_set();
        set.has(hello) && !set.has_replaced(hello)
    }

    /// Whether a server believes that it is the primary although a later primary is known.
    pub fn is_replaced(&self, hello: &Hello) -> bool {
        self.known_set().has_replaced(hello)
    }

    fn known_set(&self) -> RwLockReadGuard<'_, ReplicaSet> {
        self.set.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn replica_set(&self) -> ReplicaSet {
        self.known_set().clone()
    }

    fn first_address(&self) -> Address {
        self.addresses()[0].clone()
    }

    fn set_addresses(&self, addresses: Vec<Address>) {
        *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// The greeting of the first address that answers. Asks again for as long as the URI's `serverSelectionTimeoutMS` allows, and
    /// reports a long wait. If the URI has no such option, asks each address once.
    async fn greet_in_time(&self, report: &mut (dyn FnMut(String) + Send)) -> Result<Hello, Error> {
        let Some(limit) = self.selection else { return self.greet_any().await };
        let mut failure = None;
        let attempts = async {
            loop {
                match self.greet_any().await {
                    Err(Error::Wire(error)) if !is_final(&error) => failure = Some(error),
                    settled => return settled,
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let found = {
            let mut attempts = pin!(attempts);
            match tokio::time::timeout(limit.min(SILENCE_MAX), attempts.as_mut()).await {
                Err(_) if limit > SILENCE_MAX => {
                    report(self.awaited(limit));
                    tokio::time::timeout(limit - SILENCE_MAX, attempts).await
                }
                found => found,
            }
        };
        let silent = || WireError::Timeout { address: self.first_address(), limit };
        found.unwrap_or_else(|_| Err(Error::NoAnswer { limit, cause: failure.unwrap_or_else(silent) }))
    }

    /// A line about the wait for a first answer.
    fn awaited(&self, limit: Duration) -> String {
        let addresses: Vec<_> = self.addresses().iter().map(ToString::to_string).collect();
        let (all, limit_s) = (addresses.join(", "), limit.as_secs_f64());
        format!("waiting for {all}: no answer yet, up to {limit_s} s (serverSelectionTimeoutMS)")
    }

    /// The greeting of the first address that answers; that address moves to the front.
    async fn greet_any(&self) -> Result<Hello, Error> {
        let mut failure = None;
        for address in self.addresses() {
            match self.open(&self.options_for(address.clone())).await {
                Ok(connection) => {
                    let mut addresses = self.addresses();
                    addresses.sort_by_key(|other| *other != address);
                    self.set_addresses(addresses);
                    return Ok(connection.hello().clone());
                }
                // Another set says more than a server that is down.
                Err(_) if matches!(failure, Some(Error::OtherSet { .. })) => {}
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| Error::Uri("it names no host".into())))
    }
}

/// Whether an election may move the load to another server. A set of one member elects no other member: a
/// retry by default would only hide its outages.
fn may_elect(hello: &Hello) -> bool {
    hello.is_mongos || hello.hosts.len() + hello.passives.len() > 1
}

fn takes_writes(hello: &Hello) -> bool {
    hello.is_writable_primary || hello.is_mongos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_limit_of_a_uri_bounds_the_wait_for_a_server_and_makes_it_wait() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for address in [silent.local_addr().unwrap(), closed] {
            let began = plimsoll_measure::clock::now();
            let said = find(&format!("mongodb://{address}/?serverSelectionTimeoutMS=300"));
            let waited = Duration::from_nanos(plimsoll_measure::clock::now().since(began));
            assert!(waited >= Duration::from_millis(300), "{address}: {waited:?}: {said}");
            // The time limit of a command is 1 s.
            assert!(waited < Duration::from_millis(900), "{address}: {waited:?}: {said}");
        }
    }

    #[test]
    fn a_connection_without_a_limit_waits_as_long_as_the_search_for_a_server() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        let said = find(&format!("mongodb://{address}/?connectTimeoutMS=0&timeoutMS=300"));
        assert!(said.contains("did not answer within 300ms"), "{said}");
    }

    #[test]
    fn a_silent_server_is_reported_with_the_options_that_raise_its_limits() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        for limits in ["connectTimeoutMS=100", "timeoutMS=100"] {
            let said = find(&format!("mongodb://{address}/?{limits}"));
            assert!(said.contains("did not answer within 100ms"), "{said}");
            assert!(
                said.contains("in the URI (`timeoutMS=30000`, for connections `connectTimeoutMS=30000` too)"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_long_wait_for_a_server_is_reported_once_and_its_error_names_the_time() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for (limit, expected, waited) in [
            (
                1300,
                vec![format!("waiting for {closed}: no answer yet, up to 1.3 s (serverSelectionTimeoutMS)")],
                "1.3 s",
            ),
            (300, Vec::new(), "0.3 s"),
        ] {
            let uri = format!("mongodb://{closed}/?serverSelectionTimeoutMS={limit}");
            let mut reported = Vec::new();
            let mut report = |line| reported.push(line);
            let find = Deployment::find_reporting(&uri, COMMAND_TIMEOUT, &mut report);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let error = runtime.block_on(find).unwrap_err();
            assert_eq!(reported, expected);
            let words = format!(
                "after a wait of {waited} (serverSelectionTimeoutMS): {closed} refused the connection"
            );
            assert!(error.to_string().contains(&words), "{error}");
            assert!(!error.is_final() && !error.is_of_the_uri(), "{error:?}");
        }
    }

    fn find(uri: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Deployment::find(uri, Duration::from_secs(1))).unwrap_err().to_string()
    }

    #[test]
    fn options_of_the_address_stay_behind_proxies_except_those_that_find_servers() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let proxies = ["127.0.0.1:5", "127.0.0.1:6"].map(|it| it.parse::<Address>().unwrap());
        for (uri, count, expected) in [
            ("mongodb://h:1", 1, "mongodb://127.0.0.1:5/?directConnection=true"),
            (
                "mongodb://h:1,h:2/?ReplicaSet=rs&appName=shop&compressors=zlib&w=2&maxPoolSize=3&loadBalanced=false",
                1,
                "mongodb://127.0.0.1:5/?directConnection=true&appName=shop&compressors=zlib&w=2&maxPoolSize=3",
            ),
            (
                "mongodb://ann:w%40rd@h:1/users?timeoutMS=700&readConcernLevel=local",
                1,
                "mongodb://ann:w%40rd@127.0.0.1:5/users?directConnection=true&timeoutMS=700&readConcernLevel=local&authSource=users",
            ),
            (
                "mongodb://ann:word@h:1/?AuthSource=b",
                2,
                "mongodb://ann:word@127.0.0.1:5,127.0.0.1:6/?AuthSource=b",
            ),
            ("mongodb://h:1,h:2/?directConnection=false", 2, "mongodb://127.0.0.1:5,127.0.0.1:6/"),
            ("mongodb://%2Ftmp%2Fa.sock", 1, "mongodb://127.0.0.1:5/?directConnection=true"),
        ] {
            let deployment = runtime.block_on(Deployment::new(uri, COMMAND_TIMEOUT)).unwrap();
            let route = deployment.behind(proxies[..count].to_vec()).unwrap();
            assert_eq!(route.uri(), expected, "{uri}");
            let again = runtime.block_on(Deployment::new(route.uri(), COMMAND_TIMEOUT)).unwrap();
            assert_eq!(again.addresses(), route.addresses(), "{uri}");
            assert_eq!((again.timeout(), again.concerns()), (route.timeout(), route.concerns()), "{uri}");
        }
    }

    #[test]
    fn an_invalid_uri_is_refused_with_an_example() {
        let message = find("localhost:27017");
        assert!(message.contains("mongodb://localhost:27017"), "{message}");
    }

    #[test]
    fn a_failing_name_service_is_no_fault_of_the_address() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let uri = "mongodb+srv://nowhere.invalid";
        let error = runtime.block_on(Deployment::new(uri, COMMAND_TIMEOUT)).unwrap_err();
        assert!(!error.is_of_the_uri() && error.to_string().contains("correct the host name"), "{error}");
    }

    #[test]
    fn a_closed_port_is_refused_with_its_address() {
        let message = find("mongodb://127.0.0.1:1");
        assert!(message.contains("127.0.0.1:1 refused the connection"), "{message}");
    }

    #[test]
    fn unsupported_settings_are_refused_with_an_alternative() {
        let kerberos = find("mongodb://u@127.0.0.1:1/?authMechanism=GSSAPI");
        assert!(
            kerberos.contains("this build has no GSSAPI") && kerberos.contains("SCRAM-SHA-256"),
            "{kerberos}"
        );
        let ca = find("mongodb://localhost/?tls=true&tlsCAFile=/no/such/file");
        assert!(ca.contains("correct tlsCAFile"), "{ca}");
        let unacknowledged = find("mongodb://localhost/?w=0");
        assert!(unacknowledged.contains("write_concern"), "{unacknowledged}");
    }

    /// Elections that primaries report in turn, and the newest known afterwards.
    #[test]
    fn the_newest_election_is_kept_although_a_primary_reports_a_part_of_it() {
        let election = |wire, id: Option<u8>, version| {
            let id = id.map(|byte| [byte; 12]);
            Election { id, version, is_by_version: wire < ELECTION_FIRST }
        };
        for (wire, known, seen, newest) in [
            (21, (Some(1), Some(1)), (Some(2), Some(1)), (Some(2), Some(1))),
            (21, (Some(1), Some(2)), (Some(2), Some(1)), (Some(2), Some(1))),
            (13, (Some(1), Some(1)), (None, Some(2)), (Some(1), Some(2))),
            (13, (Some(2), Some(1)), (None, None), (Some(2), Some(1))),
            (13, (Some(2), Some(1)), (Some(1), Some(2)), (Some(1), Some(2))),
            (13, (Some(2), Some(1)), (Some(3), None), (Some(2), Some(1))),
        ] {
            let known = election(wire, known.0, known.1);
            assert_eq!(election(wire, seen.0, seen.1).after(&known), election(wire, newest.0, newest.1));
        }
    }

    #[test]
    fn a_member_of_another_set_changes_nothing_and_gets_no_writes() {
        let hello = |set: Option<&str>, host: &str, id: u8| {
            let mut hello = Hello::default();
            (hello.set_name, hello.hosts) = (set.map(str::to_owned), vec![host.to_owned()]);
            (hello.is_writable_primary, hello.max_wire_version) = (true, 21);
            hello.election_id = Some([id; 12]);
            hello
        };
        let deployment = Deployment::single("h:1".parse().unwrap(), Duration::from_secs(1));
        let (own, other) = (hello(Some("a"), "h:1", 1), hello(Some("b"), "h:2", 9));
        deployment.learn(&own);
        let known = deployment.replica_set();
        deployment.learn(&other);
        assert_eq!((deployment.replica_set(), deployment.elections()), (known, 1));
        assert!(deployment.is_primary(&own) && !deployment.is_primary(&other));
        assert!(
            !deployment.is_primary(&hello(None, "h:1", 1)),
            "a server that left the set is not its primary"
        );
        deployment.learn(&hello(Some("a"), "h:1", 2));
        assert_eq!((deployment.is_replaced(&own), deployment.elections()), (true, 2));
    }

    #[test]
    fn retries_follow_the_description_of_the_selected_server() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let deployment = |options| {
            let uri = format!("mongodb://127.0.0.1:1/?{options}");
            runtime.block_on(Deployment::new(&uri, Duration::from_secs(1))).unwrap()
        };
        let server = |is_mongos, set: Option<&str>, hosts: u16, has_sessions| {
            let mut hello = Hello::default();
            (hello.is_mongos, hello.set_name) = (is_mongos, set.map(str::to_owned));
            hello.hosts = (0..hosts).map(|port| format!("h:{port}")).collect();
            hello.has_sessions = has_sessions;
            hello
        };
        let member = |hosts, has_sessions| server(false, Some("rs"), hosts, has_sessions);
        let router = server(true, None, 0, true);
        for (options, hello, expected) in [
            ("", member(3, true), (true, true)),
            ("", member(3, false), (false, true)),
            ("", member(1, true), (false, false)),
            ("", router.clone(), (true, true)),
            ("", server(false, None, 0, true), (false, false)),
            ("retryWrites=false", router.clone(), (false, true)),
            ("retryReads=false", router, (true, false)),
        ] {
            let deployment = deployment(options);
            let retries = (deployment.retries_writes(&hello), deployment.retries_reads(&hello));
            assert_eq!(retries, expected, "{options} {hello:?}");
        }
    }

    #[test]
    fn an_earlier_election_is_recognised_by_the_rules_of_its_version() {
        let election = |wire, id: Option<u8>, version| {
            let id = id.map(|byte| [byte; 12]);
            let mut hello = Hello::default();
            (hello.max_wire_version, hello.election_id, hello.set_version) = (wire, id, version);
            Election::of(&hello)
        };
        for (wire, first, second, is_before) in [
            (21, (Some(1), Some(1)), (Some(2), Some(1)), true),
            (21, (Some(2), Some(1)), (Some(1), Some(9)), false),
            (21, (Some(1), Some(1)), (Some(1), Some(2)), true),
            (21, (None, Some(1)), (Some(1), Some(1)), true),
            (13, (Some(2), Some(1)), (Some(1), Some(2)), true),
            (13, (None, Some(1)), (Some(1), Some(2)), false),
            (21, (None, None), (None, None), false),
        ] {
            let (first, second) = (election(wire, first.0, first.1), election(wire, second.0, second.1));
            assert_eq!(first.is_before(&second), is_before, "{first:?} {second:?}");
        }
    }
}
