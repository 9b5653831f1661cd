//! Parses the URL of a service: `http://host:port/base`.

use std::str::FromStr;

use super::Error;

/// A URL without a user, a query and a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub secure: bool,
    /// The host without brackets.
    pub host: String,
    pub port: u16,
    /// The prefix of all paths, without a slash at its end; may be empty.
    pub path: String,
}

impl Url {
    /// The host as written in a URL.
    pub(crate) fn host_in_brackets(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    /// The value of the `host` header, without a default port.
    pub(crate) fn host_header(&self) -> String {
        let usual = if self.secure { 443 } else { 80 };
        let host = self.host_in_brackets();
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|problem| Error::Url { url: text.to_owned(), problem })
    }
}

fn parse(text: &str) -> Result<Url, &'static str> {
    let (secure, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err("begins with neither http:// nor https://"),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err("contains a user; put the credentials under `auth`");
    }
    if rest.contains(['?', '#']) {
        return Err("holds a query or a fragment; give the query with each request's path");
    }
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds a space, or a character that must be percent-encoded");
    }
    let (host, port) =
        host_and_port(authority).ok_or("names no host, or a port that is not from 1 to 65535")?;
    let port = port.unwrap_or(if secure { 443 } else { 80 });
    Ok(Url { secure, host: host.to_owned(), port, path: path.trim_end_matches('/').to_owned() })
}

fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, tail) = rest.split_once(']')?;
            (host, if tail.is_empty() { None } else { Some(tail.strip_prefix(':')?) })
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map(|port| port.parse().ok().filter(|port| *port != 0));
    let clean = !host.is_empty() && !host.contains(['[', ']']);
    match (clean, port) {
        (false, _) | (_, Some(None)) => None,
        (true, port) => Some((host, port.flatten())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_urls_are_parsed() {
        for (text, secure, host, port, path, header) in [
            ("http://h", false, "h", 80, "", "h"),
            ("https://api.example/v1/", true, "api.example", 443, "/v1", "api.example"),
            ("http://127.0.0.1:8080", false, "127.0.0.1", 8080, "", "127.0.0.1:8080"),
            ("https://[::1]:80/a/b", true, "::1", 80, "/a/b", "[::1]:80"),
        ] {
            let url: Url = text.parse().unwrap();
            let expected = Url { secure, host: host.into(), port, path: path.into() };
            assert_eq!((url.host_header().as_str(), &url), (header, &expected));
        }
    }

    #[test]
    fn an_invalid_url_is_refused_with_an_example() {
        for text in [
            "",
            "h",
            "ftp://h",
            "http://",
            "http://:80",
            "http://h:0",
            "http://h:x",
            "http://u@h",
            "http://h?a",
            "http://[::1",
            "http://h/ü",
        ] {
            let error = text.parse::<Url>().unwrap_err().to_string();
            assert!(error.contains("http://127.0.0.1:8080"), "{text}: {error}");
        }
    }
}
