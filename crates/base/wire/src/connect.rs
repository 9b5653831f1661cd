//! Opens a connection: stream, hello and authentication within one time limit.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use plimsoll_net::{ConnectError, Destination, Stream};

use crate::authenticate::authenticate;
use crate::connection::Connection;
use crate::error::Error;
use crate::hello::{self, Hello, WIRE_VERSION_MIN};
use crate::options::ConnectOptions;

/// MongoDB's error code CommandNotFound. Servers before 4.4 return it for `hello`.
const COMMAND_NOT_FOUND: i32 = 59;

impl Connection {
    /// Opens a connection. Must be called on a tokio runtime with IO and time enabled.
    ///
    /// # Errors
    /// When the connection cannot be opened; the [`Error`] names the reason.
    pub async fn connect(options: &ConnectOptions) -> Result<Connection, Error> {
        let (address, limit) = (&options.address, options.connect_timeout);
        let mut over = pin!(tokio::time::sleep(limit));
        // The stream watches the limit itself, so that its error tells whether TCP or TLS exceeded it.
        let stream = match address.unix_path() {
            Some(path) => plimsoll_net::connect_unix(path, limit).await,
            None => {
                let (host, port, proxy) = (&address.host, address.port, options.proxy.as_ref());
                let destination = Destination { host, port, address: None, proxy };
                plimsoll_net::connect(destination, options.tls.as_ref(), limit).await
            }
        };
        let mut greeted = pin!(greet(stream.map_err(|error| no_connection(options, error))?, options));
        poll_fn(|cx| match greeted.as_mut().poll(cx) {
            Poll::Pending => {
                over.as_mut().poll(cx).map(|()| Err(Error::Timeout { address: address.clone(), limit }))
            }
            ready => ready,
        })
        .await
    }
}

async fn greet(stream: Stream, options: &ConnectOptions) -> Result<Connection, Error> {
    let mut connection = Connection::new(stream, options.address.clone());
    let hello = say_hello(&mut connection, options).await?;
    let mechanisms = hello.mechanisms.clone();
    connection.set_hello(hello, options);
    if let Some(credential) = &options.credential {
        authenticate(&mut connection, credential, mechanisms.as_deref()).await?;
    }
    connection.set_timeout(options.timeout);
    Ok(connection)
}

fn no_connection(options: &ConnectOptions, error: ConnectError) -> Error {
    let address = options.address.clone();
    match error {
        ConnectError::Refused => Error::Refused { address },
        ConnectError::NoLocalPort(_) => Error::NoLocalPort { address },
        ConnectError::Unreachable(source) => Error::Unreachable { address, source },
        ConnectError::Timeout => Error::Timeout { address, limit: options.connect_timeout },
        ConnectError::ServerName(error) => error.into(),
        source => Error::Tls { address, source },
    }
}

async fn say_hello(connection: &mut Connection, options: &ConnectOptions) -> Result<Hello, Error> {
    let address = &options.address;
    let too_old = |max_wire_version| Error::TooOld {
        address: address.clone(),
        max_wire_version,
        required: WIRE_VERSION_MIN,
    };
    let body = match connection.command("admin", &hello::request(options, bson::cstr!("hello"))).await {
        Ok(body) => body,
        // Some products know only the former name, regardless of their wire version. Their refusals have different codes.
        Err(Error::Server(refusal)) => {
            let body = connection.command("admin", &hello::request(options, bson::cstr!("isMaster"))).await;
            let unknown = refusal.code == COMMAND_NOT_FOUND;
            body.map_err(|_| if unknown { too_old(0) } else { refusal.into() })?
        }
        Err(error) => return Err(not_mongo(error)),
    };
    let hello = Hello::of_body(&body);
    if hello.max_wire_version < WIRE_VERSION_MIN { Err(too_old(hello.max_wire_version)) } else { Ok(hello) }
}

/// A peer that breaks the protocol or the connection at the first reply is probably not a MongoDB server.
fn not_mongo(error: Error) -> Error {
    match error {
        Error::Protocol { address, source } => Error::NotMongo { address, detail: source.to_string() },
        Error::Lost { address, source } => Error::NotMongo { address, detail: source.to_string() },
        other => other,
    }
}
