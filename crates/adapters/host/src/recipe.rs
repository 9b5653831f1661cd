//! How a kind of server is run, and its start until it listens.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_measure::environment::ServerKind;
use plimsoll_process::{Child, Launch, LaunchError, Lifetime, Patience, Program, port};

use crate::home::Home;
use crate::local::{Error, Profile};

/// How long a start may take, and how often the log is looked at on the way; recovery after a kill is part of it.
const PATIENCE: Patience = Patience { limit: Duration::from_secs(60), every: Duration::from_millis(5) };
/// How many times a start is tried when the port was taken in between.
const PORT_TRIES: u32 = 5;

/// Finds in one line of the log that the server listens, and where, given the port it was told.
pub(crate) type Ready = fn(line: &str, port: u16) -> Option<SocketAddr>;

/// How a kind of server is run. The arguments are made for a port and a home.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) kind: ServerKind,
    pub(crate) profile: Option<Profile>,
    pub(crate) product: Option<String>,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// Names the option that takes the directory of the data.
    pub(crate) data_option: &'static str,
    /// Names the option that takes a configuration file, if the server would otherwise look for one by itself.
    pub(crate) config_option: Option<&'static str>,
    /// Variables of the environment that begin so would be taken for options, and are kept from it.
    pub(crate) hidden_variables: &'static [&'static str],
    /// Whether the server can choose a port itself (port 0).
    pub(crate) chooses_port: bool,
    pub(crate) ready: Ready,
}

/// Starts the process and waits until it listens. A port that somebody took between the choice and the start is chosen
/// anew.
pub(crate) fn launch(
    recipe: &Recipe,
    home: &Home,
    port: u16,
    lifetime: Lifetime,
) -> Result<(Child, SocketAddr), Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        let chosen = if port == 0 && !recipe.chooses_port { free_port()? } else { port };
        match launch_on(recipe, home, chosen, lifetime) {
            Err(Error::Ended { .. }) if chosen != port && tries < PORT_TRIES => {}
            result => return result,
        }
    }
}

fn launch_on(
    recipe: &Recipe,
    home: &Home,
    port: u16,
    lifetime: Lifetime,
) -> Result<(Child, SocketAddr), Error> {
    let program = program(recipe, home, port);
    let (lock, now_ns) = (Some(home.lock_for_server()?), || clock::now().as_ns());
    let launch = Launch { program: &program, lock, lifetime, patience: PATIENCE, now_ns };
    let mut listens = |lines: &str| lines.lines().find_map(|line| (recipe.ready)(line, port));
    launch.until(&mut listens).map_err(|error| not_started(&program, error))
}

fn not_started(program: &Program, error: LaunchError) -> Error {
    match error {
        LaunchError::Spawn(source) => Error::Spawn { program: program.path.clone(), source },
        LaunchError::Ended { status, tail } => Error::Ended { status, tail },
        LaunchError::Late { seconds, tail } => Error::NotReady { seconds, tail },
    }
}

fn program(recipe: &Recipe, home: &Home, port: u16) -> Program {
    let mut args = recipe.args.clone();
    args.extend(["--port".into(), port.to_string().into()]);
    args.extend([recipe.data_option.into(), home.data().into_os_string()]);
    if let Some(option) = recipe.config_option {
        args.extend([option.into(), home.config().into_os_string()]);
    }
    let (path, hidden_variables) = (recipe.program.clone(), recipe.hidden_variables);
    Program { path, args, log: home.log(), directory: home.path().to_owned(), hidden_variables }
}

fn free_port() -> Result<u16, Error> {
    let [port] = port::free().map_err(Error::Port)?;
    Ok(port)
}
