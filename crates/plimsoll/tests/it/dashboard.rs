//! Every query of the dashboard, put to a real Prometheus that scrapes a real pipeline.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plimsoll_measure::clock::{self, SECOND_NS};
use plimsoll_server::Cache;
use serde_json::Value;

use crate::pipeline::endless;

/// How long Prometheus may take until it has scraped often enough, in nanoseconds.
const PATIENCE_NS: u64 = 120 * SECOND_NS;

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

fn prometheus(dir: &Path, target: &str) -> (Ends, String) {
    let program = Cache::locate().unwrap().root().join("prometheus/usr/bin/prometheus");
    assert!(program.exists(), "Prometheus is missing: run `cargo xtask setup` first");
    let config = dir.join("prometheus.yml");
    let text = format!(
        "scrape_configs:\n  - job_name: plimsoll\n    scrape_interval: 1s\n    static_configs: [{{targets: ['{target}']}}]\n"
    );
    fs::write(&config, text).unwrap();
    // Prometheus cannot choose a port itself; nobody else takes this one in the moment between.
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
    (Ends(child), address)
}

/// Puts a query; `None` while Prometheus does not answer.
fn query(address: &str, expression: &str) -> Option<Value> {
    let body: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    write!(stream, "GET /api/v1/query?query={body} HTTP/1.0\r\nhost: test\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

/// Every query of every panel, with Grafana's own variables filled in.
fn queries() -> Vec<(String, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dashboards/pipeline.json");
    let dashboard: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let all = panels.flat_map(|panel| {
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

#[test]
fn every_query_of_the_dashboard_finds_what_a_pipeline_tells() {
    let dir = tempfile::tempdir().unwrap();
    let (child, target, mut said) = endless(dir.path());
    let _pipeline = Ends(child);
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let (_prometheus, address) = prometheus(dir.path(), &target);
    let began = clock::now();
    let scraped = |answer: Value| {
        let count = answer["data"]["result"][0]["value"][1].as_str().map(str::to_owned);
        count.is_some_and(|count| count.parse::<u64>().unwrap() >= 4)
    };
    while !query(&address, "count_over_time(plimsoll_pipeline_read_events_total[1m])").is_some_and(scraped) {
        assert!(clock::now().since(began) < PATIENCE_NS, "Prometheus did not scrape the pipeline");
        std::thread::sleep(Duration::from_millis(200));
    }
    let all = queries();
    assert!(all.len() > 60, "{} queries", all.len());
    for (title, expression) in all {
        let answer = query(&address, &expression).unwrap_or_default();
        assert_eq!(answer["status"], "success", "{title}: {expression}: {answer}");
        let found = answer["data"]["result"].as_array().map_or(0, Vec::len);
        assert!(found > 0, "{title}: {expression} finds nothing");
    }
}

#[test]
fn every_metric_of_the_list_is_on_the_dashboard() {
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/pipeline-metrics.md");
    let list = fs::read_to_string(list).unwrap();
    let names: Vec<_> = list
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    assert!(names.len() > 30, "{names:?}");
    let all: String = queries().into_iter().map(|(_, query)| query + "\n").collect();
    let missing: Vec<_> = names.iter().filter(|name| !all.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
