//! Runs the server of the store, and the network in front of it.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::proxy::{Direction, Disturbance, Proxy};
use plimsoll_host::{Cache, Profile, Server};
use plimsoll_postgres::server::{self, Server as PostgresServer, Settings};
use plimsoll_process::home::Storage;

use super::kind::Backend;

/// The database of the store in MongoDB.
const DATABASE: &str = "workflow_kills";

/// The address of a store.
#[derive(Clone, Debug)]
pub enum Address {
    /// MongoDB.
    Mongodb {
        /// The URI.
        uri: String,
        /// The database.
        database: String,
    },
    /// PostgreSQL.
    Postgres {
        /// The URI.
        uri: String,
    },
}

/// A server with empty storage, behind a proxy. Both end with this value.
pub struct Testbed {
    proxy: Proxy,
    server: Store,
}

enum Store {
    Mongodb(Server),
    Postgres(PostgresServer),
}

impl Testbed {
    /// Starts both; the storage is temporary.
    ///
    /// # Errors
    /// The server is not installed, or does not start.
    pub fn start(backend: Backend, seed: u64) -> anyhow::Result<Self> {
        let cache = Cache::locate().context("find the cache")?;
        let server = match backend {
            Backend::Mongodb => Store::Mongodb(mongodb(&cache)?),
            Backend::Postgres => Store::Postgres(postgres(cache.root())?),
        };
        let proxy = Proxy::start(server.address()?, seed).context("start the proxy")?;
        Ok(Self { proxy, server })
    }

    /// The address without the proxy, for audits.
    ///
    /// # Errors
    /// The server has no address.
    pub fn direct(&self) -> anyhow::Result<Address> {
        Ok(self.server.at(self.server.address()?))
    }

    /// The address through the proxy, for engines.
    pub fn through_proxy(&self) -> Address {
        self.server.at(self.proxy.address())
    }

    /// Kills the server with -9, and restarts it after a time.
    ///
    /// # Errors
    /// It does not die, or does not start again.
    pub fn kill(&mut self, down: Duration) -> anyhow::Result<()> {
        match &mut self.server {
            Store::Mongodb(server) => server.kill()?,
            Store::Postgres(server) => server.kill()?,
        }
        thread::sleep(down);
        match &mut self.server {
            Store::Mongodb(server) => server.restart().context("start MongoDB again"),
            Store::Postgres(server) => server.restart().context("start PostgreSQL again"),
        }
    }

    /// Disturbs the network for a time: closes connections, resets them, or swallows all bytes.
    ///
    /// # Errors
    /// Too many disturbances last already.
    pub fn disturb(&self, which: u64, lasts: Duration) -> anyhow::Result<()> {
        let disturbance = match which % 3 {
            0 => Disturbance::Cut,
            1 => Disturbance::Reset,
            _ => Disturbance::HalfOpen { direction: Direction::Both },
        };
        let handle = self.proxy.begin(disturbance)?;
        thread::sleep(lasts);
        self.proxy.end(handle);
        Ok(())
    }
}

impl Store {
    fn address(&self) -> anyhow::Result<SocketAddr> {
        match self {
            Self::Mongodb(server) => Ok(server.address()),
            Self::Postgres(server) => {
                let uri = server.uri();
                let address = uri.rsplit('@').next().and_then(|rest| rest.split('/').next());
                address.and_then(|address| address.parse().ok()).context("read the address of PostgreSQL")
            }
        }
    }

    fn at(&self, address: SocketAddr) -> Address {
        match self {
            Self::Mongodb(_) => Address::Mongodb {
                uri: format!("mongodb://{address}/?directConnection=true"),
                database: DATABASE.into(),
            },
            Self::Postgres(_) => Address::Postgres { uri: format!("postgres://plimsoll@{address}/postgres") },
        }
    }
}

fn mongodb(cache: &Cache) -> anyhow::Result<Server> {
    ensure!(embedded::is_installed(cache), "the embedded server is missing: run `cargo xtask setup` first");
    let options = Options { profile: Profile::Journaled, cache_bytes: Some(128 << 20), ..Options::default() };
    embedded::start(cache, &options).context("start MongoDB")
}

fn postgres(cache: &Path) -> anyhow::Result<PostgresServer> {
    ensure!(server::is_installed(cache), "PostgreSQL is missing: run `cargo xtask setup` first");
    let settings = Settings { storage: Storage::Temporary, ..Settings::default() };
    PostgresServer::start(cache, &settings).context("start PostgreSQL")
}
