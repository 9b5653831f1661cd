//! Tests that requests arrive and answers are read, over every protocol.

use std::collections::BTreeMap;

use plimsoll_http::Http;
use plimsoll_load::arrivals::Share;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::{Outcome, Rejection};

use crate::client::{run, send, setup, target};
use crate::service::{Seen, Service, WAYS, Way, collecting, echo};

#[test]
fn a_request_arrives_as_typed_and_its_answer_is_checked() {
    for way in WAYS {
        let service = Service::start(way, echo);
        let section = format!(
            "{}headers: {{x-all: everywhere}}\nauth: {{basic: {{user: a, password: b}}}}",
            service.section()
        );
        let request = "post: /s/{id}?q={q}\nwith: {id: {$family: {prefix: s-, count: 9, digits: 2}}, q: a/b}\n\
                       headers: {X-Own: '{q}'}\nbody: {n: {$number: {}}, at: {$now: {}}, u: é}\n\
                       check:\n  status: 200\n  headers: {content-type: application/json}\n  json:\n    method: POST\n    \
                       body.n: 0\n    body.u: é\n    headers.x-all: everywhere\n    headers.x-own: a/b\n    \
                       headers.authorization: Basic YTpi\n    headers.content-type: application/json\n    \
                       body.at: {exists: true}";
        let target = target(&section, &[("op", request)]);
        run(async {
            let mut lane = target.open().await.unwrap();
            let reply = send(&target, &mut lane, 0, 7).await;
            let answers = target.answers();
            assert_eq!(reply.outcome, Outcome::Acknowledged, "{way:?} {answers:?}");
            assert!(reply.bytes_sent > 100 && reply.bytes_received > 100, "{way:?} {reply:?}");
            assert!(
                answers[0].checks.iter().all(|check| (check.passed, check.failed) == (1, 0)),
                "{answers:?}"
            );
            assert_eq!(answers[0].statuses, BTreeMap::from([(200, 1)]));
            assert!(!target.is_broken(&lane), "{way:?}");
        });
    }
}

#[test]
fn every_method_arrives_and_head_has_no_body() {
    for way in WAYS {
        let (seen, answers) = collecting();
        let service = Service::start(way, answers);
        let methods = ["get", "head", "post", "put", "patch", "delete", "options"];
        let requests: Vec<_> = methods.map(|method| format!("{method}: /{method}")).into();
        let requests: Vec<_> = methods.into_iter().zip(requests.iter().map(String::as_str)).collect();
        let target = target(&service.section(), &requests);
        run(async {
            let mut lane = target.open().await.unwrap();
            for (operation, method) in methods.iter().enumerate() {
                let reply = send(&target, &mut lane, operation, 0).await;
                assert_eq!((reply.outcome, reply.documents), (Outcome::Acknowledged, 1), "{way:?} {method}");
            }
        });
        let seen = seen.lock().unwrap();
        let shown: Vec<_> = seen.iter().map(|seen| format!("{} {}", seen.method, seen.uri)).collect();
        let expected = methods.map(|method| format!("{} /{method}", method.to_uppercase()));
        assert_eq!(shown, expected, "{way:?}");
    }
}

#[test]
fn batches_are_dealt_among_workers_and_the_last_is_shorter() {
    for way in [Way::Http1, Way::Http2] {
        let (seen, answers) = collecting();
        let service = Service::start(way, answers);
        let batch = "post: /b\nbody: {batch: {documents: 4, document: {n: {$number: {}}}, form: ndjson}}";
        let setup = setup(&service.section(), &[("op", batch)]);
        run(async {
            for index in 0..2 {
                let target = Http::new(setup.clone(), Share { index, of: 2 });
                target.begin(Some(10));
                let mut lane = target.open().await.unwrap();
                let mut documents = 0;
                while target.prepare(&mut lane, 0, 99) == Prepared::Ready {
                    documents += target.send(&mut lane).await.documents;
                }
                assert_eq!(documents, 10);
            }
        });
        let seen = seen.lock().unwrap();
        let lines = |body: &[u8]| {
            let text = String::from_utf8(body.to_vec()).unwrap();
            text.lines().map(|line| line[5..line.len() - 1].parse::<u64>().unwrap()).collect::<Vec<_>>()
        };
        let bodies: Vec<_> = seen.iter().map(|seen| lines(&seen.body)).collect();
        let expected: [&[u64]; 6] =
            [&[0, 1, 2, 3], &[8, 9, 10, 11], &[16, 17], &[4, 5, 6, 7], &[12, 13, 14, 15], &[20, 21]];
        assert_eq!(bodies, expected, "{way:?}");
        assert_eq!(seen[0].header("content-type"), Some("application/x-ndjson"));
    }
}

