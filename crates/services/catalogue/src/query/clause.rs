//! Translates conditions: `where` of version 3, and the filters of version 4.

use bson::{Bson, Document, doc};
use serde_json::{Map, Value};

use super::bounds::{CONDITIONS_MAX, DEPTH_MAX, VALUES_MAX};
use super::dialect::Dialect;
use super::field::Field;
use super::literal::{self, Dates, too_deep};
use super::{all, pattern, unknown};
use crate::Refusal;

/// Translates a map of conditions.
///
/// # Errors
/// An operator or a property is not accepted, or a bound is exceeded.
pub(super) fn conditions(object: &Map<String, Value>, dialect: Dialect) -> Result<Document, Refusal> {
    Walk::new(dialect).conditions(object, 0)
}

/// Translates the condition on one field.
///
/// # Errors
/// Those of [`conditions`].
pub(super) fn condition(name: &str, test: &Value, dialect: Dialect) -> Result<Document, Refusal> {
    Walk::new(dialect).field(name, test, 0)
}

/// The operators that join conditions.
fn junction(key: &str, dialect: Dialect) -> Option<&'static str> {
    match (key, dialect) {
        ("$and", _) | ("and", Dialect::V3) => Some("$and"),
        ("$or", _) | ("or", Dialect::V3) => Some("$or"),
        ("$nor", _) => Some("$nor"),
        _ => None,
    }
}

