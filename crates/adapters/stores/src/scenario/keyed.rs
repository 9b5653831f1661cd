//! Defines the `keyed` section.

use plimsoll_deployment::{Namespace, concern::WriteConcern};
use plimsoll_measure::duration::Span;
use plimsoll_pipeline::{Identity, Order, Promise};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::insert::{concern, default_timeout, deployment, settled};
use super::{Refusal, timeout};
use crate::sink::keyed::{Keyed as Sinks, KeyedSettings, PayloadId};

/// Keeps the newest document of each `_id`: an event with a BSON document replaces it, an event without a payload deletes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keyed {
    /// The server: `mongodb://…`.
    pub uri: String,
    /// `database.collection`.
    pub collection: String,
    /// The write concern; by default that of the address. Missing parts are set as in a journaled majority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_concern: Option<WriteConcern>,
    /// The time limit of a command, after which its batch is retried.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
}

impl Keyed {
    /// Builds the factory of sinks. `payload_id` is the rule for payloads whose key has an `_id` too.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn build(&self, payload_id: PayloadId) -> Result<Sinks, Refusal> {
        let namespace: Namespace = self.collection.parse().map_err(Refusal::of)?;
        let settled = settled(self.write_concern.as_ref(), &self.uri)?;
        Ok(Sinks::new(KeyedSettings {
            concern: concern(&settled, self.timeout)?,
            deployment: deployment(&self.uri, timeout(self.timeout)?)?,
            namespace,
            payload_id,
            promise: Promise {
                durable: settled.is_durable(),
                identity: Identity::Named,
                order: Order::Kept,
                writes_dead_letters: false,
            },
        }))
    }
}