#[test]
fn a_discarded_block_is_sent_later() {
    let (seen, answers) = collecting();
    let service = Service::start(Way::Http1, answers);
    let target = target(&service.section(), &[("op", "put: /a\nbody: {n: {$number: {}}}")]);
    run(async {
        let mut lane = target.open().await.unwrap();
        assert_eq!(target.prepare(&mut lane, 0, 0), Prepared::Ready);
        target.discard(&mut lane);
        for _ in 0..2 {
            send(&target, &mut lane, 0, 0).await;
        }
    });
    let bodies: Vec<_> = seen.lock().unwrap().iter().map(|seen| seen.body.clone()).collect();
    assert_eq!(bodies, [b"{\"n\":0}", b"{\"n\":1}"]);
}

#[test]
fn large_bodies_arrive_in_both_directions() {
    for way in WAYS {
        let service = Service::start(way, echo);
        let request =
            "post: /a\nbody: {t: {$text: {bytes: 3000000}}}\ncheck: {body: {min: 3MB}, json: {method: POST}}";
        let target = target(&service.section(), &[("op", request)]);
        run(async {
            let mut lane = target.open().await.unwrap();
            for _ in 0..2 {
                let reply = send(&target, &mut lane, 0, 0).await;
                assert_eq!(reply.outcome, Outcome::Acknowledged, "{way:?} {:?}", target.answers());
                assert!(reply.bytes_received > 3_000_000, "{way:?}");
            }
        });
    }
}

#[test]
fn an_answer_above_the_limit_has_its_own_class_and_the_service_stays_usable() {
    for way in WAYS {
        let answers =
            |seen: &Seen| (if seen.uri == "/no" { 404 } else { 200 }, vec![], vec![b'x'; 2_000_000]);
        let service = Service::start(way, answers);
        let section = format!("{}limits: {{answer: 1MB}}", service.section());
        let target = target(&section, &[("op", "get: /"), ("no", "get: /no")]);
        run(async {
            // An unexpected status takes precedence over the length.
            for (operation, class) in [(0, Rejection::AnswerTooLarge), (1, Rejection::BadCommand)] {
                let mut lane = target.open().await.unwrap();
                let reply = send(&target, &mut lane, operation, 0).await;
                assert_eq!(reply.outcome, Outcome::Rejected(class), "{way:?}");
            }
            assert!(target.open().await.is_ok());
        });
    }
}

#[test]
fn lanes_of_http_2_share_connections_up_to_the_limit() {
    let (seen, answers) = collecting();
    let service = Service::start(Way::Http2, answers);
    let section = format!("{}limits: {{streams_per_connection: 3}}", service.section());
    let target = target(&section, &[("op", "get: /")]);
    run(async {
        let mut lanes = Vec::new();
        for _ in 0..7 {
            lanes.push(target.open().await.unwrap());
        }
        for lane in &mut lanes {
            assert_eq!(send(&target, lane, 0, 0).await.outcome, Outcome::Acknowledged);
        }
        assert_eq!(target.shared_connections().await, 3);
        drop(lanes);
        assert_eq!(target.shared_connections().await, 0);
    });
    assert_eq!(seen.lock().unwrap().len(), 7);
}

#[test]
fn the_counted_bytes_are_those_on_the_wire() {
    let service = Service::start(Way::Http1, |_| (200, vec![("date", "x".into())], b"12345".to_vec()));
    let target = target(&service.section(), &[("op", "get: /abc")]);
    run(async {
        let mut lane = target.open().await.unwrap();
        let reply = send(&target, &mut lane, 0, 0).await;
        let sent = format!("GET /abc HTTP/1.1\r\nhost: {}\r\n\r\n", service.address).len() as u64;
        let received = "HTTP/1.1 200 OK\r\ndate: x\r\ncontent-length: 5\r\n\r\n12345".len() as u64;
        assert_eq!((reply.bytes_sent, reply.bytes_received), (sent, received));
    });
}
