//! A runtime and a connection for each test.

use std::time::Duration;

use plimsoll_wire::{ConnectOptions, Connection};

/// Runs a test on a runtime of the kind that the product uses.
pub fn run<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// A connection with a time limit, so that no test hangs.
pub async fn connect(address: &str) -> Connection {
    let options = ConnectOptions {
        timeout: Some(Duration::from_secs(30)),
        ..ConnectOptions::new(address.parse().unwrap())
    };
    Connection::connect(&options).await.unwrap()
}
