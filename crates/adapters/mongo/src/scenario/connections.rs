//! Reads the settings of a client's connections, as typed.

use plimsoll_deployment::Pool;
use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Client;

/// The connections of the clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Connections {
    /// Whether each operation opens a connection and closes it. A load can set its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub per_operation: bool,
    /// The most connections in the pool of each worker's official driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// The fewest connections in that pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// The time after which the pool closes an idle connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_idle: Option<Span>,
}

/// Settings that the client does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConnections {
    /// A connection per operation over the official driver.
    #[error("connections.per_operation: the official driver keeps a pool of connections; use client: lean")]
    DriverPools,
    /// A pool of the lean client.
    #[error(
        "connections.{0}: the lean client has exactly the connections of its arrivals: set `connections` or `writers` there, or \
         use client: driver"
    )]
    LeanHasNoPool(&'static str),
    /// A pool of the URI that is smaller than the load's connections.
    #[error(
        "maxPoolSize={pool} in the server's address: the lean client has exactly the connections of its arrivals, {load} here: set \
         `connections` or `writers` to at most {pool}, remove maxPoolSize, or use client: driver"
    )]
    PoolTooSmall {
        /// The URI's `maxPoolSize`.
        pool: u32,
        /// The number of connections of the load.
        load: u32,
    },
    /// An empty pool.
    #[error("connections.max: 0 connections; give a number from 1")]
    NoConnection,
    /// Bounds in the wrong order.
    #[error("connections.min: {min} exceeds connections.max, {max}")]
    Bounds {
        /// The fewest connections.
        min: u32,
        /// The most connections.
        max: u32,
    },
}

impl Connections {
    /// Checks a URI's `maxPoolSize` against the client and the connections of its load.
    ///
    /// # Errors
    /// The lean client would open more connections.
    pub fn check_pool(client: Client, pool: Option<u32>, load: u32) -> Result<(), InvalidConnections> {
        match pool.filter(|pool| client == Client::Lean && *pool < load) {
            Some(pool) => Err(InvalidConnections::PoolTooSmall { pool, load }),
            None => Ok(()),
        }
    }

    /// One sentence for each option of a URI that only the official driver's pool or monitor honours, for a load with so many connections.
    pub fn without_effect(client: Client, pool: &Pool, load: u32) -> Vec<String> {
        if client == Client::Driver {
            return Vec::new();
        }
        let few = pool.min.filter(|min| *min > load).map(|min| {
            format!(
                "minPoolSize={min} in the server's address has no effect: the lean client has exactly the connections of its arrivals, \
                 {load} here; set `connections` or `writers`, or use client: driver"
            )
        });
        let others = pool.others.iter().map(|name| {
            format!(
                "{name} in the server's address has no effect: the lean client opens the connections of its arrivals and keeps them; \
                 use client: driver"
            )
        });
        let of_driver = pool.of_driver.iter().map(|name| {
            format!(
                "{name} in the server's address has no effect: only the official driver has it; use client: driver"
            )
        });
        few.into_iter().chain(others).chain(of_driver).collect()
    }

    /// Checks the settings against the client.
    ///
    /// # Errors
    /// The first setting that the client does not have, or that contradicts another.
    pub const fn check(&self, client: Client) -> Result<(), InvalidConnections> {
        match (client, self) {
            (Client::Driver, Self { per_operation: true, .. }) => Err(InvalidConnections::DriverPools),
            (Client::Lean, Self { max: Some(_), .. }) => Err(InvalidConnections::LeanHasNoPool("max")),
            (Client::Lean, Self { min: Some(_), .. }) => Err(InvalidConnections::LeanHasNoPool("min")),
            (Client::Lean, Self { max_idle: Some(_), .. }) => {
                Err(InvalidConnections::LeanHasNoPool("max_idle"))
            }
            (_, Self { max: Some(0), .. }) => Err(InvalidConnections::NoConnection),
            (_, Self { max: Some(max), min: Some(min), .. }) if *min > *max => {
                Err(InvalidConnections::Bounds { min: *min, max: *max })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_the_address_that_is_too_small_for_the_lean_client_is_refused() {
        let check =
            |client, pool| Connections::check_pool(client, pool, 8).map_err(|error| error.to_string());
        assert!(check(Client::Lean, Some(2)).unwrap_err().contains("maxPoolSize=2 in the server's address"));
        for (client, pool) in [(Client::Lean, None), (Client::Lean, Some(8)), (Client::Driver, Some(2))] {
            assert_eq!(check(client, pool), Ok(()));
        }
    }

    #[test]
    fn pool_options_of_the_address_without_effect_are_named_for_the_lean_client() {
        let (others, of_driver) = (vec!["maxIdleTimeMS", "maxConnecting"], vec!["heartbeatFrequencyMS"]);
        let pool = Pool { min: Some(9), others, of_driver, max: None };
        let said = Connections::without_effect(Client::Lean, &pool, 8);
        let names = ["minPoolSize=9", "maxIdleTimeMS", "maxConnecting", "heartbeatFrequencyMS"];
        assert_eq!(said.len(), names.len(), "{said:?}");
        for (sentence, name) in said.iter().zip(names) {
            assert!(sentence.starts_with(name), "{sentence}");
        }
        assert_eq!(Connections::without_effect(Client::Driver, &pool, 8), [""; 0]);
        let enough = Pool { min: Some(8), ..Pool::default() };
        assert_eq!(Connections::without_effect(Client::Lean, &enough, 8), [""; 0]);
    }

    #[test]
    fn settings_that_a_client_does_not_have_are_refused() {
        let check = |json: &str, client| serde_json::from_str::<Connections>(json).unwrap().check(client);
        for (json, client, part) in [
            (r#"{"per_operation": true}"#, Client::Driver, "per_operation: the official driver keeps a pool"),
            (r#"{"max": 4}"#, Client::Lean, "connections.max: the lean client has exactly"),
            (r#"{"min": 4}"#, Client::Lean, "connections.min: the lean client"),
            (r#"{"max_idle": "1s"}"#, Client::Lean, "connections.max_idle: the lean client"),
            (r#"{"max": 0}"#, Client::Driver, "0 connections"),
            (r#"{"max": 4, "min": 5}"#, Client::Driver, "5 exceeds connections.max, 4"),
        ] {
            let error = check(json, client).unwrap_err().to_string();
            assert!(error.contains(part), "{json}: {error}");
        }
        assert_eq!(check(r#"{"max": 4, "min": 4, "max_idle": "1s"}"#, Client::Driver), Ok(()));
        assert_eq!(check(r#"{"per_operation": true}"#, Client::Lean), Ok(()));
    }
}