/// The operators that test a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    /// `$in`, `$nin`.
    Among(&'static str),
    /// `$gt`, `$gte`, `$lt`, `$lte`.
    Order(&'static str),
    /// `$eq`, `$ne`.
    Equal(&'static str),
    Not,
    Exists,
    Regex,
    Options,
    /// `like`, `ilike`, with the options of the pattern.
    Like(&'static str),
}

fn operator(key: &str, dialect: Dialect) -> Option<Operator> {
    use Operator::{Among, Equal, Like, Order};
    Some(match key {
        "$in" => Among("$in"),
        "$nin" => Among("$nin"),
        "$gt" => Order("$gt"),
        "$gte" => Order("$gte"),
        "$lt" => Order("$lt"),
        "$lte" => Order("$lte"),
        "$eq" => Equal("$eq"),
        "$ne" => Equal("$ne"),
        "$not" => Operator::Not,
        "$exists" => Operator::Exists,
        "$regex" => Operator::Regex,
        "$options" => Operator::Options,
        _ if dialect == Dialect::V4 => return None,
        "inq" => Among("$in"),
        "nin" => Among("$nin"),
        "gt" => Order("$gt"),
        "gte" => Order("$gte"),
        "lt" => Order("$lt"),
        "lte" => Order("$lte"),
        "like" => Like(""),
        "ilike" => Like("i"),
        _ => return None,
    })
}

/// Walks a filter and counts its conditions and values.
struct Walk {
    dialect: Dialect,
    conditions_left: u32,
    values_left: u32,
}

impl Walk {
    fn new(dialect: Dialect) -> Self {
        Self { dialect, conditions_left: CONDITIONS_MAX, values_left: VALUES_MAX }
    }

    fn conditions(&mut self, object: &Map<String, Value>, depth: u32) -> Result<Document, Refusal> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let mut parts = Vec::with_capacity(object.len().min(CONDITIONS_MAX as usize));
        for (key, value) in object {
            self.count_condition()?;
            parts.push(match junction(key, self.dialect) {
                Some(junction) => self.junction(junction, key, value, depth + 1)?,
                None => self.field(key, value, depth + 1)?,
            });
        }
        Ok(all(parts))
    }

    fn junction(&mut self, name: &str, key: &str, value: &Value, depth: u32) -> Result<Document, Refusal> {
        let value = self.unfolded(value)?;
        let needs = || Refusal::bad(format!("{key} needs a list of conditions"));
        let branches = value.as_array().filter(|branches| !branches.is_empty()).ok_or_else(needs)?;
        let mut translated = Vec::with_capacity(branches.len().min(CONDITIONS_MAX as usize));
        for branch in branches {
            self.count_condition()?;
            let branch = self.unfolded(branch)?;
            translated.push(self.conditions(branch.as_object().ok_or_else(needs)?, depth)?);
        }
        Ok(doc! {name: translated})
    }

    fn field(&mut self, name: &str, value: &Value, depth: u32) -> Result<Document, Refusal> {
        let field = Field::parse(name, self.dialect)?;
        let value = self.unfolded(value)?;
        let test = self.test(&field, &value, depth)?;
        Ok(doc! {field.path: test})
    }

    fn test(&mut self, field: &Field, value: &Value, depth: u32) -> Result<Bson, Refusal> {
        match value.as_object() {
            Some(object) if self.has_operators(object) => Ok(self.operators(field, object, depth)?.into()),
            _ => self.whole(field, value, depth),
        }
    }

    fn has_operators(&self, object: &Map<String, Value>) -> bool {
        object.keys().any(|key| key.starts_with('$') || operator(key, self.dialect).is_some())
    }

    fn operators(
        &mut self,
        field: &Field,
        object: &Map<String, Value>,
        depth: u32,
    ) -> Result<Document, Refusal> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let mut tests = Document::new();
        for (key, value) in object {
            self.count_condition()?;
            let operator = operator(key, self.dialect).ok_or_else(|| unknown(key))?;
            for (name, operand) in self.operand(field, operator, value, depth)? {
                if tests.insert(&name, operand).is_some() {
                    return Err(Refusal::bad(format!("{name} is given twice for one field")));
                }
            }
        }
        let bare_options = tests.contains_key("$options") && !tests.contains_key("$regex");
        if bare_options { Err(Refusal::bad("$options needs $regex")) } else { Ok(tests) }
    }

    fn operand(
        &mut self,
        field: &Field,
        operator: Operator,
        value: &Value,
        depth: u32,
    ) -> Result<Document, Refusal> {
        Ok(match operator {
            Operator::Among(name) => doc! {name: self.values(field, value, name)?},
            Operator::Order(name) => {
                self.count_value()?;
                let needs = || Refusal::bad(format!("{name} needs a value without parts"));
                doc! {name: literal::scalar(value, self.dates(field)).ok_or_else(needs)?}
            }
            Operator::Equal(name) => doc! {name: self.whole(field, value, depth)?},
            Operator::Not => {
                let needs = || Refusal::bad("$not needs operators");
                let object = value.as_object().filter(|it| !it.is_empty()).ok_or_else(needs)?;
                doc! {"$not": self.operators(field, object, depth + 1)?}
            }
            Operator::Exists => doc! {"$exists": exists(value)?},
            Operator::Regex => doc! {"$regex": checked(value, "$regex", pattern::check)?},
            Operator::Options => doc! {"$options": checked(value, "$options", pattern::check_options)?},
            Operator::Like("") => doc! {"$regex": checked(value, "like", pattern::check)?},
            Operator::Like(options) => {
                doc! {"$regex": checked(value, "ilike", pattern::check)?, "$options": options}
            }
        })
    }

    fn values(&mut self, field: &Field, value: &Value, name: &str) -> Result<Vec<Bson>, Refusal> {
        let value = self.unfolded(value)?;
        let needs = || Refusal::bad(format!("{name} needs a list of values without parts"));
        let mut values = Vec::new();
        for item in value.as_array().ok_or_else(needs)? {
            self.count_value()?;
            values.push(literal::scalar(item, self.dates(field)).ok_or_else(needs)?);
        }
        Ok(values)
    }

    fn whole(&mut self, field: &Field, value: &Value, depth: u32) -> Result<Bson, Refusal> {
        self.count_value()?;
        literal::whole(value, self.dates(field), depth)
    }

    fn dates(&self, field: &Field) -> Dates {
        if field.takes_dates(self.dialect) { Dates::Read } else { Dates::Keep }
    }

    /// Parses JSON inside of a text, as version 3 does. The result passes the same checks.
    fn unfolded<'a>(&self, value: &'a Value) -> Result<std::borrow::Cow<'a, Value>, Refusal> {
        use std::borrow::Cow::{Borrowed, Owned};
        let folded = value.as_str().filter(|_| self.dialect == Dialect::V3).map(str::trim_start);
        let Some(text) = folded.filter(|text| text.starts_with(['{', '['])) else {
            return Ok(Borrowed(value));
        };
        Ok(plimsoll_service::strict_json::parse(text.as_bytes()).map_or(Borrowed(value), Owned))
    }

    fn count_condition(&mut self) -> Result<(), Refusal> {
        let left = self.conditions_left.checked_sub(1);
        let many = || Refusal::bad(format!("the filter has more than {CONDITIONS_MAX} conditions"));
        left.map(|left| self.conditions_left = left).ok_or_else(many)
    }

    fn count_value(&mut self) -> Result<(), Refusal> {
        let left = self.values_left.checked_sub(1);
        let many = || Refusal::bad(format!("the filter has more than {VALUES_MAX} values"));
        left.map(|left| self.values_left = left).ok_or_else(many)
    }
}

