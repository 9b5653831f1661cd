//! Tests the science catalogue as a process: its guide, its scenarios, and tokens over a restart.

use std::fs;
use std::process::Command;
use std::thread::{self, JoinHandle};

use plimsoll_measure::clock::{self, SECOND_NS};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::program::{json as summary, plimsoll, plimsoll_with, shared, stderr, stdout};
use crate::server::own_cache;
use crate::service::{Client, Service};

const GUIDE: &str = include_str!("../../../../docs/guides/catalogue.md");

/// The text of the first block after a marker.
fn block(marker: &str, language: &str) -> &'static str {
    let rest = GUIDE.split_once(marker).unwrap().1;
    rest.split_once(&format!("```{language}\n")).unwrap().1.split_once("```").unwrap().0
}

/// Starts the catalogue of the guide on a database of the shared server.
pub fn of_guide(dir: &std::path::Path, database: &str) -> Service {
    fs::write(dir.join("accounts.json"), block("Save this as `accounts.json`", "json")).unwrap();
    let settings = dir.join("catalogue.yaml");
    fs::write(&settings, block("Save this as `catalogue.yaml`", "yaml")).unwrap();
    let database = format!("database.name={database}");
    let (config, server) = (settings.to_str().unwrap(), shared());
    Service::of("catalogue", &["--config", config, "--server", &server, "--set", &database])
}

#[test]
fn every_command_of_the_guide_succeeds_in_its_order() {
    let start = block("Start the service", "sh").trim();
    assert_eq!(start, "plimsoll serve catalogue --config catalogue.yaml --storage data");
    let dir = tempfile::tempdir().unwrap();
    let mut service = of_guide(dir.path(), "catalogue_guide");
    let script = block("Then log in", "sh").replace("localhost:3000", &service.address);
    let script = format!("set -e\n{}", script.replace("curl -sf", "curl -sf -w '\\n'"));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 6, "{said}");
    assert_eq!((&answers[3]["size"], &answers[3]["numberOfFiles"]), (&json!(1_048_676), &json!(2)));
    assert_eq!(answers[4][0]["pid"], "20.500/scan-1");
    service.signal(Signal::TERM);
    assert_eq!(service.wait().code(), Some(0));
}

pub fn token(client: &mut Client) -> String {
    let login = json!({"username": "admin", "password": "27f5fd86ae68fe74"}).to_string();
    let (status, session) = client.send("POST", "/api/v3/auth/login", &login).unwrap();
    assert_eq!(status, 201, "{session}");
    session["access_token"].as_str().unwrap().to_owned()
}

#[test]
fn a_token_outlives_a_restart_if_the_database_keeps_the_secret() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = of_guide(dir.path(), "catalogue_restart");
    let token = token(&mut first.client());
    first.process.kill().unwrap();
    first.wait();
    let second = of_guide(dir.path(), "catalogue_restart");
    let headers = format!("authorization: Bearer {token}\r\n");
    let (status, user) = second.client().send_with(&headers, "GET", "/api/v3/users/my/self", "").unwrap();
    assert_eq!((status, &user["username"]), (200, &json!("admin")));
}

const WRITERS: usize = 4;
/// The longest wait for answers.
const PATIENCE_NS: u64 = 60 * SECOND_NS;

fn block_of(pid: &str) -> String {
    let file = |path: &str, size: u64| json!({"path": path, "size": size, "time": "2026-01-01T12:00:00Z"});
    json!({"datasetId": pid, "size": 5, "dataFileList": [file("a", 2), file("b", 3)]}).to_string()
}

/// Adds blocks to a dataset until the connection ends. Returns the keys of the blocks that were answered with
/// 201.
fn add_blocks(address: String, headers: String, pid: &str) -> JoinHandle<Vec<String>> {
    let block = block_of(pid);
    thread::spawn(move || {
        let (mut client, mut ids) = (Client::connect(&address), Vec::new());
        while let Ok((201, stored)) = client.send_with(&headers, "POST", "/api/v3/origdatablocks", &block) {
            ids.push(stored["_id"].as_str().unwrap().to_owned());
        }
        ids
    })
}

