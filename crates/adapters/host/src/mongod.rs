//! Starts the user's own `mongod` from the PATH for a run, on a fresh directory; and the `mongod` and
//! `mongos` of replica sets and sharded clusters, which outlive this process.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plimsoll_install::Cache;
use plimsoll_measure::environment::ServerKind;

use crate::home::Storage;
use crate::launch_spec::LaunchSpec;
use crate::local::Server;
use crate::registry;

/// Settings of a `mongod`. It listens on 127.0.0.1 only and is standalone.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directory of the data.
    pub storage: Storage,
    /// The port; 0 selects any free port.
    pub port: u16,
    /// The storage engine's cache in bytes; by default half of the memory above 1 GiB.
    pub cache_bytes: Option<u64>,
    /// Further arguments, as the server's `--help` lists them.
    pub args: Vec<OsString>,
}

/// A `mongod` cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The PATH contains no `mongod`.
    #[error("the PATH contains no mongod: install MongoDB, give an address, or use the embedded server")]
    NotFound,
    /// The process does not start.
    #[error(transparent)]
    Start(#[from] plimsoll_process::Error),
    /// The server runs, but cannot be registered.
    #[error(transparent)]
    Registry(#[from] registry::Error),
}

/// The role of a server in a replica set or a sharded cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A member of the replica set with this name.
    Member(String),
    /// A member of a shard, the replica set with this name.
    Shard(String),
    /// A member of the replica set with this name, which holds a cluster's configuration.
    Config(String),
    /// A router of the cluster whose configuration is on this set: `name/host:port,host:port`.
    Router(String),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(set) | Self::Shard(set) | Self::Config(set) => write!(f, "member of {set}"),
            Self::Router(_) => f.write_str("router"),
        }
    }
}

impl Role {
    fn args(&self) -> Vec<OsString> {
        let (option, value, more) = match self {
            Self::Member(set) => ("--replSet", set, None),
            Self::Shard(set) => ("--replSet", set, Some("--shardsvr")),
            Self::Config(set) => ("--replSet", set, Some("--configsvr")),
            Self::Router(config) => ("--configdb", config, None),
        };
        [option, value].into_iter().chain(more).map(Into::into).collect()
    }

    const fn keeps_data(&self) -> bool {
        !matches!(self, Self::Router(_))
    }
}

/// The first executable `mongod` on the PATH.
pub fn find() -> Option<PathBuf> {
    find_program("mongod")
}

/// The first executable program with this name on the PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    find_in(&env::var_os("PATH")?, name)
}

fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    env::split_paths(path).map(|directory| directory.join(name)).find(|program| is_executable(program))
}

fn is_executable(program: &Path) -> bool {
    program.metadata().is_ok_and(|program| program.is_file() && program.permissions().mode() & 0o111 != 0)
}

/// The version that a `mongod` reports, for example `8.0.4`.
pub fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find_map(|line| line.strip_prefix("db version v")).map(|version| version.trim().to_owned())
}

/// Starts the `mongod` on the PATH. It ends with the returned value, or with this process. Blocks until it
/// listens.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Start`] with the last lines of its log.
pub fn start(options: &Options) -> Result<Server, Error> {
    let program = find().ok_or(Error::NotFound)?;
    start_program(program, options)
}

fn start_program(program: PathBuf, options: &Options) -> Result<Server, Error> {
    let spec = spec(program, args(options), Some("--dbpath"));
    Ok(Server::start(spec, &options.storage, options.port)?)
}

/// Starts a server of a replica set or a sharded cluster, on any free port and with temporary storage. Adds
/// it to the registry under the name of its deployment. The caller initiates the set. Servers that keep data
/// get the smallest cache, because several share a machine.
///
/// # Errors
/// [`Error::Start`] with the last lines of its log; [`Error::Registry`] if it cannot be registered: it is then stopped again.
pub fn start_detached(
    cache: &Cache,
    program: PathBuf,
    role: Role,
    deployment: &str,
) -> Result<registry::Entry, Error> {
    let cache_bytes = role.keeps_data().then_some(0);
    let mut args = args(&Options { cache_bytes, ..Options::default() });
    args.extend(role.args());
    let spec = spec(program, args, role.keeps_data().then_some("--dbpath"));
    let registry = registry::Registry::of(cache)?;
    let (pid, address, storage) =
        Server::start_detached(&spec, &Storage::Temporary, 0, registry.directory())?;
    let part = registry::Part { deployment: deployment.to_owned(), role: role.to_string() };
    Ok(registry.add(pid, address, None, storage, true, Some(part))?)
}