fn exists(value: &Value) -> Result<bool, Refusal> {
    let number = value.as_i64().filter(|number| (0..=1).contains(number)).map(|number| number == 1);
    value.as_bool().or(number).ok_or_else(|| Refusal::bad("$exists needs true or false"))
}

fn checked(value: &Value, name: &str, check: fn(&str) -> Result<(), Refusal>) -> Result<String, Refusal> {
    let text = value.as_str().ok_or_else(|| Refusal::bad(format!("{name} needs a text")))?;
    check(text).map(|()| text.to_owned())
}

#[cfg(test)]
mod tests {
    use bson::DateTime;
    use serde_json::json;

    use super::*;

    fn translated(json: Value, dialect: Dialect) -> Result<Document, Refusal> {
        conditions(json.as_object().unwrap(), dialect)
    }

    #[track_caller]
    fn check(json: Value, dialect: Dialect, expected: Document) {
        assert_eq!(translated(json, dialect), Ok(expected));
    }

    #[test]
    fn the_words_of_loopback_become_operators() {
        let day = DateTime::from_millis(1_704_067_200_000);
        check(
            json!({"sourceFolder": {"inq": ["/a"]}, "creationTime": {"gte": "2024-01-01T00:00:00Z"}}),
            Dialect::V3,
            doc! {"$and": [{"sourceFolder": {"$in": ["/a"]}}, {"creationTime": {"$gte": day}}]},
        );
        check(
            json!({"or": [{"pid": "a/b"}, {"owner": {"ilike": "ann"}}]}),
            Dialect::V3,
            doc! {"$or": [{"_id": "a/b"}, {"owner": {"$regex": "ann", "$options": "i"}}]},
        );
        check(
            json!({"size": {"lt": 5, "gte": 1}}),
            Dialect::V3,
            doc! {"size": {"$lt": 5_i64, "$gte": 1_i64}},
        );
        check(
            json!({"a.b": {"nin": [null, true, 0.5]}}),
            Dialect::V3,
            doc! {"a.b": {"$nin": [null, true, 0.5]}},
        );
    }

    #[test]
    fn json_inside_of_a_text_is_parsed_and_checked() {
        check(json!({"pid": "{\"inq\": [\"a\"]}"}), Dialect::V3, doc! {"_id": {"$in": ["a"]}});
        check(json!({"description": "{no json"}), Dialect::V3, doc! {"description": "{no json"});
        check(json!({"description": "{\"a\": 1}"}), Dialect::V4, doc! {"description": "{\"a\": 1}"});
        let refused = translated(json!({"pid": "{\"$where\": \"1\"}"}), Dialect::V3).unwrap_err();
        assert_eq!(refused, unknown("$where"));
    }

