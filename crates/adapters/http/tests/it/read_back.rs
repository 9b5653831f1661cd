//! Tests that documents are read back by their keys, and that forgotten and altered documents are found.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_http::read_back::{Findings, read};
use plimsoll_http::setup::{Part, ReadBack, Shown, Workload};
use plimsoll_http::{Http, Setup};
use plimsoll_load::arrivals::Share;
use plimsoll_load::target::{Prepared, Target};

use crate::client::{run, send, setup, setup_with};
use crate::service::{Answer, Seen, Service, WAYS, Way};

/// A store of orders: POST adds the `id`s of its body, GET /orders/ID answers 200 with the id, or 404.
fn orders(forget: &'static [&'static str]) -> impl Fn(&Seen) -> Answer + Send + Sync + 'static {
    let stored = Arc::new(Mutex::new(BTreeSet::new()));
    move |seen: &Seen| {
        let mut stored = stored.lock().unwrap();
        if seen.method == "POST" {
            let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
            let all = body.as_array().cloned().unwrap_or_else(|| vec![body]);
            let ids = all.iter().map(|order| order["id"].to_string());
            stored.extend(ids.filter(|id| !forget.contains(&id.as_str())));
            return (201, Vec::new(), Vec::new());
        }
        let id = seen.uri.rsplit('/').next().unwrap();
        if id == "8" {
            return (200, Vec::new(), br#"{"state": "broken"}"#.to_vec());
        }
        match stored.contains(id) {
            true => (200, Vec::new(), br#"{"state": "open"}"#.to_vec()),
            false => (404, Vec::new(), Vec::new()),
        }
    }
}

/// The findings after `documents` of this operation by two workers.
fn found(service: &Service, request: &str, documents: u64) -> Findings {
    let (findings, progress) = found_by(setup(&service.section(), &[("op", request)]), documents);
    assert_eq!(progress, (documents, documents));
    findings
}

/// The findings, and the last progress.
fn found_by(setup: Arc<Setup>, documents: u64) -> (Findings, (u64, u64)) {
    run(async {
        let mut sent = Vec::new();
        for index in 0..2 {
            let target = Http::new(setup.clone(), Share { index, of: 2 });
            target.begin(Some(documents / 2));
            let mut lane = target.open().await.unwrap();
            while target.prepare(&mut lane, 0, 0) == Prepared::Ready {
                target.send(&mut lane).await;
            }
            sent.extend(target.sent());
        }
        let mut last = (0, 0);
        let findings = read(&setup, sent, Duration::ZERO, &mut |read, of| last = (read, of)).await;
        (findings, last)
    })
}

/// Request n stores the orders 10 n and 10 n + 1; every fourth request stores one of them.
#[derive(Debug)]
struct Pairs;

impl Workload for Pairs {
    fn body(&self, number: u64, out: &mut Vec<u8>) {
        let orders: Vec<_> =
            (0..self.parts(number)).map(|index| serde_json::json!({"id": 10 * number + index})).collect();
        out.extend(serde_json::to_vec(&orders).unwrap());
    }

    fn read_back(&self) -> Option<&dyn ReadBack> {
        Some(self)
    }
}

impl ReadBack for Pairs {
    fn parts(&self, number: u64) -> u64 {
        if number.is_multiple_of(4) { 1 } else { 2 }
    }

    fn path(&self, part: Part, out: &mut Vec<u8>) {
        out.extend(format!("/orders/{}", 10 * part.number + part.index).into_bytes());
    }

    fn judge(&self, part: Part, answer: &[u8]) -> Shown {
        match (part.number, answer) {
            (6, _) => Shown::Unclear,
            (7, _) => Shown::Absent,
            (_, br#"{"state": "open"}"#) => Shown::Intact,
            _ => Shown::Altered,
        }
    }
}

#[test]
fn each_part_of_a_workloads_requests_is_read_by_its_path_and_judged_by_the_workload() {
    for way in WAYS {
        let service = Service::start(way, orders(&["31", "80"]));
        let made =
            |_: &serde_json::Map<String, serde_json::Value>, _| Ok(Arc::new(Pairs) as Arc<dyn Workload>);
        let request = "post: /orders\nbody: {workload: {pairs: {}}}";
        let (findings, progress) = found_by(setup_with(&service.section(), &[("op", request)], &made), 10);
        // Ten requests; the numbers 0, 4 and 8 have one part.
        assert_eq!(progress, (17, 17));
        let counts = (findings.found, findings.lost, findings.altered, findings.unread);
        assert_eq!(counts, (11, 4, 0, 2), "{way:?} {findings:?}");
        let mut examples = findings.examples;
        examples.sort();
        let lost = ["31", "70", "71", "80"].map(|id| format!("lost: GET /orders/{id}"));
        assert_eq!(examples, lost);
    }
}

#[test]
fn lost_and_altered_documents_are_named_by_their_requests() {
    let request = "post: /orders\nbody: {id: {$number: {}}, note: {$text: {bytes: 9}}}\n\
                   read_back: {get: '/orders/{id}', check: {json: {state: open}}}";
    for way in WAYS {
        let service = Service::start(way, orders(&["3", "6"]));
        let findings = found(&service, request, 10);
        assert_eq!((findings.found, findings.lost, findings.altered), (8, 2, 1), "{way:?} {findings:?}");
        let mut examples = findings.examples;
        examples.sort();
        assert_eq!(examples, ["corrupted: GET /orders/8", "lost: GET /orders/3", "lost: GET /orders/6"]);
    }
}

#[test]
fn each_document_of_a_batch_is_read_back() {
    let service = Service::start(Way::Http1, orders(&["5"]));
    let request = "post: /orders\nbody: {batch: {documents: 4, document: {id: {$number: {}}}}}\n\
                   read_back: {head: '/orders/{id}'}";
    let findings = found(&service, request, 24);
    assert_eq!((findings.found, findings.lost, findings.unread), (23, 1, 0), "{findings:?}");
}

#[test]
fn a_service_that_does_not_say_whether_a_document_exists_leaves_it_unread() {
    let service = Service::start(Way::Http1, |seen| match seen.method.as_str() {
        "POST" => (201, Vec::new(), Vec::new()),
        _ => (503, Vec::new(), Vec::new()),
    });
    let request = "post: /a\nbody: {id: {$number: {}}}\nread_back: {get: '/a/{id}'}";
    let findings = found(&service, request, 2);
    assert_eq!((findings.found, findings.lost, findings.unread), (0, 0, 2), "{findings:?}");
    assert_eq!(findings.unread_status, Some(503));
}

#[test]
fn a_service_that_falls_silent_is_asked_for_a_few_documents_only() {
    let asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&asked);
    let service = Service::start(Way::Http1, move |seen| match seen.method.as_str() {
        "POST" => (201, Vec::new(), Vec::new()),
        _ => {
            counted.fetch_add(1, Ordering::Relaxed);
            (503, Vec::new(), Vec::new())
        }
    });
    let request = "post: /a\nbody: {id: {$number: {}}}\nread_back: {get: '/a/{id}'}";
    let findings = found(&service, request, 1000);
    assert_eq!((findings.found, findings.lost, findings.unread), (0, 0, 1000), "{findings:?}");
    assert!(asked.load(Ordering::Relaxed) < 400, "{asked:?}");
}

#[test]
fn documents_without_an_answer_are_unknown_and_rejected_ones_are_not_read_back() {
    let service = Service::start(Way::Http1, |seen| match (seen.method.as_str(), seen.body.as_slice()) {
        ("POST", br#"{"id":0}"#) => (503, Vec::new(), Vec::new()),
        ("POST", _) => (409, Vec::new(), Vec::new()),
        _ => (404, Vec::new(), Vec::new()),
    });
    let request = "post: /a\nbody: {id: {$number: {}}}\nread_back: {get: '/a/{id}'}";
    let setup = setup(&service.section(), &[("op", request)]);
    run(async {
        let target = Http::new(setup.clone(), Share::WHOLE);
        target.begin(None);
        let mut lane = target.open().await.unwrap();
        for _ in 0..3 {
            send(&target, &mut lane, 0, 0).await;
        }
        let findings = read(&setup, target.sent(), Duration::ZERO, &mut |_, _| {}).await;
        assert_eq!(findings, Findings { unknown_absent: 1, ..Findings::default() });
    });
}
