//! Names the relations that an answer includes.

use serde_json::Value;

use super::bounds::INCLUDES_MAX;
use crate::Refusal;
use crate::refusal::shortened;

/// A relation of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Its blocks of files.
    OrigDatablocks,
    /// Its archived blocks.
    Datablocks,
    /// Its attachments.
    Attachments,
    /// Its instruments.
    Instruments,
    /// Its proposals.
    Proposals,
    /// Its samples.
    Samples,
}

impl Relation {
    const ALL: [Self; 6] = [
        Self::OrigDatablocks,
        Self::Datablocks,
        Self::Attachments,
        Self::Instruments,
        Self::Proposals,
        Self::Samples,
    ];

    /// The name in queries and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OrigDatablocks => "origdatablocks",
            Self::Datablocks => "datablocks",
            Self::Attachments => "attachments",
            Self::Instruments => "instruments",
            Self::Proposals => "proposals",
            Self::Samples => "samples",
        }
    }
}

/// Reads names, or the objects of version 3: `{"relation": "origdatablocks"}`.
///
/// # Errors
/// An unknown relation, or a scope with conditions.
pub(super) fn relations(include: &Value) -> Result<Vec<Relation>, Refusal> {
    let items = match include {
        Value::Null => &[][..],
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    if items.len() > INCLUDES_MAX {
        return Err(Refusal::bad(format!("include at most {INCLUDES_MAX} relations")));
    }
    let names = items.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    named(names)
}

/// The relations of these names, each once.
///
/// # Errors
/// An unknown name.
pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Relation>, Refusal> {
    let mut found = Vec::new();
    for name in names {
        let known = Relation::ALL.into_iter().filter(|relation| name == "all" || relation.name() == name);
        let before = found.len();
        found.extend(known);
        if found.len() == before {
            return Err(Refusal::bad(format!("Invalid include: {}", shortened(name))));
        }
    }
    let mut once = Vec::new();
    found.into_iter().for_each(|relation| {
        if !once.contains(&relation) {
            once.push(relation)
        }
    });
    Ok(once)
}

fn name(item: &Value) -> Result<&str, Refusal> {
    let is_empty = |scope: &Value| {
        scope.as_object().is_some_and(|scope| {
            scope.values().all(|value| value.is_null() || value.as_object().is_some_and(|it| it.is_empty()))
        })
    };
    if item.get("scope").is_some_and(|scope| !is_empty(scope)) {
        return Err(Refusal::bad("a scope with conditions is not supported: ask for the relation alone"));
    }
    let name = item.get("relation").unwrap_or(item);
    name.as_str().ok_or_else(|| Refusal::bad("include needs the names of relations"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_relation_is_a_name_or_an_object() {
        use Relation::{Attachments, OrigDatablocks};
        for include in [
            json!(["origdatablocks", "attachments", "attachments"]),
            json!([{"relation": "origdatablocks", "scope": {"where": {}}}, {"relation": "attachments"}]),
        ] {
            assert_eq!(relations(&include), Ok(vec![OrigDatablocks, Attachments]));
        }
        assert_eq!(relations(&json!("all")).unwrap().len(), 6);
        assert_eq!(relations(&Value::Null), Ok(vec![]));
    }

    #[test]
    fn an_unknown_relation_is_refused() {
        for include in [
            json!(["users"]),
            json!([{"$lookup": {}}]),
            json!([5]),
            json!([{"relation": "attachments", "scope": {"where": {"$where": "1"}}}]),
            json!(vec!["all"; 17]),
        ] {
            assert_eq!(relations(&include).unwrap_err().status(), 400, "{include}");
        }
    }
}
