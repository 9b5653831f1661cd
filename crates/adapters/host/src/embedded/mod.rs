//! Starts the embedded server: SecantusDB, which speaks MongoDB's protocol over WiredTiger.
//!
//! Its licence is the GPL-2.0, so this machine builds it and it runs as a separate process. Plimsoll links
//! none of its code.

use std::ffi::OsString;
use std::net::SocketAddr;

use plimsoll_install::Cache;
use plimsoll_measure::environment::ServerKind;

use crate::home::Storage;
use crate::launch_spec::{LaunchSpec, Profile};
use crate::local::Server;
use crate::power::{self, PowerLoss};
use crate::registry;

mod install;
mod progress;

pub use install::{InstallError, Progress, Step, VERSION, binary, install, is_installed};

/// Settings of an embedded server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The durability of an acknowledged write.
    pub profile: Profile,
    /// The directory of the data; an empty storage already takes 128 MiB, its first journal file.
    pub storage: Storage,
    /// The port on 127.0.0.1; 0 selects any free port.
    pub port: u16,
    /// The storage engine's cache in bytes; 4 GiB by default.
    pub cache_bytes: Option<u64>,
    /// Whether the server can lose its power.
    pub power_loss: PowerLoss,
    /// Further arguments, as the server's `--help` lists them.
    pub args: Vec<OsString>,
}

/// The embedded server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server is not installed.
    #[error("the embedded server is not installed: run `plimsoll server install` (about 6 minutes, once)")]
    NotInstalled,
    /// The library that copies the server's synced writes, for a power loss, cannot be built.
    #[error(transparent)]
    Power(#[from] power::Error),
    /// The process does not start.
    #[error(transparent)]
    Start(#[from] plimsoll_process::Error),
    /// The server runs, but cannot be registered.
    #[error(transparent)]
    Registry(#[from] registry::Error),
}

/// Starts a server that ends when the returned value is dropped, or with this process. Blocks until it
/// listens, about a second.
///
/// # Errors
/// [`Error::NotInstalled`]; [`Error::Start`] with the last lines of its log.
pub fn start(cache: &Cache, options: &Options) -> Result<Server, Error> {
    let spec = spec(cache, options)?;
    Ok(Server::start(spec, &options.storage, options.port)?)
}

/// Starts a server that outlives this process, and adds it to the registry. Temporary storage lies in the
/// cache and is removed when the server is stopped through the registry.
///
/// # Errors
/// Those of [`start`]; [`Error::Registry`] if the server cannot be registered: it is then stopped again.
pub fn start_detached(cache: &Cache, options: &Options) -> Result<registry::Entry, Error> {
    let spec = spec(cache, options)?;
    let registry = registry::Registry::of(cache)?;
    let parent = registry.directory();
    let (pid, address, storage) = Server::start_detached(&spec, &options.storage, options.port, parent)?;
    let temporary = options.storage == Storage::Temporary;
    Ok(registry.add(pid, address, spec.profile, storage, temporary, None)?)
}

fn spec(cache: &Cache, options: &Options) -> Result<LaunchSpec, Error> {
    if !is_installed(cache) {
        return Err(Error::NotInstalled);
    }
    let power = match options.power_loss {
        PowerLoss::Impossible => None,
        PowerLoss::Possible => Some(power::library(cache)?),
    };
    Ok(LaunchSpec {
        kind: ServerKind::Embedded,
        profile: Some(options.profile),
        product: Some(format!("SecantusDB {VERSION}")),
        program: binary(cache),
        args: args(options),
        data_option: Some("--storage-path"),
        config_option: Some("--config"),
        hidden_variables: &["SECANTUS_"],
        chooses_port: true,
        power,
        ready,
    })
}

fn args(options: &Options) -> Vec<OsString> {
    let mut args: Vec<OsString> = Vec::new();
    if options.profile == Profile::Journaled {
        args.push("--sync-on-commit".into());
    }
    if let Some(bytes) = options.cache_bytes {
        // In mebibytes because the server takes no plain bytes; its smallest cache is 1 MiB.
        args.extend(["--cache-size".into(), format!("{}M", (bytes >> 20).max(1)).into()]);
    }
    args.extend(options.args.iter().cloned());
    args
}

fn ready(line: &str, _: u16) -> Option<SocketAddr> {
    line.split_once("listening on ")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_journaled_profile_syncs_on_every_commit() {
        let syncs =
            |profile| args(&Options { profile, ..Options::default() }).contains(&"--sync-on-commit".into());
        assert!(syncs(Profile::Journaled));
        assert!(!syncs(Profile::Relaxed));
    }

    #[test]
    fn the_cache_is_given_in_mebibytes() {
        let options =
            Options { cache_bytes: Some(256 << 20), profile: Profile::Relaxed, ..Options::default() };
        assert_eq!(args(&options), ["--cache-size", "256M"]);
    }

    #[test]
    fn the_address_is_read_from_the_first_line() {
        assert_eq!(ready("secantusd-rs listening on 127.0.0.1:41133", 0), "127.0.0.1:41133".parse().ok());
        assert_eq!(ready("opening storage", 0), None);
    }

    #[test]
    fn a_missing_installation_is_an_error() {
        let cache = Cache::at("/nonexistent");
        assert!(matches!(start(&cache, &Options::default()), Err(Error::NotInstalled)));
    }
}
