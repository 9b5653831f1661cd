//! Parses and shows the address of a server: `host:port`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The default port of a MongoDB server.
const DEFAULT_PORT: u16 = 27017;

/// A host (a name, an IPv4 or an IPv6 address without brackets) and a TCP port, or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The host without brackets, or the socket's path.
    pub host: String,
    /// The TCP port; 0 for a Unix socket.
    pub port: u16,
}

/// The text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an address: write host, host:port, or [IPv6]:port with a port from 1 to 65535")]
pub struct AddressError {
    text: String,
}

impl Address {
    /// The Unix socket at an absolute path.
    pub fn unix(path: &Path) -> Self {
        Self { host: path.to_string_lossy().into_owned(), port: 0 }
    }

    /// The path, if the address is a Unix socket: a host name has no slash.
    pub fn unix_path(&self) -> Option<&Path> {
        self.host.contains('/').then(|| Path::new(&self.host))
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        parse(text).ok_or_else(|| AddressError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Address> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => bracketed(rest)?,
        None => plain(text),
    };
    let port = port.map_or(Some(DEFAULT_PORT), |port| port.parse().ok().filter(|&port| port != 0))?;
    let is_valid = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || "[]/@".contains(c));
    is_valid.then(|| Address { host: host.to_owned(), port })
}

fn bracketed(rest: &str) -> Option<(&str, Option<&str>)> {
    let (host, tail) = rest.split_once(']')?;
    let port = if tail.is_empty() { None } else { Some(tail.strip_prefix(':')?) };
    Some((host, port))
}

/// Splits `host:port`. Two colons or more are an IPv6 address without a port.
fn plain(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unix_path().is_some() {
            f.write_str(&self.host)
        } else if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, host: &str, port: u16, shown: &str) {
        let address: Address = text.parse().unwrap();
        assert_eq!((address.host.as_str(), address.port), (host, port), "{text}");
        assert_eq!(address.to_string(), shown);
    }

    #[test]
    fn host_names_and_addresses_of_both_families_are_parsed_and_shown() {
        check("db.example:27018", "db.example", 27018, "db.example:27018");
        check("db.example", "db.example", 27017, "db.example:27017");
        check("127.0.0.1:1", "127.0.0.1", 1, "127.0.0.1:1");
        check("[::1]:27019", "::1", 27019, "[::1]:27019");
        check("[fe80::1]", "fe80::1", 27017, "[fe80::1]:27017");
        check("::1", "::1", 27017, "[::1]:27017");
    }

    #[test]
    fn a_unix_socket_is_shown_by_its_path() {
        let socket = Address::unix(Path::new("/tmp/mongodb.sock"));
        assert_eq!(
            (socket.to_string(), socket.unix_path()),
            ("/tmp/mongodb.sock".into(), Some(Path::new("/tmp/mongodb.sock")))
        );
        assert_eq!("a:1".parse::<Address>().unwrap().unix_path(), None);
    }

    #[test]
    fn a_text_that_is_not_an_address_is_refused() {
        for text in
            ["", ":1", "a:", "a:0", "a:65536", "a:b", "[::1", "[::1]x", "a b", "mongodb://a/b", "u@h:1"]
        {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}
