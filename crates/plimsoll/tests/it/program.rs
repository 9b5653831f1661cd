//! The program, its servers, and what it leaves behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server};
use plimsoll_wire::{ConnectOptions, Connection};
use serde_json::Value;

/// The program's words, ready to be given arguments. It does not measure itself, which would take the whole machine for
/// seconds each time: tests of that say so.
pub fn plimsoll() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.stdin(Stdio::null()).env("NO_COLOR", "1").env("PLIMSOLL_NO_CALIBRATION", "1");
    command
}

/// The same, measuring itself before and after each load.
pub fn measured() -> Command {
    let mut command = plimsoll();
    command.env_remove("PLIMSOLL_NO_CALIBRATION");
    command
}

/// Runs the program to its end.
pub fn plimsoll_with(args: &[&str]) -> Output {
    plimsoll().args(args).output().unwrap()
}

/// What a program said.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a program printed.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a program printed, as JSON.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("no JSON ({error}) but `{}`; it said: {}", stdout(output), stderr(output))
    })
}

/// Starts an embedded server. It must have been installed.
pub fn server(profile: Profile, args: &[&str]) -> Server {
    let cache = Cache::locate().unwrap();
    assert!(embedded::is_installed(&cache), "the embedded server is missing: run `cargo xtask setup` first");
    let args = args.iter().map(Into::into).collect();
    embedded::start(&cache, &Options { profile, args, ..Options::default() }).unwrap()
}

/// A server that all tests share, each in a collection of its own. It ends with the test program.
pub fn shared() -> String {
    static SHARED: OnceLock<Server> = OnceLock::new();
    // The server is bound to the thread that starts it, and a test's own thread ends with the test.
    let server = SHARED.get_or_init(|| {
        let (sender, started) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            sender.send(server(Profile::Relaxed, &[])).unwrap();
            loop {
                std::thread::park();
            }
        });
        started.recv().unwrap()
    });
    uri(server)
}

/// Starts a server that asks for a password: that of ann is `right`.
pub fn guarded() -> Server {
    let server = server(Profile::Relaxed, &["--auth"]);
    let options = ConnectOptions::new(server.address().to_string().parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Connection::connect(&options).await.unwrap();
        let create = bson::rawdoc! {
            "createUser": "ann", "pwd": "right", "roles": [{"role": "root", "db": "admin"}],
            "mechanisms": ["SCRAM-SHA-256"],
        };
        connection.command("admin", &create).await.unwrap();
    });
    server
}

/// How to reach a server.
pub fn uri(server: &Server) -> String {
    format!("mongodb://{}/?directConnection=true", server.address())
}

/// A scenario file in `dir`.
pub fn scenario(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("scenario.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

/// How long [`inserts`] waits for a server that many tests share: it may stand still for seconds when the machine is busy.
const PATIENT: &str = "unreachable_for: 60s\ntimeout: 60s";

/// A scenario of [`inserts`] that soon gives up a server which says nothing more.
pub fn impatient(scenario: &str) -> String {
    scenario.replace(PATIENT, "unreachable_for: 2s")
}

/// The same, for one that never does.
pub fn endlessly_patient(scenario: &str) -> String {
    scenario.replace(PATIENT, "unreachable_for: 300s\ntimeout: 300s")
}

/// A small scenario with one phase of inserts.
pub fn inserts(collection: &str, batch: u32, stop: &str) -> String {
    format!(
        "title: test\ncollection: plimsoll_test.{collection}\ndocument: {{n: {{$number: {{}}}}, text: {{$text: {{bytes: 40}}}}}}\n\
         write_concern: {{w: 1, j: true}}\n{PATIENT}\nphases:\n  - load:\n      insert:\n        \
         operation: {{insert: {{batch: {batch}}}}}\n        arrivals: {{closed: {{writers: 2}}}}\n    stop: {stop}\n"
    )
}

/// The Python that has pymongo.
pub fn python() -> PathBuf {
    let python = Cache::locate().unwrap().root().join("python/bin/python");
    assert!(python.exists(), "pymongo is missing: run `cargo xtask setup` first");
    python
}
