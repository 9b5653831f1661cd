//! Runs the workflow engine as a separate server.

use std::path::Path;

use plimsoll_host::service::{Options, Service};
use tempfile::TempDir;

use super::{CONNECTIONS, Failure, PARTITIONS};

/// The store of a service, with its URI.
pub(crate) enum Store {
    Postgres(String),
    Mongodb(String),
}

/// A running service. It ends with this value.
pub(crate) struct Running {
    service: Service,
    /// Its log.
    _directory: TempDir,
}

impl Running {
    /// Starts `plimsoll serve workflow` with as many connections and partitions as the library has.
    pub(crate) fn start(program: &Path, store: &Store) -> Result<Self, Failure> {
        let directory = tempfile::tempdir()?;
        let args = arguments(store).into_iter().map(Into::into).collect();
        let log = directory.path().join("service.log");
        let service = Service::start(Options { program: program.canonicalize()?, args, log })?;
        Ok(Self { service, _directory: directory })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.service.pid()
    }

    pub(crate) fn uri(&self) -> String {
        format!("http://{}", self.service.address())
    }
}

fn arguments(store: &Store) -> Vec<String> {
    let settings = [format!("store.connections={CONNECTIONS}"), format!("store.partitions={PARTITIONS}")];
    let settings = settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]);
    let store = match store {
        Store::Postgres(uri) => ["--set".to_owned(), format!("postgres={uri}")],
        Store::Mongodb(uri) => ["--server".to_owned(), uri.clone()],
    };
    let command = ["serve", "workflow", "--log", "warn"].map(str::to_owned);
    command.into_iter().chain(store).chain(settings).collect()
}
