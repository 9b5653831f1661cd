//! Tests starting, killing and restarting the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use plimsoll_install::Cache;
use plimsoll_postgres::server::{Server, Settings, Storage};

/// The request for TLS, which a server answers with one byte before anything else.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

pub(crate) fn start(settings: &Settings) -> Server {
    Server::start(Cache::locate().unwrap().root(), settings).unwrap()
}

/// Whether a PostgreSQL server without TLS answers at the address of `uri`.
fn answers(uri: &str) -> bool {
    let address = uri.split_once('@').unwrap().1.split_once('/').unwrap().0;
    let asked = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(&SSL_REQUEST)?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    });
    asked.is_ok_and(|answer| answer == *b"N")
}

#[test]
fn a_killed_server_restarts_on_its_storage_and_port() {
    let mut server = start(&Settings::default());
    let (uri, pid) = (server.uri(), server.pid());
    assert!(answers(&uri), "{uri}");
    server.kill().unwrap();
    server.restart().unwrap();
    assert!(answers(&uri) && server.pid() != pid && server.uri() == uri);
    let storage = server.storage().to_owned();
    assert!(server.stop(Duration::from_secs(20)).unwrap(), "a stop is graceful");
    drop(server);
    assert!(!storage.exists(), "temporary storage is removed");
}

#[test]
fn a_named_storage_stays_and_is_formatted_once() {
    let parent = tempfile::tempdir().unwrap();
    let settings = Settings { storage: Storage::At(parent.path().join("kept")), ..Settings::default() };
    drop(start(&settings));
    let version = parent.path().join("kept/data/PG_VERSION");
    let formatted = std::fs::metadata(&version).unwrap().modified().unwrap();
    assert!(answers(&start(&settings).uri()));
    assert_eq!(std::fs::metadata(&version).unwrap().modified().unwrap(), formatted);
}

#[test]
fn an_invalid_parameter_is_reported_with_the_servers_words() {
    let parameters = [("shared_bufers".to_owned(), "1MB".to_owned())].into();
    let cache = Cache::locate().unwrap();
    let error = Server::start(cache.root(), &Settings { parameters, ..Settings::default() }).unwrap_err();
    assert!(error.to_string().contains("shared_bufers"), "{error}");
}
