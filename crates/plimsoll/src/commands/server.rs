//! Implements `plimsoll server`: manages servers on this machine that run until they are stopped.

use std::time::Duration;

use anyhow::Context;
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::registry::{Entry, Registry};
use plimsoll_host::{Ending, Storage, mongod};

use crate::cli::{ServerCommand, StartArgs};
use crate::terminal::{console, print};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provisioning::{cache, install, profile};

/// The time limit of a graceful stop, after which the server is killed.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Installs, starts, stops or lists servers.
///
/// # Errors
/// The failure and its exit code.
pub fn server(command: &ServerCommand) -> Outcome<Exit> {
    match command {
        ServerCommand::Install => installed()?,
        ServerCommand::Start(args) => start(args)?,
        ServerCommand::Stop => stop()?,
        ServerCommand::Status => status()?,
    }
    Ok(Exit::Held)
}

fn installed() -> anyhow::Result<()> {
    install(console(false))?;
    print(&format!("{}\n", embedded::binary(&cache()?).display()));
    Ok(())
}

fn start(args: &StartArgs) -> Outcome<()> {
    let profile = profile(&args.profile).deserves(Exit::Usage)?;
    install(console(false))?;
    if args.count > 1 && (args.port != 0 || args.storage.is_some()) {
        let error =
            anyhow::anyhow!("--count {}: several servers cannot share a port or a storage", args.count);
        return Err(error).deserves(Exit::Usage);
    }
    for _ in 0..args.count {
        let storage = args.storage.clone().map_or(Storage::Temporary, Storage::At);
        let options = Options { profile, storage, port: args.port, ..Options::default() };
        let entry = embedded::start_detached(&cache()?, &options)
            .context("start the embedded server")
            .deserves(Exit::Server)?;
        print(&format!("mongodb://{}\n", entry.address));
    }
    Ok(())
}

fn stop() -> anyhow::Result<()> {
    let registry = Registry::of(&cache()?)?;
    for entry in registry.running()? {
        let ending = registry.stop(&entry, STOP_LIMIT)?;
        let how = if ending == Ending::Graceful { "stopped" } else { "killed: it did not stop in time" };
        print(&format!("{} {how}\n", entry.address));
    }
    Ok(())
}

fn status() -> anyhow::Result<()> {
    let cache = cache()?;
    let installed = if embedded::is_installed(&cache) { "installed" } else { "not installed" };
    print(&format!("embedded server {}: {installed}\n", embedded::VERSION));
    if let Some(program) = mongod::find() {
        let version = mongod::version(&program).unwrap_or_else(|| "unknown version".into());
        print(&format!("mongod on the PATH: {} ({version})\n", program.display()));
    }
    let running = Registry::of(&cache)?.running()?;
    running.iter().map(describe).for_each(|line| print(&line));
    if running.is_empty() {
        print("no server is running\n");
    }
    Ok(())
}

fn describe(entry: &Entry) -> String {
    let profile = entry.profile.map_or("", |profile| profile.name());
    format!("mongodb://{}  {profile}  process {}  {}\n", entry.address, entry.pid, entry.storage.display())
}