fn create(client: &mut Client, headers: &str, pid: &str) {
    let dataset = json!({
        "pid": pid, "type": "raw", "datasetName": "killed", "owner": "ann", "ownerGroup": "admin",
        "contactEmail": "a@b.cc", "principalInvestigator": "ann", "creationLocation": "/x", "sourceFolder": "/x",
        "creationTime": "2026-01-01T12:00:00Z",
    });
    let created = client.send_with(headers, "POST", "/api/v3/datasets", &dataset.to_string());
    assert_eq!(created.unwrap().0, 201);
}

/// The keys of the blocks of a dataset.
fn blocks(client: &mut Client, headers: &str, pid: &str) -> Vec<String> {
    let path = format!("/api/v3/datasets/{pid}/origdatablocks");
    let (status, blocks) = client.send_with(headers, "GET", &path, "").unwrap();
    assert_eq!(status, 200, "{blocks}");
    blocks.as_array().unwrap().iter().map(|block| block["_id"].as_str().unwrap().to_owned()).collect()
}

/// Kills the service under load, `rounds` times: each acknowledged block exists, and the size of the dataset is right. Each round has its
/// own dataset, because the server keeps the last transaction of a killed service, and with it the dataset, for up to a minute.
fn killed_rounds(database: &str, rounds: usize) {
    let dir = tempfile::tempdir().unwrap();
    let mut service = of_guide(dir.path(), database);
    let headers = format!("authorization: Bearer {}\r\n", token(&mut service.client()));
    for round in 0..rounds {
        let pid = format!("killed-{round}");
        let mut client = service.client();
        create(&mut client, &headers, &pid);
        let writers: Vec<_> =
            (0..WRITERS).map(|_| add_blocks(service.address.clone(), headers.clone(), &pid)).collect();
        let began = clock::now();
        while blocks(&mut client, &headers, &pid).len() < 20 {
            assert!(clock::now().since(began) < PATIENCE_NS, "no blocks in round {round}");
        }
        service.process.kill().unwrap();
        service.wait();
        let acknowledged: Vec<String> =
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        assert!(!acknowledged.is_empty());
        service = of_guide(dir.path(), database);
        let mut client = service.client();
        let stored = blocks(&mut client, &headers, &pid);
        let lost: Vec<_> = acknowledged.iter().filter(|id| !stored.contains(id)).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        let path = format!("/api/v4/datasets/{pid}/size/verify");
        let (status, sizes) = client.send_with(&headers, "POST", &path, "").unwrap();
        assert_eq!(sizes["right"], true, "round {round}: {status} {sizes}");
        assert_eq!(sizes["counted"]["numberOfFiles"], 2 * stored.len(), "round {round}");
    }
}

#[test]
fn a_killed_service_leaves_every_acknowledged_block_and_right_sizes() {
    killed_rounds("catalogue_killed", 3);
}

#[test]
#[ignore = "long: cargo xtask test --all runs it"]
fn a_service_killed_a_hundred_times_leaves_right_sizes() {
    killed_rounds("catalogue_killed_often", 100);
}

#[test]
fn datasets_are_read_back_after_kills_of_the_service_and_of_the_server() {
    for scenario in ["catalogue-kill-service", "catalogue-kill-server"] {
        let victim = scenario.rsplit('-').next().unwrap();
        let faults = format!(
            "phases.0.faults=[{{at: 1s, every: 2s, times: 2, victim: {victim}, inject: {{kill: {{down: 200ms}}}}}}]"
        );
        let run = small(
            scenario,
            &[
                "phases.0.load.create.arrivals.constant.rate=50",
                "phases.0.stop={duration: 6s}",
                "expect={errors: ['rate<0.9']}",
                &faults,
            ],
        );
        assert_eq!(run["integrity"]["lost"], 0, "{scenario}: {run}");
        assert!(run["integrity"]["found"].as_u64().unwrap() >= 50, "{scenario}: {run}");
    }
}

/// Runs a shipped scenario in small, and returns its summary.
fn small(scenario: &str, more: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut args = vec!["run", scenario, "--server", "embedded", "--json", "--out", out.to_str().unwrap()];
    args.extend(["--set", "expect={}"]);
    args.extend(more.iter().flat_map(|it| ["--set", it]));
    summary(&plimsoll_with(&args))
}

