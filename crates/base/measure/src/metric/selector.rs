//! Selects operations by tags.

use std::collections::{BTreeMap, BTreeSet};

/// The tags of every operation, with k6's names for them.
const PREDEFINED: [(&str, &str); 3] = [("operation", "name"), ("load", "scenario"), ("phase", "phase")];

/// Tags of an operation: their names and values.
pub type Tags = BTreeMap<String, String>;

/// An operation of a load in a phase: the subject of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The phase's name.
    pub phase: &'a str,
    /// The load's name.
    pub load: &'a str,
    /// The operation's name.
    pub operation: &'a str,
    /// Its tags.
    pub tags: &'a Tags,
}

/// The operations with these tag values; all operations if there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    tags: Vec<(String, String)>,
}

impl Subject<'_> {
    fn tag(&self, name: &str) -> Option<&str> {
        let own = self.tags.get(name).map(String::as_str);
        own.or_else(|| match predefined(name)? {
            "operation" => Some(self.operation),
            "load" => Some(self.load),
            _ => Some(self.phase),
        })
    }
}

/// Our name of a predefined tag.
fn predefined(name: &str) -> Option<&'static str> {
    PREDEFINED.iter().find(|(ours, theirs)| *ours == name || *theirs == name).map(|(ours, _)| *ours)
}

/// Whether a tag name is predefined: scenarios may not use it.
pub fn is_reserved(tag: &str) -> bool {
    PREDEFINED.iter().any(|(ours, _)| *ours == tag)
}

impl Selector {
    /// The operations of this name.
    pub fn operation(name: &str) -> Self {
        Self { tags: vec![("operation".to_owned(), name.to_owned())] }
    }

    /// Whether an operation's tags have all these values.
    pub fn matches(&self, subject: &Subject<'_>) -> bool {
        self.tags.iter().all(|(name, value)| subject.tag(name) == Some(value))
    }

    /// Whether it selects by load or phase.
    pub(super) fn is_of_loads(&self) -> bool {
        self.tags.iter().any(|(name, _)| predefined(name).is_some_and(|name| name != "operation"))
    }

    /// The operation's name, if it selects by nothing else.
    pub fn only_operation(&self) -> Option<&str> {
        match &self.tags[..] {
            [(name, value)] if name == "operation" => Some(value),
            _ => None,
        }
    }

    /// The same, of the operations of this name only.
    pub(super) fn and_operation(mut self, name: &str) -> Self {
        self.tags.insert(0, ("operation".to_owned(), name.to_owned()));
        self
    }

    /// Removes a tag and returns its value.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.tags.iter().position(|(known, _)| known == name)?;
        Some(self.tags.remove(at).1)
    }

    /// Reads `tag:value,tag2:value2`, as k6 does: split at commas, then at the first colon, trimmed.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let tag = |part: &str| {
            let (name, value) = part.split_once(':').ok_or_else(|| {
                format!("invalid tag `{}`: write tag:value, separated by commas", part.trim())
            })?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        let parts = text.split(',').filter(|part| !part.trim().is_empty());
        Ok(Self { tags: parts.map(tag).collect::<Result<_, String>>()? })
    }
}

/// Lists every tag with its values.
pub(super) fn tags(subjects: &[Subject<'_>]) -> String {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for subject in subjects {
        let own = subject.tags.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let every = [("operation", subject.operation), ("load", subject.load), ("phase", subject.phase)];
        for (name, value) in own.chain(every) {
            all.entry(name).or_default().insert(value);
        }
    }
    let tag = |(name, values): (&str, BTreeSet<&str>)| {
        format!("{name}: {}", values.into_iter().collect::<Vec<_>>().join(" | "))
    };
    all.into_iter().map(tag).collect::<Vec<_>>().join(", ")
}
