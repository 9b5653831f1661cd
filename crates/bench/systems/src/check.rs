//! Resolves servers from the user's options, and refuses plans that these servers cannot run.

use plimsoll_deployment::concern::Concerns;
use plimsoll_deployment::{
    COMMAND_TIMEOUT, Deployment, authenticates, concerns_of, lean_options, options_beyond_addresses,
    pool_options, runtime,
};
use plimsoll_load::phase::Connections;
use plimsoll_load::retry::Retry;
use plimsoll_mongo::scenario::{Client, Connections as Pools, Operation as Command};

use plimsoll_run::exit::Outcome;
use plimsoll_run::server_provisioning::{Choice, RunningServer, ServerAddress, StartOptions, choice};
use plimsoll_run::system::RunContext;
use plimsoll_scenario::plan::{Aimed, Plan};
use plimsoll_scenario::{self as scenario, Victim};
use tokio::runtime::Runtime;

/// Refuses process faults on a server that Plimsoll did not start.
///
/// # Errors
/// When Plimsoll did not start the target of a fault, or a fault names a missing server.
pub fn faults(plan: &Plan, choice: &Choice) -> anyhow::Result<()> {
    let to_server = || plan.injections.iter().filter(|aimed| aimed.victim == Victim::Server);
    let hard = to_server().find(|aimed| aimed.fault.needs_process());
    let servers =
        if let Choice::Several(servers) = choice { &servers[..] } else { std::slice::from_ref(choice) };
    if let Some(aimed) = to_server().find(|aimed| aimed.server >= servers.len()) {
        anyhow::bail!(
            "faults: `{}` targets server {}, but the last server is {}, counted from 0",
            aimed.fault.name(),
            aimed.server,
            servers.len() - 1
        );
    }
    if let Some(aimed) = to_server().find(|aimed| aimed.fault.needs_power_loss()) {
        anyhow::ensure!(
            servers[aimed.server].can_lose_power(),
            "faults: `{}` needs a server whose writes Plimsoll can follow; use --server embedded, or the fault `kill`",
            aimed.fault.name()
        );
    }
    match (hard, &servers[hard.map_or(0, |aimed| aimed.server)]) {
        (Some(aimed), Choice::Uri(_)) => anyhow::bail!(
            "faults: `{}` needs a server that Plimsoll started and can restart; use --server embedded or \
             --server mongod, or faults of the network",
            aimed.fault.name()
        ),
        _ => Ok(()),
    }
}

/// Refuses a cache size for a running server: Plimsoll can set it only at the start.
///
/// # Errors
/// When Plimsoll does not start one of the servers.
pub fn cache(scenario: &scenario::Scenario, choice: &Choice) -> anyhow::Result<()> {
    let servers =
        if let Choice::Several(servers) = choice { &servers[..] } else { std::slice::from_ref(choice) };
    let given = servers.iter().any(|server| matches!(server, Choice::Uri(_)));
    anyhow::ensure!(
        scenario.cache.is_none() || !given,
        "cache: the cache of a server that is running cannot be set; leave it out (--set cache=null), or use --server embedded"
    );
    Ok(())
}

/// Refuses addresses with options that no run, or not the client of this load, can use. Contacts no server, so the addresses of DNS
/// records are left to the run.
///
/// # Errors
/// The first such option.
pub fn options(scenario: &scenario::Scenario, plan: &Plan, choice: &Choice) -> anyhow::Result<()> {
    usable(choice)?;
    let client = scenario.client;
    for uri in choice.uris() {
        anyhow::ensure!(
            client != Client::Driver || !lean_options(uri).contains(&"tlsAllowInvalidHostnames"),
            "tlsAllowInvalidHostnames in the server's address: the official driver does not have it; use client: lean, or remove it"
        );
        Pools::check_pool(client, pool_options(uri).max, plan.connections())?;
    }
    Ok(())
}

/// The concerns that the addresses of all servers name. Contacts no server.
///
/// # Errors
/// When the addresses name different concerns: an operation has the same concerns on every server.
pub fn concerns(choice: &Choice) -> anyhow::Result<Concerns> {
    let mut all = choice.uris().into_iter().map(concerns_of).collect::<Result<Vec<_>, _>>()?;
    anyhow::ensure!(
        all.windows(2).all(|pair| pair[0] == pair[1]),
        "the addresses of the servers name different write concerns, read concerns or read preferences: write `write_concern`, \
         `read_concern` and `read_preference` in the scenario, and remove them from the addresses"
    );
    Ok(all.pop().unwrap_or_default())
}