fn spec(program: PathBuf, args: Vec<OsString>, data_option: Option<&'static str>) -> LaunchSpec {
    LaunchSpec {
        kind: ServerKind::Mongod,
        profile: None,
        product: None,
        program,
        args,
        data_option,
        config_option: None,
        hidden_variables: &[],
        chooses_port: false,
        power: None,
        ready,
    }
}

fn args(options: &Options) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["--bind_ip".into(), "127.0.0.1".into()];
    if let Some(bytes) = options.cache_bytes {
        // The smallest cache that `mongod` accepts is 0.25 GB.
        let gigabytes = (bytes as f64 / f64::from(1 << 30)).max(0.25);
        args.extend(["--wiredTigerCacheSizeGB".into(), gigabytes.to_string().into()]);
    }
    args.extend(options.args.iter().cloned());
    args
}

/// Recognises the log message "Waiting for connections" (ID 23016).
fn ready(line: &str, port: u16) -> Option<SocketAddr> {
    line.to_ascii_lowercase()
        .contains("waiting for connections")
        .then(|| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    const FAKE: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo "db version v8.0.4"; exit; fi
echo "$@" > "$6/args"
echo '{"c":"NETWORK","id":23016,"msg":"Waiting for connections","attr":{"port":1}}'
exec sleep 60
"#;

    /// Creates a directory with a script that replaces `mongod`. A child process writes the script: if this
    /// process wrote it, a child that another test forks could still hold the file open, and running it would
    /// fail.
    fn fake() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "printf '%s' \"$1\" > \"$0\"; chmod 755 \"$0\""]);
        assert!(shell.arg(directory.path().join("mongod")).arg(FAKE).status().unwrap().success());
        directory
    }

    #[test]
    fn the_first_program_on_the_path_that_may_be_executed_is_found() {
        let (empty, plain, good) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), fake());
        fs::write(plain.path().join("mongod"), "not a program").unwrap();
        let path = env::join_paths([empty.path(), plain.path(), good.path()]).unwrap();
        assert_eq!(find_in(&path, "mongod"), Some(good.path().join("mongod")));
        assert_eq!(find_in(empty.path().as_os_str(), "mongod"), None);
    }

    #[test]
    fn the_version_is_read_from_the_program() {
        assert_eq!(version(&fake().path().join("mongod")).as_deref(), Some("8.0.4"));
        assert_eq!(version(Path::new("/nowhere/mongod")), None);
    }

    #[test]
    fn the_arguments_name_the_address_and_the_directory() {
        let directory = fake();
        let mut server = start_program(directory.path().join("mongod"), &Options::default()).unwrap();
        let port = server.address().port();
        let arguments = fs::read_to_string(server.storage().join("data/args")).unwrap();
        let data = server.storage().join("data");
        assert_eq!(
            arguments.trim(),
            format!("--bind_ip 127.0.0.1 --port {port} --dbpath {}", data.display())
        );
        assert!(port > 0);
        server.stop(Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn a_role_has_the_options_of_its_program() {
        let set = || "rs0".to_owned();
        assert_eq!(Role::Member(set()).args(), ["--replSet", "rs0"]);
        assert_eq!(Role::Shard(set()).args(), ["--replSet", "rs0", "--shardsvr"]);
        assert_eq!(Role::Config(set()).args(), ["--replSet", "rs0", "--configsvr"]);
        assert_eq!(Role::Router("config/a:1".into()).args(), ["--configdb", "config/a:1"]);
    }

    #[test]
    fn the_cache_is_given_in_gigabytes_and_never_below_the_smallest() {
        let args = |bytes| args(&Options { cache_bytes: Some(bytes), ..Options::default() });
        assert_eq!(args(3 << 29)[2..], ["--wiredTigerCacheSizeGB", "1.5"]);
        assert_eq!(args(1)[2..], ["--wiredTigerCacheSizeGB", "0.25"]);
    }
}
