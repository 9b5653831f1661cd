//! Reads the URI of a server, and opens connections to it, with or without TLS.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use plimsoll_net::{ConnectError, Tls, TlsSettings, TlsStream, Trust, secure};
use plimsoll_workflow::port::{StoreError, Stored};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{Config, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Error, Socket};

/// The time limit of a connection's start and of one statement.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The time without traffic after which the operating system asks whether the peer lives.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Settings of every connection. Commits are durable. Plans are made once, and use indexes without regard to
/// statistics: a new table has no statistics.
const SETTINGS: &str = "-c synchronous_commit=on -c search_path=plimsoll_workflow -c plan_cache_mode=force_generic_plan \
                        -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_bitmapscan=off -c jit=off \
                        -c statement_timeout=30s";

/// A server, with the settings of every connection.
#[derive(Clone, Debug)]
pub(super) struct Address {
    config: Config,
    /// Used only if the mode of `config` asks for TLS.
    tls: Tls,
}

/// The part of a connection that moves its bytes.
pub(super) type Connection = tokio_postgres::Connection<Socket, Secured>;

impl Address {
    /// Reads a URI.
    ///
    /// # Errors
    ///
    /// If the URI is invalid, or asks for TLS in a way that this program does not support, or with unusable files.
    pub(super) fn of(uri: &str) -> Stored<Self> {
        let refused = |words: String| StoreError::Refused(format!("the URI of PostgreSQL: {words}").into());
        let (uri, options) = TlsOptions::taken_from(uri);
        let tls = options.tls().map_err(refused)?;
        let mut config: Config = uri.parse().map_err(|error: Error| refused(words(&error)))?;
        if options.mode.is_some() {
            config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        }
        let tls = match tls {
            Some(settings) => Tls::with(&settings),
            None => Tls::new(&Trust::Anyone),
        };
        let tls = tls.map_err(|error| refused(error.to_string()))?;
        // A connection has TLS only if its URI asks for it.
        if config.get_ssl_mode() == SslMode::Prefer {
            config.ssl_mode(SslMode::Disable);
        }
        let own = config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
        config
            .options(format!("{own}{SETTINGS}"))
            .application_name("plimsoll-workflow")
            .connect_timeout(PATIENCE)
            .tcp_user_timeout(PATIENCE)
            .keepalives_idle(KEEPALIVE)
            .keepalives_interval(KEEPALIVE);
        Ok(Self { config, tls })
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// If the server does not answer or refuses, or its certificate is not accepted.
    pub(super) async fn connect(&self) -> Result<(Client, Connection), Error> {
        self.config.connect(Connector(self.tls.clone())).await
    }
}

/// The parameters of a URI about TLS, with the names and the meanings of PostgreSQL's own clients.
#[derive(Debug, Default, PartialEq, Eq)]
struct TlsOptions {
    mode: Option<String>,
    /// The file of the authorities; `system`: the public ones.
    authorities: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

impl TlsOptions {
    /// Takes the parameters out of a URI; returns the rest. Only a URI has them, and no list of `key=value`.
    fn taken_from(uri: &str) -> (String, Self) {
        let mut options = Self::default();
        let is_uri = ["postgres://", "postgresql://"].iter().any(|scheme| uri.starts_with(scheme));
        let Some((before, query)) = uri.split_once('?').filter(|_| is_uri) else {
            return (uri.to_owned(), options);
        };
        let is_other = |parameter: &&str| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let place = match name {
                "sslmode" => &mut options.mode,
                "sslrootcert" => &mut options.authorities,
                "sslcert" => &mut options.certificate,
                "sslkey" => &mut options.key,
                _ => return true,
            };
            *place = Some(decoded(value));
            false
        };
        let rest: Vec<_> = query.split('&').filter(is_other).collect();
        let rest = if rest.is_empty() { before.to_owned() } else { format!("{before}?{}", rest.join("&")) };
        (rest, options)
    }

