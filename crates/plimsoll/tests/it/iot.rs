//! Tests the readings of trucks that a run sends: late, out of order, incomplete and repeated, and equal in
//! every run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bson::{Document, rawdoc};
use plimsoll_deployment::Deployment;
use plimsoll_telemetry::reading::{Limits, Reading};
use plimsoll_telemetry_load::Iot;
use serde_json::Value;

use crate::faults::wait_for;
use crate::program::{json, plimsoll, plimsoll_with, scenario, shared};
use crate::service::Service;

/// The number of batches, of up to ten points each.
const BATCHES: usize = 400;
/// With readings and diagnostics of five trucks, a batch covers one moment of all trucks.
const SCENARIO: &str = "title: test\nhttp: {url: \"http://127.0.0.1:1\"}\nseed: 5\nworkers: 1\nphases:\n  - load:\n      \
    fleet:\n        request: {post: /batch, body: {workload: {iot: {trucks: 5}}}, check: {status: 201}}\n        \
    arrivals: {closed: {writers: 1}}\n    stop: {documents: 400}\n";

/// The arrays that a service received.
type Received = Mutex<Vec<Vec<Value>>>;

/// A service that answers 201 to every request and keeps the received arrays. It ends with the test program.
fn receiving_service() -> (SocketAddr, Arc<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, received) = (listener.local_addr().unwrap(), Arc::<Received>::default());
    let shared = Arc::clone(&received);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            // A connection that ends is not an error.
            thread::spawn(move || serve(stream, &shared).unwrap_or_default());
        }
    });
    (address, received)
}

fn serve(stream: TcpStream, received: &Received) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        if let Ok(points) = serde_json::from_slice(&body) {
            received.lock().unwrap().push(points);
        }
        stream.get_mut().write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}")?;
    }
}

/// The batches that a run of the trucks sends, with times that count from the first.
fn sent() -> Vec<Vec<Value>> {
    let (address, received) = receiving_service();
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (scenario(dir.path(), SCENARIO), dir.path().join("run"));
    let server = format!("http://{address}");
    let args = ["run", file.to_str().unwrap(), "--server", &server, "--json", "--out", out.to_str().unwrap()];
    let run = json(&plimsoll_with(&args));
    assert_eq!(run["operations"]["fleet"]["count"], BATCHES, "{run}");
    let mut sent = std::mem::take(&mut *received.lock().unwrap());
    let first = sent.iter().flatten().map(at).min().unwrap();
    sent.iter_mut().flatten().for_each(|point| point["timestamp"] = (at(point) - first).into());
    sent
}

fn at(point: &Value) -> i64 {
    point["timestamp"].as_i64().unwrap()
}

/// The position of a point among those of its moment: truck by truck, readings before diagnostics.
fn place(point: &Value) -> (u64, bool) {
    let (truck, kind) = point["sensorId"].as_str().unwrap().split_once('.').unwrap();
    (truck.trim_start_matches("truck-").parse().unwrap(), kind == "diagnostics")
}

/// The shares of points that are repeated, late by a batch or more, and out of order within a moment.
fn disorder(sent: &[Vec<Value>]) -> [f64; 3] {
    let (mut known, mut newest) = (BTreeMap::new(), i64::MIN);
    let (mut repeated, mut late, mut disordered) = (0, 0, 0);
    for batch in sent {
        for point in batch {
            if let Some(before) = known.insert((place(point), at(point)), point) {
                assert_eq!(before, point, "a repeated point is identical");
                repeated += 1;
            }
            late += usize::from(at(point) < newest);
            newest = newest.max(at(point));
        }
        let backwards = |pair: &&[Value]| at(&pair[0]) == at(&pair[1]) && place(&pair[1]) < place(&pair[0]);
        disordered += batch.windows(2).filter(backwards).count();
    }
    let all = sent.iter().flatten().count() as f64;
    [repeated, late, disordered].map(|count: usize| count as f64 / all)
}

#[test]
fn a_run_sends_the_trucks_late_out_of_order_incomplete_and_twice() {
    let sent = sent();
    assert_eq!(sent.len(), BATCHES);
    let [repeated, late, disordered] = disorder(&sent);
    // Half of a tenth of the points are repeated; one batch in twenty is late; three points in ten are moved.
    assert!((0.02..0.10).contains(&repeated), "{repeated}");
    assert!((0.02..0.12).contains(&late), "{late}");
    assert!((0.05..0.40).contains(&disordered), "{disordered}");
    let distinct: BTreeSet<_> = sent.iter().flatten().map(|it| (place(it), at(it))).collect();
    let missing = 1.0 - distinct.len() as f64 / (BATCHES * 10) as f64;
    assert!((0.05..0.20).contains(&missing), "a tenth of the points are missing: {missing}");
    let readings = || sent.iter().flatten().filter(|it| !place(it).1);
    // Sensor, time and seven metrics.
    let thin = readings().filter(|it| it.as_object().unwrap().len() == 8).count() as f64;
    let thin = thin / readings().count() as f64;
    assert!((0.05..0.15).contains(&thin), "a tenth of the readings lack a metric: {thin}");
}

