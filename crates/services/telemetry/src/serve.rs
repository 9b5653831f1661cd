//! Runs the service: opens what it needs, takes connections, and ends so that nothing acknowledged is lost.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mongodb::Client;
use mongodb::bson::doc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::feeds::{self, Feeds};
use crate::readings::{self, Readings};
use crate::settings::Settings;
use crate::settings::span::Span;
use crate::web::metrics::Pool;
use crate::web::{Parts, Service, routes};

mod accept;
mod connection;
mod patient;

use accept::Acceptor;

/// The service could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody can listen there.
    #[error(
        "{address} cannot be listened on ({source}): is something else running there? Give another port with --listen"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The database cannot be used.
    #[error("the database cannot be used ({0}): check --server, and that the server runs")]
    Database(#[from] mongodb::error::Error),
    /// The readings cannot be opened.
    #[error("readings: {0}")]
    Readings(#[from] readings::Error),
    /// The feeds cannot be opened.
    #[error(transparent)]
    Feeds(#[from] feeds::Error),
}

/// How far the service is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It serves.
    Serving,
    /// It takes nothing new, and finishes what was accepted.
    Draining,
    /// Its time is over.
    Cut,
}

/// A service that runs.
pub struct Running {
    address: SocketAddr,
    tls: bool,
    service: Arc<Service>,
    phase: watch::Sender<Phase>,
    accepting: JoinHandle<()>,
    drain: Span,
    connections_max: u32,
}

/// How a service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything that was accepted was finished.
    Drained,
    /// So many connections were not done in time and were cut off. What they had been acknowledged is stored.
    Cut {
        /// How many.
        connections: usize,
    },
}

/// Opens the database, makes collections and indexes that are missing, and listens. When this returns, it serves.
///
/// # Errors
/// [`Error`].
pub async fn start(settings: Settings) -> Result<Running, Error> {
    let wanted = settings.listen;
    let fault = |source| Error::Listen { address: wanted, source };
    let listener = TcpListener::bind(wanted).await.map_err(fault)?;
    let address = listener.local_addr().map_err(fault)?;
    let (tls, drain, connections_max) =
        (settings.tls.clone(), settings.limits.drain, settings.limits.connections_max);
    if settings.guard.is_none() {
        tracing::warn!(%address, "no security: everyone on this machine may write and read everything");
    }
    let service = Arc::new(open(settings).await?);
    let (phase, watched) = watch::channel(Phase::Serving);
    let acceptor = Acceptor::new(routes::router(service.clone()), &service, tls.clone(), watched);
    let accepting = tokio::spawn(acceptor.run(listener));
    tracing::info!(%address, tls = tls.is_some(), "listening");
    Ok(Running { address, tls: tls.is_some(), service, phase, accepting, drain, connections_max })
}

async fn open(settings: Settings) -> Result<Service, Error> {
    let clock = Clock::start();
    let pool = Arc::new(Pool::default());
    let hear = pool.clone();
    let options = settings.database.options(move |event| hear.on(&event)).await?;
    let database = Client::with_options(options)?.database(&settings.database.name);
    database.run_command(doc! {"ping": 1}).await?;
    let readings = Readings::open(&database, settings.readings).await?;
    let feeds = Feeds::open(&database, settings.feeds, clock).await?;
    Ok(Service::new(Parts {
        database,
        pool,
        readings,
        feeds,
        taken: settings.taken,
        limits: settings.limits,
        guard: settings.guard,
        clock,
    }))
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// What all requests share.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Ends it: takes nothing new, finishes what was accepted as long as the settings allow, and stores everything that
    /// waits.
    pub async fn stop(self) -> Ending {
        self.service.end();
        self.phase.send_replace(Phase::Draining);
        tracing::info!("ending: finishing what was accepted");
        let all = self.service.connections().acquire_many(self.connections_max);
        let ending = match tokio::time::timeout(self.drain.duration(), all).await {
            Ok(_) => Ending::Drained,
            Err(_) => {
                let free = self.service.connections().available_permits();
                let connections = (self.connections_max as usize).saturating_sub(free);
                tracing::warn!(connections, "cut off: they were not done in time");
                Ending::Cut { connections }
            }
        };
        self.phase.send_replace(Phase::Cut);
        // It has ended already, or waits for a connection that will not come.
        self.accepting.abort();
        self.service.readings.close().await;
        tracing::info!("ended");
        ending
    }
}
