//! The server that load goes to: given by its address, found on the PATH, or embedded.

use std::io::{IsTerminal, Write, stderr};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use plimsoll_measure::environment::ServerKind;
use plimsoll_mongo::topology::Site;
use plimsoll_server::embedded::{self, Progress, Step};
use plimsoll_server::proxy::Proxy;
use plimsoll_server::{Cache, Profile, Server, Storage, mongod, process};
use plimsoll_wire::Address;

use crate::exit::{Deserves, Exit, Outcome};
use crate::injection::Owned;
use crate::run_dir;
use crate::terminal::say;

/// Which server, as meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A `mongod` from the PATH if there is one, else the embedded server.
    Any,
    /// The embedded server with a durability profile.
    Embedded(Profile),
    /// A `mongod` from the PATH.
    Mongod,
    /// A connection string.
    Uri(String),
    /// Several servers that know nothing of each other.
    Several(Vec<Choice>),
}

/// How servers are found and started.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// How long a command may take.
    pub timeout: Duration,
    /// Whether nothing is said on the way.
    pub quiet: bool,
    /// The storage engine's cache of a server that is started, in bytes; the server's own default if absent.
    pub cache_bytes: Option<u64>,
}

impl Manner {
    /// Without a word, and with the server's own defaults.
    pub const fn quiet(timeout: Duration) -> Self {
        Self { timeout, quiet: true, cache_bytes: None }
    }
}

/// A server that is there. Clones share it; what we started ends with the last of them.
#[derive(Clone, Debug)]
pub struct Place {
    /// How to reach it.
    pub site: Arc<Site>,
    /// What it is.
    pub kind: ServerKind,
    /// The process that we started, which ends with this value.
    pub server: Option<Owned>,
    /// The process of a server that others started, if it runs on this machine.
    process: Option<u32>,
    /// How the load reaches it: by way of the proxies, if there are any.
    pub road: Arc<Site>,
    /// Between the load and the server, for faults of the network.
    pub proxies: Vec<Arc<Proxy>>,
    /// Further servers that the load is spread over; they know nothing of each other.
    pub others: Vec<Place>,
}

impl FromStr for Choice {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text {
            "embedded" => Ok(Self::Embedded(Profile::Journaled)),
            "mongod" => Ok(Self::Mongod),
            _ if text.starts_with("mongodb://") || text.starts_with("mongodb+srv://") => {
                Ok(Self::Uri(text.to_owned()))
            }
            _ => match text.strip_prefix("embedded:") {
                Some(profile) => Ok(Self::Embedded(self::profile(profile)?)),
                None => bail!(
                    "--server {text}: write a URI such as mongodb://localhost:27017, or mongod, embedded, embedded:relaxed"
                ),
            },
        }
    }
}

/// How long one of several addresses of a name may take to answer.
const RESOLVE_LIMIT: Duration = Duration::from_secs(2);
/// More servers than this are refused.
const SERVERS_MAX: usize = 64;

/// The servers that the words name: one by `server`, several by `hosts`, or `count` embedded ones.
///
/// # Errors
/// When the words contradict each other, or name no server.
pub fn choice(server: Option<&str>, hosts: &[String], count: usize) -> anyhow::Result<Choice> {
    if count == 0 || count > SERVERS_MAX || hosts.len() > SERVERS_MAX {
        bail!("--count and --hosts: give from 1 to {SERVERS_MAX} servers");
    }
    match (server, hosts) {
        (Some(_), [_, ..]) => {
            bail!("--hosts names the servers already: leave out --server, or name one server only")
        }
        (None, [host]) => uri(host).parse(),
        (None, [_, ..]) => several(hosts),
        (server, []) if count > 1 => match server.map_or(Ok(Choice::Any), str::parse)? {
            Choice::Any => Ok(Choice::Several(vec![Choice::Embedded(Profile::Journaled); count])),
            Choice::Embedded(profile) => Ok(Choice::Several(vec![Choice::Embedded(profile); count])),
            _ => bail!(
                "--count starts embedded servers: say --server embedded, or name the servers with --hosts"
            ),
        },
        (server, []) => server.map_or(Ok(Choice::Any), str::parse),
    }
}

fn several(hosts: &[String]) -> anyhow::Result<Choice> {
    for (index, host) in hosts.iter().enumerate() {
        if hosts[..index].contains(host) {
            bail!("--hosts: {host} is named twice; name each server once");
        }
    }
    Ok(Choice::Several(hosts.iter().map(|host| uri(host).parse()).collect::<anyhow::Result<_>>()?))
}