/// The options of a database's address that a run needs itself to find the servers, and a service that gets their addresses does not.
const OF_THE_RUN: [&str; 5] =
    ["directConnection", "replicaSet", "serverSelectionTimeoutMS", "srvMaxHosts", "srvServiceName"];

/// Refuses what a service would lose: a run passes only the addresses of its database to the service. Contacts no server and no name
/// service.
///
/// # Errors
/// The first option, or the credentials, that would be lost.
pub fn for_service(choice: &Choice) -> anyhow::Result<()> {
    let remedy =
        "Plimsoll passes only the addresses to the service: start the service yourself, and give `http.url`";
    let is_of_the_run = |name: &str| OF_THE_RUN.iter().any(|kept| kept.eq_ignore_ascii_case(name));
    for uri in choice.uris() {
        if let Some(name) = options_beyond_addresses(uri).iter().find(|name| !is_of_the_run(name)) {
            let advice = match uri.starts_with("mongodb+srv://") && name == "tls" {
                true => "write tls=false, because mongodb+srv:// turns TLS on",
                false => "leave the option out",
            };
            anyhow::bail!(
                "the option `{name}` of the database's address would be lost; {remedy}, or {advice}"
            );
        }
        anyhow::ensure!(!authenticates(uri), "the database of the service needs a user; {remedy}");
    }
    Ok(())
}

/// Refuses addresses that no client can use. Contacts no server, so the addresses of DNS records are left to the run.
///
/// # Errors
/// The fault of the first such address.
pub fn usable(choice: &Choice) -> anyhow::Result<()> {
    let runtime = runtime()?;
    for uri in choice.uris().into_iter().filter(|uri| uri.starts_with("mongodb://")) {
        match runtime.block_on(Deployment::new(uri, COMMAND_TIMEOUT)) {
            Err(error) if error.is_of_the_uri() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// The servers from the command line, or else from the scenario.
///
/// # Errors
/// When the options contradict each other, or name no server.
pub fn choose(address: ServerAddress<'_>, scenario: &scenario::Scenario) -> anyhow::Result<Choice> {
    if address.server.is_some() || !address.hosts.is_empty() {
        return choice(address.server, address.hosts, address.count);
    }
    choice(scenario.server.as_deref(), &scenario.servers, address.count)
}

/// Refuses features that several independent servers do not support.
///
/// # Errors
/// When the scenario uses such a feature.
pub fn several(scenario: &scenario::Scenario, plan: &Plan, choice: &Choice) -> anyhow::Result<()> {
    if !matches!(choice, Choice::Several(_)) {
        return Ok(());
    }
    if scenario.client == Client::Driver {
        anyhow::bail!("client: the official driver does not support several servers; use client: lean");
    }
    if !matches!(scenario.retry, None | Some(Retry::None)) {
        anyhow::bail!("retry: a retry would go to a different server; use retry: none");
    }
    let mut loads = plan.phases.iter().flat_map(|phase| &phase.loads);
    if loads.any(|load| load.connections == Connections::PerOperation) {
        anyhow::bail!(
            "connections: several servers keep their connections; leave out per_operation, or give one server"
        );
    }
    let mut commands = plan.operations.iter().filter_map(|(name, work)| Some((name, work.database()?)));
    if let Some((name, _)) = commands.find(|(_, command)| matches!(command, Command::ListAppend(_))) {
        anyhow::bail!("operation `{name}` appends to lists, which only one server can hold; give one server");
    }
    match plan.operations.iter().find(|(_, operation)| operation.needs_receipts()) {
        Some((name, _)) => anyhow::bail!(
            "operation `{name}` selects documents by receipt, and the server that has one is unknown; give a filter, or \
             one server"
        ),
        None => Ok(()),
    }
}

/// Puts proxies between the load and the servers if the plan disturbs the network.
///
/// # Errors
/// When a server does not support proxies, or one cannot be started.
pub fn put_proxies(place: &mut RunningServer, loaded: &scenario::Loaded, plan: &Plan) -> Outcome<()> {
    let disturbs = |aimed: &Aimed| aimed.victim == Victim::Server && !aimed.fault.needs_process();
    if plan.injections.iter().any(disturbs) {
        place.put_proxies(loaded.scenario.seed)?;
    }
    Ok(())
}

/// Finds or starts the server, with the proxies that the plan's faults need.
///
/// # Errors
/// When it cannot be installed, started or reached.
pub fn open_place(
    context: RunContext<'_>,
    choice: &Choice,
    start: StartOptions,
    runtime: &Runtime,
) -> Outcome<RunningServer> {
    let mut place = RunningServer::open(choice, start, runtime)?;
    put_proxies(&mut place, context.loaded, context.plan)?;
    Ok(place)
}
