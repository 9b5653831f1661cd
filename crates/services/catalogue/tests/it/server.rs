//! Starts embedded servers for the tests.

use std::sync::OnceLock;
use std::sync::mpsc;

use mongodb::event::EventHandler;
use mongodb::event::command::{CommandEvent, CommandStartedEvent};
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server};

/// Starts a server for one test. The embedded server must be installed.
pub fn start(profile: Profile) -> Server {
    let cache = Cache::locate().unwrap();
    assert!(embedded::is_installed(&cache), "the embedded server is missing: run `cargo xtask setup` first");
    embedded::start(&cache, &Options { profile, ..Options::default() }).unwrap()
}

/// The server that all tests share, each with its own database. It ends with the test program.
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

/// The URI of a server, with a server selection timeout of 3 s.
pub fn uri(server: &Server) -> String {
    let address = server.address();
    format!(
        "mongodb://{address}/?directConnection=true&w=majority&journal=true&serverSelectionTimeoutMS=3000"
    )
}

/// A database of a server. The client belongs to the calling runtime.
pub async fn database(server: &Server, name: &str) -> Database {
    Client::with_uri_str(uri(server)).await.unwrap().database(name)
}

/// A database of the shared server. `watch` sees each command before the client sends it.
pub async fn watched(name: &str, watch: impl Fn(&CommandStartedEvent) + Send + Sync + 'static) -> Database {
    let mut options = ClientOptions::parse(uri(shared())).await.unwrap();
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if let CommandEvent::Started(started) = event {
            watch(&started);
        }
    }));
    Client::with_options(options).unwrap().database(name)
}
