//! Why a service cannot be used is said before the load.

use plimsoll_http::reach::{Reached, reach};

use crate::client::{run, setup};
use crate::raw::{Raw, answering};
use crate::service::{Service, WAYS, Way};

fn error(section: &str) -> String {
    let setup = setup(section, &[("op", "get: /")]);
    run(async { reach(&setup).await.unwrap_err().to_string() })
}

#[test]
fn a_service_that_answers_is_reached_by_every_way() {
    for way in WAYS {
        let service = Service::start(way, |_| (404, vec![("server", "them".into())], vec![]));
        let setup = setup(&service.section(), &[("op", "get: /")]);
        let Reached { status, server, .. } = run(async { reach(&setup).await.unwrap() });
        assert_eq!((status, server.as_deref()), (404, Some("them")), "{way:?}");
    }
}

#[test]
fn what_is_in_the_way_is_said_with_its_mend() {
    let plain = Service::start(Way::Http1, |_| (200, vec![], vec![]));
    let tls = Service::start(Way::Http1Tls, |_| (200, vec![], vec![]));
    let ssh = Raw::start(answering(b"SSH-2.0-OpenSSH\r\n"));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refusing = Service::start(Way::Http1, |seen| {
        (if seen.header("authorization").is_some() { 403 } else { 200 }, vec![], vec![])
    });
    let quick = "\nlimits: {connect_timeout: 5s}\ntimeout: 5s";
    for (section, words) in [
        (format!("url: http://{closed}"), "refused the connection"),
        (format!("url: http://no-such-host.invalid{quick}"), "cannot be reached"),
        (format!("url: https://{}{quick}", plain.address), "no TLS session"),
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
fn anyones_certificate_is_believed_when_that_is_asked_for() {
    for way in [Way::Http1Tls, Way::Http2Tls] {
        let service = Service::start(way, |_| (200, vec![], vec![]));
        let protocol = if way == Way::Http2Tls { "http2" } else { "http1" };
        let section =
            format!("url: https://{}\nprotocol: {protocol}\ntls: {{insecure: true}}", service.address);
        let setup = setup(&section, &[("op", "get: /")]);
        assert_eq!(run(async { reach(&setup).await.unwrap() }).status, 200);
    }
}
