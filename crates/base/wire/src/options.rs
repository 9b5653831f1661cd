//! Holds the settings of a connection.

use std::time::Duration;

use plimsoll_net::{SocksProxy, Tls};

use crate::address::Address;
use crate::compress::Compressor;
use crate::credential::Credential;

/// The settings of a connection.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The server's address.
    pub address: Address,
    /// TLS, or plain TCP for `None`.
    pub tls: Option<Tls>,
    /// The proxy that connects to the address, and resolves its name. A Unix socket has none.
    pub proxy: Option<SocksProxy>,
    /// The user, or no authentication for `None`.
    pub credential: Option<Credential>,
    /// The application's name in the server's logs; at most 128 bytes.
    pub application: String,
    /// The compressors in order of preference. The first that the server supports is used. An empty list, the default, disables
    /// compression.
    pub compression: Vec<Compressor>,
    /// The level of [`Compressor::Zlib`], from 0 (none) to 9 (smallest and slowest). Higher numbers count as 9; `None` and
    /// negative numbers select zlib's default, 6.
    pub zlib_level: Option<i32>,
    /// The time limit for connecting, including authentication.
    pub connect_timeout: Duration,
    /// The time limit for each later command: see `Connection::set_timeout`.
    pub timeout: Option<Duration>,
}

impl ConnectOptions {
    /// Plain TCP without user or compression, 10 s to connect, no time limit for commands.
    pub fn new(address: Address) -> Self {
        ConnectOptions {
            address,
            tls: None,
            proxy: None,
            credential: None,
            application: "plimsoll".to_owned(),
            compression: Vec::new(),
            zlib_level: None,
            connect_timeout: Duration::from_secs(10),
            timeout: None,
        }
    }
}
