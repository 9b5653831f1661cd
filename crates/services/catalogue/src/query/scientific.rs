//! Translates conditions on scientific metadata: `{lhs, relation, rhs, unit}`.

use bson::{Bson, Document, doc};
use serde_json::Value;

use super::bounds::SCIENTIFIC_MAX;
use super::dialect::Dialect;
use super::field::Field;
use super::{literal, pattern, unknown};
use crate::Refusal;
use crate::documents::metadata::units;
use crate::refusal::shortened;

/// The value and the unit of a metadata field, as stored.
struct Paths {
    value: String,
    unit: String,
    value_si: String,
    unit_si: String,
}

/// Translates a list of conditions.
///
/// # Errors
/// A condition is incomplete, has an unknown relation, or a value of a wrong type.
pub(super) fn conditions(list: &Value) -> Result<Vec<Document>, Refusal> {
    let needs = || Refusal::bad("scientific needs a list of {lhs, relation, rhs, unit}");
    let list = list.as_array().ok_or_else(needs)?;
    if list.len() > SCIENTIFIC_MAX {
        return Err(Refusal::bad(format!("scientific accepts at most {SCIENTIFIC_MAX} conditions")));
    }
    list.iter().map(condition).collect()
}

fn condition(condition: &Value) -> Result<Document, Refusal> {
    let object = condition.as_object().ok_or_else(|| Refusal::bad("scientific needs objects"))?;
    if let Some(other) = object.keys().find(|key| !["lhs", "relation", "rhs", "unit"].contains(&key.as_str()))
    {
        return Err(unknown(other));
    }
    let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let needs = |name: &str| Refusal::bad(format!("a condition in scientific needs the text {name}"));
    let paths = paths(text("lhs").ok_or_else(|| needs("lhs"))?)?;
    let relation = text("relation").ok_or_else(|| needs("relation"))?;
    let rhs = object.get("rhs").unwrap_or(&Value::Null);
    tested(&paths, relation, rhs, text("unit"))
}

fn paths(lhs: &str) -> Result<Paths, Refusal> {
    let path = |part: &str| {
        Field::parse(&format!("scientificMetadata.{lhs}.{part}"), Dialect::V3).map(|field| field.path)
    };
    Ok(Paths {
        value: path("value")?,
        unit: path("unit")?,
        value_si: path("valueSI")?,
        unit_si: path("unitSI")?,
    })
}

fn tested(paths: &Paths, relation: &str, rhs: &Value, unit: Option<&str>) -> Result<Document, Refusal> {
    let text = || rhs.as_str().ok_or_else(|| Refusal::bad(format!("{relation} needs a text")));
    let single = |operator: &str| -> Result<Document, Refusal> {
        Ok(measured(paths, &[(operator, number(rhs, relation)?)], unit))
    };
    match relation {
        "EQUAL_TO_STRING" => Ok(doc! {&paths.value: {"$eq": text()?}}),
        "CONTAINS_STRING" => {
            Ok(doc! {&paths.value: {"$regex": pattern::searched(text()?)?, "$options": "i"}})
        }
        "EQUAL_TO" | "EQUAL_TO_NUMERIC" => single("$eq"),
        "GREATER_THAN" => single("$gt"),
        "LESS_THAN" => single("$lt"),
        "GREATER_THAN_OR_EQUAL" => single("$gte"),
        "LESS_THAN_OR_EQUAL" => single("$lte"),
        "RANGE" => match rhs.as_array().map(Vec::as_slice) {
            Some([from, to]) => {
                let ends = [("$gte", number(from, relation)?), ("$lte", number(to, relation)?)];
                Ok(measured(paths, &ends, unit))
            }
            _ => Err(Refusal::bad("RANGE needs two numbers")),
        },
        other => Err(Refusal::bad(format!("relation {} is unknown", shortened(other)))),
    }
}

fn number(value: &Value, relation: &str) -> Result<f64, Refusal> {
    let number = value.as_f64().filter(|number| number.is_finite());
    number.ok_or_else(|| Refusal::bad(format!("{relation} needs a number")))
}

