//! Faults of the plan, tied to the server or to the proxies before it.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_load::fault::Fault;
use plimsoll_server::Server;
use plimsoll_server::fault::{Fault as Injection, Network};
use plimsoll_server::proxy::Proxy;

type Done = Result<(), Box<dyn StdError + Send + Sync>>;

/// A server of ours that the timeline of faults may kill and start again.
#[derive(Clone, Debug)]
pub struct Owned(Arc<Mutex<Server>>);

impl Owned {
    /// Shares a server with its faults.
    pub fn new(server: Server) -> Self {
        Self(Arc::new(Mutex::new(server)))
    }

    /// The server.
    pub fn server(&self) -> MutexGuard<'_, Server> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server for good, once nobody else has it.
    pub fn into_server(self) -> Option<Server> {
        let server = Arc::into_inner(self.0)?;
        Some(server.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Ties a fault of the plan to what it is done to; nothing if there is no such thing here, which was refused before.
pub fn tie(injection: &Injection, server: Option<&Owned>, proxies: &[Arc<Proxy>]) -> Option<Box<dyn Fault>> {
    Some(match injection {
        Injection::Kill { .. } => Box::new(Kill(server?.clone())),
        Injection::Freeze { .. } => Box::new(Freeze(server?.clone())),
        Injection::Network { how, .. } => Box::new(Disturbed { proxies: proxies.to_vec(), how: *how }),
    })
}

struct Kill(Owned);

impl Fault for Kill {
    fn begin(&mut self) -> Done {
        Ok(self.0.server().kill()?)
    }

    fn end(&mut self) -> Done {
        Ok(self.0.server().restart()?)
    }
}

struct Freeze(Owned);

impl Fault for Freeze {
    fn begin(&mut self) -> Done {
        Ok(self.0.server().pause()?)
    }

    fn end(&mut self) -> Done {
        Ok(self.0.server().resume()?)
    }
}

struct Disturbed {
    proxies: Vec<Arc<Proxy>>,
    how: Network,
}

impl Fault for Disturbed {
    fn begin(&mut self) -> Done {
        self.proxies.iter().for_each(|proxy| proxy.disturb(self.how.disturbance()));
        Ok(())
    }

    fn end(&mut self) -> Done {
        self.proxies.iter().for_each(|proxy| proxy.calm());
        Ok(())
    }
}
