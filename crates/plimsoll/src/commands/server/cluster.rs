//! Starts replica sets and sharded clusters of MongoDB's own programs. All their servers stop together.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use plimsoll_deployment::form::{self, Purpose};
use plimsoll_host::Cache;
use plimsoll_host::mongod::{self, Role};
use plimsoll_host::registry::{Entry, Registry};

use super::STOP_LIMIT;
use crate::cli::StartArgs;
use crate::terminal::print;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provisioning::cache;

/// The largest number of members of the set that holds a cluster's configuration.
const CONFIG_MEMBERS_MAX: u32 = 3;

/// The servers started so far.
struct Starting {
    cache: Cache,
    mongod: PathBuf,
    /// The name that all servers share.
    name: String,
    entries: Vec<Entry>,
}

/// Starts a replica set or a sharded cluster and prints its connection string.
///
/// # Errors
/// A program is missing, or a server does not start; servers that were started are stopped again.
pub(super) fn start(args: &StartArgs) -> Outcome<()> {
    let mongod = program(args.mongod.clone(), "mongod").deserves(Exit::Server)?;
    let mongos =
        args.shards.map(|_| program(args.mongos.clone(), "mongos")).transpose().deserves(Exit::Server)?;
    let name = format!("cluster-{}", std::process::id());
    let mut starting = Starting { cache: cache()?, mongod, name, entries: Vec::new() };
    match starting.form(args, mongos) {
        Ok(uri) => print(&format!("{uri}\n")),
        Err(error) => {
            starting.stop();
            return Err(error).deserves(Exit::Server);
        }
    }
    Ok(())
}

fn program(given: Option<PathBuf>, name: &str) -> anyhow::Result<PathBuf> {
    given.or_else(|| mongod::find_program(name)).with_context(|| {
        format!(
            "the PATH contains no {name}: install MongoDB Community Server (https://www.mongodb.com/try/download/community), or \
             give its program with --{name} PATH"
        )
    })
}

impl Starting {
    fn form(&mut self, args: &StartArgs, mongos: Option<PathBuf>) -> anyhow::Result<String> {
        let members = args.members.unwrap_or(1);
        let (Some(shards), Some(mongos)) = (args.shards, mongos) else {
            let set = self.replica_set("rs0", members, &Role::Member, Purpose::Data)?;
            return Ok(form::set_uri("rs0", &set));
        };
        let configuration = members.min(CONFIG_MEMBERS_MAX);
        let config = self.replica_set("config", configuration, &Role::Config, Purpose::Configuration)?;
        let mut sets = Vec::new();
        for shard in 0..shards {
            let name = format!("shard{shard}");
            let set = self.replica_set(&name, members, &Role::Shard, Purpose::Data)?;
            sets.push(form::set_address(&name, &set));
        }
        let router = self.server(mongos, Role::Router(form::set_address("config", &config)))?;
        form::add_shards(router, &sets).context("add the shards to the cluster")?;
        Ok(format!("mongodb://{router}/"))
    }

    /// Starts the members of a set and initiates it.
    fn replica_set(
        &mut self,
        name: &str,
        members: u32,
        role: &dyn Fn(String) -> Role,
        purpose: Purpose,
    ) -> anyhow::Result<Vec<SocketAddr>> {
        let addresses = (0..members).map(|_| self.server(self.mongod.clone(), role(name.to_owned())));
        let addresses = addresses.collect::<anyhow::Result<Vec<_>>>()?;
        form::initiate(name, &addresses, purpose)
            .with_context(|| format!("initiate the replica set {name}"))?;
        Ok(addresses)
    }

    fn server(&mut self, program: PathBuf, role: Role) -> anyhow::Result<SocketAddr> {
        let context = format!("start {} as {role}", program.display());
        let entry = mongod::start_detached(&self.cache, program, role, &self.name).context(context)?;
        let address = entry.address;
        self.entries.push(entry);
        Ok(address)
    }

    /// Stops the servers started so far. Only the error that caused the stop is reported.
    fn stop(&self) {
        let Ok(registry) = Registry::of(&self.cache) else { return };
        for entry in self.entries.iter().rev() {
            let _ = registry.stop(entry, STOP_LIMIT);
        }
    }
}
