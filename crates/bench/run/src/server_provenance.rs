//! Tells a child run what kind of server its address is, so that runs on servers with different durability stay
//! distinguishable.

use std::fmt;
use std::str::FromStr;

use plimsoll_measure::environment::{ServerFacts, ServerKind};
use serde::{Deserialize, Serialize};

/// Where the facts of a server keep the storage engine's cache, in bytes.
const CACHE: &str = "cache_bytes";

/// The provenance of a started server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostedAs {
    /// Where it comes from.
    pub kind: ServerKind,
    /// Its durability profile.
    pub profile: Option<String>,
    /// Its own name and version.
    pub product: Option<String>,
    /// The storage engine's cache that it was given, in bytes as the server has it; its own default if absent.
    pub cache_bytes: Option<u64>,
}

impl HostedAs {
    /// The provenance, by the facts that the starter knows.
    pub fn of(facts: ServerFacts, cache_bytes: Option<u64>) -> Self {
        Self { kind: facts.kind, profile: facts.profile, product: facts.product, cache_bytes }
    }

    /// Puts it among the facts of a server of which only the address was known.
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
    fn a_run_on_a_hosted_server_has_the_facts_of_whoever_started_it() {
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
