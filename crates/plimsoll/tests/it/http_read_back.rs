//! Tests that a load reads back the documents that an outside service acknowledged.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::faults::{interrupt, wait_for};
use crate::program::{json as json_of, plimsoll, plimsoll_with, scenario, stderr, stdout};

/// The paths that a service stores, and those it acknowledges and forgets.
#[derive(Clone, Default)]
struct Store {
    stored: Arc<Mutex<BTreeSet<String>>>,
    forgets: &'static [&'static str],
    gate: Gate,
}

/// Holds the answers to the requests of a read-back, while it is closed.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn close(&self, is_closed: bool) {
        *self.0.0.lock().unwrap() = is_closed;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let closed = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(closed, |is_closed| *is_closed).unwrap());
    }
}

impl Store {
    /// Serves on its own thread: PUT stores a path, GET answers 200 or 404.
    fn serve(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let store = self.clone();
                std::thread::spawn(move || store.answer_all(stream));
            }
        });
        address
    }

    fn answer_all(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some((method, path)) = request(&mut reader) {
            if method == "GET" && path != "/" {
                self.gate.pass();
            }
            let status = self.status(&method, path);
            let head = format!("HTTP/1.1 {status} said\r\ncontent-length: 0\r\n\r\n");
            if stream.write_all(head.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn status(&self, method: &str, path: String) -> u16 {
        let mut stored = self.stored.lock().unwrap();
        match method {
            "PUT" if self.forgets.contains(&&*path) => 201,
            "PUT" => {
                stored.insert(path);
                201
            }
            _ if path == "/" || stored.contains(&path) => 200,
            _ => 404,
        }
    }
}

/// The method and the path of the next request; its body is skipped.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut line = String::new();
    let (mut first, mut length) = (None, 0);
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let text = line.trim_end();
        if let Some(value) = text.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if first.is_none() {
            let mut words = text.split(' ').map(str::to_owned);
            first = Some((words.next()?, words.next()?));
        }
        if text.is_empty() {
            reader.read_exact(&mut vec![0; length]).ok()?;
            return first;
        }
    }
}

const ORDERS: &str = "title: orders\nhttp: {url: \"http://127.0.0.1:1\"}\nphases:\n  - load:\n      order:\n        \
    request:\n          put: '/orders/{n}'\n          with: {n: {$sequence: {}}}\n          body: {n: {$number: {}}}\n          \
    check: {status: 201}\n          read_back: {get: '/orders/{n}'}\n        arrivals: {closed: {writers: 4}}\n    \
    stop: {documents: 500}\nexpect: {integrity.lost: [\"count==0\"]}\n";

/// The exit code and the result of a load.
fn run(forgets: &'static [&'static str]) -> (Option<i32>, Value, String) {
    run_text(ORDERS, forgets)
}

fn run_text(text: &str, forgets: &'static [&'static str]) -> (Option<i32>, Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (scenario(dir.path(), text), dir.path().join("run"));
    let url = format!("http://{}", Store { forgets, ..Store::default() }.serve());
    let words = ["run", file.to_str().unwrap(), "--json", "--server", &url, "--out", out.to_str().unwrap()];
    let output = plimsoll_with(&words);
    let shown = plimsoll_with(&["show", out.to_str().unwrap()]);
    (output.status.code(), json_of(&output), format!("{}{}", stdout(&shown), stderr(&output)))
}

#[test]
fn documents_that_a_service_acknowledged_and_forgot_are_lost() {
    let (code, run, shown) = run(&["/orders/7", "/orders/123", "/orders/499"]);
    let integrity = &run["integrity"];
    let counts = ["acknowledged", "found", "lost", "not_audited"].map(|key| integrity[key].as_u64().unwrap());
    assert_eq!(counts, [500, 497, 3, 0], "{integrity}");
    assert_eq!((code, &run["verdict"], &integrity["proof"]), (Some(4), &json!("fail"), &json!("read_back")));
    assert!(integrity["examples"].to_string().contains("lost: GET /orders/123"), "{integrity}");
    assert!(shown.contains("3 of 500 acknowledged documents are gone"), "{shown}");
}

#[test]
fn a_service_that_keeps_every_document_is_read_back_in_full() {
    let (code, run, shown) = run(&[]);
    assert_eq!((code, &run["integrity"]["found"]), (Some(0), &json!(500)), "{run}");
    assert!(
        shown.contains("The service returned 500 of 500 acknowledged documents by their keys."),
        "{shown}"
    );
}

#[test]
fn a_field_with_the_time_of_sending_is_named_as_not_judged() {
    let text = ORDERS.replace("body: {n: {$number: {}}}", "body: {n: {$number: {}}, at: {$now: {}}}");
    let (code, run, shown) = run_text(&text, &[]);
    let sentence = "The field at of order is not judged: its value is the time of sending ($now).";
    let integrity = &run["integrity"];
    assert_eq!(
        (code, &integrity["found"], &integrity["not_judged"]),
        (Some(0), &json!(500), &json!([sentence]))
    );
    assert!(run["conclusions"].to_string().contains(sentence) && shown.contains("is not judged"), "{shown}");
}

/// A load whose read-back waits at a closed gate, after a first Ctrl-C that was answered.
fn interrupted(dir: &Path, gate: &Gate) -> Child {
    let (file, out) = (scenario(dir, ORDERS), dir.join("run"));
    gate.close(true);
    let url = format!("http://{}", Store { gate: gate.clone(), ..Store::default() }.serve());
    let words = ["run", file.to_str().unwrap(), "--json", "--server", &url, "--out", out.to_str().unwrap()];
    let run = plimsoll().args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&out, r#""event":"auditing""#, 1);
    interrupt(&run);
    wait_for(&out, "reading back; Ctrl-C again ends at once", 1);
    run
}

#[test]
fn ctrl_c_during_the_read_back_leaves_a_complete_load_complete() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Gate::default());
    let run = interrupted(dir.path(), &gate);
    gate.close(false);
    let run = run.wait_with_output().unwrap();
    let summary = json_of(&run);
    assert_eq!((run.status.code(), &summary["interrupted"]), (Some(0), &json!(false)), "{summary}");
    let integrity = &summary["integrity"];
    assert_eq!((&integrity["found"], &integrity["not_audited"]), (&json!(500), &json!(0)));
}

#[test]
fn a_second_ctrl_c_ends_the_read_back_at_once() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Gate::default());
    let mut run = interrupted(dir.path(), &gate);
    // Signals within a second count as one.
    sleep(Duration::from_millis(1100));
    interrupt(&run);
    assert_eq!(run.wait().unwrap().code(), Some(130), "the gate is still closed");
}
