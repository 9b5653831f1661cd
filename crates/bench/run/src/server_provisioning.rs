//! Finds or starts the server of a load: by its address, on the PATH, or embedded.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use plimsoll_deployment::{Deployment, warnings};
use plimsoll_host::proxy::Proxy;
use plimsoll_host::{PowerLoss, Profile, Server, Storage, embedded, mongod, process};
use plimsoll_measure::environment::ServerKind;
use plimsoll_wire::Address;

use crate::console::{Console, Silent};
use crate::exit::{Deserves, Exit, Failure, Outcome};
use crate::injection::Owned;
use crate::run_dir;

mod choice;
mod facts;
mod install;

pub use choice::{Choice, ServerAddress, canonical_address, choice, profile};
pub use install::{cache, install};

/// The options for finding and starting servers.
#[derive(Clone, Copy, Debug)]
pub struct StartOptions {
    /// The time limit of a command.
    pub timeout: Duration,
    /// The output of progress messages.
    pub console: &'static dyn Console,
    /// The cache for the storage engine of a started server, in bytes. `None`: the server's default.
    pub cache_bytes: Option<u64>,
    /// Whether an embedded server can lose its power.
    pub power_loss: PowerLoss,
}

impl StartOptions {
    /// Shows no messages, and uses the server's defaults.
    pub const fn quiet(timeout: Duration) -> Self {
        Self { timeout, console: &Silent, cache_bytes: None, power_loss: PowerLoss::Impossible }
    }
}

/// A running server. Clones share it. A server that Plimsoll started ends with the last clone.
#[derive(Clone, Debug)]
pub struct RunningServer {
    /// The deployment, addressed directly.
    pub deployment: Arc<Deployment>,
    /// The kind of the server.
    pub kind: ServerKind,
    /// The process, if Plimsoll started it. It ends with this value.
    pub server: Option<Owned>,
    /// The process ID of a server that others started, if it runs on this machine.
    process: Option<u32>,
    /// The deployment as the load reaches it: through the proxies, if there are any.
    pub route: Arc<Deployment>,
    /// The proxies between the load and the server, for network faults.
    pub proxies: Vec<Arc<Proxy>>,
    /// Further independent servers that share the load.
    pub others: Vec<RunningServer>,
}

/// The time limit for connecting to one address of a host name.
const RESOLVE_LIMIT: Duration = Duration::from_secs(2);

impl RunningServer {
    /// Finds or starts the server.
    ///
    /// # Errors
    /// When it cannot be installed, started or reached.
    pub fn open(choice: &Choice, start: StartOptions, runtime: &tokio::runtime::Runtime) -> Outcome<Self> {
        let timeout = start.timeout;
        let server = match choice {
            Choice::Uri(uri) => return Self::at(uri, start, runtime),
            Choice::Several(choices) => return Self::several(choices, start, runtime),
            Choice::Any if mongod::find().is_none() => {
                start_embedded(Profile::Journaled, Storage::Temporary, start)?
            }
            Choice::Embedded(profile) => start_embedded(*profile, Storage::Temporary, start)?,
            Choice::Any | Choice::Mongod => {
                let options =
                    mongod::Options { cache_bytes: start.cache_bytes, ..mongod::Options::default() };
                mongod::start(&options).context("start mongod").deserves(Exit::Server)?
            }
        };
        Ok(Self::started(server, timeout))
    }

    /// Starts a server of the same kind on storage that a run saved.
    ///
    /// # Errors
    /// When it cannot be installed or started.
    pub fn reopen(storage: &Path, kind: ServerKind, profile: Profile, start: StartOptions) -> Outcome<Self> {
        if kind == ServerKind::Mongod {
            let options =
                mongod::Options { storage: Storage::At(storage.to_owned()), ..mongod::Options::default() };
            let server = mongod::start(&options).context("start mongod").deserves(Exit::Server)?;
            return Ok(Self::started(server, start.timeout));
        }
        let server = start_embedded(profile, Storage::At(storage.to_owned()), start)?;
        Ok(Self::started(server, start.timeout))
    }

    fn several(choices: &[Choice], start: StartOptions, runtime: &tokio::runtime::Runtime) -> Outcome<Self> {
        let open = |choice: &Choice| Self::open(choice, start, runtime);
        let places = choices.iter().map(open).collect::<Outcome<Vec<_>>>()?;
        if places.iter().any(|place| place.deployment.has_routers()) {
            let why = "is a mongos: list all mongos of one cluster in one URI (mongodb://a:27017,b:27017) with --server";
            let named = places.iter().find(|place| place.deployment.has_routers());
            let name = named.and_then(|place| place.deployment.addresses().first().map(ToString::to_string));
            return Err(anyhow!("--hosts: {} {why}", name.unwrap_or_default())).deserves(Exit::Usage);
        }
        Self::join(places).context("--hosts: name a server").deserves(Exit::Usage)
    }

