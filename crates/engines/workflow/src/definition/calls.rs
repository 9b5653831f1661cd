//! Defines steps that call: functions, HTTP services, their retries and compensation.

use std::collections::BTreeMap;

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Calls a named function of the process. The call is made at least once, each attempt with the same idempotency key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The function's name.
    pub function: String,
    /// A jq program for the input. Default: all data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The field of the data that gets the result. Default: the result is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The longest time of one attempt. Default: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Further attempts after a failure.
    #[serde(default)]
    pub retries: Retries,
    /// The consequence of the last failure.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The call that undoes this one if the instance fails later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensate: Option<Box<Undo>>,
}

/// Calls an HTTP service. A status of 2xx is a success; 408, 429, 5xx and a broken connection are retried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The method.
    #[serde(default)]
    pub method: Method,
    /// The address: `http://` or `https://`.
    pub url: String,
    /// Further headers. `Idempotency-Key` is always sent. `${name}` in a value stands for a secret of the process that makes the call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// A jq program for the body. Default: all data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The field of the data that gets the answer's body. Default: the answer is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The longest time of one attempt. Default: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Further attempts after a failure.
    #[serde(default)]
    pub retries: Retries,
    /// The consequence of the last failure.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The call that undoes this one if the instance fails later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensate: Option<Box<Undo>>,
}

/// A compensating call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// Calls a named function.
    Service(Service),
    /// Calls an HTTP service.
    Http(Http),
}

/// The method of an HTTP call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads.
    Get,
    /// Sends.
    #[default]
    Post,
    /// Replaces.
    Put,
    /// Changes.
    Patch,
    /// Deletes.
    Delete,
}

/// The attempts of a call and the time between them, which doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retries {
    /// Attempts at most, the first included.
    pub attempts: u32,
    /// The time before the second attempt.
    pub backoff: Span,
    /// The longest time between two attempts.
    pub backoff_max: Span,
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 5, backoff: Span::from_ns(100_000_000), backoff_max: Span::from_secs(60) }
    }
}

/// The consequence of a call's last failure, or of a failed sub-workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The instance compensates and fails.
    #[default]
    Fail,
    /// The instance is parked until an operator retries or cancels it.
    Park,
    /// The instance goes on without a result.
    Continue,
}
