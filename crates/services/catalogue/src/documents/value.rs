//! Converts the JSON of a field into BSON by the type of the field.

use bson::{Bson, Document};
use serde_json::Value;

use super::json::{self, free};
use super::metadata;
use super::schema::{self, Kind};
use crate::moment;
use crate::refusal::shortened;

/// Converts the value of a field. The fault is a sentence of SciCat's validation.
///
/// # Errors
/// The value has another type.
pub fn typed(name: &str, kind: Kind, value: &Value) -> Result<Bson, String> {
    match kind {
        Kind::Text => text(name, value),
        Kind::Date => date(name, value),
        Kind::Number => number(name, value),
        Kind::Flag => {
            value.as_bool().map(Bson::Boolean).ok_or_else(|| format!("{name} must be a boolean value"))
        }
        Kind::Texts => list(name, value, |item| text(&format!("each value in {name}"), item)),
        Kind::Objects => list(name, value, |item| match item {
            Value::Object(_) => free(name, item, 0),
            _ => Err(format!("each value in {name} must be an object")),
        }),
        Kind::Free if name == "scientificMetadata" => {
            let object = value.as_object().ok_or_else(|| format!("{name} must be an object"))?;
            metadata::store(object).map(Bson::Document)
        }
        Kind::Free if value.is_object() => free(name, value, 0),
        Kind::Free => Err(format!("{name} must be an object")),
        Kind::Lifecycle => lifecycle(name, value).map(Bson::Document),
    }
}

fn text(name: &str, value: &Value) -> Result<Bson, String> {
    let text = value.as_str().filter(|text| !text.contains('\0'));
    text.map(Bson::from).ok_or_else(|| format!("{name} must be a string"))
}

fn date(name: &str, value: &Value) -> Result<Bson, String> {
    let date = value.as_str().and_then(moment::parse).map(Bson::DateTime);
    date.ok_or_else(|| format!("{name} must be a valid ISO 8601 date string"))
}

fn number(name: &str, value: &Value) -> Result<Bson, String> {
    let fault = || format!("{name} must be a number conforming to the specified constraints");
    let number = value.as_number().ok_or_else(fault)?;
    if number.as_f64().is_some_and(|it| it < 0.0) {
        return Err(format!("{name} must not be less than 0"));
    }
    Ok(json::number(number))
}

fn list(name: &str, value: &Value, item: impl Fn(&Value) -> Result<Bson, String>) -> Result<Bson, String> {
    let items = value.as_array().ok_or_else(|| format!("{name} must be an array"))?;
    items.iter().map(item).collect::<Result<Vec<_>, _>>().map(Bson::Array)
}

fn lifecycle(name: &str, value: &Value) -> Result<Document, String> {
    let object = value.as_object().ok_or_else(|| format!("{name} must be an object"))?;
    let given = object.iter().filter(|(_, value)| !value.is_null());
    let field = |(field, value): (&String, &Value)| {
        let path = format!("{name}.{}", shortened(field));
        let kind = schema::lifecycle_kind(field);
        let kind = kind.ok_or_else(|| format!("property {path} should not exist"))?;
        Ok((field.clone(), typed(&path, kind, value)?))
    };
    given.map(field).collect()
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, doc};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_stored_by_the_type_of_its_field() {
        for (kind, value, stored) in [
            (Kind::Text, json!("a"), Bson::from("a")),
            (Kind::Date, json!("1970-01-01"), DateTime::from_millis(0).into()),
            (Kind::Number, json!(5), Bson::Int64(5)),
            (Kind::Number, json!(0.5), Bson::Double(0.5)),
            (Kind::Flag, json!(true), Bson::Boolean(true)),
            (Kind::Texts, json!(["a"]), bson::bson!(["a"])),
            (Kind::Objects, json!([{"a": [1]}]), bson::bson!([{"a": [1_i64]}])),
            (Kind::Free, json!({"a.b": null}), bson::bson!({"a.b": null})),
        ] {
            assert_eq!(typed("x", kind, &value), Ok(stored), "{value}");
        }
        let lifecycle = json!({"archivable": true, "publishedOn": null});
        assert_eq!(typed("x", Kind::Lifecycle, &lifecycle), Ok(doc! {"archivable": true}.into()));
    }

    #[test]
    fn a_value_of_another_type_is_a_fault() {
        let deep = (0..50).fold(json!(1), |inner, _| json!({"a": inner}));
        for (kind, value, fault) in [
            (Kind::Text, json!({"$gt": ""}), "x must be a string"),
            (Kind::Text, json!("\0"), "x must be a string"),
            (Kind::Date, json!("yesterday"), "x must be a valid ISO 8601 date string"),
            (Kind::Date, json!(0), "x must be a valid ISO 8601 date string"),
            (Kind::Number, json!("5"), "x must be a number conforming to the specified constraints"),
            (Kind::Number, json!(-1), "x must not be less than 0"),
            (Kind::Flag, json!("true"), "x must be a boolean value"),
            (Kind::Texts, json!("a"), "x must be an array"),
            (Kind::Texts, json!([1]), "each value in x must be a string"),
            (Kind::Objects, json!([1]), "each value in x must be an object"),
            (Kind::Objects, json!([{"$set": 1}]), "property x.$set should not exist"),
            (Kind::Free, json!([]), "x must be an object"),
            (Kind::Free, json!({"a": {"$where": 1}}), "property x.$where should not exist"),
            (Kind::Free, deep, "x must be nested at most 20 levels deep"),
            (Kind::Lifecycle, json!({"a": 1}), "property x.a should not exist"),
            (Kind::Lifecycle, json!({"archivable": 1}), "x.archivable must be a boolean value"),
        ] {
            assert_eq!(typed("x", kind, &value), Err(fault.to_owned()), "{value}");
        }
    }
}
