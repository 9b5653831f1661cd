//! Starts one embedded server for the tests of this module; each test has its own database.

use std::sync::OnceLock;
use std::sync::mpsc;

use mongodb::{Client, Database};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server};

/// A database of the shared server, which must be installed. The client belongs to the calling runtime.
pub(crate) async fn database(name: &str) -> Database {
    static SERVER: OnceLock<Server> = OnceLock::new();
    // A server is bound to the thread that starts it, and a test's own thread ends with the test.
    let server = SERVER.get_or_init(|| {
        let (sender, started) = mpsc::channel();
        std::thread::spawn(move || {
            sender.send(start()).unwrap();
            loop {
                std::thread::park();
            }
        });
        started.recv().unwrap()
    });
    let uri = format!("mongodb://{}/?directConnection=true&w=majority", server.address());
    Client::with_uri_str(uri).await.unwrap().database(name)
}

fn start() -> Server {
    let cache = Cache::locate().unwrap();
    assert!(embedded::is_installed(&cache), "the embedded server is missing: run `cargo xtask setup` first");
    embedded::start(&cache, &Options { profile: Profile::Relaxed, ..Options::default() }).unwrap()
}
