//! Connects to servers that do not belong to the replica set that the URI names.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use bson::{Document, doc};
use plimsoll_deployment::Deployment;
use plimsoll_host::scripted::Server;

/// The message of the error of a search for the servers of a URI.
fn failure(hosts: &str, set: &str) -> String {
    let uri = format!("mongodb://{hosts}/?replicaSet={set}&serverSelectionTimeoutMS=300");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Deployment::find(&uri, Duration::from_secs(1))).unwrap_err().to_string()
}

/// An address that refuses connections.
fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The primary of the replica set `rs`.
fn primary() -> Server {
    let script = |command: &Document| {
        let is_greeting = ["hello", "isMaster", "ismaster"].iter().any(|name| command.contains_key(name));
        is_greeting.then(|| {
            doc! {
                "ok": 1.0, "helloOk": true, "isWritablePrimary": true, "ismaster": true, "setName": "rs", "setVersion": 1,
                "hosts": ["127.0.0.1:1"], "minWireVersion": 0, "maxWireVersion": 21, "maxBsonObjectSize": 16 << 20,
                "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
            }
        })
    };
    Server::start(script).unwrap()
}

#[test]
fn a_server_outside_of_replica_sets_is_named_with_the_remedy() {
    let server = Server::start(|_| None).unwrap();
    let (address, closed) = (server.address(), closed());
    for hosts in [address.to_string(), format!("{address},{closed}"), format!("{closed},{address}")] {
        let said = failure(&hosts, "rs0");
        assert!(said.contains(&format!("{address} belongs to no replica set")), "{hosts}: {said}");
        assert!(said.contains("correct replicaSet or the host"), "{hosts}: {said}");
    }
}

#[test]
fn a_member_of_another_set_is_named_in_every_order_of_the_hosts() {
    let server = primary();
    let (address, closed) = (server.address(), closed());
    for hosts in [address.to_string(), format!("{address},{closed}"), format!("{closed},{address}")] {
        let said = failure(&hosts, "wrong");
        assert!(said.contains(&format!("{address} belongs to the replica set `rs`")), "{hosts}: {said}");
        assert!(said.contains("correct replicaSet or the host"), "{hosts}: {said}");
    }
}