#[test]
fn reads_of_a_filled_catalogue_find_datasets() {
    for (scenario, fields) in [("catalogue-by-pid", "by PID"), ("catalogue-full-query", "newest")] {
        let run = small(
            scenario,
            &[
                "service.catalogue.fill.datasets=1000",
                "phases.0.load.read.arrivals.constant.rate=10",
                "phases.0.stop={duration: 2s}",
            ],
        );
        let read = &run["operations"]["read"];
        assert_eq!(read["count"], 20, "{fields}: {run}");
        assert_eq!(run["errors"]["count"].as_u64().unwrap_or(0), 0, "{fields}: {run}");
    }
}

#[test]
fn facets_and_counts_of_a_filled_catalogue_are_answered() {
    let run =
        small("catalogue-facets", &["service.catalogue.fill.datasets=1000", "phases.0.stop={duration: 2s}"]);
    for load in ["facets", "facets_of_a_type", "count"] {
        assert_eq!(run["operations"][load]["count"], 40, "{load}: {run}");
    }
    assert_eq!(run["errors"]["count"].as_u64().unwrap_or(0), 0, "{run}");
}

#[test]
fn a_second_run_uses_the_snapshot_of_the_first() {
    let (cache, out) = (own_cache(), tempfile::tempdir().unwrap());
    let run = |name: &str, datasets: u32| {
        let fill = format!("service.catalogue.fill={{datasets: {datasets}, snapshot: true}}");
        let mut command = plimsoll();
        command.args(["run", "catalogue-by-pid", "--server", "embedded", "--set", &fill]);
        command.args(["--set", "phases.0.load.read.arrivals.constant.rate=10", "--set", "expect={}"]);
        command.args(["--set", "phases.0.load.read.request.with.pid.$family.count=100"]);
        command.args(["--set", "phases.0.stop={duration: 2s}", "--out"]).arg(out.path().join(name));
        let output = command.env("PLIMSOLL_CACHE", cache.path()).output().unwrap();
        let said = stdout(&output) + &stderr(&output);
        let summary = fs::read(out.path().join(name).join("run.json")).expect(&said);
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        assert_eq!(summary["operations"]["read"]["count"], 20, "{said}");
        assert_eq!(summary["errors"]["count"].as_u64().unwrap_or(0), 0, "{summary}");
        said
    };
    assert!(run("first", 1_000).contains("keeping a snapshot of 1000 datasets"));
    let said = run("second", 1_000);
    assert!(said.contains("using the snapshot of 1000 datasets"), "{said}");
    let said = run("other", 500);
    assert!(!said.contains("using the snapshot"), "{said}");
}

#[test]
fn new_datasets_are_read_back() {
    let run = small(
        "catalogue-data-in",
        &["phases.0.load.create.arrivals.constant.rate=50", "phases.0.stop={duration: 2s}"],
    );
    assert_eq!(run["operations"]["create"]["count"], 100, "{run}");
    assert_eq!(run["integrity"]["lost"], 0, "{run}");
    assert_eq!(run["integrity"]["found"], 100, "{run}");
}

#[test]
fn blocks_of_files_are_added_in_both_forms() {
    let run = small(
        "catalogue-files",
        &[
            "service.catalogue.fill.datasets=10",
            "phases.0.load.add.request.body.workload.files.datasets=10",
            "phases.0.load.add.arrivals={closed: {writers: 2}}",
            "phases.0.stop={documents: 20}",
        ],
    );
    assert_eq!(run["operations"]["add"]["count"], 20, "{run}");
    let run = small(
        "catalogue-million-files",
        &["service.catalogue.fill.datasets=1", "phases.0.load.add.request.body.workload.files.files=20_000"],
    );
    assert_eq!(run["operations"]["add"]["count"], 3, "{run}");
}

#[test]
fn the_suite_has_every_query_and_size_at_every_rate() {
    let output = plimsoll_with(&["suite", "catalogue-cube", "--list"]);
    let listed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for query in ["by-pid", "full-query"] {
        for size in ["1k", "10k", "100k", "1m"] {
            for rate in ["r10", "r100", "r1000"] {
                let name = format!("{query}-{size}-{rate}");
                assert!(listed.contains(&name), "{name}: {listed}");
            }
        }
    }
}
