//! Says when the server acknowledges a write.

use std::fmt;
use std::time::Duration;

use plimsoll_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Members of a replica set at most.
const MEMBERS_MAX: u32 = 50;

/// How many members must have a write: a number, `majority`, or a tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum W {
    /// This many members; 0 asks for no acknowledgement.
    Number(u32),
    /// `majority`, or the name of a tag set.
    Name(String),
}

impl W {
    /// Refuses a value that no server accepts.
    ///
    /// # Errors
    /// Says which value to write instead.
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Number(number) if *number > MEMBERS_MAX => Err("w: a replica set has at most 50 members"),
            Self::Name(name) if name.is_empty() => {
                Err("w: give a number, majority, or the name of a tag set")
            }
            _ => Ok(()),
        }
    }

    /// The form that the lean client sends.
    pub fn to_wire(&self) -> wire::W {
        match self {
            Self::Number(number) => wire::W::Number(*number),
            Self::Name(name) if name == "majority" => wire::W::Majority,
            Self::Name(tag) => wire::W::Tag(tag.clone()),
        }
    }
}

/// When the server acknowledges a write; a journaled majority unless the file says otherwise.
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
    /// Whether an acknowledged write survives a crash of any minority of the members.
    pub fn is_durable(&self) -> bool {
        self.j && self.w == W::Name("majority".into())
    }

    /// Whether the server acknowledges at all.
    pub fn is_acknowledged(&self) -> bool {
        self.w != W::Number(0)
    }

    /// The form that the lean client sends. The server waits for members no longer than the client waits for the server.
    pub fn to_wire(&self, timeout: Duration) -> wire::WriteConcern {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        wire::WriteConcern { w: self.w.to_wire(), j: Some(self.j), timeout_ms: Some(timeout_ms) }
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

    #[test]
    fn a_w_that_no_server_accepts_is_refused() {
        assert!(W::Number(51).check().is_err() && W::Name(String::new()).check().is_err());
        assert!(W::Number(50).check().is_ok() && W::Name("dc".into()).check().is_ok());
    }
}
