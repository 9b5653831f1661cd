//! Tests that the preflight explains before the load why a service is unusable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_http::preflight::{Reachable, check, round_trips};

use crate::client::{run, setup};
use crate::raw::{Raw, answering};
use crate::service::{Service, WAYS, Way};

fn error(section: &str) -> String {
    let setup = setup(section, &[("op", "get: /")]);
    run(async { check(&setup).await.unwrap_err().to_string() })
}

#[test]
fn an_answering_service_is_reachable_over_every_protocol() {
    for way in WAYS {
        let service = Service::start(way, |_| (404, vec![("server", "them".into())], vec![]));
        let setup = setup(&service.section(), &[("op", "get: /")]);
        let Reachable { status, server, .. } = run(async { check(&setup).await.unwrap() });
        assert_eq!((status, server.as_deref()), (404, Some("them")), "{way:?}");
    }
}

#[test]
fn each_obstacle_is_explained_with_its_remedy() {
    let plain = Service::start(Way::Http1, |_| (200, vec![], vec![]));
    let tls = Service::start(Way::Http1Tls, |_| (200, vec![], vec![]));
    let ssh = Raw::start(answering(b"SSH-2.0-OpenSSH\r\n"));
    // One server waits for a line that TLS does not send; the other never answers.
    let silent = Raw::start(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    let mute = Raw::start(|_, mut stream| drop(std::io::copy(&mut stream, &mut std::io::sink())));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refusing = Service::start(Way::Http1, |seen| {
        (if seen.header("authorization").is_some() { 403 } else { 200 }, vec![], vec![])
    });
    let quick = "\nlimits: {connect_timeout: 5s}\ntimeout: 5s";
    for (section, words) in [
        (format!("url: http://{closed}"), "refused the connection"),
        (format!("url: http://no-such-host.invalid{quick}"), "cannot be reached"),
        (format!("url: https://{}{quick}", plain.address), "write http://"),
        (format!("url: https://{}{quick}", silent.address), "write http://"),
        (format!("url: https://{}{quick}", mute.address), "did not begin TLS"),
        (format!("url: https://localhost:{}{quick}", tls.address.port()), "http.tls.ca"),
        (format!("url: http://{}{quick}", tls.address), "https"),
        (format!("url: http://{}{quick}", ssh.address), "does not answer like an HTTP server"),
        (format!("url: http://{}\nprotocol: http2{quick}", plain.address), "protocol: http1"),
        (tls.section().replace("http1", "http2"), "protocol: http1"),
        (format!("url: http://{}\nauth: {{bearer: {{token: t}}}}", refusing.address), "http.auth"),
    ] {
        let error = error(&section);
        assert!(error.contains(words), "{section}: {error}");
    }
}

#[test]
fn a_wrong_scheme_is_reported_long_before_the_time_limit() {
    let silent = Raw::start(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    let before = plimsoll_measure::clock::now();
    let limits = "\nlimits: {connect_timeout: 600s}";
    let error = error(&format!("url: https://{}{limits}", silent.address));
    assert!(error.contains("answers HTTP without TLS"), "{error}");
    assert!(plimsoll_measure::clock::now().since(before) < 300_000_000_000);
}

#[test]
fn a_round_trip_is_one_request_on_an_open_connection_after_login() {
    let (logins, asked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (seen_logins, counted) = (Arc::clone(&logins), Arc::clone(&asked));
    let service = Service::start(Way::Http1, move |seen| {
        if seen.uri == "/login" {
            seen_logins.fetch_add(1, Ordering::SeqCst);
            return (200, vec![], br#"{"token": "t"}"#.to_vec());
        }
        let is_known = seen.header("authorization") == Some("Bearer t");
        counted.fetch_add(u64::from(is_known), Ordering::SeqCst);
        (404, vec![], vec![])
    });
    let login = "auth: {login: {request: {post: /login, body: {user: eve}}, token: token}}";
    let setup = setup(&format!("{}{login}", service.section()), &[("op", "get: /")]);
    let trips = run(async { round_trips(&setup, 7).await.unwrap() });
    assert_eq!((trips.len(), logins.load(Ordering::SeqCst), asked.load(Ordering::SeqCst)), (7, 1, 7));
    assert!(trips.iter().all(|ns| *ns > 0));
    let closing = Raw::start(answering(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"));
    let setup = crate::client::setup(&closing.section(), &[("op", "get: /")]);
    assert_eq!(run(async { round_trips(&setup, 3).await.unwrap() }).len(), 3);
    assert_eq!(closing.connections.load(Ordering::SeqCst), 3);
}

#[test]
fn any_certificate_is_accepted_on_request() {
    for way in [Way::Http1Tls, Way::Http2Tls] {
        let service = Service::start(way, |_| (200, vec![], vec![]));
        let protocol = if way == Way::Http2Tls { "http2" } else { "http1" };
        let section =
            format!("url: https://{}\nprotocol: {protocol}\ntls: {{insecure: true}}", service.address);
        let setup = setup(&section, &[("op", "get: /")]);
        assert_eq!(run(async { check(&setup).await.unwrap() }).status, 200);
    }
}
