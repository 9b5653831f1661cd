//! Tests `plimsoll serve workflow` over HTTP.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::time::Duration;

use plimsoll_measure::clock::{self, SECOND_NS};
use serde_json::{Value, json};

use crate::program::{self, plimsoll_with, scenario, shared, stderr};
use crate::service::{Client, Service};

/// The time limit of every wait.
const PATIENCE_NS: u64 = 60 * SECOND_NS;

pub fn service(database: &str) -> Service {
    Service::of("workflow", &["--server", &shared(), "--set", &format!("database.name={database}")])
}

#[track_caller]
pub fn put(client: &mut Client, path: &str, body: &Value, status: u16) -> Value {
    let (found, answer) = client.send("PUT", path, &body.to_string()).unwrap();
    assert_eq!(found, status, "{path}: {answer}");
    answer
}

fn html(client: &mut Client, path: &str) -> (u16, String) {
    write!(client.0.get_mut(), "GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    client.text().unwrap()
}

/// Waits until a read of a path satisfies a condition.
#[track_caller]
pub fn until(client: &mut Client, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let began = clock::now();
    loop {
        let found = client.get(path);
        if holds(&found) {
            return found;
        }
        assert!(clock::now().since(began) < PATIENCE_NS, "{path}: {found:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub fn order() -> Value {
    json!({"name": "order", "steps": [
        {"service": {"name": "reserve", "function": "echo", "result": "<reserved>"}},
        {"task": {"name": "check", "roles": ["clerk"], "result": "check"}},
        {"wait": {"name": "paid", "signal": "paid"}},
    ]})
}

#[test]
fn a_request_is_answered_201_and_its_repetition_200_and_the_instance_runs_to_its_end() {
    let service = service("workflow_http");
    let mut client = service.client();
    for status in [201, 200] {
        put(&mut client, "/api/definitions/order", &order(), status);
        let start = json!({"definition": "order", "key": "k<1>", "input": {"item": "<b>"}});
        put(&mut client, "/api/instances/o%2Fa", &start, status);
    }
    let other = json!({"definition": "order", "key": "k<2>", "input": {"item": "<b>"}});
    put(&mut client, "/api/instances/o%2Fa", &other, 409);
    let waits_for = |kind: &'static str| move |it: &Value| it["waits"][0]["kind"] == kind;
    until(&mut client, "/api/instances/o%2Fa", waits_for("task"));
    let tasks =
        until(&mut client, "/api/tasks?instance=o/a&role=clerk&status=open", |it| it["tasks"][0].is_object());
    let visit = &tasks["tasks"][0]["visit"];
    let act = json!({"by": "ann", "roles": ["clerk"], "act": {"complete": {"payload": {"ok": true}}}});
    put(&mut client, &format!("/api/instances/o%2Fa/tasks/{visit}/acts/a1"), &act, 201);
    until(&mut client, "/api/instances/o%2Fa", waits_for("signal"));
    let explained = client.get("/api/instances/o%2Fa/explanation");
    assert_eq!(explained["reasons"][0]["missing"], "paid");
    assert!(explained["lease_ms"].as_i64().unwrap() > 0, "{explained}");

    let (status, page) = html(&mut client, "/instances/o%2Fa");
    assert_eq!(status, 200);
    check_page(&page);
    assert!(page.contains("<g class=\"step open\" data-path=\"paid\">"), "{page}");
    assert!(page.contains("<g class=\"step done\" data-path=\"check\">"), "{page}");
    assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"), "{page}");
    let (status, page) = html(&mut client, "/?key=k%3C1%3E&status=&definition=");
    assert_eq!(status, 200);
    check_page(&page);
    assert!(page.contains("href=\"/instances/o%2Fa\"") && page.contains("k&lt;1&gt;"), "{page}");

    put(&mut client, "/api/instances/o%2Fa/signals/s1", &json!({"name": "paid"}), 201);
    let done = changes(&mut client, "/api/instances/o%2Fa").pop().unwrap();
    let repeated = put(&mut client, "/api/instances/o%2Fa/signals/s1", &json!({"name": "paid"}), 200);
    assert_eq!(repeated["stored"], "known");
    let paths: Vec<_> = done["history"].as_array().unwrap().iter().map(|visit| &visit["path"]).collect();
    assert_eq!(paths, ["reserve", "check", "paid"]);
    assert_eq!(client.get("/api/instances?status=done&key=k%3C1%3E")["instances"][0]["instance"], "o/a");
    assert_eq!(client.get("/api/instances?status=running")["instances"], json!([]));
    assert_eq!(client.get("/readyz")["status"], "ready");
}

#[test]
fn a_wait_is_answered_at_a_change_or_at_its_time_and_refuses_more() {
    let service = service("workflow_http_wait");
    let mut client = service.client();
    let timer = json!({"name": "rest", "steps": [{"timer": {"name": "rest", "after": "1s"}}]});
    put(&mut client, "/api/definitions/rest", &timer, 201);
    put(&mut client, "/api/instances/w", &json!({"definition": "rest"}), 201);
    let all = changes(&mut client, "/api/instances/w");
    assert!(all.len() < 5, "each answer has a change: {all:#?}");
    let last = all.last().unwrap();
    let began = clock::now();
    let same = client.get(&format!("/api/instances/w/wait?after={}&for=300ms", last["version"]));
    assert_eq!(same["version"], last["version"]);
    assert!(clock::now().since(began) >= 300_000_000);
    for (query, status) in [("for=21s", 422), ("for=soon", 422), ("after=x", 422), ("wait=1s", 400)] {
        let (found, answer) = client.send("GET", &format!("/api/instances/w/wait?{query}"), "").unwrap();
        assert_eq!(found, status, "{query}: {answer}");
    }
    assert_eq!(client.send("GET", "/api/instances/unknown/wait", "").unwrap().0, 404);
}

/// The changes of an instance until its end.
#[track_caller]
fn changes(client: &mut Client, path: &str) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    loop {
        let after = found.last().map_or(&Value::Null, |it| &it["version"]).as_u64().unwrap_or(0);
        let next = client.get(&format!("{path}/wait?after={after}"));
        assert!(next["version"].as_u64().unwrap() > after, "{next:#}");
        found.push(next);
        if found.last().unwrap()["status"] != "running" {
            return found;
        }
    }
}

#[test]
fn dead_letters_are_listed_and_sent_again_and_the_audit_has_a_bound() {
    let service = service("workflow_http_dead");
    let mut client = service.client();
    put(&mut client, "/api/definitions/order", &order(), 201);
    put(&mut client, "/api/instances/d", &json!({"definition": "order"}), 201);
    let retry = client.send("PUT", "/api/instances/d/retries/r1", "").unwrap();
    assert_eq!(retry.0, 201, "{}", retry.1);
    let listed = until(&mut client, "/api/dead-letters?limit=1", |it| it["dead_letters"][0].is_object());
    let letter = &listed["dead_letters"][0];
    assert_eq!(
        (&letter["instance"], &letter["signal"], &letter["reason"]),
        (&json!("d"), &json!("r1"), &json!("refused"))
    );
    let next = &listed["next"];
    assert_eq!(*next, json!({"after_instance": "d", "after_signal": "r1"}));
    let empty = client.get("/api/dead-letters?after_instance=d&after_signal=r1");
    assert_eq!(empty, json!({"dead_letters": [], "next": null}));
    put(&mut client, "/api/instances/d/redrives/r1", &json!({"by": "ann"}), 200);
    put(&mut client, "/api/instances/d/redrives/none", &json!({"by": "ann"}), 404);
    let whole = client.get("/api/audit");
    assert_eq!((&whole["instances"]["running"], &whole["is_cut"]), (&json!(1), &json!(false)));
    put(&mut client, "/api/instances/e", &json!({"definition": "order"}), 201);
    assert_eq!(client.get("/api/audit?limit=1")["is_cut"], true);
}

/// Checks that every element of a page is closed in order, and that the page has no script.
fn check_page(page: &str) {
    assert!(!page.contains("<script"), "{page}");
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let name: String =
            tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        let is_void = ["meta", "input", "link"].contains(&name.as_str()) || tag.starts_with('!');
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "{page}");
        } else if !is_void {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} is open: {page}");
}

