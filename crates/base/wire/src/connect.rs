//! Opens a connection: resolve, connect, TLS, hello, authenticate, all within one time limit.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::Address;
use crate::authenticate::authenticate;
use crate::compress::Compressor;
use crate::connection::Connection;
use crate::credential::Credential;
use crate::error::Error;
use crate::hello::{self, Hello, WIRE_VERSION_MIN};
use crate::stream::Stream;
use crate::tls::Tls;

/// MongoDB's error code CommandNotFound: a server before 4.4 does not know `hello`.
const COMMAND_NOT_FOUND: i32 = 59;

/// Where to connect, and as whom.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Where the server listens.
    pub address: Address,
    /// TLS, or plain TCP for `None`.
    pub tls: Option<Tls>,
    /// Who connects, or no authentication for `None`.
    pub credential: Option<Credential>,
    /// The application's name in the server's logs; at most 128 bytes.
    pub application: String,
    /// How to compress messages, the preferred first; the first that the server knows is taken. Empty, the
    /// default, compresses nothing.
    pub compression: Vec<Compressor>,
    /// The level of [`Compressor::Zlib`], from 0 (none) to 9 (smallest, slowest; anything above counts as 9); `None`, or
    /// below 0, is zlib's usual one, 6.
    pub zlib_level: Option<i32>,
    /// The time limit for the whole of connecting, authentication included.
    pub connect_timeout: Duration,
    /// The time limit for each command afterwards: see [`Connection::set_timeout`].
    pub timeout: Option<Duration>,
}

impl ConnectOptions {
    /// Plain TCP, nobody, nothing compressed, 10 s to connect, no time limit for commands.
    pub fn new(address: Address) -> Self {
        ConnectOptions {
            address,
            tls: None,
            credential: None,
            application: "plimsoll".to_owned(),
            compression: Vec::new(),
            zlib_level: None,
            connect_timeout: Duration::from_secs(10),
            timeout: None,
        }
    }
}

impl Connection {
    /// Opens a connection. Must be called on a tokio runtime with IO and time enabled.
    ///
    /// # Errors
    /// Any of [`Error`] that tells why there is no connection.
    pub async fn connect(options: &ConnectOptions) -> Result<Connection, Error> {
        let limit = options.connect_timeout;
        tokio::time::timeout(limit, open(options))
            .await
            .unwrap_or_else(|_| Err(Error::Timeout { address: options.address.clone(), limit }))
    }
}

async fn open(options: &ConnectOptions) -> Result<Connection, Error> {
    let address = &options.address;
    let stream = tcp(address).await.map_err(|source| unreachable(address, source))?;
    let stream = match &options.tls {
        None => Stream::Plain(stream),
        Some(tls) => secure(tls, address, stream).await?,
    };
    let mut connection = Connection::new(stream, address.clone());
    let hello = greet(&mut connection, options).await?;
    let mechanisms = hello.mechanisms.clone();
    connection.set_hello(hello, options);
    if let Some(credential) = &options.credential {
        authenticate(&mut connection, credential, mechanisms.as_deref()).await?;
    }
    connection.set_timeout(options.timeout);
    Ok(connection)
}

async fn tcp(address: &Address) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn unreachable(address: &Address, source: io::Error) -> Error {
    let address = address.clone();
    match source.kind() {
        io::ErrorKind::ConnectionRefused => Error::Refused { address },
        _ => Error::Unreachable { address, source },
    }
}

async fn secure(tls: &Tls, address: &Address, stream: TcpStream) -> Result<Stream, Error> {
    let name = tls.name_for(&address.host)?;
    let connector = TlsConnector::from(tls.config.clone());
    match connector.connect(name, stream).await {
        Ok(stream) => Ok(Stream::Tls(Box::new(stream))),
        Err(source) => Err(Error::Tls { address: address.clone(), source }),
    }
}

async fn greet(connection: &mut Connection, options: &ConnectOptions) -> Result<Hello, Error> {
    let address = &options.address;
    let too_old = |max_wire_version| Error::TooOld {
        address: address.clone(),
        max_wire_version,
        required: WIRE_VERSION_MIN,
    };
    let body = match connection.command("admin", &hello::request(options)).await {
        Ok(body) => body,
        Err(Error::Server(error)) if error.code == COMMAND_NOT_FOUND => return Err(too_old(0)),
        Err(error) => return Err(not_mongo(error)),
    };
    let hello = Hello::of_body(&body);
    if hello.max_wire_version < WIRE_VERSION_MIN { Err(too_old(hello.max_wire_version)) } else { Ok(hello) }
}

/// What breaks the protocol, or the connection, at the first reply is probably no MongoDB.
fn not_mongo(error: Error) -> Error {
    match error {
        Error::Protocol { address, source } => Error::NotMongo { address, detail: source.to_string() },
        Error::Lost { address, source } => Error::NotMongo { address, detail: source.to_string() },
        other => other,
    }
}
