//! Tests `plimsoll server start --members` and `--shards` with substitutes for MongoDB's programs, which are
//! not installed here.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use plimsoll_wire::{ConnectOptions, Connection};

use crate::program::{plimsoll, python, stderr, stdout};

/// A cache, and substitutes for `mongod` and `mongos`.
struct Machine {
    cache: tempfile::TempDir,
    programs: tempfile::TempDir,
}

impl Machine {
    /// A machine whose PATH has programs of these names.
    fn with(names: &[&str]) -> Self {
        let machine = Machine { cache: tempfile::tempdir().unwrap(), programs: tempfile::tempdir().unwrap() };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stand_in.py");
        for name in names {
            // A child process writes the program, so that no fork of another test holds it open.
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", r##"(echo "#!$1"; cat "$2") > "$0" && chmod 755 "$0""##]);
            shell.arg(machine.programs.path().join(name)).arg(python()).arg(&script);
            assert!(shell.status().unwrap().success());
        }
        machine
    }

    fn command(&self, args: &[&str]) -> Output {
        let mut command = plimsoll();
        command.env("PATH", self.programs.path()).env("PLIMSOLL_CACHE", self.cache.path());
        command.arg("server").args(args).output().unwrap()
    }

    /// The connection string that a start prints.
    #[track_caller]
    fn start(&self, args: &[&str]) -> String {
        let output = self.command(&[&["start"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output).trim_end().to_owned()
    }

    /// The addresses and roles of the running servers.
    fn running(&self) -> Vec<(String, String)> {
        let status = stdout(&self.command(&["status"]));
        let servers = status.lines().filter_map(|line| line.strip_prefix("mongodb://"));
        let server = |line: &str| {
            let mut columns = line.split("  ");
            let address = columns.next().unwrap().to_owned();
            (address, columns.next().unwrap().split_once(", ").unwrap().1.to_owned())
        };
        servers.map(server).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.command(&["stop"]);
    }
}

fn addresses(uri: &str) -> Vec<String> {
    let hosts = uri.strip_prefix("mongodb://").unwrap().split('/').next().unwrap();
    hosts.split(',').map(str::to_owned).collect()
}

/// The answer of a server to a command.
fn ask(address: &str, command: &bson::RawDocument) -> bson::Document {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = ConnectOptions::new(address.parse().unwrap());
        let mut connection = Connection::connect(&options).await.unwrap();
        bson::Document::try_from(&*connection.command("admin", command).await.unwrap()).unwrap()
    })
}

#[test]
fn a_replica_set_has_a_primary_and_its_members_stop_together() {
    let machine = Machine::with(&["mongod"]);
    let uri = machine.start(&["--members", "3"]);
    let members = addresses(&uri);
    assert!(uri.ends_with("/?replicaSet=rs0") && members.len() == 3, "{uri}");
    let leads =
        |member: &String| ask(member, &bson::rawdoc! {"hello": 1}).get_bool("isWritablePrimary").unwrap();
    assert_eq!(members.iter().filter(|member| leads(member)).count(), 1);
    let running = machine.running();
    assert!(running.len() == 3 && running.iter().all(|(_, role)| role == "member of rs0"), "{running:?}");

    let stopped = machine.command(&["stop", &members[1]]);
    assert_eq!(stdout(&stopped).lines().count(), 3, "{}", stderr(&stopped));
    assert_eq!(machine.running(), []);
    assert!(members.iter().all(|member| TcpStream::connect(member).is_err()));
}

#[test]
fn a_sharded_cluster_has_its_shards_behind_a_router() {
    let machine = Machine::with(&["mongod", "mongos"]);
    let uri = machine.start(&["--shards", "2", "--members", "2"]);
    let routers = addresses(&uri);
    assert_eq!(routers.len(), 1, "{uri}");
    let listed = ask(&routers[0], &bson::rawdoc! {"listShards": 1});
    let shards = listed.get_array("shards").unwrap().iter();
    let names: Vec<_> = shards.map(|shard| shard.as_document().unwrap().get_str("_id").unwrap()).collect();
    assert_eq!(names, ["shard0", "shard1"]);
    let mut roles: Vec<_> = machine.running().into_iter().map(|(_, role)| role).collect();
    roles.sort();
    let [config, shard0, shard1] = ["member of config", "member of shard0", "member of shard1"];
    assert_eq!(roles, [config, config, shard0, shard0, shard1, shard1, "router"]);
    machine.command(&["stop", &uri]);
    assert_eq!(machine.running(), []);
}

#[test]
fn a_missing_program_is_named_with_a_remedy_and_nothing_is_started() {
    let machine = Machine::with(&["mongod"]);
    let output = machine.command(&["start", "--shards", "2"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("the PATH contains no mongos: install MongoDB"), "{}", stderr(&output));
    assert!(stderr(&output).contains("--mongos PATH"), "{}", stderr(&output));
    assert_eq!(machine.running(), []);
}

#[test]
fn a_failed_start_stops_the_servers_that_it_started() {
    let machine = Machine::with(&["mongod"]);
    let broken: PathBuf = machine.programs.path().join("broken");
    let mut shell = Command::new("/bin/sh");
    shell.args([
        "-c",
        r##"printf '#!/bin/sh\necho no configuration >&2; exit 1\n' > "$0" && chmod 755 "$0""##,
    ]);
    assert!(shell.arg(&broken).status().unwrap().success());
    let output = machine.command(&["start", "--shards", "1", "--mongos", broken.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("no configuration"), "{}", stderr(&output));
    assert_eq!(machine.running(), []);
}

#[test]
fn options_of_the_embedded_server_are_refused() {
    let machine = Machine::with(&[]);
    for option in ["--port=27017", "--count=2", "--profile=relaxed", "--storage=x"] {
        let output = machine.command(&["start", "--members", "3", option]);
        assert_eq!(output.status.code(), Some(2), "{option}: {}", stderr(&output));
    }
}