/// `host:port` as a connection string to that server alone.
fn uri(host: &str) -> String {
    if host.contains("://") { host.to_owned() } else { format!("mongodb://{host}/?directConnection=true") }
}

/// A durability profile by its name.
///
/// # Errors
/// When there is none of that name.
pub fn profile(name: &str) -> anyhow::Result<Profile> {
    match name {
        "journaled" => Ok(Profile::Journaled),
        "relaxed" => Ok(Profile::Relaxed),
        other => Err(anyhow!("there is no profile `{other}`; there are journaled and relaxed")),
    }
}

impl Place {
    /// Finds or starts the server.
    ///
    /// # Errors
    /// When it cannot be installed, started or reached.
    pub fn open(choice: &Choice, manner: Manner, runtime: &tokio::runtime::Runtime) -> Outcome<Self> {
        let timeout = manner.timeout;
        let server = match choice {
            Choice::Uri(uri) => return Self::at(uri, timeout, runtime),
            Choice::Several(choices) => return Self::several(choices, manner, runtime),
            Choice::Any if mongod::find().is_none() => {
                start_embedded(Profile::Journaled, Storage::Temporary, manner)?
            }
            Choice::Embedded(profile) => start_embedded(*profile, Storage::Temporary, manner)?,
            Choice::Any | Choice::Mongod => {
                let options =
                    mongod::Options { cache_bytes: manner.cache_bytes, ..mongod::Options::default() };
                mongod::start(&options).context("start mongod").deserves(Exit::Server)?
            }
        };
        Ok(Self::started(server, timeout))
    }

    /// A server of the same kind on storage that a run has kept.
    ///
    /// # Errors
    /// When it cannot be installed or started.
    pub fn reopen(storage: &Path, kind: ServerKind, profile: Profile, timeout: Duration) -> Outcome<Self> {
        if kind == ServerKind::Mongod {
            let options =
                mongod::Options { storage: Storage::At(storage.to_owned()), ..mongod::Options::default() };
            let server = mongod::start(&options).context("start mongod").deserves(Exit::Server)?;
            return Ok(Self::started(server, timeout));
        }
        let manner = Manner { timeout, quiet: false, cache_bytes: None };
        Ok(Self::started(start_embedded(profile, Storage::At(storage.to_owned()), manner)?, timeout))
    }

    fn several(choices: &[Choice], manner: Manner, runtime: &tokio::runtime::Runtime) -> Outcome<Self> {
        let open = |choice: &Choice| Self::open(choice, manner, runtime);
        let places = choices.iter().map(open).collect::<Outcome<Vec<_>>>()?;
        if places.iter().any(|place| place.site.has_routers()) {
            let why = "is a mongos: list all mongos of one cluster in one URI (mongodb://a:27017,b:27017) with --server";
            let named = places.iter().find(|place| place.site.has_routers());
            let name = named.and_then(|place| place.site.addresses().first().map(ToString::to_string));
            return Err(anyhow!("--hosts: {} {why}", name.unwrap_or_default())).deserves(Exit::Usage);
        }
        Self::join(places).context("--hosts: name a server").deserves(Exit::Usage)
    }

    /// Several servers as one place; the first one has the others.
    pub fn join(places: Vec<Self>) -> Option<Self> {
        let mut places = places.into_iter();
        let first = places.next()?;
        Some(Self { others: places.collect(), ..first })
    }

    /// Moves the storage of every server that we started into the run directory; says whether there was any.
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

    /// How the load reaches each server.
    pub fn roads(&self) -> Vec<Arc<Site>> {
        self.all().map(|place| place.road.clone()).collect()
    }

    /// Processes of all servers, as far as they run on this machine.
    pub fn pids(&self) -> Vec<u32> {
        self.all().filter_map(Self::pid).collect()
    }

    fn started(server: Server, timeout: Duration) -> Self {
        let socket = server.address();
        let address = Address { host: socket.ip().to_string(), port: socket.port() };
        let site = Arc::new(Site::single(address, timeout));
        let kind = server.kind();
        let server = Some(Owned::new(server));
        Self {
            road: site.clone(),
            site,
            kind,
            server,
            process: None,
            proxies: Vec::new(),
            others: Vec::new(),
        }
    }

    fn at(uri: &str, timeout: Duration, runtime: &tokio::runtime::Runtime) -> Outcome<Self> {
        let site = runtime.block_on(Site::find(uri, timeout)).deserves(Exit::Server)?;
        let process = site.addresses().first().and_then(local_pid);
        let site = Arc::new(site);
        let kind = ServerKind::Address;
        Ok(Self {
            road: site.clone(),
            site,
            kind,
            server: None,
            process,
            proxies: Vec::new(),
            others: Vec::new(),
        })
    }

