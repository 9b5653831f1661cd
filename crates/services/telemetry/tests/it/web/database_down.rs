//! Tests the service while the database is paused or killed: readiness, and the metrics of waits for a connection.

use std::time::Duration;

use plimsoll_host::Profile;
use plimsoll_service::Clock;
use tokio::time::{sleep, timeout};

use super::bench::start_on;
use super::client::{Answer, Client};
use crate::server;

/// The timeout on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Two seconds for the database, the rest for a busy machine. A paused process refuses no connection, so the service needs a
/// timeout.
const READY_MAX: Duration = Duration::from_secs(8);

/// Polls `/readyz` until it has this status. Each answer arrives in time.
async fn ready(client: &mut Client, status: u16) -> Answer {
    let asked = async {
        loop {
            let answer = timeout(READY_MAX, client.get("/readyz")).await.unwrap();
            if answer.status == status {
                return answer;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, asked).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_is_ready_only_while_its_database_answers() {
    let mut database = server::start(Profile::Relaxed);
    let service = start_on(&database, "").await;
    let mut client = Client::connect(service.address()).await;
    ready(&mut client, 200).await;
    database.pause().unwrap();
    ready(&mut client, 503).await.problem(503);
    client.get("/healthz").await.is(200);
    database.resume().unwrap();
    ready(&mut client, 200).await;
    database.kill().unwrap();
    ready(&mut client, 503).await.problem(503);
    database.restart().unwrap();
    ready(&mut client, 200).await;
    service.stop().await;
}

/// The value of a metric without labels.
async fn metric(client: &mut Client, name: &str) -> f64 {
    let page = client.get("/metrics").await.is(200);
    let value = page.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is not in {}", page.text())).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_for_the_only_connection_are_counted_and_timed() {
    const CALLS: u32 = 5;
    const STILL_S: f64 = 0.3;
    let database = server::start(Profile::Relaxed);
    let service = start_on(&database, "database: {pool_max: 1, pool_min: 0}").await;
    let (address, clock) = (service.address(), Clock::start());
    let mut client = Client::connect(address).await;
    let (count, sum) = ("telemetry_pool_wait_seconds_count", "telemetry_pool_wait_seconds_sum");
    let before = (metric(&mut client, count).await, metric(&mut client, sum).await);
    database.pause().unwrap();
    let calls: Vec<_> = (0..CALLS)
        .map(|n| {
            tokio::spawn(async move {
                let mut client = Client::connect(address).await;
                let path = format!("/api/telemetry/nobody-{n}/latest");
                // A server that stood still may reset the connection; the service then says that the client may retry.
                let answered = async {
                    loop {
                        let answer = client.get(&path).await;
                        if answer.status != 503 {
                            break answer;
                        }
                        sleep(Duration::from_millis(20)).await;
                    }
                };
                let answer = timeout(PATIENCE, answered).await.unwrap();
                answer.problem(404);
            })
        })
        .collect();
    // One call has the connection; the others wait for it.
    let waiting = f64::from(CALLS - 1);
    let all_wait = async {
        while metric(&mut client, "telemetry_pool_waiting").await < waiting {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, all_wait).await.unwrap();
    sleep(Duration::from_secs_f64(STILL_S)).await;
    database.resume().unwrap();
    for call in calls {
        call.await.unwrap();
    }
    let counted = metric(&mut client, count).await - before.0;
    let waited_s = metric(&mut client, sum).await - before.1;
    let whole_s = Duration::from_nanos(clock.now_ns()).as_secs_f64();
    assert!(counted >= f64::from(CALLS), "{counted}");
    // One call or more waited for the pause of the database: after a reset connection the others wait less. None waited longer than the test.
    assert!(waited_s > STILL_S * 0.9, "{waited_s} s");
    assert!(waited_s < counted * whole_s, "{waited_s} s of {counted} operations in {whole_s} s");
    service.stop().await;
}
