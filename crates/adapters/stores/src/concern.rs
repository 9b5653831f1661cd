//! When the server acknowledges a write.

use std::fmt;
use std::time::Duration;

use plimsoll_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many must have a write: a number, `majority`, or a tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum W {
    /// This many members, at least one.
    Number(u32),
    /// `majority`, or the name of a tag set.
    Name(String),
}

/// When the server acknowledges a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WriteConcern {
    /// How many members must have it.
    pub w: W,
    /// Whether it must be in the journal.
    pub j: bool,
}

impl Default for WriteConcern {
    fn default() -> Self {
        Self { w: W::Name("majority".into()), j: true }
    }
}

impl WriteConcern {
    /// Whether what it acknowledges survives a crash of any minority of the members.
    pub fn is_durable(&self) -> bool {
        self.j && self.w == W::Name("majority".into())
    }

    /// Whether the server answers at all.
    pub fn is_acknowledged(&self) -> bool {
        self.w != W::Number(0)
    }

    /// As the lean client says it; the server waits no longer for members than the client waits for the server.
    pub fn to_wire(&self, timeout: Duration) -> wire::WriteConcern {
        let w = match &self.w {
            W::Number(number) => wire::W::Number(*number),
            W::Name(name) if name == "majority" => wire::W::Majority,
            W::Name(tag) => wire::W::Tag(tag.clone()),
        };
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        wire::WriteConcern { w, j: Some(self.j), timeout_ms: Some(timeout_ms) }
    }
}

impl fmt::Display for WriteConcern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.w {
            W::Number(number) => write!(f, "w: {number}, j: {}", self.j),
            W::Name(name) => write!(f, "w: {name}, j: {}", self.j),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_journaled_majority_is_durable() {
        let read = |json| serde_json::from_str::<WriteConcern>(json).unwrap();
        assert!(read("{}").is_durable());
        for json in [r#"{"w": 1}"#, r#"{"j": false}"#, r#"{"w": "dc"}"#] {
            assert!(!read(json).is_durable(), "{json}");
        }
        assert_eq!(read("{}").to_string(), "w: majority, j: true");
        assert!(!read(r#"{"w": 0}"#).is_acknowledged());
    }
}
