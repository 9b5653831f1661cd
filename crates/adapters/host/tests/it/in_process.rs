//! Tests the in-process servers with the lean client.

use bson::rawdoc;
use plimsoll_host::probe::Probe;
use plimsoll_host::{faulty, null};
use plimsoll_wire::{ConnectOptions, Connection};

use crate::fixture::block_on;

#[test]
fn the_lean_client_speaks_to_the_null_and_to_the_faulty_server() {
    let null = null::Server::start(Default::default()).unwrap();
    let faulty = faulty::Server::start(Default::default()).unwrap();
    for address in [null.address(), faulty.address()] {
        block_on(async {
            let options = ConnectOptions::new(address.to_string().parse().unwrap());
            let mut connection = Connection::connect(&options).await.unwrap();
            connection.ping().await.unwrap();
            let insert = rawdoc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]};
            assert_eq!(connection.command("d", &insert).await.unwrap().get_i32("n").unwrap(), 2);
            let facts = Probe::connect(&options).await.unwrap().facts().await.unwrap();
            assert!(facts.product.unwrap().starts_with("Plimsoll's "));
        });
    }
}
