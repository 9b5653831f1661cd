//! Defines when the server acknowledges a write, and which versions a read may return.

use plimsoll_measure::duration::Span;
use plimsoll_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest number of members in a replica set.
const MEMBERS_MAX: u32 = 50;

/// The members that must have a write: a number, `majority`, or a tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "w: write a number of members, majority, or the name of a tag set")]
pub enum W {
    /// This number of members; 0 asks for no acknowledgement.
    Number(u32),
    /// `majority`, or the name of a tag set.
    Name(String),
}

impl W {
    /// Refuses a value that no server accepts.
    fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Number(number) if *number > MEMBERS_MAX => Err("w: a replica set has at most 50 members"),
            Self::Name(name) if name.is_empty() => {
                Err("w: give a number, majority, or the name of a tag set")
            }
            _ => Ok(()),
        }
    }

    fn to_wire(&self) -> wire::W {
        match self {
            Self::Number(number) => wire::W::Number(*number),
            Self::Name(name) if name == "majority" => wire::W::Majority,
            Self::Name(tag) => wire::W::Tag(tag.clone()),
        }
    }
}

/// The condition for acknowledging a write; an omitted setting is the server's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WriteConcern {
    /// The members that must have the write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub w: Option<W>,
    /// Whether the write must be in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub j: Option<bool>,
    /// The server's time limit for `w`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

impl WriteConcern {
    /// Whether a write that a journaled majority has satisfies this concern.
    pub fn is_within_durable(&self) -> bool {
        let majority = self.w.as_ref().is_none_or(|w| *w == W::Name("majority".to_owned()));
        majority && self.j != Some(false)
    }

    /// A journaled majority.
    pub fn durable() -> Self {
        Self { w: Some(W::Name("majority".into())), j: Some(true), timeout: None }
    }

    /// The write concern with the settings of [`WriteConcern::durable`] in place of omitted settings.
    #[must_use]
    pub fn or_durable(self) -> Self {
        let durable = Self::durable();
        Self { w: self.w.or(durable.w), j: self.j.or(durable.j), timeout: self.timeout }
    }

    /// Whether an acknowledged write survives a crash of any minority of the members.
    pub fn is_durable(&self) -> bool {
        let Self { w, j, .. } = Self::durable();
        (&self.w, self.j) == (&w, j)
    }

    /// Whether the server acknowledges writes.
    pub fn is_acknowledged(&self) -> bool {
        self.w != Some(W::Number(0))
    }

    /// The form that the lean client sends; `None` leaves all settings to the server.
    ///
    /// # Errors
    /// Invalid settings, with the value to write instead.
    pub fn to_wire(&self) -> Result<Option<wire::WriteConcern>, &'static str> {
        if *self == Self::default() {
            return Ok(None);
        }
        // `j` cannot be sent together with the server's default for w; `j` alone means one member.
        let w = self.w.as_ref().unwrap_or(&W::Number(1));
        w.check()?;
        if !self.is_acknowledged() && self.j == Some(true) {
            return Err("j: true asks for an answer and w: 0 for none; keep one of them");
        }
        let timeout_ms = self.timeout.map(|span| u32::try_from(span.as_ns() / 1_000_000).unwrap_or(u32::MAX));
        Ok(Some(wire::WriteConcern { w: w.to_wire(), j: self.j, timeout_ms }))
    }
}

/// The concerns of one operation, or the default of all operations. `None` defers to the next wider setting,
/// and in the end to the server's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Concerns {
    /// The condition for acknowledging writes.
    pub write: Option<wire::WriteConcern>,
    /// The level of the read concern.
    pub read: Option<String>,
    /// The members that may answer reads.
    pub preference: Option<wire::ReadPreference>,
}

impl Concerns {
    /// These concerns, and `wider` in place of those that are not set.
    #[must_use]
    pub fn or(self, wider: &Self) -> Self {
        Self {
            write: self.write.or_else(|| wider.write.clone()),
            read: self.read.or_else(|| wider.read.clone()),
            preference: self.preference.or_else(|| wider.preference.clone()),
        }
    }

    /// Whether reads may go to members other than the primary.
    pub fn reads_elsewhere(&self) -> bool {
        self.preference.as_ref().is_some_and(|preference| !preference.is_primary())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_settings_use_the_defaults_of_the_server_or_the_durable_ones() {
        let read = |json| serde_json::from_str::<WriteConcern>(json).unwrap();
        assert_eq!(read("{}").to_wire(), Ok(None));
        let journaled = wire::WriteConcern { w: wire::W::Number(1), j: Some(true), timeout_ms: Some(50) };
        assert_eq!(read(r#"{"j": true, "timeout": "50ms"}"#).to_wire(), Ok(Some(journaled)));
        let durable = |json| read(json).or_durable();
        assert_eq!(durable("{}"), WriteConcern::durable());
        assert_eq!((durable(r#"{"w": 1}"#).w, durable(r#"{"w": 1}"#).j), (Some(W::Number(1)), Some(true)));
    }

    #[test]
    fn only_a_journaled_majority_is_durable() {
        let read = |json| serde_json::from_str::<WriteConcern>(json).unwrap();
        assert!(WriteConcern::durable().is_durable());
        for json in
            ["{}", r#"{"w": 1, "j": true}"#, r#"{"w": "majority", "j": false}"#, r#"{"w": "dc", "j": true}"#]
        {
            assert!(!read(json).is_durable(), "{json}");
        }
        assert!(!read(r#"{"w": 0}"#).is_acknowledged());
        assert!(read(r#"{"w": 0, "j": true}"#).to_wire().is_err());
    }

    #[test]
    fn a_w_that_no_server_accepts_is_refused() {
        assert!(W::Number(51).check().is_err() && W::Name(String::new()).check().is_err());
        assert!(W::Number(50).check().is_ok() && W::Name("dc".into()).check().is_ok());
    }
}
