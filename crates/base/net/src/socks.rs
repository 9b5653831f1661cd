//! Asks a SOCKS5 proxy for a TCP connection (RFC 1928), with a user and a password if the proxy wants them
//! (RFC 1929).
//!
//! The proxy gets names as they are and resolves them, so this machine need not know the names.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// The port of a proxy whose port is not given.
pub const SOCKS_PORT: u16 = 1080;
/// The most bytes of a name, a user or a password: their lengths are one byte.
const TEXT_BYTES_MAX: usize = 255;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const PASSWORD: u8 = 2;
const PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
const CONNECTION_REFUSED: u8 = 5;

/// A SOCKS5 proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct SocksProxy {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The user and the password, if the proxy may ask for them.
    pub credential: Option<(String, String)>,
}

impl fmt::Debug for SocksProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.credential.as_ref().map(|(user, _)| user);
        f.debug_struct("SocksProxy")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &user)
            .finish()
    }
}

/// The reason why a proxy opened no connection.
#[derive(Debug, thiserror::Error)]
enum SocksError {
    #[error("the SOCKS proxy cannot be reached: {0}")]
    NoProxy(io::Error),
    #[error("the proxy does not speak SOCKS5: check `proxyHost` and `proxyPort`")]
    NotSocks,
    #[error("the SOCKS proxy wants another authentication: give `proxyUsername` and `proxyPassword`")]
    NoMethod,
    #[error("the SOCKS proxy refused the user or the password: check `proxyUsername` and `proxyPassword`")]
    Denied,
    #[error("the SOCKS proxy opened no connection: {0}")]
    Failed(&'static str),
    #[error("a name, a user or a password for a SOCKS proxy has 1 to {TEXT_BYTES_MAX} bytes")]
    Length,
}

impl From<SocksError> for io::Error {
    fn from(error: SocksError) -> Self {
        Self::other(error)
    }
}

/// Connects to `host` through a proxy, without a time limit.
///
/// # Errors
/// [`io::ErrorKind::ConnectionRefused`] if the server refused the proxy; any other error says what failed.
pub(crate) async fn through(proxy: &SocksProxy, host: &str, port: u16) -> io::Result<TcpStream> {
    let opened = TcpStream::connect((proxy.host.as_str(), proxy.port)).await;
    let mut stream = opened.map_err(SocksError::NoProxy)?;
    stream.set_nodelay(true)?;
    negotiate(&mut stream, proxy.credential.as_ref(), host, port).await?;
    Ok(stream)
}

async fn negotiate<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    credential: Option<&(String, String)>,
    host: &str,
    port: u16,
) -> io::Result<()> {
    let methods: &[u8] =
        if credential.is_some() { &[NO_AUTHENTICATION, PASSWORD] } else { &[NO_AUTHENTICATION] };
    stream.write_all(&[&[VERSION, methods.len() as u8], methods].concat()).await?;
    let [version, method] = answer(stream).await?;
    match (version, method, credential) {
        (VERSION, NO_AUTHENTICATION, _) => {}
        (VERSION, PASSWORD, Some((user, password))) => authenticate(stream, user, password).await?,
        (VERSION, ..) => return Err(SocksError::NoMethod.into()),
        _ => return Err(SocksError::NotSocks.into()),
    }
    stream.write_all(&request(host, port)?).await?;
    let [version, reply, _, kind] = answer(stream).await?;
    match (version, reply) {
        (VERSION, 0) => skip_address(stream, kind).await,
        (VERSION, CONNECTION_REFUSED) => Err(io::ErrorKind::ConnectionRefused.into()),
        (VERSION, reply) => Err(SocksError::Failed(reason(reply)).into()),
        _ => Err(SocksError::NotSocks.into()),
    }
}

async fn authenticate<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    user: &str,
    password: &str,
) -> io::Result<()> {
    let mut request = vec![PASSWORD_VERSION];
    append_text(&mut request, user)?;
    append_text(&mut request, password)?;
    stream.write_all(&request).await?;
    match answer(stream).await? {
        [_, 0] => Ok(()),
        _ => Err(SocksError::Denied.into()),
    }
}

/// The request for a connection.
fn request(host: &str, port: u16) -> Result<Vec<u8>, SocksError> {
    let mut request = vec![VERSION, CONNECT, 0];
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        request.push(IPV4);
        request.extend(address.octets());
    } else if let Ok(address) = host.parse::<Ipv6Addr>() {
        request.push(IPV6);
        request.extend(address.octets());
    } else {
        request.push(NAME);
        append_text(&mut request, host)?;
    }
    request.extend(port.to_be_bytes());
    Ok(request)
}

fn append_text(out: &mut Vec<u8>, text: &str) -> Result<(), SocksError> {
    let length = u8::try_from(text.len()).ok().filter(|length| *length > 0).ok_or(SocksError::Length)?;
    out.push(length);
    out.extend(text.as_bytes());
    Ok(())
}

/// The next bytes of an answer. A proxy that closes the connection instead speaks another protocol.
async fn answer<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    match stream.read_exact(&mut bytes).await {
        Ok(_) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(SocksError::NotSocks.into()),
        Err(error) => Err(error),
    }
}

