//! Tests the service over HTTP/2 with Plimsoll's client: with prior knowledge, and negotiated by TLS.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_http::setup::Context;
use plimsoll_http::{Http, Setup};
use plimsoll_load::arrivals::Share;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::Outcome;
use rustix::process::Signal;
use tokio::task::{LocalSet, spawn_local};

use crate::program::shared;
use crate::service::Service;
use crate::writer::stored;

const START_MS: i64 = 1_790_000_000_000;
/// The number of lanes of a load, each with its own sensor, and the number of lanes that share a connection.
const LANES: usize = 16;
const SHARED: usize = 4;
/// The number of acknowledged readings before the end.
const BEFORE: u64 = 100;

/// Requests and their expected answers; the third finds the activity of the second.
const REQUESTS: [(&str, &str); 6] = [
    (
        "ingest",
        "post: /api/telemetry/ingest\nbody: {sensorId: s, timestamp: {$now: {}}, eventId: {$object_id: {}}, temperature: 21.5}\n\
         check: {status: 201, json: {stored: new}}",
    ),
    ("post", "post: /api/activity\nbody: {activityId: first, userId: ann, type: post}\ncheck: {status: 201}"),
    ("feed", "get: /api/activity/ann?limit=50\ncheck: {status: 200, json: {activities.0.activityId: first}}"),
    (
        "invalid",
        "post: /api/telemetry/ingest\nbody: {sensorId: s, timestamp: 9999999999999, temperature: 21.5}\n\
         check: {status: 422, json: {fields.0.field: timestamp}}",
    ),
    (
        "large",
        "post: /api/telemetry/ingest\nbody: {sensorId: {$text: {bytes: 300000}}, timestamp: {$now: {}}, temperature: 21.5}\n\
         check: {status: 413, json: {status: 413}}",
    ),
    ("latest", "get: /api/telemetry/s/latest\ncheck: {status: 200, json: {temperature: 21.5}}"),
];

/// Runs a future on a single-threaded runtime, as a worker does.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(LocalSet::new().run_until(future))
}

/// A worker of Plimsoll's client over HTTP/2.
fn worker<S: AsRef<str>>(url: &str, requests: &[(S, S)]) -> Http {
    let section =
        format!("protocol: http2\ntimeout: 60s\nlimits: {{streams_per_connection: {SHARED}}}\nurl: {url}\n");
    let section = serde_saphyr::from_str(&section).unwrap();
    let request =
        |(name, yaml): &(S, S)| (name.as_ref().to_owned(), serde_saphyr::from_str(yaml.as_ref()).unwrap());
    let requests: Vec<_> = requests.iter().map(request).collect();
    let context = Context { seed: 1, start_ms: 0, base: Path::new("/") };
    Http::new(Arc::new(Setup::build(&section, &requests, context).unwrap()), Share::WHOLE)
}

async fn send(worker: &Http, lane: &mut <Http as Target>::Lane, operation: usize) -> Outcome {
    assert_eq!(worker.prepare(lane, operation, 0), Prepared::Ready);
    worker.send(lane).await.outcome
}

/// Sends every request on two lanes of one connection.
fn everything_is_answered(url: &str) {
    let worker = worker(url, &REQUESTS);
    run(async {
        let mut lanes = [worker.open().await.unwrap(), worker.open().await.unwrap()];
        for lane in &mut lanes {
            for (operation, (name, _)) in REQUESTS.iter().enumerate() {
                let outcome = send(&worker, lane, operation).await;
                assert_eq!(outcome, Outcome::Acknowledged, "{url} {name}: {:?}", worker.answers());
            }
        }
        assert_eq!(worker.shared_connections().await, 1, "a refusal keeps the connection");
    });
}

#[test]
fn plaintext_http_2_behaves_like_http_1() {
    let service = Service::on_shared("http2_clear");
    everything_is_answered(&format!("http://{}", service.address));
}

#[test]
fn negotiated_http_2_behaves_like_http_1() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = dir.path().join("cert.pem");
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let settings = dir.path().join("telemetry.yaml");
    std::fs::write(&settings, "tls: {certificate: cert.pem, key: key.pem}\n").unwrap();
    let config = ["--config", settings.to_str().unwrap(), "--server", &shared()];
    let service = Service::start(&[&config[..], &["--set", "database.name=http2_tls"]].concat());
    let port = service.address.rsplit_once(':').unwrap().1;
    let ca = certificate.to_str().unwrap();
    everything_is_answered(&format!("https://localhost:{port}\ntls: {{ca: '{ca}'}}"));
}

/// Sends readings, a millisecond apart, until a reading is not acknowledged; returns the number of
/// acknowledged readings and the last outcome.
async fn load(worker: Rc<Http>, sensor: usize) -> (i64, Outcome) {
    let mut lane = worker.open().await.unwrap();
    let mut acknowledged = 0;
    loop {
        match send(&worker, &mut lane, sensor).await {
            Outcome::Acknowledged => acknowledged += 1,
            other => return (acknowledged, other),
        }
    }
}

fn answered(worker: &Http) -> u64 {
    worker.answers().iter().filter_map(|it| it.statuses.get(&201)).sum()
}

/// Loads the service on all lanes and ends it during the load; returns each lane's acknowledged readings.
async fn ended_under_load(service: &mut Service) -> Vec<i64> {
    let request = |sensor: usize| {
        let body = format!(
            "{{sensorId: s{sensor}, timestamp: {{$sequence: {{start: {START_MS}}}}}, temperature: 21.5}}"
        );
        (
            format!("s{sensor}"),
            format!(
                "post: /api/telemetry/ingest\nbody: {body}\ncheck: {{status: 201, json: {{stored: new}}}}"
            ),
        )
    };
    let requests: Vec<_> = (0..LANES).map(request).collect();
    let worker = Rc::new(worker(&format!("http://{}", service.address), &requests));
    let lanes: Vec<_> = (0..LANES).map(|sensor| spawn_local(load(Rc::clone(&worker), sensor))).collect();
    while answered(&worker) < BEFORE {
        assert!(service.process.try_wait().unwrap().is_none(), "the service ended by itself");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(worker.shared_connections().await, LANES / SHARED);
    let before = answered(&worker);
    service.signal(Signal::TERM);
    let mut acknowledged = Vec::new();
    for lane in lanes {
        let (count, last) = lane.await.unwrap();
        assert!(matches!(last, Outcome::Rejected(_)), "accepted requests are answered: {last:?}");
        acknowledged.push(count);
    }
    assert!(answered(&worker) > before, "requests in flight at the signal are answered 201");
    acknowledged
}

#[test]
fn a_stop_under_load_finishes_accepted_streams_and_loses_nothing() {
    let name = "database.name=http2_ended";
    // With this delay a request is nearly always in flight on every lane.
    let slow = ["--set", name, "--set", "readings.gather=50ms"];
    let mut service = Service::start(&[&["--server", &shared()][..], &slow[..]].concat());
    let acknowledged = run(ended_under_load(&mut service));
    assert_eq!(service.wait().code(), Some(0));
    let again = Service::on_shared("http2_ended");
    for (sensor, count) in acknowledged.into_iter().enumerate() {
        let found = stored(&mut again.client(), &format!("s{sensor}"), START_MS + 1_000_000);
        let lost = (START_MS..START_MS + count).filter(|at_ms| !found.contains(at_ms)).count();
        assert_eq!(lost, 0, "s{sensor}: of {count} that were answered 201");
    }
}