#[test]
fn the_same_seed_sends_the_same_trucks() {
    assert_eq!(sent(), sent());
}

#[test]
fn the_service_reads_every_body() {
    const NOW_MS: i64 = 1_790_000_000_000;
    let iot = Iot { seed: 7, trucks: 20, start_ms: NOW_MS - 40_000_000, interval_ms: 10_000 };
    for number in 0..3000 {
        let point = iot.single(number);
        let body = iot.single_json(number).to_string();
        let read = Reading::parse(body.as_bytes(), NOW_MS, &Limits::default()).unwrap();
        assert_eq!((read.sensor, read.at_ms, read.metrics), (point.sensor, point.at_ms, point.metrics));
    }
}

/// Readings of trucks that are read back, and a phase in which readings can be deleted.
const READ_BACK: &str = "title: test\nhttp: {url: \"http://127.0.0.1:1\"}\nseed: 5\nphases:\n  - name: load\n    load:\n      \
    fleet:\n        request: {post: /api/telemetry/ingest/batch, body: {workload: {iot: {trucks: 20, read_back: true}}}, \
    check: {status: 201}}\n        arrivals: {closed: {writers: 4}}\n    stop: {documents: 100}\n  - name: pause\n    load:\n      \
    ready:\n        request: {get: /readyz}\n        arrivals: {constant: {rate: 5, connections: 1}}\n    stop: {duration: 4s}\n\
    expect: {integrity.lost: [\"count==0\"]}\n";

/// Deletes three readings of a database; returns their sensors and times.
fn delete_three(database: &str) -> BTreeSet<(String, i64)> {
    const SHIFT_MS: i64 = 1 << 47;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ids = runtime.block_on(async {
        let deployment = Deployment::find(&shared(), Duration::from_secs(20)).await.unwrap();
        let mut connection = deployment.connect().await.unwrap();
        let find = rawdoc! {"find": "readings", "skip": 400, "limit": 3, "singleBatch": true};
        let found = connection.command(database, &find).await.unwrap();
        let found = Document::try_from(found.as_ref()).unwrap();
        let batch = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        let ids: Vec<String> =
            batch.iter().map(|it| it.as_document().unwrap().get_str("_id").unwrap().to_owned()).collect();
        for id in &ids {
            let one = rawdoc! {"q": {"_id": id.as_str()}, "limit": 1};
            let deleted = connection
                .command(database, &rawdoc! {"delete": "readings", "deletes": [one]})
                .await
                .unwrap();
            assert_eq!(deleted.get_i32("n").unwrap(), 1, "{id}");
        }
        ids
    });
    let key = |id: &String| {
        let (sensor, at) = id.split_once('\t').unwrap();
        (sensor.to_owned(), i64::from_str_radix(at, 16).unwrap() - SHIFT_MS)
    };
    ids.iter().map(key).collect()
}

#[test]
fn readings_that_the_database_behind_a_service_lost_are_named() {
    let service = Service::on_shared("iot_lost");
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (scenario(dir.path(), READ_BACK), dir.path().join("run"));
    let server = format!("http://{}", service.address);
    let args = ["run", file.to_str().unwrap(), "--server", &server, "--json", "--out", out.to_str().unwrap()];
    let run = plimsoll().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&out, r#""event":"phase""#, 2);
    let deleted = delete_three("iot_lost");
    let run = run.wait_with_output().unwrap();
    let integrity = &json(&run)["integrity"];
    assert_eq!((run.status.code(), &integrity["proof"]), (Some(4), &"read_back".into()), "{integrity}");
    let counts = ["acknowledged", "found", "lost", "not_audited"].map(|key| integrity[key].as_u64().unwrap());
    let [acknowledged, found, lost, not_audited] = counts;
    // A point that was sent twice counts twice.
    assert!(
        acknowledged > 800 && found + lost == acknowledged && not_audited == 0 && lost >= 3,
        "{integrity}"
    );
    let named = |example: &Value| {
        let path = example.as_str().unwrap().strip_prefix("lost: GET /api/telemetry/").unwrap().to_owned();
        let (sensor, query) = path.split_once("?from=").unwrap();
        (sensor.to_owned(), query.split_once("&to=").unwrap().0.parse().unwrap())
    };
    assert_eq!(integrity["examples"].as_array().unwrap().iter().map(named).collect::<BTreeSet<_>>(), deleted);
}

#[test]
fn readings_that_a_service_does_not_show_leave_the_audit_open() {
    let (address, _) = receiving_service();
    let dir = tempfile::tempdir().unwrap();
    let text = SCENARIO.replace("{trucks: 5}", "{trucks: 5, read_back: true}");
    let (file, out) = (scenario(dir.path(), &text), dir.path().join("run"));
    let server = format!("http://{address}");
    let args = ["run", file.to_str().unwrap(), "--server", &server, "--json", "--out", out.to_str().unwrap()];
    let run = plimsoll_with(&args);
    let integrity = &json(&run)["integrity"];
    assert_eq!((run.status.code(), &integrity["proof"]), (Some(3), &"not_audited".into()), "{integrity}");
    assert_eq!((&integrity["lost"], &integrity["not_audited"]), (&0.into(), &integrity["acknowledged"]));
}
