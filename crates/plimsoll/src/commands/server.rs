//! Implements `plimsoll server`: manages servers on this machine that run until they are stopped.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::registry::{Entry, Registry};
use plimsoll_host::{Ending, Storage, mongod};

use crate::cli::{ServerCommand, StartArgs, StopArgs};
use crate::terminal::{console, list_width, print};
use plimsoll_report::text::{Width, hanging};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provisioning::{cache, install, profile};

mod cluster;

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
        ServerCommand::Stop(args) => stop(args)?,
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
    if args.members.is_some() || args.shards.is_some() {
        return cluster::start(args);
    }
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

/// Stops all servers of the registry, or the named servers. Every name is checked before the first server is
/// stopped.
fn stop(args: &StopArgs) -> Outcome<()> {
    let registry = Registry::of(&cache()?).context("find the running servers")?;
    let running = registry.running().context("find the running servers")?;
    let chosen = chosen(&args.addresses, running).deserves(Exit::Usage)?;
    for entry in chosen {
        let ending = registry.stop(&entry, STOP_LIMIT).context("stop the server")?;
        let how = if ending == Ending::Graceful { "stopped" } else { "killed: it did not stop in time" };
        print(&format!("{} {how}\n", entry.address));
    }
    Ok(())
}

/// The servers at `addresses`, or all of them. The registry holds the identity of each process, so a server
/// of another program is never chosen, even on the same port.
fn chosen(addresses: &[String], running: Vec<Entry>) -> anyhow::Result<Vec<Entry>> {
    if addresses.is_empty() {
        return Ok(running);
    }
    let wanted = addresses.iter().map(|text| Ok((text, address(text)?)));
    let wanted: Vec<(&String, SocketAddr)> = wanted.collect::<anyhow::Result<_>>()?;
    for (text, address) in &wanted {
        ensure!(
            running.iter().any(|entry| entry.address == *address),
            "{text}: no running server there was started by `plimsoll server start`; `plimsoll server status` lists those"
        );
    }
    let is_named = |entry: &&Entry| wanted.iter().any(|(_, address)| entry.address == *address);
    let deployments: Vec<String> = running.iter().filter(is_named).filter_map(deployment).collect();
    let is_part = |entry: &Entry| deployment(entry).is_some_and(|name| deployments.contains(&name));
    Ok(running.into_iter().filter(|entry| is_named(&entry) || is_part(entry)).collect())
}

/// The name of the replica set or cluster that contains this server. `None` for a single server.
fn deployment(entry: &Entry) -> Option<String> {
    entry.part.as_ref().map(|part| part.deployment.clone())
}

/// An address of this machine, with or without the scheme and the path of a URI.
fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let bare = text.strip_prefix("mongodb://").unwrap_or(text);
    let bare = bare.split_once(['/', '?']).map_or(bare, |(address, _)| address);
    let numeric = bare.replace("localhost:", "127.0.0.1:");
    numeric.parse().with_context(|| format!("{text}: write HOST:PORT, for example 127.0.0.1:27017"))
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
    let width = list_width();
    running.iter().for_each(|entry| print(&described(entry, width)));
    if running.is_empty() {
        print("no server is running\n");
    }
    Ok(())
}

/// A server in lines of at most `width`.
fn described(entry: &Entry, width: Width) -> String {
    let line = describe(entry);
    if line.trim_end().chars().count() <= width.0 {
        return line;
    }
    let (address, rest) = line.trim_end().split_once(' ').unwrap_or((&line, ""));
    format!("{address}\n{}\n", hanging(rest.trim_start(), "  ", width))
}

fn describe(entry: &Entry) -> String {
    let part = entry.part.as_ref().map(|part| format!("{}, {}", part.deployment, part.role));
    let profile = part.as_deref().or(entry.profile.map(|profile| profile.name())).unwrap_or_default();
    format!("mongodb://{}  {profile}  process {}  {}\n", entry.address, entry.pid, entry.storage.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_host::registry::Part;

    fn entry(port: u16) -> Entry {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Entry {
            address,
            pid: 1,
            started_ticks: 1,
            profile: None,
            storage: "x".into(),
            temporary: false,
            part: None,
        }
    }

    #[test]
    fn a_server_is_chosen_by_any_form_of_its_address() {
        for text in [
            "127.0.0.1:2",
            "localhost:2",
            "mongodb://127.0.0.1:2",
            "mongodb://127.0.0.1:2/?x=y",
            "mongodb://127.0.0.1:2?x=y",
        ] {
            let found = chosen(&[text.to_owned()], vec![entry(1), entry(2)]).unwrap();
            assert_eq!(found, [entry(2)], "{text}");
        }
        assert_eq!(chosen(&[], vec![entry(1), entry(2)]).unwrap().len(), 2);
    }

    #[test]
    fn an_address_of_a_deployment_chooses_all_its_servers() {
        let part =
            |deployment: &str| Some(Part { deployment: deployment.into(), role: "member of rs0".into() });
        let member = |port, deployment| Entry { part: part(deployment), ..entry(port) };
        let running = || vec![member(1, "a"), member(2, "b"), member(3, "a"), entry(4)];
        let ports = |text: &str| {
            let chosen = chosen(&[text.to_owned()], running()).unwrap();
            chosen.iter().map(|entry| entry.address.port()).collect::<Vec<_>>()
        };
        assert_eq!(ports("127.0.0.1:3"), [1, 3]);
        assert_eq!(ports("127.0.0.1:4"), [4]);
        assert!(describe(&member(1, "a")).contains("a, member of rs0"));
    }

    #[test]
    fn a_server_fits_the_width_of_the_terminal() {
        let long = Entry { storage: "/var/tmp/plimsoll/servers/27017".into(), pid: 123_456, ..entry(27017) };
        let said = described(&long, Width(60));
        assert!(said.lines().all(|line| line.chars().count() <= 60), "{said}");
        assert_eq!(described(&long, Width::ENDLESS), describe(&long));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&said), words(&describe(&long)));
    }

    #[test]
    fn an_address_outside_the_registry_chooses_nothing() {
        let names = ["127.0.0.1:1", "127.0.0.1:3"].map(str::to_owned);
        let error = chosen(&names, vec![entry(1)]).unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:3: no running server there was started by"), "{error}");
        let error = chosen(&["27017".to_owned()], vec![entry(1)]).unwrap_err().to_string();
        assert!(error.contains("write HOST:PORT"), "{error}");
    }
}
