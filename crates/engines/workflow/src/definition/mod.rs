//! Defines workflows: the keys of a definition's file, and the same as Rust values.

mod build;
mod calls;
mod flow;
mod header;
mod secrets;
mod waits;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use calls::{Http, Method, OnFailure, Retries, Service, Undo};
pub use flow::{Branch, Case, Child, ContinueWith, Fail, Fork, Join, Repeat, Set};
pub(crate) use header::header_fault;
pub use header::header_form_fault;
pub use secrets::{Part, parts};
pub use waits::{OnTimeout, Task, Timer, Wait};

/// A workflow: its name and its steps in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// A sentence for readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Starts instances by a schedule. Default: only callers start instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// A schedule that starts instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Minute, hour, day, month and weekday in UTC, as in `0 6 * * 1-5`.
    pub cron: String,
}

/// One step of a definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Calls a named function of the process.
    Service(Service),
    /// Calls an HTTP service.
    Http(Http),
    /// Waits until a person completes a task.
    Task(Task),
    /// Waits for a signal from outside.
    Wait(Wait),
    /// Waits until a moment.
    Timer(Timer),
    /// Runs branches at the same time.
    Fork(Fork),
    /// Repeats steps.
    Repeat(Repeat),
    /// Runs the first case whose condition holds.
    Branch(Branch),
    /// Starts an instance of another definition and waits for its end.
    Workflow(Child),
    /// Starts an independent instance of another definition and does not wait.
    ContinueWith(ContinueWith),
    /// Replaces the data.
    Set(Set),
    /// Ends the instance as failed, after compensation.
    Fail(Fail),
}

impl Step {
    /// The kind, as in the file.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Service(_) => "service",
            Self::Http(_) => "http",
            Self::Task(_) => "task",
            Self::Wait(_) => "wait",
            Self::Timer(_) => "timer",
            Self::Fork(_) => "fork",
            Self::Repeat(_) => "repeat",
            Self::Branch(_) => "branch",
            Self::Workflow(_) => "workflow",
            Self::ContinueWith(_) => "continue_with",
            Self::Set(_) => "set",
            Self::Fail(_) => "fail",
        }
    }

    /// The name that the definition gives the step.
    pub fn name(&self) -> Option<&str> {
        let name = match self {
            Self::Service(step) => &step.name,
            Self::Http(step) => &step.name,
            Self::Task(step) => &step.name,
            Self::Wait(step) => &step.name,
            Self::Timer(step) => &step.name,
            Self::Fork(step) => &step.name,
            Self::Repeat(step) => &step.name,
            Self::Branch(step) => &step.name,
            Self::Workflow(step) => &step.name,
            Self::ContinueWith(step) => &step.name,
            Self::Set(step) => &step.name,
            Self::Fail(step) => &step.name,
        };
        name.as_deref()
    }

    /// The path of the step: its name, or its kind and its index in its list, behind the path around it.
    pub fn path(&self, around: &str, index: usize) -> String {
        let name = self.name().map_or_else(|| format!("{}-{index}", self.kind()), str::to_owned);
        if around.is_empty() { name } else { format!("{around}/{name}") }
    }
}

/// The identity of one version of a definition. An instance stays on its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The definition's name.
    pub name: String,
    /// SHA-256 of the definition's canonical JSON, 64 hexadecimal digits.
    pub hash: String,
}

impl Definition {
    /// The version, by content: the same definition has the same version in every process.
    pub fn version(&self) -> Version {
        // Fields have a fixed order, and maps are sorted, so the text is canonical.
        let text = serde_json::to_vec(self).unwrap_or_default();
        let hash = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        Version { name: self.name.clone(), hash }
    }

    /// The definition that starts instances by this one's schedule, if it has one. Its only instance never ends.
    pub fn schedule(&self) -> Option<Self> {
        let cron = self.start.as_ref()?.cron.clone();
        let tick = Step::Timer(Timer { cron: Some(cron), ..Timer::default() });
        let begin =
            Step::ContinueWith(ContinueWith { definition: self.name.clone(), ..ContinueWith::default() });
        let forever = Repeat { steps: vec![tick, begin], ..Repeat::default() };
        Some(Self {
            name: format!("{}.schedule", self.name),
            description: None,
            start: None,
            steps: vec![Step::Repeat(forever)],
        })
    }
}

/// The JSON schema of a definition's file.
pub fn schema() -> Schema {
    schema_for!(Definition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_content_has_the_same_version_and_a_change_has_another() {
        let one = Definition::new("a").service("f");
        assert_eq!(one.version(), Definition::new("a").service("f").version());
        assert_ne!(one.version(), Definition::new("a").service("g").version());
        assert_eq!(one.version().hash.len(), 64);
    }

    #[test]
    fn a_definition_survives_json() {
        let one = Definition::new("a").service("f").wait("go").timer_after_ms(5);
        let json = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Definition>(&json).unwrap(), one);
    }

    #[test]
    fn the_schema_names_every_kind_of_step() {
        let text = serde_json::to_string(&schema()).unwrap();
        for kind in [
            "service",
            "http",
            "task",
            "wait",
            "timer",
            "fork",
            "repeat",
            "branch",
            "workflow",
            "continue_with",
            "set",
            "fail",
        ] {
            assert!(text.contains(&format!("\"{kind}\"")), "{kind}");
        }
    }
}
