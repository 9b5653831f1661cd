//! Reads k6's groups and their checks: lists in its newer form, objects by name in its older one.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::foreign::value::Check;

/// A group with everything in it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Group {
    /// The names of the groups around it and its own, each after `::`.
    #[serde(default)]
    path: String,
    groups: Option<Many<Group>>,
    checks: Option<Many<Answer>>,
}

/// One check.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    name: String,
    passes: u64,
    fails: u64,
}

/// Several of something, with or without their names before them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Many<T> {
    /// A list.
    List(Vec<T>),
    /// An object.
    Named(BTreeMap<String, T>),
}

impl<T> Many<T> {
    /// Each of them.
    pub(super) fn into_each(self) -> Vec<T> {
        match self {
            Self::List(list) => list,
            Self::Named(named) => named.into_values().collect(),
        }
    }
}

impl Group {
    /// Every check in it and in the groups below, the outer ones first.
    pub(super) fn checks(self) -> Vec<Check> {
        let group = self.path;
        let own = self.checks.map(Many::into_each).unwrap_or_default();
        let own = own.into_iter().map(|it| it.into_check(&group));
        let below = self.groups.map(Many::into_each).unwrap_or_default();
        own.chain(below.into_iter().flat_map(Self::checks)).collect()
    }
}

impl Answer {
    /// The check, in `group`.
    pub(super) fn into_check(self, group: &str) -> Check {
        Check { group: group.to_owned(), name: self.name, passes: self.passes, fails: self.fails }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_hold_the_same_checks() {
        let list = r#"{"name":"","path":"","checks":[{"name":"a","passes":1,"fails":2}],"groups":[
            {"name":"g","path":"::g","groups":[],"checks":[{"name":"b","passes":3,"fails":0}]}]}"#;
        let named = r#"{"name":"","path":"","checks":{"a":{"name":"a","passes":1,"fails":2}},"groups":{"g":
            {"name":"g","path":"::g","groups":{},"checks":{"b":{"name":"b","passes":3,"fails":0}}}}}"#;
        let read = |text| serde_json::from_str::<Group>(text).unwrap().checks();
        let found = read(list);
        assert_eq!(found, read(named));
        let found: Vec<_> = found.iter().map(|it| (it.group.as_str(), it.name.as_str(), it.passes)).collect();
        assert_eq!(found, [("", "a", 1), ("::g", "b", 3)]);
    }
}
