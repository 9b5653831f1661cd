//! Defines steps that direct the flow: forks, repetitions, branches and other workflows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Step;
use super::calls::OnFailure;

/// Runs branches at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The steps of each branch.
    pub branches: Vec<Vec<Step>>,
    /// The branches that must end before the instance goes on.
    #[serde(default)]
    pub join: Join,
}

/// The branches that must end before the instance goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// All branches.
    #[default]
    All,
    /// The first one; the others are cancelled.
    Any,
}

/// Repeats steps while a condition holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A jq program that returns true for one more repetition. Default: always.
    #[serde(default, rename = "while", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Repetitions at most. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// Runs the first case whose condition holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The cases in order.
    pub cases: Vec<Case>,
    /// The steps if no condition holds.
    #[serde(default, rename = "else", skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<Step>,
}

/// One case of a branch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A jq program that returns true if the case applies.
    #[serde(rename = "if")]
    pub condition: String,
    /// The steps.
    pub steps: Vec<Step>,
}

/// Starts an instance of another definition and waits for its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Child {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The definition's name. The newest version at the start applies.
    pub definition: String,
    /// A jq program for the input. Default: all data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The field of the data that gets the data of the ended instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The consequence of its failure.
    #[serde(default)]
    pub on_failure: OnFailure,
}

/// Starts an independent instance of another definition and does not wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContinueWith {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The definition's name. The newest version at the start applies.
    pub definition: String,
    /// A jq program for the input. Default: all data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
}

/// Replaces the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A jq program for the new data.
    pub value: String,
}

/// Ends the instance as failed, after compensation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    /// A name for paths, migration and explanations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The reason.
    pub error: String,
}
