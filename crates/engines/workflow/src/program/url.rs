//! Parses the address of an HTTP step.

/// An address: scheme, host, port, and the rest as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    /// Whether the scheme is https.
    pub is_secure: bool,
    /// The host without brackets.
    pub host: &'a str,
    /// The port.
    pub port: u16,
    /// The host and the port as written.
    pub authority: &'a str,
    /// The path and the query.
    pub target: &'a str,
}

impl<'a> Url<'a> {
    /// Parses an address.
    ///
    /// # Errors
    ///
    /// If the text is no address.
    pub fn of(text: &'a str) -> Result<Self, String> {
        let invalid = || format!("`{text}` is no address: write http://host:port/path");
        let (is_secure, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(invalid()),
        };
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let is_clean = rest.bytes().all(|byte| byte.is_ascii_graphic()) && !authority.contains('@');
        let (host, port) = split(authority).filter(|_| is_clean).ok_or_else(invalid)?;
        let port = port.unwrap_or(if is_secure { 443 } else { 80 });
        Ok(Self { is_secure, host, port, authority, target })
    }

    /// Whether a list of `host` and `host:port` has the address.
    pub fn is_in(&self, hosts: &[String]) -> bool {
        let with_port = format!("{}:{}", self.host, self.port);
        hosts.iter().any(|allowed| {
            allowed.eq_ignore_ascii_case(self.host) || allowed.eq_ignore_ascii_case(&with_port)
        })
    }
}

fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, tail) = rest.split_once(']')?;
            (host, if tail.is_empty() { None } else { Some(tail.strip_prefix(':')?) })
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map(|port| port.parse().ok().filter(|port| *port != 0));
    match port {
        Some(None) => None,
        port => (!host.is_empty() && !host.contains(['[', ']'])).then_some((host, port.flatten())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_split_and_an_invalid_one_is_refused() {
        let url = Url::of("https://[::1]:8443/a?b=c").unwrap();
        assert_eq!((url.is_secure, url.host, url.port, url.target), (true, "::1", 8443, "/a?b=c"));
        assert_eq!(Url::of("http://h?q").unwrap().target, "?q");
        for text in
            ["", "ftp://h", "http://", "http://h:0/", "http://u@h/", "http://h/ a", "http://h/\r\nx: y"]
        {
            assert!(Url::of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_host_is_allowed_by_name_or_by_name_and_port() {
        let url = Url::of("http://Crm.example:81/x").unwrap();
        let is_in = |host: &str| url.is_in(&[host.to_owned()]);
        assert!(is_in("crm.example") && is_in("crm.example:81"));
        assert!(!is_in("crm.example:80") && !is_in("example") && !url.is_in(&[]));
    }
}