    /// Its process, if it runs on this machine. After a restart it is another one.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map_or(self.process, |server| server.server().pid())
    }

    /// Puts a proxy before each address, so that the network to it can be disturbed.
    ///
    /// # Errors
    /// When an address cannot be resolved, or the server not be reached by another one.
    pub fn put_proxies(&mut self, seed: u64) -> Outcome<()> {
        let mut proxies = Vec::new();
        for address in self.site.addresses() {
            let named = (address.host.as_str(), address.port);
            let mut resolved = named.to_socket_addrs().with_context(|| format!("resolve {address}"))?;
            let answers = |it: &SocketAddr| TcpStream::connect_timeout(it, RESOLVE_LIMIT).is_ok();
            let upstream = resolved.find(answers).with_context(|| format!("{address} does not answer"))?;
            proxies.push(Arc::new(Proxy::start(upstream, seed).context("start a proxy")?));
        }
        let own = |proxy: &Arc<Proxy>| Address { host: "127.0.0.1".into(), port: proxy.address().port() };
        let road = self.site.by_way_of(proxies.iter().map(own).collect()).deserves(Exit::Usage)?;
        (self.road, self.proxies) = (Arc::new(road), proxies);
        self.others.iter_mut().try_for_each(|other| other.put_proxies(seed))
    }
}

fn local_pid(address: &Address) -> Option<u32> {
    let ip =
        if address.host == "localhost" { "127.0.0.1".parse().ok()? } else { address.host.parse().ok()? };
    process::listener(ip, address.port)
}

/// The cache for what is installed.
///
/// # Errors
/// When no place for it is known.
pub fn cache() -> anyhow::Result<Cache> {
    Ok(Cache::locate()?)
}

/// Installs the embedded server unless it is there, and shows how far that is.
///
/// # Errors
/// What went wrong, and what is needed.
pub fn install(quiet: bool) -> anyhow::Result<()> {
    let cache = cache()?;
    if embedded::is_installed(&cache) {
        return Ok(());
    }
    if !quiet {
        say("Installing the embedded server. This takes some minutes and is done once.");
    }
    let mut shown = 0;
    embedded::install(&cache, &mut |progress| {
        if !quiet {
            show(&progress, &mut shown);
        }
    })?;
    Ok(())
}

fn show(progress: &Progress, shown: &mut u32) {
    let seconds = progress.elapsed_ns / 1_000_000_000;
    let text = match &progress.step {
        Step::Waiting => "another process installs it, waiting".to_owned(),
        Step::Fetching => "fetching the sources".to_owned(),
        Step::Compiling { begun, expected, name } => format!("compiling {begun} of about {expected}: {name}"),
        Step::Installed => "installed".to_owned(),
    };
    if stderr().is_terminal() {
        let end = if progress.step == Step::Installed { "\n" } else { "" };
        write!(stderr(), "\r\x1b[K  {seconds:>4} s  {text}{end}").unwrap_or_default();
        return;
    }
    // A log gets a line for every twentieth crate, not for each.
    let part = if let Step::Compiling { begun, .. } = progress.step { 1 + begun / 20 } else { 0 };
    if part == 0 || part > *shown {
        *shown = part.max(*shown);
        say(&format!("  {seconds:>4} s  {text}"));
    }
}

fn start_embedded(profile: Profile, storage: Storage, manner: Manner) -> Outcome<Server> {
    install(manner.quiet).deserves(Exit::Failed)?;
    let cache_bytes = manner.cache_bytes;
    let options = embedded::Options { profile, storage, cache_bytes, ..embedded::Options::default() };
    embedded::start(&cache()?, &options).context("start the embedded server").deserves(Exit::Server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_uri_or_by_kind() {
        assert_eq!("embedded".parse::<Choice>().unwrap(), Choice::Embedded(Profile::Journaled));
        assert_eq!("embedded:relaxed".parse::<Choice>().unwrap(), Choice::Embedded(Profile::Relaxed));
        assert_eq!("mongodb://h".parse::<Choice>().unwrap(), Choice::Uri("mongodb://h".into()));
        for (text, part) in
            [("localhost:27017", "mongodb://localhost:27017"), ("embedded:fast", "journaled and relaxed")]
        {
            assert!(text.parse::<Choice>().unwrap_err().to_string().contains(part), "{text}");
        }
    }
}