#[test]
fn wrong_requests_are_refused_with_a_remedy() {
    let service = service("workflow_http_refused");
    let mut client = service.client();
    let mut check = |method: &str, path: &str, body: &str, status: u16, part: &str| {
        let (found, answer) = client.send(method, path, body).unwrap();
        assert_eq!(found, status, "{path} {body}: {answer}");
        assert!(answer["detail"].as_str().unwrap().contains(part), "{path} {body}: {answer}");
    };
    let slip = "{\"name\": \"a\", \"steps\": [\n {\"wait\": {\"signl\": \"x\"}}]}";
    check(
        "PUT",
        "/api/definitions/a",
        slip,
        422,
        "line 2, column 12: unknown key `signl`: did you mean `signal`?",
    );
    let empty = "{\"name\": \"a\", \"steps\": [\n {\"timer\": {}}]}";
    check("PUT", "/api/definitions/a", empty, 422, "line 2");
    check(
        "PUT",
        "/api/definitions/b",
        "{\"name\": \"a\", \"steps\": []}",
        422,
        "the definition has the name `a`",
    );
    check(
        "PUT",
        "/api/definitions/a",
        "{\"name\": \"a\", \"name\": \"a\", \"steps\": []}",
        400,
        "duplicate key",
    );
    let foreign = "{\"name\": \"a\", \"steps\": [{\"service\": {\"function\": \"teleport\"}}]}";
    check("PUT", "/api/definitions/a", foreign, 422, "no function `teleport`");
    check("PUT", "/api/instances/i", "{\"definition\": \"none\"}", 404, "no definition is named none");
    check("PUT", "/api/instances/i", "{\"definition\": \"none\", \"inptu\": 1}", 422, "inptu");
    check("PUT", "/api/instances/i/signals/s", "{\"body\": 1}", 422, "name");
    check("GET", "/api/instances/none", "", 404, "no instance has the id `none`");
    check("GET", "/api/instances?status=waiting", "", 422, "`waiting` is no status");
    check("GET", "/api/instances?limit=501", "", 422, "from 1 to 500");
    check("GET", "/instances/none", "", 404, "no instance");
}