/// Reads the proxy's own address and port, which the client does not use.
async fn skip_address(stream: &mut (impl AsyncRead + Unpin), kind: u8) -> io::Result<()> {
    let length = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => usize::from(answer::<1>(stream).await?[0]),
        _ => return Err(SocksError::NotSocks.into()),
    };
    let mut address = [0; TEXT_BYTES_MAX + 2];
    stream.read_exact(&mut address[..length + 2]).await.map(drop)
}

/// The meaning of a reply by RFC 1928, section 6.
const fn reason(reply: u8) -> &'static str {
    match reply {
        2 => "its rules do not allow it",
        3 => "the network is unreachable",
        4 => "the host is unreachable, or its name is unknown",
        6 => "the connection took too long",
        7 => "it does not support the command",
        8 => "it does not support this kind of address",
        _ => "it failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Negotiates with a proxy that answers `answers`; returns the sent bytes and the error.
    async fn negotiated(
        credential: Option<(&str, &str)>,
        host: &str,
        answers: &[u8],
    ) -> (Vec<u8>, Option<String>) {
        let (mut here, mut there) = tokio::io::duplex(4096);
        there.write_all(answers).await.unwrap();
        there.shutdown().await.unwrap();
        let credential = credential.map(|(user, password)| (user.to_owned(), password.to_owned()));
        let result = negotiate(&mut here, credential.as_ref(), host, 27017).await;
        drop(here);
        let mut sent = Vec::new();
        there.read_to_end(&mut sent).await.unwrap();
        (sent, result.err().map(|error| error.to_string()))
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test)
    }

    const OPENED: [u8; 10] = [5, 0, 0, 1, 127, 0, 0, 1, 4, 56];

    #[test]
    fn names_and_addresses_are_sent_as_they_are() {
        for (host, expected) in [
            ("db", &[3, 2, b'd', b'b'][..]),
            ("10.0.0.7", &[1, 10, 0, 0, 7]),
            ("::1", &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ] {
            let (sent, error) = run(negotiated(None, host, &[&[5, 0][..], &OPENED].concat()));
            assert_eq!(error, None, "{host}");
            assert_eq!(sent, [&[5, 1, 0, 5, 1, 0][..], expected, &[0x69, 0x89]].concat(), "{host}");
        }
    }

    #[test]
    fn a_user_and_a_password_are_sent_if_the_proxy_wants_them() {
        let ann = Some(("ann", "key"));
        let (sent, error) = run(negotiated(ann, "db", &[&[5, 2, 1, 0][..], &OPENED].concat()));
        assert_eq!(error, None);
        assert!(sent.starts_with(b"\x05\x02\x00\x02\x01\x03ann\x03key\x05\x01"), "{sent:?}");
        let (sent, error) = run(negotiated(ann, "db", &[&[5, 0][..], &OPENED].concat()));
        assert_eq!((error, sent[..5].to_vec()), (None, vec![5, 2, 0, 2, 5]));
        assert!(
            !format!(
                "{:?}",
                SocksProxy { host: "h".into(), port: 1, credential: Some(("a".into(), "key".into())) }
            )
            .contains("key")
        );
    }

    #[test]
    fn each_failure_has_a_reason() {
        let long = "x".repeat(256);
        for (credential, host, answers, expected) in [
            (None, "db", &[5, 0xff][..], "give `proxyUsername`"),
            (None, "db", &[5, 2], "give `proxyUsername`"),
            (Some(("a", "b")), "db", &[5, 2, 1, 1], "refused the user"),
            (Some(("a", "")), "db", &[5, 2], "1 to 255 bytes"),
            (None, long.as_str(), &[5, 0], "1 to 255 bytes"),
            (None, "db", &[4, 0], "does not speak SOCKS5"),
            (None, "db", b"HTTP/1.1 400", "does not speak SOCKS5"),
            (None, "db", &[5], "does not speak SOCKS5"),
            (None, "db", &[5, 0, 5, 2, 0, 1], "its rules do not allow it"),
            (None, "db", &[5, 0, 5, 4, 0, 1], "its name is unknown"),
            (None, "db", &[5, 0, 5, 5, 0, 1], "connection refused"),
            (None, "db", &[5, 0, 5, 99, 0, 1], "it failed"),
            (None, "db", &[5, 0, 5, 0, 0, 9], "does not speak SOCKS5"),
        ] {
            let (_, error) = run(negotiated(credential, host, answers));
            assert!(
                error.as_ref().is_some_and(|error| error.contains(expected)),
                "{error:?}, not {expected}"
            );
        }
    }

    #[test]
    fn an_address_of_any_kind_in_the_answer_is_read_to_its_end() {
        for address in [&[1, 9, 9, 9, 9, 0, 0][..], &[3, 2, b'h', b'h', 0, 0], &[&[4][..], &[9; 18]].concat()]
        {
            let (_, error) = run(negotiated(None, "db", &[&[5, 0, 5, 0, 0][..], address].concat()));
            assert_eq!(error, None, "{address:?}");
        }
    }
}
