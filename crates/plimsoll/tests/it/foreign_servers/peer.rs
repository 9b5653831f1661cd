//! Starts servers of other products, each on a free port of the loopback address, with its data in a temporary directory.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bson::{Document, RawDocumentBuf};
use plimsoll_host::{Cache, Profile, Server};
use plimsoll_measure::clock;
use plimsoll_process::home::{Home, Storage};
use plimsoll_process::{Child, Deadline, Launch, Lifetime, Program};
use plimsoll_wire::{ConnectOptions, Connection};

use crate::program::{server, uri};

/// The time limit of a start.
const DEADLINE: Deadline = Deadline { limit: Duration::from_secs(60), poll_every: Duration::from_millis(5) };
/// Environment variables that would change a server.
const HIDDEN: &[&str] = &["FERRETDB_", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"];
/// The wire version of MongoDB 5.0, which mongo-java-server imitates.
pub const WIRE_VERSION: u32 = 13;

/// A running server, which ends when it is dropped.
pub struct Peer {
    pub uri: String,
    /// Fields are dropped in this order: the process must end before its data is removed.
    _process: Process,
    _home: Option<Home>,
}

#[expect(dead_code, reason = "the fields keep the servers alive")]
enum Process {
    Embedded(Box<Server>),
    Other(Child),
}

/// Starts the embedded server.
pub fn embedded() -> Peer {
    let server = server(Profile::Relaxed, &[]);
    Peer { uri: uri(&server), _process: Process::Embedded(Box::new(server)), _home: None }
}

/// Starts FerretDB with its SQLite backend; it sends no telemetry.
pub fn ferretdb() -> Peer {
    let home = home();
    let data = home.data().display().to_string();
    let words = [
        "--handler=sqlite".to_owned(),
        format!("--sqlite-url=file:{data}/"),
        format!("--state-dir={data}"),
        "--listen-addr=127.0.0.1:0".to_owned(),
        "--debug-addr=-".to_owned(),
        "--telemetry=disable".to_owned(),
    ];
    let program = installed("ferretdb").join("bin/ferretdb");
    start(home, program, words.map(OsString::from).to_vec(), "Listening on TCP ")
}

/// Starts mongo-java-server, which keeps its data in memory and claims to speak `wire_version`.
pub fn mongo_java_server(wire_version: u32) -> Peer {
    let directory = installed("mongo-java-server");
    let mut path = directory.join("files/*").into_os_string();
    path.push(":");
    path.push(directory.join("classes"));
    let java_home = env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    let java = java_home.map_or_else(|| "java".into(), |home| PathBuf::from(home).join("bin/java"));
    let args = vec!["-cp".into(), path, "MongoJavaServer".into(), wire_version.to_string().into()];
    start(home(), java, args, "listening on ")
}

fn installed(name: &str) -> PathBuf {
    let directory = Cache::locate().unwrap().root().join(name);
    assert!(directory.is_dir(), "{name} is missing: run `cargo xtask setup` first");
    directory
}

fn home() -> Home {
    Home::open(&Storage::Temporary, "plimsoll-peer-", &env::temp_dir()).unwrap()
}

/// Starts a program and waits for the line of its log that names its address after `prefix`.
fn start(home: Home, path: PathBuf, args: Vec<OsString>, prefix: &str) -> Peer {
    let (log, directory) = (home.path().join("log"), home.path().to_owned());
    let program = Program { name: "the peer", path, args, log, directory, hidden_variables: HIDDEN };
    let (lock, now_ns) = (Some(home.lock().unwrap()), || clock::now().as_ns());
    let launch = Launch { program: &program, lock, lifetime: Lifetime::Bound, deadline: DEADLINE, now_ns };
    let mut listens = |lines: &str| lines.lines().find_map(|line| address(line, prefix));
    let (child, address) = launch.until(&mut listens).unwrap();
    let uri = format!("mongodb://{address}/?directConnection=true");
    Peer { uri, _process: Process::Other(child), _home: Some(home) }
}

fn address(line: &str, prefix: &str) -> Option<String> {
    let (_, address) = line.split_once(prefix)?;
    Some(address.chars().take_while(|letter| matches!(letter, '0'..='9' | '.' | ':')).collect::<String>())
        .map(|address| address.trim_end_matches('.').to_owned())
}

impl Peer {
    /// Runs a command through the lean client.
    pub fn ask(&self, database: &str, command: &Document) -> Document {
        let address = self.uri.trim_start_matches("mongodb://").split('/').next().unwrap();
        let options = ConnectOptions::new(address.parse().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reply = runtime.block_on(async {
            let mut connection = Connection::connect(&options).await.unwrap();
            connection.command(database, &RawDocumentBuf::try_from(command).unwrap()).await.unwrap()
        });
        Document::try_from(reply.as_ref()).unwrap()
    }
}
