//! Defines a service as a program: settings in, running service out.

use std::fmt::Debug;
use std::future::ready;
use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::State;
use crate::server::{ListenError, Running};
use crate::settings;

/// A client of a MongoDB database. The choice decides which options of an address have an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseClient {
    /// The official driver.
    Driver,
    /// Our own client, without a pool that an address can set.
    Lean,
}

/// A service that `plimsoll serve NAME` starts.
pub trait Product: Debug + Sync {
    /// The name on the command line.
    const NAME: &'static str;
    /// The client that connects to the database, if the service has one.
    const DATABASE_CLIENT: DatabaseClient = DatabaseClient::Driver;
    /// The settings as in the file. Everything has a default; an unknown key is an error.
    type Typed: Clone + Default + Serialize + DeserializeOwned;
    /// The checked settings, with every file read.
    type Settings: Send;
    /// The state that the endpoints work on.
    type State: State;

    /// The address to listen on.
    fn listen(typed: &mut Self::Typed) -> &mut SocketAddr;

    /// The URI of the database, if the service has one. Without a URI, the program starts a server and sets its URI.
    fn database_uri(_: &mut Self::Typed) -> Option<&mut Option<String>> {
        None
    }

    /// The connection strings in the settings, whose passwords are never shown.
    fn uris(typed: &mut Self::Typed) -> Vec<&mut String> {
        Self::database_uri(typed).and_then(Option::as_mut).into_iter().collect()
    }

    /// Checks the settings and reads the files they name, relative to `base`.
    ///
    /// # Errors
    /// The invalid setting.
    fn build(typed: Self::Typed, base: &Path) -> Result<Self::Settings, settings::Error>;

    /// Opens the storage and serves.
    ///
    /// # Errors
    /// [`StartError`].
    fn start(
        settings: Self::Settings,
    ) -> impl Future<Output = Result<Running<Self::State>, StartError>> + Send;

    /// Prefills the storage. `order` is JSON; `tell` gets progress messages.
    ///
    /// # Errors
    /// An invalid order, or the refusal of the storage.
    fn fill(
        _settings: Self::Settings,
        _order: &str,
        _tell: &mut (dyn FnMut(String) + Send),
    ) -> impl Future<Output = Result<(), String>> + Send {
        ready(Err(format!("the service `{}` cannot be filled", Self::NAME)))
    }
}

/// The service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot listen on its address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Its storage cannot be opened.
    #[error("{0}")]
    Storage(String),
}
