//! Tells a child run what kind of server its address is, so that runs on servers with different durability stay
//! distinguishable.

use std::fmt;
use std::str::FromStr;

use plimsoll_measure::environment::{ServerFacts, ServerKind};
use serde::{Deserialize, Serialize};

/// The key of the storage engine's cache size in the facts of a server. The value is in bytes.
const CACHE: &str = "cache_bytes";

/// The provenance of a started server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostedAs {
    /// The kind of the server.
    pub kind: ServerKind,
    /// Its durability profile.
    pub profile: Option<String>,
    /// Its product name and version.
    pub product: Option<String>,
    /// The configured cache of the storage engine, in bytes as the server reports it. `None`: the server's default.
    pub cache_bytes: Option<u64>,
}

impl HostedAs {
    /// The provenance, from facts that the starter of the server has.
    pub fn of(facts: ServerFacts, cache_bytes: Option<u64>) -> Self {
        Self { kind: facts.kind, profile: facts.profile, product: facts.product, cache_bytes }
    }

    /// Adds the provenance to the facts of a server that was found by its address.
    pub fn tell(&self, facts: &mut ServerFacts) {
        facts.kind = self.kind;
        facts.profile.clone_from(&self.profile);
        if self.product.is_some() {
            facts.product.clone_from(&self.product);
        }
        facts.parameters.extend(self.cache_bytes.map(|bytes| (CACHE.to_owned(), bytes.to_string())));
    }
}

impl fmt::Display for HostedAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for HostedAs {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_on_a_hosted_server_has_the_facts_of_its_starter() {
        let started = ServerFacts {
            kind: ServerKind::Embedded,
            profile: Some("relaxed".into()),
            product: Some("a: b".into()),
            ..ServerFacts::default()
        };
        let hosted = HostedAs::of(started.clone(), Some(256));
        let read: HostedAs = hosted.to_string().parse().unwrap();
        assert_eq!(read, hosted);
        let mut facts = ServerFacts { version: Some("7".into()), ..ServerFacts::default() };
        read.tell(&mut facts);
        assert_eq!(
            (facts.kind, &facts.profile, &facts.product),
            (started.kind, &started.profile, &started.product)
        );
        assert_eq!((facts.version.as_deref(), facts.parameters[CACHE].as_str()), (Some("7"), "256"));
        assert!("{\"kind\": \"embedded\", \"else\": 1}".parse::<HostedAs>().is_err());
    }
}
