//! Defines steps that wait: for a person, a signal or a moment.

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Waits until a person completes a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A line for the inbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Roles that may act on the task. Default: any person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// A jq program for the data that the person sees. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// A jq program for the completed payload: `true` accepts it; a text refuses it with this reason and re-activates the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validate: Option<String>,
    /// The field of the data that gets the completed payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The longest wait. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The consequence of the timeout.
    #[serde(default)]
    pub on_timeout: OnTimeout,
}

/// Waits for a signal from outside. A signal that came before the wait is kept for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The signal's name.
    pub signal: String,
    /// The field of the data that gets the signal's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The longest wait. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The consequence of the timeout.
    #[serde(default)]
    pub on_timeout: OnTimeout,
}

/// Waits until a moment. Exactly one of `after`, `until` and `cron` is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timer {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The length of the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Span>,
    /// A jq program for the moment: milliseconds since 1970, or a text such as `2026-11-26T15:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The next moment of a schedule in UTC: minute, hour, day, month, weekday.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
}

/// The consequence of a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// The instance compensates and fails.
    #[default]
    Fail,
    /// The instance goes on with `null` as result.
    Continue,
}
