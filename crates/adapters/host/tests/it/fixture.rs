//! Provides small servers for the tests, and sends commands to them.

use std::thread;
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server};
use plimsoll_measure::clock;
use plimsoll_wire::{ConnectOptions, Connection};

pub(crate) fn cache() -> Cache {
    let cache = Cache::locate().unwrap();
    assert!(embedded::is_installed(&cache), "run cargo xtask setup first");
    cache
}

/// A small cache, so that several servers fit into memory.
pub(crate) fn options(profile: Profile) -> Options {
    Options { profile, cache_bytes: Some(64 << 20), ..Options::default() }
}

pub(crate) fn start(profile: Profile) -> Server {
    embedded::start(&cache(), &options(profile)).unwrap()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(crate) fn connect_options(server: &Server) -> ConnectOptions {
    ConnectOptions::new(server.address().to_string().parse().unwrap())
}

pub(crate) fn ask(server: &Server, command: Document) -> Document {
    block_on(async {
        let mut connection = Connection::connect(&connect_options(server)).await.unwrap();
        let command = RawDocumentBuf::try_from(command).unwrap();
        let reply = connection.command("test", &command).await.unwrap();
        Document::try_from(&*reply).unwrap()
    })
}

pub(crate) fn insert(server: &Server, count: i32) {
    for first in (0..count).step_by(100) {
        let documents: Vec<Document> = (first..first + 100).map(|id| doc! {"_id": id, "x": "y"}).collect();
        let reply =
            ask(server, doc! {"insert": "c", "documents": documents, "writeConcern": {"w": 1, "j": true}});
        assert_eq!(reply.get_i32("n").unwrap(), 100);
    }
}

pub(crate) fn count(server: &Server) -> i32 {
    ask(server, doc! {"count": "c"}).get_i32("n").unwrap()
}

pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = clock::now();
    while !holds() {
        assert!(clock::now().since(start) < 20 * clock::SECOND_NS, "not within 20 s: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
