//! Translates `facets` of `fullfacet`: one count for each value of a field.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};
use serde_json::Value;

use super::bounds::FACETS_MAX;
use super::field::Field;
use super::full::{self, Condition};
use super::{Dialect, all, parameter, under};
use crate::Refusal;
use crate::documents::schema::{self, Kind};

/// The maximum number of values that a facet counts. The last values in order come first.
const BUCKETS_MAX: i64 = 1_000;

/// The facets of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Facets {
    /// The conditions on the total.
    pub all: Document,
    /// The facets, each with its conditions.
    pub each: Vec<Facet>,
}

/// A facet.
#[derive(Clone, Debug, PartialEq)]
pub struct Facet {
    /// The name in the answer.
    pub name: String,
    /// All conditions except the one on the field itself, so that a user may choose several values.
    pub filter: Document,
    path: String,
    kind: Kind,
}

/// Translates `fields` and `facets`. A facet of an unknown field is left out.
///
/// # Errors
/// One of them is not JSON, or a part of `fields` is not accepted.
pub fn translate(fields: Option<&str>, facets: Option<&str>) -> Result<Facets, Refusal> {
    let conditions = full::conditions(fields)?;
    let facets = facets.map(|text| parameter("facets", Some(text))).transpose()?;
    let each = names(facets.as_ref())?.into_iter().filter_map(|name| facet(name, &conditions)).collect();
    Ok(Facets { all: without(None, &conditions), each })
}

fn names(facets: Option<&Value>) -> Result<Vec<&str>, Refusal> {
    let needs = || Refusal::bad("facets needs a list of names");
    let list = match facets {
        None => return Ok(Vec::new()),
        Some(Value::Object(empty)) if empty.is_empty() => return Ok(Vec::new()),
        Some(list) => list.as_array().ok_or_else(needs)?,
    };
    if list.len() > FACETS_MAX {
        return Err(Refusal::bad(format!("facets lists at most {FACETS_MAX} names")));
    }
    let mut names = list.iter().map(|name| name.as_str().ok_or_else(needs)).collect::<Result<Vec<_>, _>>()?;
    let mut known = BTreeSet::new();
    names.retain(|name| known.insert(*name));
    Ok(names)
}

fn facet(name: &str, conditions: &[Condition]) -> Option<Facet> {
    let kind =
        schema::kind(name).filter(|kind| !matches!(kind, Kind::Free | Kind::Lifecycle | Kind::Objects));
    let Some(kind) = kind else {
        tracing::warn!(facet = crate::refusal::shortened(name), "a facet of an unknown field is left out");
        return None;
    };
    let path = Field::parse(name, Dialect::V3).ok()?.path;
    Some(Facet { name: name.to_owned(), filter: without(Some(name), conditions), path, kind })
}

fn without(key: Option<&str>, conditions: &[Condition]) -> Document {
    let others = conditions.iter().filter(|condition| Some(condition.key.as_str()) != key);
    all(others.map(|condition| condition.filter.clone()).collect())
}

impl Facet {
    /// The field in the stored document, if a dataset has one value of it.
    pub fn single(&self) -> Option<&str> {
        (self.kind != Kind::Texts).then_some(self.path.as_str())
    }

    /// The aggregation: `{_id: value, count}`, the last values first.
    pub fn pipeline(&self, access: &Document) -> Vec<Document> {
        let path = Bson::String(format!("${}", self.path));
        let value = match self.kind {
            Kind::Date => Bson::Document(doc! {
                "year": {"$year": &path}, "month": {"$month": &path}, "day": {"$dayOfMonth": &path},
            }),
            _ => path.clone(),
        };
        let mut stages = vec![doc! {"$match": under(access, &self.filter)}];
        if self.kind == Kind::Texts {
            stages.push(doc! {"$unwind": path});
        }
        stages.extend([
            doc! {"$group": {"_id": value, "count": {"$sum": 1}}},
            doc! {"$sort": {"_id": -1}},
            doc! {"$limit": BUCKETS_MAX},
        ]);
        stages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_facet_that_is_named_twice_is_counted_once() {
        let found = translate(None, Some(r#"["type", "owner", "type"]"#)).unwrap();
        assert_eq!(found.each.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["type", "owner"]);
    }

    #[test]
    fn a_facet_ignores_the_condition_on_itself() {
        let facets =
            translate(Some(r#"{"type": ["raw"], "owner": "ann"}"#), Some(r#"["type", "keywords"]"#)).unwrap();
        assert_eq!(facets.all, doc! {"$and": [{"type": "raw"}, {"owner": "ann"}]});
        assert_eq!(facets.each[0].filter, doc! {"owner": "ann"});
        assert_eq!(facets.each[1].filter, facets.all);
    }

    #[test]
    fn each_type_of_facet_has_its_pipeline() {
        let access = doc! {"isPublished": true};
        let facets = translate(None, Some(r#"["type", "keywords", "creationTime"]"#)).unwrap();
        let stages = |index: usize| facets.each[index].pipeline(&access);
        assert_eq!(stages(0)[0], doc! {"$match": {"$and": [{"isPublished": true}]}});
        assert_eq!(stages(0)[1], doc! {"$group": {"_id": "$type", "count": {"$sum": 1}}});
        assert_eq!(stages(1)[1], doc! {"$unwind": "$keywords"});
        let day = stages(2)[1].get_document("$group").unwrap().get_document("_id").unwrap().clone();
        assert_eq!(day.keys().collect::<Vec<_>>(), ["year", "month", "day"]);
    }

    #[test]
    fn unknown_facets_are_left_out_and_malformed_ones_refused() {
        for names in ["[\"unheard\", \"$where\", \"scientificMetadata\", \"a.b\"]", "[]", "{}", ""] {
            assert_eq!(translate(None, Some(names)).unwrap().each, [], "{names}");
        }
        for names in ["[{}]", "{\"type\": 1}", "5", "[", &format!("[{}\"a\"]", "\"a\",".repeat(40))] {
            assert!(translate(None, Some(names)).is_err(), "{names}");
        }
    }
}
