//! Tests that a load reads the documents back that an outside service acknowledged.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::program::{json as json_of, plimsoll_with, scenario, stderr, stdout};

/// The paths that a service stores, and those it acknowledges and forgets.
#[derive(Clone, Default)]
struct Store {
    stored: Arc<Mutex<BTreeSet<String>>>,
    forgets: &'static [&'static str],
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
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (scenario(dir.path(), ORDERS), dir.path().join("run"));
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
