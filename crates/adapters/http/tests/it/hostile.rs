//! Tests servers that break off, send garbage, stay silent, or close the connection between two requests.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};

use crate::client::{run, send, target};
use crate::raw::{Raw, answering, read_head};
use crate::service::{Answer, Seen, Service, Way};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

#[test]
fn a_truncated_or_invalid_answer_leaves_the_outcome_unknown() {
    let lost = Doubt::ConnectionLost;
    for (bytes, doubt) in [
        (&b""[..], lost),
        (b"HTTP/1.1 200", lost),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", lost),
        (b"SSH-2.0-x\r\n", Doubt::MalformedAnswer),
        (b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n", Doubt::MalformedAnswer),
    ] {
        let server = Raw::start(move |_, mut stream| {
            read_head(&mut stream);
            stream.write_all(bytes).unwrap();
        });
        let target = target(&server.section(), &[("op", "get: /\ncheck: {json: {a: 1}}")]);
        run(async {
            let mut lane = target.open().await.unwrap();
            let reply = send(&target, &mut lane, 0, 0).await;
            assert_eq!(reply.outcome, Outcome::Unknown(doubt), "{}", String::from_utf8_lossy(bytes));
            assert!(target.is_broken(&lane));
            let answers = &target.answers()[0];
            assert_eq!(answers.statuses[&0], 1);
            assert!(answers.checks.iter().all(|check| check.failed == 1), "{answers:?}");
        });
    }
}

#[test]
fn a_silent_server_causes_a_timeout_within_a_tick_of_the_limit() {
    let server = Raw::start(|_, mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let section = server.section().replace("20s", "200ms");
    let target = target(&section, &[("op", "get: /")]);
    run(async {
        let mut lane = target.open().await.unwrap();
        let before = plimsoll_measure::clock::now();
        let reply = send(&target, &mut lane, 0, 0).await;
        assert_eq!(reply.outcome, Outcome::Unknown(Doubt::Timeout));
        assert!(plimsoll_measure::clock::now().since(before) >= 190_000_000);
        assert!(target.is_broken(&lane) && reply.bytes_sent > 0);
    });
}

#[test]
fn a_connection_that_closed_while_idle_is_reopened_without_a_loss() {
    let server = Raw::start(|_, mut stream| {
        read_head(&mut stream);
        stream.write_all(OK).unwrap();
    });
    let target = target(&server.section(), &[("op", "get: /")]);
    run(async {
        let mut lane = target.open().await.unwrap();
        for round in 1..=3 {
            assert_eq!(send(&target, &mut lane, 0, 0).await.outcome, Outcome::Acknowledged);
            assert_eq!(server.connections.load(Ordering::SeqCst), round);
            // The end of the connection arrives, and the runtime sees it.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
}

#[test]
fn a_connection_with_an_announced_close_is_not_reused() {
    let server = Raw::start(answering(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"));
    let target = target(&server.section(), &[("op", "get: /")]);
    run(async {
        let mut lane = target.open().await.unwrap();
        assert_eq!(send(&target, &mut lane, 0, 0).await.outcome, Outcome::Acknowledged);
        assert!(target.is_broken(&lane));
    });
}

#[test]
fn an_answer_before_the_end_of_the_request_counts() {
    let server = Raw::start(|_, mut stream| {
        read_head(&mut stream);
        stream
            .write_all(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        // The server reads nothing more, and closes the connection after a pause.
        std::thread::sleep(Duration::from_millis(500));
    });
    let target = target(&server.section(), &[("op", "post: /\nbody: {t: {$text: {bytes: 9000000}}}")]);
    run(async {
        let mut lane = target.open().await.unwrap();
        let reply = send(&target, &mut lane, 0, 0).await;
        assert_eq!(reply.outcome, Outcome::Rejected(Rejection::TooLarge));
        assert!(target.is_broken(&lane));
    });
}

#[test]
fn a_connection_is_reopened_after_its_limit_of_requests() {
    let server = Raw::start(answering(OK));
    let section = format!("{}limits: {{requests_per_connection: 2}}", server.section());
    let target = target(&section, &[("op", "get: /")]);
    run(async {
        let mut lane = target.open().await.unwrap();
        send(&target, &mut lane, 0, 0).await;
        assert!(!target.is_broken(&lane));
        send(&target, &mut lane, 0, 0).await;
        assert!(target.is_broken(&lane));
    });
}

#[test]
fn a_prepared_request_moves_to_a_new_connection_with_its_timestamp() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inner = Arc::clone(&seen);
    let server = Raw::start(move |number, mut stream| {
        let mut bytes = vec![0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        inner.lock().unwrap().push(bytes[..count].to_vec());
        if number > 0 {
            stream.write_all(OK).unwrap();
        }
    });
    let target = target(&server.section(), &[("op", "post: /\nbody: {n: {$number: {}}, at: {$now: {}}}")]);
    run(async {
        let mut lost = target.open().await.unwrap();
        assert_eq!(send(&target, &mut lost, 0, 0).await.outcome, Outcome::Unknown(Doubt::ConnectionLost));
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut fresh = target.open().await.unwrap();
        assert!(target.carry(&mut lost, &mut fresh));
        assert_eq!(target.send(&mut fresh).await.outcome, Outcome::Acknowledged);
    });
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], seen[1]);
    assert!(
        String::from_utf8_lossy(&seen[0]).contains("\"at\":\"2"),
        "{:?}",
        String::from_utf8_lossy(&seen[0])
    );
}

#[test]
fn an_operation_given_up_is_unknown_and_its_connection_is_abandoned() {
    for way in [Way::Http1, Way::Http2] {
        let (held, answers) = held();
        let service = Service::start(way, answers);
        let target = target(&service.section(), &[("op", "get: /")]);
        run(async {
            let mut lane = target.open().await.unwrap();
            assert_eq!(target.prepare(&mut lane, 0, 0), Prepared::Ready);
            let waited = tokio::time::timeout(Duration::from_millis(200), target.send(&mut lane)).await;
            assert!(waited.is_err());
            let reply = target.give_up(&mut lane);
            assert_eq!(reply.outcome, Outcome::Unknown(Doubt::Timeout), "{way:?}");
            assert!(target.is_broken(&lane), "{way:?}");
        });
        drop(held);
    }
}

/// A service that answers once the returned sender is dropped.
fn held() -> (mpsc::Sender<()>, impl Fn(&Seen) -> Answer + Send + Sync + 'static) {
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    (sender, move |_: &Seen| {
        let _ = receiver.lock().unwrap().recv();
        (200, vec![], vec![])
    })
}

#[test]
fn a_stopped_service_gives_a_clear_connection_error() {
    // A port without a listener.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = target(&format!("url: http://{gone}"), &[("op", "get: /")]);
    run(async {
        let error = target.open().await.unwrap_err().to_string();
        assert!(error.contains("refused the connection"), "{error}");
    });
}

#[test]
fn a_request_to_a_service_that_stopped_while_idle_was_not_tried() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let section = format!("url: http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_head(&mut stream);
        stream.write_all(OK).unwrap();
    });
    let target = target(&section, &[("op", "get: /")]);
    run(async {
        let mut lane = target.open().await.unwrap();
        assert_eq!(send(&target, &mut lane, 0, 0).await.outcome, Outcome::Acknowledged);
        serving.join().unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let reply = send(&target, &mut lane, 0, 0).await;
        assert_eq!(reply.outcome, Outcome::Rejected(Rejection::NotTried));
    });
}