    #[test]
    fn a_text_becomes_a_date_only_where_dates_are() {
        let day = DateTime::from_millis(1_704_067_200_000);
        check(json!({"datasetName": "2024-01-01"}), Dialect::V3, doc! {"datasetName": "2024-01-01"});
        check(json!({"unheard": "2024-01-01"}), Dialect::V3, doc! {"unheard": day});
        check(json!({"createdAt": {"$gt": "2024-01-01"}}), Dialect::V4, doc! {"createdAt": {"$gt": day}});
        check(
            json!({"scientificMetadata.when.value": "2024-01-01"}),
            Dialect::V4,
            doc! {"scientificMetadata.when.value": "2024-01-01"},
        );
        check(
            json!({"datasetlifecycle.publishedOn": {"$lte": "2024-01-01"}}),
            Dialect::V4,
            doc! {"datasetlifecycle.publishedOn": {"$lte": day}},
        );
    }

    #[test]
    fn the_operators_of_version_4_are_a_whitelist() {
        check(
            json!({"$nor": [{"pid": {"$not": {"$regex": "^a", "$options": "i"}}}], "size": {"$exists": true}}),
            Dialect::V4,
            doc! {"$and": [
                {"$nor": [{"_id": {"$not": {"$regex": "^a", "$options": "i"}}}]},
                {"size": {"$exists": true}},
            ]},
        );
        for name in
            ["$where", "$expr", "$function", "$text", "$elemMatch", "$size", "$jsonSchema", "$comment"]
        {
            for dialect in [Dialect::V3, Dialect::V4] {
                assert_eq!(translated(json!({name: {}}), dialect), Err(unknown(name)));
                assert_eq!(translated(json!({"pid": {name: 1}}), dialect), Err(unknown(name)));
                assert_eq!(translated(json!({"pid": {"$not": {name: 1}}}), dialect), Err(unknown(name)));
                assert_eq!(translated(json!({"pid": {"$eq": {name: 1}}}), dialect), Err(unknown(name)));
            }
        }
        assert_eq!(translated(json!({"pid": {"inq": ["a"]}}), Dialect::V4), Ok(doc! {"_id": {"inq": ["a"]}}));
    }

    #[test]
    fn operands_of_a_wrong_type_are_refused() {
        for json in [
            json!({"pid": {"$in": "a"}}),
            json!({"pid": {"$in": [{"$gt": ""}]}}),
            json!({"pid": {"$gt": {"$gt": 1}}}),
            json!({"pid": {"$regex": 5}}),
            json!({"pid": {"$regex": {"$gt": ""}}}),
            json!({"pid": {"$options": "i"}}),
            json!({"pid": {"$exists": "yes"}}),
            json!({"pid": {"$not": "a"}}),
            json!({"$or": {}}),
            json!({"$or": []}),
            json!({"$and": ["a"]}),
            json!({"pid": {"$regex": "(a+)+"}}),
        ] {
            for dialect in [Dialect::V3, Dialect::V4] {
                assert_eq!(translated(json.clone(), dialect).unwrap_err().status(), 400, "{json}");
            }
        }
        assert!(translated(json!({"pid": {"like": "a", "$regex": "b"}}), Dialect::V3).is_err());
    }

    #[test]
    fn a_filter_has_bounds() {
        let nested =
            |levels: usize| (0..levels).fold(json!({"pid": "a"}), |inner, _| json!({"$or": [inner]}));
        assert!(translated(nested(5), Dialect::V4).is_ok());
        assert!(translated(nested(60), Dialect::V4).unwrap_err().to_string().contains("levels deep"));
        let many = |count: u32| json!({"$or": vec![json!({"pid": 1}); count as usize]});
        assert!(translated(many(100), Dialect::V4).is_ok());
        assert!(
            translated(many(CONDITIONS_MAX), Dialect::V4).unwrap_err().to_string().contains("conditions")
        );
        let values = |count: u32| json!({"pid": {"$in": vec!["a"; count as usize]}});
        assert!(translated(values(VALUES_MAX), Dialect::V4).is_ok());
        assert!(translated(values(VALUES_MAX + 1), Dialect::V4).unwrap_err().to_string().contains("values"));
    }

    #[test]
    fn two_names_of_one_field_stay_two_conditions() {
        check(json!({"pid": "a", "_id": "b"}), Dialect::V3, doc! {"$and": [{"_id": "a"}, {"_id": "b"}]});
    }
}
