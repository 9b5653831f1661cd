//! Embedded servers for the tests.

use std::sync::OnceLock;
use std::sync::mpsc;

use mongodb::{Client, Database};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server};

/// Starts a server of its own for a test. It must have been installed.
pub fn start(profile: Profile) -> Server {
    let cache = Cache::locate().unwrap();
    assert!(embedded::is_installed(&cache), "the embedded server is missing: run `cargo xtask setup` first");
    embedded::start(&cache, &Options { profile, ..Options::default() }).unwrap()
}

/// A server that all tests share, each in a database of its own. It ends with the test program.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    // The server is bound to the thread that starts it, and a test's own thread ends with the test.
    SHARED.get_or_init(|| {
        let (sender, started) = mpsc::channel();
        std::thread::spawn(move || {
            sender.send(start(Profile::Relaxed)).unwrap();
            loop {
                std::thread::park();
            }
        });
        started.recv().unwrap()
    })
}

/// How to reach a server; one that is gone is waited for no longer than 3 s.
pub fn uri(server: &Server) -> String {
    let address = server.address();
    format!(
        "mongodb://{address}/?directConnection=true&w=majority&journal=true&serverSelectionTimeoutMS=3000"
    )
}

/// A database of a server. The client belongs to the runtime that calls.
pub async fn database(server: &Server, name: &str) -> Database {
    Client::with_uri_str(uri(server)).await.unwrap().database(name)
}
