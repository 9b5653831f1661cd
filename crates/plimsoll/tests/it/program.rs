//! Runs the program and its servers for the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server};
use plimsoll_wire::{ConnectOptions, Connection};
use serde_json::Value;

/// The command of the program. It skips the calibration, which would take the whole machine for seconds;
/// tests of the calibration request it.
pub fn plimsoll() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.stdin(Stdio::null()).env("NO_COLOR", "1").env("PLIMSOLL_NO_CALIBRATION", "1");
    command
}

/// The command of the program, with the calibration.
pub fn measured() -> Command {
    let mut command = plimsoll();
    command.env_remove("PLIMSOLL_NO_CALIBRATION");
    command
}

/// Runs the program to its end.
pub fn plimsoll_with(args: &[&str]) -> Output {
    plimsoll().args(args).output().unwrap()
}

/// The messages of a program.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The output of a program.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The output of a program as JSON.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("no JSON ({error}) but `{}`; its messages: {}", stdout(output), stderr(output))
    })
}

/// Runs a command in `dir` at 60 columns, and checks that its output fits them. The exit code must be one of
/// `exits`.
#[track_caller]
pub fn fits_60(dir: &Path, words: &[&str], exits: &[i32]) -> Output {
    let output = plimsoll().args(words).current_dir(dir).env("COLUMNS", "60").output().unwrap();
    let (exit, said) = (output.status.code().unwrap(), stderr(&output));
    assert!(exits.contains(&exit), "{words:?} ends with {exit}: {said}");
    let text = stdout(&output);
    assert!(!text.is_empty(), "{words:?}: {said}");
    let too_wide: Vec<_> = text.lines().filter(|line| !is_copied(line) && widest(line) > 60).collect();
    assert_eq!(too_wide, [""; 0], "{words:?}: {text}");
    // A column of one character is as unreadable as a line that is too wide.
    let thin = text.lines().filter(|line| line.trim().len() == 1 && line.starts_with("    ")).count();
    assert!(thin < 5, "{words:?}: {text}");
    output
}

/// Whether a line is never wrapped: a long name, or a path, a command or a sample document to copy.
fn is_copied(line: &str) -> bool {
    let is_ending = ["Data ", "Page ", "Next "].iter().any(|word| line.starts_with(word));
    !line.contains(' ') || is_ending || line.starts_with("#   {")
}

/// The number of characters of the longest line.
pub fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Starts an embedded server, which must be installed.
pub fn server(profile: Profile, args: &[&str]) -> Server {
    let cache = Cache::locate().unwrap();
    assert!(embedded::is_installed(&cache), "the embedded server is missing: run `cargo xtask setup` first");
    let args = args.iter().map(Into::into).collect();
    embedded::start(&cache, &Options { profile, args, ..Options::default() }).unwrap()
}

/// The server that all tests share, each with its own collection. It ends with the test program.
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

/// Starts a server that requires a password; the user is `ann` and the password `right`.
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

/// The address of a server.
pub fn uri(server: &Server) -> String {
    format!("mongodb://{}/?directConnection=true", server.address())
}

/// Writes a scenario file into `dir`.
pub fn scenario(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("scenario.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

/// The time limits of [`inserts`] for a shared server, which may stall for seconds when the machine is busy.
const PATIENT: &str = "unreachable_for: 60s\ntimeout: 60s";

/// A scenario of [`inserts`] that soon gives up a silent server.
pub fn impatient(scenario: &str) -> String {
    scenario.replace(PATIENT, "unreachable_for: 2s")
}

/// A scenario of [`inserts`] that never gives up a silent server.
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
