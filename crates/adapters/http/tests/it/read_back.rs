//! Tests that documents are read back by their keys, and that a service that forgets or alters some is found out.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_http::Http;
use plimsoll_http::read_back::{Findings, read};
use plimsoll_load::arrivals::Share;
use plimsoll_load::target::{Prepared, Target};

use crate::client::{run, send, setup};
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
    let setup = setup(&service.section(), &[("op", request)]);
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
        assert_eq!(last, (documents, documents));
        findings
    })
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
