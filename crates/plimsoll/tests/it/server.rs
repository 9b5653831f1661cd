//! Tests `plimsoll server start`, `status` and `stop`, and the removal of leftovers of killed runs.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use plimsoll_host::Cache;
use plimsoll_measure::clock::{self, SECOND_NS};

use crate::program::{inserts, plimsoll, scenario, shared, stderr, stdout};

/// The time limit of a wait for another process, in nanoseconds.
const PATIENCE_NS: u64 = 120 * SECOND_NS;

/// A cache with the installed programs of the real one, its own list of running servers and its own snapshots.
pub fn own_cache() -> tempfile::TempDir {
    let own = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(Cache::locate().unwrap().root()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "servers" && entry.file_name() != "snapshots" {
            std::os::unix::fs::symlink(entry.path(), own.path().join(entry.file_name())).unwrap();
        }
    }
    own
}

/// Stops the servers of a cache at the end of a test.
struct Servers(tempfile::TempDir);

impl Servers {
    fn command(&self, args: &[&str]) -> Output {
        let mut command = plimsoll();
        command.arg("server").args(args).env("PLIMSOLL_CACHE", self.0.path()).output().unwrap()
    }

    fn status(&self) -> String {
        stdout(&self.command(&["status"]))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.command(&["stop"]);
    }
}

#[test]
fn one_of_several_started_servers_is_stopped_by_its_address() {
    let servers = Servers(own_cache());
    let started = servers.command(&["start", "--profile", "relaxed", "--count", "2"]);
    assert_eq!(started.status.code(), Some(0), "{}", stderr(&started));
    let uris: Vec<String> = stdout(&started).lines().map(str::to_owned).collect();
    assert_eq!(uris.len(), 2, "{uris:?}");

    let stopped = servers.command(&["stop", &uris[0]]);
    assert_eq!(stopped.status.code(), Some(0), "{}", stderr(&stopped));
    let bare = uris[0].trim_start_matches("mongodb://");
    assert_eq!(stdout(&stopped), format!("{bare} stopped\n"));
    let status = servers.status();
    assert!(!status.contains(&uris[0]) && status.contains(&uris[1]), "{status}");
    assert_eq!(stdout(&servers.command(&["list"])), status);

    let again = servers.command(&["stop", &uris[0], &uris[1]]);
    assert_eq!(again.status.code(), Some(2), "{}", stderr(&again));
    assert!(stderr(&again).contains("no running server there was started by"), "{}", stderr(&again));
    assert!(servers.status().contains(&uris[1]), "a wrong name stops nothing");
}

#[test]
fn a_listener_that_plimsoll_did_not_start_is_never_stopped() {
    let servers = Servers(own_cache());
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    // The list names this test's process, with another start time: the entry of a dead server whose process
    // ID was reused.
    let (list, storage) = (servers.0.path().join("servers"), servers.0.path().join("storage"));
    fs::create_dir_all(&list).unwrap();
    let entry = serde_json::json!({
        "address": address.to_string(), "pid": std::process::id(), "started_ticks": 1, "profile": null,
        "storage": storage, "temporary": true,
    });
    fs::write(list.join(format!("{}.json", std::process::id())), entry.to_string()).unwrap();
    let refused = servers.command(&["stop", &address.to_string()]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("no running server there was started by"), "{}", stderr(&refused));
}

/// The homes of servers below a directory for temporary files.
fn homes(temporary: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(temporary).unwrap().flatten().map(|entry| entry.path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("plimsoll-")).collect()
}

/// Waits until a condition holds.
#[track_caller]
fn wait_for(condition: impl Fn() -> bool) {
    let began = clock::now();
    while !condition() {
        assert!(clock::now().since(began) < PATIENCE_NS, "it does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn run(dir: &Path, temporary: &Path, out: &str, server: &str, stop: &str) -> Command {
    let file = scenario(dir, &inserts(&out.replace('-', "_"), 10, stop));
    let mut command = plimsoll();
    command.args(["run", file.to_str().unwrap(), "--server", server, "--quiet", "--out"]).arg(dir.join(out));
    command.env("TMPDIR", temporary).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn the_next_start_removes_the_home_of_a_killed_run_and_no_other() {
    let (dir, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let temporary = temporary.path();
    let mut killed =
        run(dir.path(), temporary, "killed", "embedded:relaxed", "{duration: 300s}").spawn().unwrap();
    wait_for(|| {
        fs::read_to_string(dir.path().join("killed/events.ndjson")).is_ok_and(|it| it.contains("interval"))
    });
    let left = homes(temporary);
    assert_eq!(left.len(), 1, "{left:?}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(left[0].exists(), "a killed process removes nothing");
    // The server ends with its owner, and its lock with the server.
    let lock = || fs::File::open(left[0].join("lock")).unwrap();
    wait_for(|| lock().try_lock().is_ok());

    let foreign = temporary.join("plimsoll-notes");
    fs::create_dir(&foreign).unwrap();
    let mut living =
        run(dir.path(), temporary, "living", "embedded:relaxed", "{duration: 300s}").spawn().unwrap();
    wait_for(|| {
        fs::read_to_string(dir.path().join("living/events.ndjson")).is_ok_and(|it| it.contains("interval"))
    });
    let home = homes(temporary).into_iter().find(|home| *home != foreign).unwrap();
    assert!(!left[0].exists() && home != left[0]);

    let next = run(dir.path(), temporary, "leftovers-next", &shared(), "{documents: 100}").status().unwrap();
    assert_eq!(next.code(), Some(0));
    assert!(home.exists() && foreign.exists(), "its owner lives, and the other is no home");
    living.kill().unwrap();
    living.wait().unwrap();
    wait_for(|| fs::File::open(home.join("lock")).unwrap().try_lock().is_ok());
    let last = run(dir.path(), temporary, "leftovers-last", &shared(), "{documents: 100}").status().unwrap();
    assert_eq!(last.code(), Some(0));
    assert!(!home.exists(), "a start that needs no server removes it as well");
}
