//! Describes how to start a kind of server, starts it and waits until it listens.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_measure::environment::ServerKind;
use plimsoll_process::{Child, Deadline, Error, Launch, Lifetime, Program, port};
use serde::{Deserialize, Serialize};

use crate::home::Home;
use crate::power;

/// The name of a server in errors.
pub(crate) const NAME: &str = "the server";
/// The time limit of a start, including the recovery after a kill, and the interval at which the log is
/// polled.
const DEADLINE: Deadline = Deadline { limit: Duration::from_secs(60), poll_every: Duration::from_millis(5) };
/// The limit of attempts of a start whose port another program took.
const PORT_TRIES: u32 = 5;

/// Reads the server's address from one line of its log, given its port; none if the server does not listen
/// yet.
pub(crate) type Ready = fn(line: &str, port: u16) -> Option<SocketAddr>;

/// The durability of an acknowledged write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Acknowledged writes are on disk: they survive `kill -9`.
    #[default]
    Journaled,
    /// The server's own defaults: faster, but a crash can lose the last acknowledged writes, even with a
    /// strict write concern.
    Relaxed,
}

impl Profile {
    /// The name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Journaled => "journaled",
            Profile::Relaxed => "relaxed",
        }
    }
}

/// Describes how to start a kind of server. The arguments for the port and the home are added.
#[derive(Clone, Debug)]
pub(crate) struct LaunchSpec {
    pub(crate) kind: ServerKind,
    pub(crate) profile: Option<Profile>,
    pub(crate) product: Option<String>,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// The option for the directory of the data; `None` if the server keeps no data.
    pub(crate) data_option: Option<&'static str>,
    /// The option for a configuration file, if the server would otherwise search for one.
    pub(crate) config_option: Option<&'static str>,
    /// Prefixes of environment variables that are hidden from the server, because it would read them as
    /// options.
    pub(crate) hidden_variables: &'static [&'static str],
    /// Whether the server can choose a free port itself (port 0).
    pub(crate) chooses_port: bool,
    /// The library that keeps a copy of the synced data, if the server can lose its power.
    pub(crate) power: Option<PathBuf>,
    pub(crate) ready: Ready,
}

/// Starts the process and waits until it listens. Retries with another port if another program took the
/// chosen port first.
pub(crate) fn launch(
    spec: &LaunchSpec,
    home: &Home,
    port: u16,
    lifetime: Lifetime,
) -> Result<(Child, SocketAddr), Error> {
    if spec.power.is_some() {
        power::begin(home.path(), &home.data())?;
    }
    let mut tries = 0;
    loop {
        tries += 1;
        let [free] = if port == 0 && !spec.chooses_port { port::free()? } else { [port] };
        match launch_on(spec, home, free, lifetime) {
            Err(Error::Ended { .. }) if free != port && tries < PORT_TRIES => {}
            result => return result,
        }
    }
}

fn launch_on(
    spec: &LaunchSpec,
    home: &Home,
    port: u16,
    lifetime: Lifetime,
) -> Result<(Child, SocketAddr), Error> {
    let program = program(spec, home, port);
    let (lock, now_ns) = (Some(home.lock_for_server()?), || clock::now().as_ns());
    let launch = Launch { program: &program, lock, lifetime, deadline: DEADLINE, now_ns };
    let mut listens = |lines: &str| lines.lines().find_map(|line| (spec.ready)(line, port));
    launch.until(&mut listens)
}

fn program(spec: &LaunchSpec, home: &Home, port: u16) -> Program {
    let mut args = spec.args.clone();
    args.extend(["--port".into(), port.to_string().into()]);
    if let Some(option) = spec.data_option {
        args.extend([option.into(), home.data().into_os_string()]);
    }
    if let Some(option) = spec.config_option {
        args.extend([option.into(), home.config().into_os_string()]);
    }
    let path = spec.program.clone();
    let (path, args) = match &spec.power {
        Some(library) => power::preloaded(library, home.path(), &home.data(), path, args),
        None => (path, args),
    };
    let hidden_variables = spec.hidden_variables;
    let (log, directory) = (home.log(), home.path().to_owned());
    Program { name: NAME, path, args, log, directory, hidden_variables }
}