    /// Combines several servers: the first one holds the others.
    pub fn join(places: Vec<Self>) -> Option<Self> {
        let mut places = places.into_iter();
        let first = places.next()?;
        Some(Self { others: places.collect(), ..first })
    }

    /// Moves the storage of every server that Plimsoll started into the run directory. Returns whether there was any.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn keep(self, run: &Path) -> anyhow::Result<bool> {
        let Self { server, others, .. } = self;
        let servers = std::iter::once(server).chain(others.into_iter().map(|other| other.server));
        let mut kept = false;
        for (index, server) in servers.flatten().filter_map(Owned::into_server).enumerate() {
            server.keep_storage(&run_dir::storage(run, index)).context("keep the server's storage")?;
            kept = true;
        }
        Ok(kept)
    }

    /// Every server.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// The deployment of each server as the load reaches it.
    pub fn routes(&self) -> Vec<Arc<Deployment>> {
        self.all().map(|place| place.route.clone()).collect()
    }

    /// The processes of all servers that run on this machine.
    pub fn pids(&self) -> Vec<u32> {
        self.all().filter_map(Self::pid).collect()
    }

    fn started(server: Server, timeout: Duration) -> Self {
        let socket = server.address();
        let address = Address { host: socket.ip().to_string(), port: socket.port() };
        let deployment = Arc::new(Deployment::single(address, timeout));
        let kind = server.kind();
        let server = Some(Owned::new(server));
        Self {
            route: deployment.clone(),
            deployment,
            kind,
            server,
            process: None,
            proxies: Vec::new(),
            others: Vec::new(),
        }
    }

    fn at(uri: &str, start: StartOptions, runtime: &tokio::runtime::Runtime) -> Outcome<Self> {
        warnings(uri).iter().for_each(|warning| start.console.warn(warning));
        let mut report = |line: String| start.console.warn(&line);
        let found = runtime.block_on(Deployment::find_reporting(uri, start.timeout, &mut report));
        let deployment = found.map_err(|error| Failure {
            exit: if error.is_of_the_uri() { Exit::Usage } else { Exit::Server },
            error: error.into(),
        })?;
        let process = deployment.addresses().first().and_then(local_pid);
        let deployment = Arc::new(deployment);
        let kind = ServerKind::Address;
        Ok(Self {
            route: deployment.clone(),
            deployment,
            kind,
            server: None,
            process,
            proxies: Vec::new(),
            others: Vec::new(),
        })
    }

    /// Its process, if it runs on this machine. A restart changes it.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map_or(self.process, |server| server.server().pid())
    }

    /// Puts a proxy in front of each address, so that faults can disturb the network.
    ///
    /// # Errors
    /// When an address cannot be resolved, or the server cannot be reached through a proxy.
    pub fn put_proxies(&mut self, seed: u64) -> Outcome<()> {
        let mut proxies = Vec::new();
        for address in self.deployment.addresses() {
            let named = (address.host.as_str(), address.port);
            let mut resolved = named.to_socket_addrs().with_context(|| format!("resolve {address}"))?;
            let answers = |it: &SocketAddr| TcpStream::connect_timeout(it, RESOLVE_LIMIT).is_ok();
            let upstream = resolved.find(answers).with_context(|| format!("{address} does not answer"))?;
            proxies.push(Arc::new(Proxy::start(upstream, seed).context("start a proxy")?));
        }
        let own = |proxy: &Arc<Proxy>| Address { host: "127.0.0.1".into(), port: proxy.address().port() };
        let route = self.deployment.behind(proxies.iter().map(own).collect()).deserves(Exit::Usage)?;
        (self.route, self.proxies) = (Arc::new(route), proxies);
        self.others.iter_mut().try_for_each(|other| other.put_proxies(seed))
    }
}

fn local_pid(address: &Address) -> Option<u32> {
    let ip =
        if address.host == "localhost" { "127.0.0.1".parse().ok()? } else { address.host.parse().ok()? };
    process::listener(ip, address.port)
}

fn start_embedded(profile: Profile, storage: Storage, start: StartOptions) -> Outcome<Server> {
    install(start.console).deserves(Exit::Failed)?;
    let StartOptions { cache_bytes, power_loss, .. } = start;
    let options =
        embedded::Options { profile, storage, cache_bytes, power_loss, ..embedded::Options::default() };
    embedded::start(&cache()?, &options).context("start the embedded server").deserves(Exit::Server)
}
