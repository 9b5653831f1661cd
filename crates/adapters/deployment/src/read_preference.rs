//! Defines which members of a replica set may answer a read.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::duration::Span;
use plimsoll_wire as wire;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The shortest `max_staleness` that servers and drivers accept, in seconds.
const STALENESS_MIN_S: u64 = 90;

/// The roles of the members that may answer a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Only the primary.
    Primary,
    /// The primary if the set has one, else a secondary.
    PrimaryPreferred,
    /// Only a secondary.
    Secondary,
    /// A secondary if the set has one, else the primary.
    SecondaryPreferred,
    /// Any member near this machine.
    Nearest,
}

impl Mode {
    const fn to_wire(self) -> wire::ReadMode {
        match self {
            Self::Primary => wire::ReadMode::Primary,
            Self::PrimaryPreferred => wire::ReadMode::PrimaryPreferred,
            Self::Secondary => wire::ReadMode::Secondary,
            Self::SecondaryPreferred => wire::ReadMode::SecondaryPreferred,
            Self::Nearest => wire::ReadMode::Nearest,
        }
    }
}

/// The members of a replica set that may answer reads, as typed: a mode such as `secondaryPreferred`, or a mode with conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ReadPreference {
    /// A mode alone.
    Mode(Mode),
    /// A mode with conditions.
    Conditional(Conditional),
}

/// A mode with conditions for the secondaries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conditional {
    /// The mode.
    pub mode: Mode,
    /// Sets of tags in order of preference: a member needs all tags of a set. `{}` accepts every member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tag_sets: Vec<BTreeMap<String, String>>,
    /// The longest lag behind the primary: whole seconds, at least 90.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_staleness: Option<Span>,
}

/// Reads a word as a mode and a map as a mode with conditions, so that an error names the wrong part.
struct Typed;

impl<'de> Visitor<'de> for Typed {
    type Value = ReadPreference;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a mode such as secondary, or {mode: secondary, tag_sets: [{dc: east}], max_staleness: 2m}",
        )
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<ReadPreference, E> {
        Mode::deserialize(word.into_deserializer()).map(ReadPreference::Mode)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ReadPreference, A::Error> {
        Conditional::deserialize(MapAccessDeserializer::new(map)).map(ReadPreference::Conditional)
    }
}

impl<'de> Deserialize<'de> for ReadPreference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Typed)
    }
}

impl ReadPreference {
    /// The form that the clients send.
    ///
    /// # Errors
    /// Conditions that no server accepts, with the value to write instead.
    pub fn to_wire(&self) -> Result<wire::ReadPreference, &'static str> {
        let Conditional { mode, tag_sets, max_staleness } = match self {
            Self::Mode(mode) => return Ok(wire::ReadPreference::of(mode.to_wire())),
            Self::Conditional(conditional) => conditional,
        };
        if *mode == Mode::Primary && (!tag_sets.is_empty() || max_staleness.is_some()) {
            return Err(
                "the primary has no conditions; leave out tag_sets and max_staleness, or give another mode",
            );
        }
        let max_staleness_s = max_staleness.map(whole_seconds).transpose()?;
        Ok(wire::ReadPreference { mode: mode.to_wire(), tag_sets: tag_sets.clone(), max_staleness_s })
    }
}

fn whole_seconds(lag: Span) -> Result<u32, &'static str> {
    let seconds = lag.as_ns() / SECOND_NS;
    let valid = seconds >= STALENESS_MIN_S && lag.as_ns().is_multiple_of(SECOND_NS);
    let seconds = u32::try_from(seconds).ok().filter(|_| valid);
    seconds.ok_or("max_staleness: give whole seconds, at least 90s")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<wire::ReadPreference, String> {
        let typed: ReadPreference = serde_json::from_str(json).map_err(|error| error.to_string())?;
        assert_eq!(
            serde_json::from_value::<ReadPreference>(serde_json::to_value(&typed).unwrap()).unwrap(),
            typed
        );
        typed.to_wire().map_err(str::to_owned)
    }

    #[test]
    fn a_mode_may_have_tags_and_a_longest_lag() {
        let nearest = wire::ReadPreference::of(wire::ReadMode::Nearest);
        assert_eq!(read(r#""nearest""#), Ok(nearest));
        let tagged = read(
            r#"{"mode": "secondaryPreferred", "tag_sets": [{"dc": "east"}, {}], "max_staleness": "2m"}"#,
        );
        let expected = wire::ReadPreference {
            mode: wire::ReadMode::SecondaryPreferred,
            tag_sets: vec![BTreeMap::from([("dc".into(), "east".into())]), BTreeMap::new()],
            max_staleness_s: Some(120),
        };
        assert_eq!(tagged, Ok(expected));
    }

    #[test]
    fn conditions_that_no_server_accepts_are_refused() {
        for (json, part) in [
            (r#""second""#, "unknown variant `second`, expected one of `primary`"),
            (r#"{"mode": "secondry"}"#, "unknown variant `secondry`"),
            (r#"{"mode": "secondary", "tags": []}"#, "unknown field `tags`"),
            ("7", "expected a mode such as secondary"),
            (r#"{"mode": "primary", "tag_sets": [{}]}"#, "the primary has no conditions"),
            (r#"{"mode": "nearest", "max_staleness": "89s"}"#, "at least 90s"),
            (r#"{"mode": "nearest", "max_staleness": "100500ms"}"#, "whole seconds"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
