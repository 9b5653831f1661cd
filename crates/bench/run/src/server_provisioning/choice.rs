//! Parses the options that name servers.

use std::str::FromStr;

use anyhow::{anyhow, bail};
use plimsoll_deployment::check_uri;
use plimsoll_host::{Profile, mongod};

use plimsoll_scenario::secret::{repeated, without_password};

/// The default port of a MongoDB server.
const PORT: &str = "27017";
/// The largest number of servers.
const SERVERS_MAX: usize = 64;

/// The options by which the user names servers.
#[derive(Clone, Copy, Debug)]
pub struct ServerAddress<'a> {
    /// One server, or the URL of a service.
    pub server: Option<&'a str>,
    /// Independent servers to spread the load over.
    pub hosts: &'a [String],
    /// Number of embedded servers.
    pub count: usize,
}

/// The resolved choice of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A `mongod` from the PATH if one exists, else the embedded server.
    Any,
    /// The embedded server with a durability profile.
    Embedded(Profile),
    /// A `mongod` from the PATH.
    Mongod,
    /// A connection string.
    Uri(String),
    /// Several independent servers.
    Several(Vec<Choice>),
}

impl Choice {
    /// Whether the server, or one of several, was already running: the run neither starts nor ends it.
    pub fn is_running(&self) -> bool {
        match self {
            Self::Uri(_) => true,
            Self::Several(all) => all.iter().any(Self::is_running),
            Self::Any | Self::Embedded(_) | Self::Mongod => false,
        }
    }

    /// One sentence for each option without effect in the URIs.
    pub fn warnings(&self) -> Vec<String> {
        self.uris().into_iter().flat_map(plimsoll_deployment::warnings).collect()
    }

    /// The URIs of all servers that were already running.
    pub fn uris(&self) -> Vec<&str> {
        match self {
            Self::Uri(uri) => vec![uri],
            Self::Several(all) => all.iter().flat_map(Self::uris).collect(),
            Self::Any | Self::Embedded(_) | Self::Mongod => Vec::new(),
        }
    }

    /// Whether the server will be an embedded one: only its unsynced writes can be discarded.
    pub fn can_lose_power(&self) -> bool {
        match self {
            Self::Embedded(_) => true,
            Self::Any => mongod::find().is_none(),
            Self::Mongod | Self::Uri(_) | Self::Several(_) => false,
        }
    }

    /// The choice with one spelling for each address.
    #[must_use]
    pub fn canonical(&self) -> Self {
        match self {
            Self::Uri(uri) => Self::Uri(canonical_address(uri)),
            Self::Several(all) => Self::Several(all.iter().map(Self::canonical).collect()),
            Self::Any | Self::Embedded(_) | Self::Mongod => self.clone(),
        }
    }
}

impl FromStr for Choice {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text {
            "embedded" => Ok(Self::Embedded(Profile::Journaled)),
            "mongod" => Ok(Self::Mongod),
            _ if text.starts_with("mongodb://") || text.starts_with("mongodb+srv://") => {
                check_uri(text)?;
                Ok(Self::Uri(text.to_owned()))
            }
            _ => match text.strip_prefix("embedded:") {
                Some(profile) => Ok(Self::Embedded(self::profile(profile)?)),
                None if names_host(text) => Ok(Self::Uri(uri(text))),
                None => bail!(
                    "--server {}: write a URI such as mongodb://localhost:27017, a host such as localhost:27017, or mongod, embedded, embedded:relaxed",
                    repeated(text)
                ),
            },
        }
    }
}

/// The servers that the options name: one by `server`, several by `hosts`, or `count` embedded ones.
///
/// # Errors
/// When the options contradict each other, or name no server.
pub fn choice(server: Option<&str>, hosts: &[String], count: usize) -> anyhow::Result<Choice> {
    if count == 0 || count > SERVERS_MAX || hosts.len() > SERVERS_MAX {
        bail!("--count and --hosts: give from 1 to {SERVERS_MAX} servers");
    }
    match (server, hosts) {
        (Some(_), [_, ..]) => {
            bail!("--hosts names the servers already: leave out --server, or name one server only")
        }
        (None, [host]) => uri(host).parse(),
        (None, [_, ..]) => several(hosts),
        (server, []) if count > 1 => match server.map_or(Ok(Choice::Any), str::parse)? {
            Choice::Any => Ok(Choice::Several(vec![Choice::Embedded(Profile::Journaled); count])),
            Choice::Embedded(profile) => Ok(Choice::Several(vec![Choice::Embedded(profile); count])),
            _ => bail!(
                "--count starts embedded servers: use --server embedded, or name the servers with --hosts"
            ),
        },
        (server, []) => server.map_or(Ok(Choice::Any), str::parse),
    }
}

fn several(hosts: &[String]) -> anyhow::Result<Choice> {
    for (index, host) in hosts.iter().enumerate() {
        if hosts[..index].contains(host) {
            bail!("--hosts: {} is named twice; name each server once", without_password(host));
        }
    }
    Ok(Choice::Several(hosts.iter().map(|host| uri(host).parse()).collect::<anyhow::Result<_>>()?))
}