    /// The checks of a handshake; `None` without TLS.
    fn tls(&self) -> Result<Option<TlsSettings>, String> {
        let (has_tls, any_host, is_checked) = match self.mode.as_deref() {
            None | Some("disable" | "prefer") => (false, true, false),
            // As with PostgreSQL's own clients, given authorities are checked.
            Some("require") => (true, true, self.authorities.is_some()),
            Some("verify-ca") => (true, true, true),
            Some("verify-full") => (true, false, true),
            Some(other) => {
                return Err(format!(
                    "sslmode={other} is unsupported: use disable, require, verify-ca or verify-full"
                ));
            }
        };
        if !has_tls {
            let files =
                [("sslrootcert", &self.authorities), ("sslcert", &self.certificate), ("sslkey", &self.key)];
            return match files.iter().find(|(_, file)| file.is_some()) {
                Some((name, _)) => {
                    Err(format!("{name} needs TLS: add sslmode=verify-full, verify-ca or require"))
                }
                None => Ok(None),
            };
        }
        let trust = match self.authorities.as_deref() {
            _ if !is_checked => Trust::Anyone,
            None | Some("system") if any_host => {
                return Err("a public authority certifies every host: use sslmode=verify-full, or name your own authority in sslrootcert".into());
            }
            None | Some("system") => Trust::PublicRoots,
            Some(path) => Trust::Authorities(file("sslrootcert", path)?),
        };
        Ok(Some(TlsSettings { trust, any_host, identity: self.identity()? }))
    }

    /// The client's certificate and key.
    fn identity(&self) -> Result<Option<Vec<u8>>, String> {
        match (&self.certificate, &self.key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                Ok(Some([file("sslcert", certificate)?, file("sslkey", key)?].concat()))
            }
            _ => Err("sslcert and sslkey belong together: give both".into()),
        }
    }
}

fn file(name: &str, path: &str) -> Result<Vec<u8>, String> {
    fs::read(path)
        .map_err(|error| format!("{name}={path} cannot be read ({error}): name a readable PEM file"))
}

/// A value without its percent signs. One that is invalid stays as it is.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.filter(|_| *first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_owned())
}

/// The library's sentence with its cause.
pub(super) fn words(error: &Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// Makes handshakes.
#[derive(Clone)]
struct Connector(Tls);

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Secured;
    type TlsConnect = Handshake;
    type Error = Infallible;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Infallible> {
        Ok(Handshake { tls: self.0.clone(), host: host.to_owned() })
    }
}

/// One handshake.
struct Handshake {
    tls: Tls,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Secured;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Secured, ConnectError>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move { secure(socket, &self.host, &self.tls).await.map(Secured) })
    }
}

/// A stream with TLS.
pub(super) struct Secured(TlsStream<Socket>);

impl tokio_postgres::tls::TlsStream for Secured {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(mode: &str) -> TlsOptions {
        TlsOptions { mode: Some(mode.into()), ..TlsOptions::default() }
    }

    #[test]
    fn the_parameters_about_tls_are_taken_out_of_a_uri_and_the_others_stay() {
        let given = "postgres://u:p@h/d?sslmode=verify-ca&application_name=a&sslrootcert=%2Fa%20b.pem&connect_timeout=3";
        let (rest, found) = TlsOptions::taken_from(given);
        assert_eq!(rest, "postgres://u:p@h/d?application_name=a&connect_timeout=3");
        assert_eq!(found, TlsOptions { authorities: Some("/a b.pem".into()), ..options("verify-ca") });
        assert_eq!(TlsOptions::taken_from("postgresql://h/d?sslmode=require").0, "postgresql://h/d");
        let list = "host=h password='?sslmode=x'";
        assert_eq!(TlsOptions::taken_from(list), (list.to_owned(), TlsOptions::default()));
    }

    #[test]
    fn each_mode_has_its_checks() {
        let checks = |mode| options(mode).tls().unwrap().map(|tls| (tls.trust, tls.any_host));
        assert_eq!((checks("disable"), checks("prefer")), (None, None));
        assert_eq!(checks("require"), Some((Trust::Anyone, true)));
        assert_eq!(checks("verify-full"), Some((Trust::PublicRoots, false)));
    }

    #[test]
    fn unsupported_modes_and_incomplete_files_are_refused_by_name() {
        let refused = |options: TlsOptions| options.tls().unwrap_err();
        assert!(refused(options("allow")).starts_with("sslmode=allow is unsupported"));
        assert!(refused(options("verify-ca")).contains("use sslmode=verify-full"));
        let system = Some("system".to_owned());
        assert!(
            refused(TlsOptions { authorities: system, ..options("require") })
                .contains("use sslmode=verify-full")
        );
        let authorities = Some("/none.pem".to_owned());
        let said = refused(TlsOptions { authorities: authorities.clone(), ..options("verify-full") });
        assert!(said.starts_with("sslrootcert=/none.pem cannot be read"), "{said}");
        let said = refused(TlsOptions { authorities, ..TlsOptions::default() });
        assert!(said.starts_with("sslrootcert needs TLS"), "{said}");
        let said = refused(TlsOptions { certificate: Some("c".into()), ..options("require") });
        assert!(said.contains("give both"), "{said}");
    }
}