#[test]
fn a_wrong_token_is_refused_and_a_scope_allows_only_its_own_requests() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("workflow.yaml");
    let hash = |key: &str| {
        let digest = ring::digest::digest(&ring::digest::SHA256, key.as_bytes());
        digest.as_ref().iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
    };
    let key = "0123456789abcdef0123456789abcdef";
    let text = format!(
        "database: {{name: workflow_http_token}}\nsecurity:\n  keys: [{{name: reader, sha256: '{}', scopes: ['workflow:read']}}]\n",
        hash(key)
    );
    fs::write(&path, text).unwrap();
    let service = Service::of("workflow", &["--server", &shared(), "--config", path.to_str().unwrap()]);
    let mut client = service.client();
    let right = format!("authorization: Bearer {key}\r\n");
    let start = "{\"definition\": \"a\"}";
    for (header, method, path, status) in [
        ("", "GET", "/api/instances", 401),
        ("authorization: Bearer wrong\r\n", "GET", "/api/instances", 401),
        ("authorization: Bearer wrong\r\n", "GET", "/", 401),
        (right.as_str(), "GET", "/api/instances", 200),
        (right.as_str(), "PUT", "/api/instances/i", 403),
        (right.as_str(), "PUT", "/api/instances/i/cancellations/c", 403),
        ("", "GET", "/healthz", 200),
    ] {
        let (found, answer) = client.send_with(header, method, path, start).unwrap();
        assert_eq!(found, status, "{method} {path}: {answer}");
    }
}

/// A service whose steps may call the returned listener.
fn with_target(database: &str) -> (Service, std::net::TcpListener, String) {
    let target = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = target.local_addr().unwrap().to_string();
    let (database, hosts) = (format!("database.name={database}"), format!("calls.hosts=['{address}']"));
    let service = Service::of("workflow", &["--server", &shared(), "--set", &database, "--set", &hosts]);
    (service, target, address)
}

/// The next request to a listener, with its head.
fn requested(target: &std::net::TcpListener) -> (Client, String) {
    let mut peer = Client(std::io::BufReader::new(target.accept().unwrap().0));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        std::io::BufRead::read_line(&mut peer.0, &mut head).unwrap();
    }
    (peer, head)
}

#[test]
fn a_stopping_service_waits_for_its_calls_in_flight_and_stores_their_results() {
    let (mut service, target, address) = with_target("workflow_http_drained");
    let mut client = service.client();
    let called = json!({"name": "called", "steps": [{"http": {"url": format!("http://{address}/x"), "result": "answer"}}]});
    put(&mut client, "/api/definitions/called", &called, 201);
    put(&mut client, "/api/instances/c1", &json!({"definition": "called"}), 201);
    let (mut peer, _) = requested(&target);
    drop(client);
    service.signal(rustix::process::Signal::TERM);
    let began = clock::now();
    while std::net::TcpStream::connect(&service.address).is_ok() {
        assert!(clock::now().since(began) < PATIENCE_NS, "the service listens on");
    }
    peer.0.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n7").unwrap();
    assert_eq!(service.wait().code(), Some(0));
    let shown = crate::workflow::Store::shared("workflow_http_drained").json(&["show", "c1"]);
    assert_eq!((&shown["status"], &shown["data"]["answer"]), (&"done".into(), &7.into()), "{shown}");
}

