//! Runs every query of the dashboards on a real Prometheus that scrapes a real pipeline or service.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_host::Cache;
use plimsoll_measure::clock::{self, SECOND_NS};
use serde_json::Value;

use crate::pipeline::listening;
use crate::program::shared;
use crate::service::Service;

/// The time limit of Prometheus to see a value, in nanoseconds.
const PATIENCE_NS: u64 = 120 * SECOND_NS;

/// A process that ends with the test.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

fn prometheus(dir: &Path, target: &str) -> (KilledOnDrop, String) {
    let program = Cache::locate().unwrap().root().join("prometheus/usr/bin/prometheus");
    assert!(program.exists(), "Prometheus is missing: run `cargo xtask setup` first");
    let config = dir.join("prometheus.yml");
    let text = format!(
        "scrape_configs:\n  - job_name: plimsoll\n    scrape_interval: 1s\n    static_configs: [{{targets: ['{target}']}}]\n"
    );
    fs::write(&config, text).unwrap();
    // Prometheus cannot choose a port itself; this one is free for the moment.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let child = Command::new(program)
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (KilledOnDrop(child), address)
}

/// Runs a query; `None` while Prometheus does not answer.
fn query(address: &str, expression: &str) -> Option<Value> {
    let body: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    write!(stream, "GET /api/v1/query?query={body} HTTP/1.0\r\nhost: test\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

/// The values that a query returns.
fn values(answer: &Value) -> Vec<f64> {
    let found = answer["data"]["result"].as_array().cloned().unwrap_or_default();
    found.iter().map(|one| one["value"][1].as_str().unwrap().parse().unwrap()).collect()
}

/// Waits until the first value of a query reaches `at_least`.
fn until(address: &str, expression: &str, at_least: f64) {
    let began = clock::now();
    let first = || values(&query(address, expression)?).first().copied();
    while first().is_none_or(|value| value < at_least) {
        assert!(clock::now().since(began) < PATIENCE_NS, "{expression} did not reach {at_least}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Starts a pipeline into MongoDB; returns the address of its metrics.
fn pipeline(dir: &Path, out: &str, listen: &str) -> (KilledOnDrop, String) {
    let text = format!(
        "guarantee: at-most-once\nsource: {{generator: {{rate: 2000, payload: 100B}}}}\nsecurity: {{otherwise: allow}}\n\
         sink: {{insert: {{uri: '{}', collection: plimsoll_test.dashboard, identity: object_id, form: metadata}}}}\n",
        shared()
    );
    let path = dir.join("seen.yaml");
    fs::write(&path, text).unwrap();
    let (child, address, mut said) = listening(&path, &dir.join(out), listen);
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    (KilledOnDrop(child), address)
}

fn panels(name: &str) -> Vec<Value> {
    let path = format!("{}/../../dashboards/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let dashboard: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

/// Every query of every panel, with Grafana's variables replaced.
fn queries(name: &str) -> Vec<(String, String)> {
    let panels = panels(name);
    let all = panels.iter().flat_map(|panel| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |target| (title.clone(), target["expr"].as_str().unwrap().to_owned()))
    });
    let filled = all.map(|(title, query)| {
        let query =
            query.replace("$__rate_interval", "30s").replace("$__range", "1m").replace("$pipeline", ".*");
        (title, query)
    });
    filled.collect()
}

/// Panels whose values change during a load, and panels whose values do not.
const ALIVE: [&str; 20] = [
    "In",
    "Processed",
    "Out",
    "Load",
    "Integrity",
    "Integrity, lowest process",
    "Delivery p50",
    "Delivery max",
    "Delivery over all processes",
    "Throughput",
    "Writes",
    "Batches written",
    "Bytes written",
    "Events a batch",
    "MongoDB insert sink: write rate",
    "MongoDB insert sink: documents a flush",
    "Decisions",
    "Totals",
    "CPU",
    "Threads",
];
const STILL: [&str; 6] =
    ["Lost", "Denials", "Security errors", "Dead letters", "Restarts", "Taken over by other processes"];

#[test]
fn every_query_of_the_dashboard_returns_values_and_counts_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (first, target) = pipeline(dir.path(), "first", "127.0.0.1:0");
    let (_prometheus, address) = prometheus(dir.path(), &target);
    until(&address, "count_over_time(plimsoll_pipeline_read_events_total[1m])", 4.0);
    let all = queries("pipeline");
    assert!(all.len() > 60, "{} queries", all.len());
    for (title, expression) in &all {
        let answer = query(&address, expression).unwrap_or_default();
        assert_eq!(answer["status"], "success", "{title}: {expression}: {answer}");
        let found = values(&answer);
        assert!(!found.is_empty(), "{title}: {expression} finds nothing");
        if ALIVE.contains(&title.as_str()) {
            assert!(found.iter().all(|value| *value > 0.0), "{title}: {expression}: {found:?}");
        }
        if STILL.contains(&title.as_str()) {
            assert!(found.iter().all(|value| *value == 0.0), "{title}: {expression}: {found:?}");
        }
    }
    let known: BTreeSet<_> = all.iter().map(|(title, _)| title.as_str()).collect();
    assert!(ALIVE.iter().chain(&STILL).all(|title| known.contains(title)), "{known:?}");
    drop(first);
    let _second = pipeline(dir.path(), "second", &target);
    let (_, restarts) = all.iter().find(|(title, _)| title == "Restarts").unwrap();
    until(&address, restarts, 1.0);
}

#[test]
fn the_dashboard_has_four_sections_whose_panels_do_not_overlap() {
    let expected = [
        "1 · Throughput and latency",
        "2 · Write rate by sink",
        "3 · Security, integrity, process",
        "4 · Source against pipeline",
    ];
    check_layout("pipeline", &expected);
    let expected = ["1 · Instances", "2 · Calls and store", "3 · Process and HTTP"];
    check_layout("workflow", &expected);
}

fn check_layout(name: &str, expected: &[&str]) {
    let panels = panels(name);
    let acts: Vec<_> =
        panels.iter().filter(|panel| panel["type"] == "row").map(|row| &row["title"]).collect();
    assert_eq!(acts, expected);
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has its own number");
    let side = |panel: &Value, from: &str, size: &str| {
        let [from, size] = [from, size].map(|key| panel["gridPos"][key].as_u64().unwrap());
        (from, from + size)
    };
    let meet = |one: (u64, u64), other: (u64, u64)| one.0 < other.1 && other.0 < one.1;
    for (number, one) in panels.iter().enumerate() {
        assert!(side(one, "x", "w").1 <= 24, "{}", one["title"]);
        for other in &panels[number + 1..] {
            let side_by_side = meet(side(one, "x", "w"), side(other, "x", "w"));
            let below = meet(side(one, "y", "h"), side(other, "y", "h"));
            assert!(!(side_by_side && below), "{} lies on {}", one["title"], other["title"]);
        }
    }
}

/// The metrics of the documented list, each as `name type`.
pub fn documented() -> Vec<String> {
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/pipeline-metrics.md");
    let list = fs::read_to_string(list).unwrap();
    let metric = |line: &str| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some(format!("{name} {}", rest.split_once(" |")?.0))
    };
    list.lines().filter_map(metric).collect()
}

#[test]
fn every_metric_of_the_list_is_on_the_dashboard() {
    let documented = documented();
    let names: Vec<_> = documented.iter().filter_map(|metric| metric.split_once(' ')).collect();
    assert!(names.len() > 30, "{names:?}");
    let all: String = queries("pipeline").into_iter().map(|(_, query)| query + "\n").collect();
    let missing: Vec<_> = names.iter().filter(|(name, _)| !all.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Panels of the workflow service whose values change during a load, and panels whose values do not.
const WORKFLOWS_ALIVE: [&str; 8] =
    ["Starts", "Signals", "Ends", "Dead letters", "Call time", "Commit time", "Partitions", "Uptime"];
const WORKFLOWS_STILL: [&str; 3] = ["Parked", "Backlog", "Store failures"];

/// Starts instances and ends each with a signal, after one signal that becomes a dead letter, until the flag
/// is set.
fn lead_instances(service: &Service, is_over: &AtomicBool) {
    let mut client = service.client();
    let text =
        r#"{"name": "watched", "steps": [{"service": {"function": "nothing"}}, {"wait": {"signal": "go"}}]}"#;
    assert_eq!(client.send("PUT", "/api/definitions/watched", text).unwrap().0, 201);
    for number in 0_u64.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let path = format!("/api/instances/w{number}");
        assert_eq!(client.send("PUT", &path, r#"{"definition": "watched"}"#).unwrap().0, 201);
        for (signal, name) in [("1", "unexpected"), ("2", "go")] {
            let body = format!("{{\"name\": \"{name}\"}}");
            assert_eq!(client.send("PUT", &format!("{path}/signals/{signal}"), &body).unwrap().0, 201);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ends the load also if a check fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn every_query_of_the_workflow_dashboard_returns_values() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--server", &shared(), "--set", "database.name=workflow_dashboard"];
    let (service, is_over) = (Service::of("workflow", &args), AtomicBool::new(false));
    let (_prometheus, address) = prometheus(dir.path(), &service.address);
    std::thread::scope(|scope| {
        scope.spawn(|| lead_instances(&service, &is_over));
        let _over = SetOnDrop(&is_over);
        let rate = "rate(plimsoll_workflow_instances_stopped_total{status=\"done\"}[30s])";
        until(&address, rate, 0.5);
        until(&address, "sum(rate(plimsoll_workflow_dead_letters_total[30s]))", 0.5);
        let all = queries("workflow");
        for (title, expression) in &all {
            let found = values(&query(&address, expression).unwrap_or_default());
            assert!(!found.is_empty(), "{title}: {expression} finds nothing");
            let has_moved = found.iter().any(|value| *value > 0.0);
            assert!(
                !WORKFLOWS_ALIVE.contains(&title.as_str()) || has_moved || expression.contains("calls_in"),
                "{title}: {found:?}"
            );
            assert!(!WORKFLOWS_STILL.contains(&title.as_str()) || !has_moved, "{title}: {found:?}");
        }
        let text: String = all.into_iter().map(|(_, query)| query + "\n").collect();
        let names = served(&service);
        assert!(names.len() > 15, "{names:?}");
        let missing: Vec<_> = names.iter().filter(|name| !text.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "the dashboard lacks {missing:?}");
    });
}

/// The names of all metrics that a service serves.
fn served(service: &Service) -> Vec<String> {
    let mut client = service.client();
    write!(client.0.get_mut(), "GET /metrics HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    let (_, page) = client.text().unwrap();
    let name = |line: &str| line.strip_prefix("# TYPE ")?.split(' ').next().map(str::to_owned);
    page.lines().filter_map(name).collect()
}