/// Compares in SI units. Without a unit, or with an unknown one, it compares values as they were written.
fn measured(paths: &Paths, tests: &[(&str, f64)], unit: Option<&str>) -> Document {
    let test = |numbers: &[f64]| -> Document {
        tests
            .iter()
            .zip(numbers)
            .map(|((operator, _), number)| ((*operator).to_owned(), exact(*number)))
            .collect()
    };
    let written: Vec<f64> = tests.iter().map(|(_, number)| *number).collect();
    let Some(unit) = unit else { return doc! {&paths.value: test(&written)} };
    let converted: Option<Vec<units::Si>> = written.iter().map(|it| units::to_si(*it, unit)).collect();
    match converted.as_deref() {
        Some([first, ..]) => {
            let numbers: Vec<f64> = converted.iter().flatten().map(|si| si.value).collect();
            doc! {&paths.value_si: test(&numbers), &paths.unit_si: {"$eq": &first.unit}}
        }
        _ => doc! {&paths.value: test(&written), &paths.unit: {"$eq": unit}},
    }
}

fn exact(number: f64) -> Bson {
    serde_json::Number::from_f64(number).map_or(Bson::Null, |number| literal::number(&number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(condition: Value, expected: Document) {
        assert_eq!(conditions(&json!([condition])), Ok(vec![expected]));
    }

    #[test]
    fn each_relation_is_translated() {
        check(
            json!({"lhs": "sample", "relation": "EQUAL_TO_STRING", "rhs": "$gt"}),
            doc! {"scientificMetadata.sample.value": {"$eq": "$gt"}},
        );
        check(
            json!({"lhs": "sample name", "relation": "CONTAINS_STRING", "rhs": "a.b"}),
            doc! {"scientificMetadata.sample%20name.value": {"$regex": "a\\.b", "$options": "i"}},
        );
        check(
            json!({"lhs": "e", "relation": "GREATER_THAN", "rhs": 5}),
            doc! {"scientificMetadata.e.value": {"$gt": 5.0}},
        );
        check(
            json!({"lhs": "e", "relation": "LESS_THAN_OR_EQUAL", "rhs": 5, "unit": "mm"}),
            doc! {"scientificMetadata.e.valueSI": {"$lte": 0.005}, "scientificMetadata.e.unitSI": {"$eq": "m"}},
        );
        check(
            json!({"lhs": "e", "relation": "RANGE", "rhs": [1, 2], "unit": "km"}),
            doc! {
                "scientificMetadata.e.valueSI": {"$gte": 1000.0, "$lte": 2000.0},
                "scientificMetadata.e.unitSI": {"$eq": "m"},
            },
        );
        check(
            json!({"lhs": "e", "relation": "EQUAL_TO_NUMERIC", "rhs": 1, "unit": "counts"}),
            doc! {"scientificMetadata.e.value": {"$eq": 1.0}, "scientificMetadata.e.unit": {"$eq": "counts"}},
        );
    }

    #[test]
    fn a_malformed_condition_is_refused() {
        for list in [
            json!({}),
            json!([5]),
            json!([{"lhs": "a", "relation": "EVAL", "rhs": 1}]),
            json!([{"relation": "RANGE", "rhs": [1, 2]}]),
            json!([{"lhs": "$where", "relation": "EQUAL_TO_STRING", "rhs": "1"}]),
            json!([{"lhs": "a", "relation": "EQUAL_TO_STRING", "rhs": {"$gt": ""}}]),
            json!([{"lhs": "a", "relation": "RANGE", "rhs": [1]}]),
            json!([{"lhs": "a", "relation": "GREATER_THAN", "rhs": "1"}]),
            json!([{"lhs": "a", "relation": "GREATER_THAN", "rhs": 1, "$or": []}]),
            json!(vec![json!({"lhs": "a", "relation": "GREATER_THAN", "rhs": 1}); 33]),
        ] {
            assert!(conditions(&list).is_err(), "{list}");
        }
    }
}
