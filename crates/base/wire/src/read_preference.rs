//! Encodes the choice of the members that may answer a read.

use std::collections::BTreeMap;

use plimsoll_element::append;

/// The roles of the members that may answer a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadMode {
    /// Only the primary.
    #[default]
    Primary,
    /// The primary if there is one. A direct connection to a secondary needs this or a weaker mode.
    PrimaryPreferred,
    /// Only a secondary.
    Secondary,
    /// A secondary if there is one.
    SecondaryPreferred,
    /// Any member.
    Nearest,
}

impl ReadMode {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            ReadMode::Primary => "primary",
            ReadMode::PrimaryPreferred => "primaryPreferred",
            ReadMode::Secondary => "secondary",
            ReadMode::SecondaryPreferred => "secondaryPreferred",
            ReadMode::Nearest => "nearest",
        }
    }
}

/// The members of a replica set that may answer a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPreference {
    /// Their roles.
    pub mode: ReadMode,
    /// Sets of tags in order of preference: a member needs all tags of a set. Without a set, every member fits.
    pub tag_sets: Vec<BTreeMap<String, String>>,
    /// The longest lag of a secondary behind the primary, in seconds.
    pub max_staleness_s: Option<u32>,
}

impl ReadPreference {
    /// A mode alone.
    pub const fn of(mode: ReadMode) -> Self {
        ReadPreference { mode, tag_sets: Vec::new(), max_staleness_s: None }
    }

    /// Whether only the primary may answer.
    pub fn is_primary(&self) -> bool {
        self.mode == ReadMode::Primary
    }

    /// Appends the element `$readPreference` to the open document. The primary is the server's default and is left out.
    pub fn append(&self, out: &mut Vec<u8>) {
        if self.is_primary() {
            return;
        }
        append::nested(out, "$readPreference", |out| {
            append::string(out, "mode", self.mode.name());
            if !self.tag_sets.is_empty() {
                append::array(out, "tags", |out| self.append_tags(out));
            }
            if let Some(seconds) = self.max_staleness_s {
                append::int64(out, "maxStalenessSeconds", i64::from(seconds));
            }
        });
    }

    fn append_tags(&self, out: &mut Vec<u8>) {
        for (index, tags) in self.tag_sets.iter().enumerate() {
            append::embedded_item(out, index, |out| {
                append::document(out, |out| {
                    for (key, value) in tags {
                        append::string(out, key, value);
                    }
                });
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, doc};

    fn appended(preference: &ReadPreference) -> Document {
        let mut out = Vec::new();
        append::document(&mut out, |out| preference.append(out));
        Document::from_reader(out.as_slice()).unwrap()
    }

    #[test]
    fn a_read_preference_has_the_form_of_the_specification() {
        assert_eq!(appended(&ReadPreference::default()), doc! {});
        let secondary = ReadPreference::of(ReadMode::Secondary);
        assert_eq!(appended(&secondary), doc! {"$readPreference": {"mode": "secondary"}});
        let east = BTreeMap::from([("dc".to_owned(), "east".to_owned())]);
        let tagged = ReadPreference {
            mode: ReadMode::SecondaryPreferred,
            tag_sets: vec![east, BTreeMap::new()],
            max_staleness_s: Some(120),
        };
        let expected = doc! {
            "mode": "secondaryPreferred", "tags": [{"dc": "east"}, {}], "maxStalenessSeconds": 120_i64,
        };
        assert_eq!(appended(&tagged), doc! {"$readPreference": expected});
    }
}