/// Whether a text without a scheme names a host, not a misspelt kind of server.
fn names_host(text: &str) -> bool {
    let first = text.split(['.', ':']).next();
    let is_kind = matches!(first, Some("embedded" | "mongod"));
    let port = text.rsplit_once(':').map(|(_, port)| port).filter(|_| !text.ends_with(']'));
    let has_port = port.is_some_and(|port| port.parse::<u16>().is_ok());
    let is_plain = !text.contains(['/', ' ', '@', ',']) && (port.is_none() || has_port);
    text == "localhost" || !is_kind && is_plain && text.contains(['.', ':'])
}

/// Turns `host:port` into a connection string to that server alone.
fn uri(host: &str) -> String {
    if host.contains("://") { host.to_owned() } else { format!("mongodb://{host}/?directConnection=true") }
}

/// The durability profile with this name.
///
/// # Errors
/// When no profile has this name.
pub fn profile(name: &str) -> anyhow::Result<Profile> {
    match name {
        "journaled" => Ok(Profile::Journaled),
        "relaxed" => Ok(Profile::Relaxed),
        other => Err(anyhow!("there is no profile `{other}`; use journaled or relaxed")),
    }
}

/// Normalizes an address: the local machine gets one name, and a MongoDB server gets its port.
pub fn canonical_address(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let hosts: Vec<String> = hosts.split(',').map(|host| canonical_host(scheme, host)).collect();
    format!("{scheme}://{user}@{}{path}", hosts.join(","))
}

fn canonical_host(scheme: &str, host: &str) -> String {
    // The port follows the last colon, unless that colon is inside the brackets of an IPv6 address.
    let parts = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    let known = if scheme == "mongodb" { PORT } else { "" };
    let (name, port) = parts.unwrap_or((host, known));
    let name = name.to_ascii_lowercase();
    let name = if name == "localhost" { "127.0.0.1" } else { name.as_str() };
    format!("{name}:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_address_is_refused_before_a_server_is_contacted() {
        for text in [
            "mongodb://localhost:0",
            "mongodb://",
            "mongodb+srv://a.b:27017",
            "mongodb://a/?w=0&journal=true",
        ] {
            let error = text.parse::<Choice>().unwrap_err().to_string();
            assert!(error.contains("the server's address is invalid"), "{text}: {error}");
        }
    }

    #[test]
    fn only_an_embedded_server_can_lose_its_power() {
        let read = |text: &str| text.parse::<Choice>().unwrap().can_lose_power();
        assert!(read("embedded") && read("embedded:relaxed"));
        assert!(!read("mongod") && !read("mongodb://h:1"));
    }

    #[test]
    fn a_server_is_named_by_uri_or_by_kind() {
        assert_eq!("embedded".parse::<Choice>().unwrap(), Choice::Embedded(Profile::Journaled));
        assert_eq!("embedded:relaxed".parse::<Choice>().unwrap(), Choice::Embedded(Profile::Relaxed));
        assert_eq!("mongodb://h".parse::<Choice>().unwrap(), Choice::Uri("mongodb://h".into()));
        for host in ["localhost", "db1:27018", "127.0.0.1", "[::1]:27018", "db1.example"] {
            let uri = format!("mongodb://{host}/?directConnection=true");
            assert_eq!(host.parse::<Choice>().unwrap(), Choice::Uri(uri));
        }
        for (text, part) in [
            ("embeded", "localhost:27017"),
            ("embedded.relaxed", "localhost:27017"),
            ("embedded:fast", "use journaled or relaxed"),
            ("embeded:relaxed", "localhost:27017"),
            ("a:1,b:2", "localhost:27017"),
        ] {
            assert!(text.parse::<Choice>().unwrap_err().to_string().contains(part), "{text}");
        }
    }

    #[test]
    fn an_invalid_server_name_is_repeated_without_its_password() {
        let twice = ["ann:hush@h:1".to_owned(), "ann:hush@h:1".to_owned()];
        let refusals = ["ann:hush@h:1".parse::<Choice>(), choice(None, &twice, 1)];
        for refusal in refusals {
            assert!(!refusal.unwrap_err().to_string().contains("hush"));
        }
    }

    #[test]
    fn one_server_under_two_names_is_one_server() {
        let uri = |uri: &str| Choice::Uri(uri.into()).canonical();
        let url = |url: &str| canonical_address(url);
        for (one, other) in [
            ("mongodb://localhost:27017/?w=1", "mongodb://127.0.0.1/?w=1"),
            ("mongodb://ann:x@LOCALHOST:1", "mongodb://ann:x@127.0.0.1:1"),
            ("mongodb://localhost:1,h:2", "mongodb://127.0.0.1:1,H:2"),
        ] {
            assert_eq!(uri(one), uri(other));
        }
        assert_eq!(url("http://localhost:8080/v1"), url("http://127.0.0.1:8080/v1"));
        for (one, other) in [
            ("mongodb://localhost:1", "mongodb://localhost:2"),
            ("mongodb://localhost:1", "mongodb://[::1]:1"),
            ("mongodb://localhost/?w=1", "mongodb://localhost/?w=2"),
            ("mongodb://ann@localhost", "mongodb://localhost"),
        ] {
            assert_ne!(uri(one), uri(other));
        }
        let started = Choice::Embedded(Profile::Relaxed);
        assert_eq!(started.canonical(), started);
    }
}
