//! Provides the server that all clients use, and describes the machine.

use std::env;

use bson::rawdoc;
use plimsoll_deployment::collection;
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server, machine};
use plimsoll_measure::environment::Environment;
use plimsoll_wire::{Address, ConnectOptions, Connection};

use crate::Failure;
use crate::document::DATABASE;

/// The environment variable that names a server to use instead of the embedded one.
const VARIABLE: &str = "PLIMSOLL_BENCH_URI";
/// Exceeds all documents of a long run, so that the server never evicts.
const CACHE_BYTES: u64 = 1 << 30;

/// The server and the machine of a measurement.
pub(crate) struct Testbed {
    /// The address of the server.
    pub(crate) address: Address,
    /// The description of the server.
    pub(crate) server: String,
    /// The machine of the clients.
    pub(crate) machine: Environment,
    /// The embedded server, which stops when the value is dropped; `None` for the user's server.
    _running: Option<Server>,
}

impl Testbed {
    /// Uses the server of the variable, or starts the embedded one.
    pub(crate) fn find() -> Result<Self, Failure> {
        let (address, server, running) = match env::var(VARIABLE) {
            Ok(uri) => (address(&uri)?, uri, None),
            Err(_) => start()?,
        };
        if running.is_none() {
            refuse_what_is_not_ours(&address)?;
        }
        let machine = machine::environment(&env::temp_dir());
        Ok(Testbed { address, server, machine, _running: running })
    }

    /// Drops the documents of the clients.
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut connection = Connection::connect(&ConnectOptions::new(self.address.clone())).await?;
            connection.command(DATABASE, &rawdoc! {"dropDatabase": 1}).await?;
            Ok(())
        })
    }
}

/// A database of that name on the user's server may hold data of the user: it is dropped only if it was empty before.
fn refuse_what_is_not_ours(address: &Address) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connection = Connection::connect(&ConnectOptions::new(address.clone())).await?;
        match collection::names(&mut connection, DATABASE).await?.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "{address} has a database {DATABASE} with collections, and this benchmark drops that database: drop \
                 it yourself, or use another server"
            )
            .into()),
        }
    })
}

fn start() -> Result<(Address, String, Option<Server>), Failure> {
    let options = Options { profile: Profile::Relaxed, cache_bytes: Some(CACHE_BYTES), ..Options::default() };
    let server = embedded::start(&Cache::locate()?, &options)?;
    let words = format!("embedded, SecantusDB {}, {} profile", embedded::VERSION, options.profile.name());
    Ok((server.address().to_string().parse()?, words, Some(server)))
}

fn address(uri: &str) -> Result<Address, Failure> {
    let rest = uri.strip_prefix("mongodb://").map(|rest| rest.trim_end_matches('/'));
    let address = rest.and_then(|rest| rest.parse().ok());
    address.ok_or_else(|| format!("{VARIABLE}={uri}: write mongodb://HOST:PORT and nothing more").into())
}
