//! Finds or starts the database behind the engine: MongoDB as for any load, or PostgreSQL.

use anyhow::Context;
use plimsoll_host::fault::Fault as Injection;
use plimsoll_load::fault::Fault;
use plimsoll_measure::environment::{ServerFacts, ServerKind};
use plimsoll_postgres::server::{self, Server, Settings};
use plimsoll_postgres::workflow::version;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::injection::{self, Done, Owned, Process};
use plimsoll_run::server_provisioning::{RunningServer, StartOptions, cache};
use plimsoll_wire::ConnectOptions;
use tokio::runtime::Runtime;

/// The database behind the engine.
#[derive(Debug)]
pub(crate) enum StoreServer {
    /// MongoDB.
    Mongodb(RunningServer),
    /// PostgreSQL, and its process if the run started it.
    Postgres {
        /// The URI.
        uri: String,
        /// The process.
        started: Option<Owned<Started>>,
    },
}

/// A PostgreSQL that the run started.
#[derive(Debug)]
pub(crate) struct Started(Server);

impl Process for Started {
    fn kill(&mut self) -> Done {
        Ok(self.0.kill()?)
    }

    fn lose_power(&mut self) -> Done {
        Err("the power of PostgreSQL cannot be cut: use `kill`".into())
    }

    fn restart(&mut self) -> Done {
        Ok(self.0.restart()?)
    }

    fn pause(&mut self) -> Done {
        Err("PostgreSQL cannot be paused: use `kill`".into())
    }

    fn resume(&mut self) -> Done {
        Err("PostgreSQL cannot be paused: use `kill`".into())
    }
}

impl StoreServer {
    /// A running PostgreSQL, or one that is installed and started.
    ///
    /// # Errors
    /// When it cannot be installed or started.
    pub(crate) fn postgres(uri: Option<&str>, start: StartOptions) -> Outcome<Self> {
        if let Some(uri) = uri {
            return Ok(Self::Postgres { uri: uri.to_owned(), started: None });
        }
        let cache = cache()?;
        if !server::is_installed(cache.root()) {
            start.console.say("Installing PostgreSQL. This takes some seconds and is done once.");
            server::install(cache.root(), &mut |_| ()).deserves(Exit::Failed)?;
        }
        let server = Server::start(cache.root(), &Settings::default());
        let server = server.context("start PostgreSQL").deserves(Exit::Server)?;
        Ok(Self::Postgres { uri: server.uri(), started: Some(Owned::new(Started(server))) })
    }

    /// The server's description of itself.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) fn facts(&self, runtime: &Runtime) -> Outcome<ServerFacts> {
        match self {
            Self::Mongodb(server) => runtime.block_on(server.facts()).deserves(Exit::Server),
            Self::Postgres { uri, started } => {
                let version = runtime.block_on(version(uri)).deserves(Exit::Server)?;
                let kind = if started.is_some() { ServerKind::Embedded } else { ServerKind::Address };
                Ok(ServerFacts {
                    kind,
                    addresses: vec![address(uri).to_owned()],
                    product: Some(format!("PostgreSQL {version}")),
                    version: Some(version),
                    ..ServerFacts::default()
                })
            }
        }
    }

    /// The processes on this machine. PostgreSQL has one for each connection, and they come and go, so they are unknown.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match self {
            Self::Mongodb(server) => server.pids(),
            Self::Postgres { .. } => Vec::new(),
        }
    }

    /// Whether the server is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Mongodb(server) => !server.pids().is_empty(),
            Self::Postgres { started, .. } => started.is_some(),
        }
    }

    /// The server whose counters an observer samples.
    pub(crate) fn observed(&self) -> Option<ConnectOptions> {
        match self {
            Self::Mongodb(server) => Some(server.deployment.options()),
            Self::Postgres { .. } => None,
        }
    }

    /// A fault, connected to the server or to its proxies.
    pub(crate) fn tie(&self, injection: &Injection) -> Option<Box<dyn Fault>> {
        match self {
            Self::Mongodb(server) => injection::tie(injection, server.server.as_ref(), &server.proxies),
            Self::Postgres { started, .. } => injection::tie(injection, started.as_ref(), &[]),
        }
    }
}

/// The address in a URI, without user, password, database and options.
fn address(uri: &str) -> &str {
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let rest = rest.split(['/', '?']).next().unwrap_or_default();
    rest.rsplit('@').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_no_password() {
        for (uri, expected) in [
            ("postgres://ann:secret@db:5432/app?sslmode=disable", "db:5432"),
            ("postgres://127.0.0.1:5433", "127.0.0.1:5433"),
            ("host=db user=ann", "host=db user=ann"),
        ] {
            assert_eq!(address(uri), expected);
        }
    }
}
