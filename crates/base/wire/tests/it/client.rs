//! Provides a runtime and a connection for each test.

use std::time::Duration;

use plimsoll_wire::{Compressor, ConnectOptions, Connection};

/// Runs a test on the same kind of runtime as the product.
pub fn run<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// Every kind of connection: plain, and with each compressor.
pub const WAYS: [Option<Compressor>; 3] = [None, Some(Compressor::Zlib), Some(Compressor::Zstd)];

/// A connection with a time limit, so that no test hangs.
pub async fn connect(address: &str) -> Connection {
    connect_by(address, None).await
}

/// A connection as by [`connect`], with a compressor that the server must support.
pub async fn connect_by(address: &str, compressor: Option<Compressor>) -> Connection {
    let options = ConnectOptions {
        timeout: Some(Duration::from_secs(30)),
        compression: compressor.into_iter().collect(),
        ..ConnectOptions::new(address.parse().unwrap())
    };
    let connection = Connection::connect(&options).await.unwrap();
    assert_eq!(connection.compressor(), compressor);
    connection
}