#[test]
fn a_step_calls_only_a_listed_host_with_its_idempotency_key() {
    let (service, target, address) = with_target("workflow_http_calls");
    let mut client = service.client();
    let step = |url: &str| json!({"http": {"url": url, "result": "answer", "input": "{a: 1}"}});
    let called = json!({"name": "called", "steps": [step(&format!("http://{address}/x"))]});
    put(&mut client, "/api/definitions/called", &called, 201);
    let refused = json!({"name": "refused", "steps": [step("http://localhost:1/x")]});
    put(&mut client, "/api/definitions/refused", &refused, 201);
    put(&mut client, "/api/instances/c1", &json!({"definition": "called"}), 201);
    let (mut peer, head) = requested(&target);
    assert!(head.starts_with("POST /x ") && head.contains("idempotency-key: c1/2/"), "{head}");
    peer.0.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n7").unwrap();
    let done = until(&mut client, "/api/instances/c1", |it| it["status"] == "done");
    assert_eq!(done["data"]["answer"], 7);
    put(&mut client, "/api/instances/r1", &json!({"definition": "refused"}), 201);
    let failed = until(&mut client, "/api/instances/r1", |it| it["status"] == "failed");
    assert!(failed["error"].as_str().unwrap().contains("add it to `calls.hosts`"), "{failed}");
}

#[test]
fn a_call_that_took_effect_is_undone_if_its_answer_is_unusable() {
    let (service, target, address) = with_target("workflow_http_undone");
    let mut client = service.client();
    let coded = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x8b";
    let url = |path: &str| format!("http://{address}/{path}");
    let charge = |name: &str, result: Option<&str>| {
        let mut http = json!({"url": url("charge"), "compensate": {"http": {"url": url("refund")}}});
        http.as_object_mut().unwrap().extend(result.map(|result| ("result".to_owned(), result.into())));
        json!({"name": name, "steps": [{"http": http}]})
    };
    let begin = |client: &mut Client, definition: &Value| {
        let name = definition["name"].as_str().unwrap();
        put(client, &format!("/api/definitions/{name}"), definition, 201);
        put(client, &format!("/api/instances/{name}-1"), &json!({"definition": name}), 201);
        let (mut peer, head) = requested(&target);
        assert!(head.starts_with("POST /charge "), "{head}");
        peer.0.get_mut().write_all(coded).unwrap();
    };
    begin(&mut client, &charge("kept", Some("receipt")));
    let (mut peer, head) = requested(&target);
    assert!(head.starts_with("POST /refund "), "{head}");
    peer.0.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    let failed = until(&mut client, "/api/instances/kept-1", |it| it["status"] == "failed");
    assert!(failed["error"].as_str().unwrap().contains("the coding `gzip`"), "{failed}");
    // A step without a result drops the answer, so nothing fails.
    begin(&mut client, &charge("dropped", None));
    until(&mut client, "/api/instances/dropped-1", |it| it["status"] == "done");
}

#[test]
fn an_instance_of_a_killed_service_goes_on_in_the_next_one() {
    let mut first = service("workflow_http_killed");
    let mut client = first.client();
    let waiting = json!({"name": "waiting", "steps": [{"wait": {"signal": "go"}}]});
    put(&mut client, "/api/definitions/waiting", &waiting, 201);
    put(&mut client, "/api/instances/i", &json!({"definition": "waiting"}), 201);
    put(&mut client, "/api/instances/i/signals/s", &json!({"name": "go"}), 201);
    first.process.kill().unwrap();
    first.wait();
    let second = service("workflow_http_killed");
    until(&mut second.client(), "/api/instances/i", |it| it["status"] == "done");
}

#[test]
fn a_scenario_starts_the_service_and_loads_it() {
    let dir = tempfile::tempdir().unwrap();
    let text = "title: workflows over HTTP\nservice: {workflow: {settings: {limits: {page_max: 7}}}}\nhttp: {timeout: 10s}\nphases:\n\
                - load:\n    deploy:\n      request:\n        put: /api/definitions/short\n        \
                body: {name: short, steps: [{service: {function: nothing}}]}\n        check: {status: 201}\n      \
                arrivals: {closed: {writers: 1}}\n  stop: {operations: 1}\n\
                - load:\n    start:\n      request:\n        put: '/api/instances/{i}'\n        with: {i: {$sequence: {}}}\n        \
                body: {definition: short}\n        check: {status: 201}\n      \
                arrivals: {closed: {writers: 2}}\n  stop: {operations: 50}\n";
    let (file, out) = (scenario(dir.path(), text), dir.path().join("run"));
    let words = [
        "run",
        file.to_str().unwrap(),
        "--server",
        "embedded:relaxed",
        "--json",
        "--out",
        out.to_str().unwrap(),
    ];
    let output = plimsoll_with(&words);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = program::json(&output);
    assert!(run["server"]["product"].as_str().unwrap().starts_with("workflow on "), "{run}");
    assert_eq!(run["operations"]["start"]["count"], 50, "{run}");
    assert!(fs::read_to_string(out.join("service.yaml")).unwrap().contains("page_max: 7"));
}
