//! Defines the checks of an answer, as typed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use plimsoll_measure::size::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The checks of an answer, as typed; each is counted separately.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Check {
    /// The accepted status: 201, 2xx, 200-204, or a list; from 200 to 399 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Statuses>,
    /// Headers by name: the expected text, or `{exists, contains, starts_with}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, TextCheck>,
    /// Values of a JSON body by path (`items.0.id`, or `/items/0/id`): the expected constant, or `{exists, equals, min, max,
    /// items_min, items_max}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub json: BTreeMap<String, ValueCheck>,
    /// The body as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyCheck>,
}

impl Check {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One status or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a status such as 201, a class such as 2xx, a range such as 200-204, or a list of them"
)]
pub enum Statuses {
    /// One status, class or range.
    One(StatusMatch),
    /// A list of them.
    Several(Vec<StatusMatch>),
}

/// A status, a class or a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a status such as 201, a class such as 2xx, or a range such as 200-204")]
pub enum StatusMatch {
    /// A single status.
    Number(u16),
    /// A class or a range: `2xx` or `200-204`.
    Text(String),
}

/// The check of a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text, or {exists, contains, starts_with}")]
pub enum TextCheck {
    /// The exact text.
    Equals(String),
    /// Conditions.
    Like(TextWanted),
}

/// The conditions of a text; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TextWanted {
    /// Whether the header exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// The text contains this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// The text begins with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_with: Option<String>,
}

/// The check of a JSON value: a constant, or an object of [`Wanted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum ValueCheck {
    /// The exact value.
    Equals(Value),
    /// Conditions.
    Like(Wanted),
}

/// The conditions of a JSON value; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Wanted {
    /// Whether the value exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// The value equals this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// The value is a number of at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The value is a number of at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// The value is an array of at least this many items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_min: Option<u64>,
    /// The value is an array of at most this many items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_max: Option<u64>,
}

impl TryFrom<Value> for ValueCheck {
    type Error = String;

    fn try_from(typed: Value) -> Result<Self, String> {
        match typed {
            Value::Object(_) => serde_json::from_value(typed)
                .map(Self::Like)
                .map_err(|error| format!("{error}; to compare with an object, write {{equals: {{…}}}}")),
            constant => Ok(Self::Equals(constant)),
        }
    }
}

impl From<ValueCheck> for Value {
    fn from(check: ValueCheck) -> Self {
        match check {
            ValueCheck::Equals(constant) => constant,
            // A plain structure always has a JSON form.
            ValueCheck::Like(wanted) => serde_json::to_value(wanted).unwrap_or_default(),
        }
    }
}

impl JsonSchema for ValueCheck {
    fn schema_name() -> Cow<'static, str> {
        "ValueCheck".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let wanted = generator.subschema_for::<Wanted>();
        json_schema!({
            "description": "A constant to be equal to, or {exists, equals, min, max, items_min, items_max}.",
            "anyOf": [{"type": ["string", "number", "boolean", "null", "array"]}, wanted],
        })
    }
}

/// The conditions of a whole body; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BodyCheck {
    /// The body has at least this size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Bytes>,
    /// The body has at most this size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Bytes>,
    /// The body contains this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_checks_are_read_and_written_back_unchanged() {
        let yaml = "status: [201, 3xx]\nheaders: {content-type: {starts_with: application/json}, x: z}\n\
                    json: {items: {items_max: 50}, items.0.id: 5, gone: null, o: {equals: {a: 1}}}\nbody: {max: 1KB}";
        let check: Check = serde_saphyr::from_str(yaml).unwrap();
        assert_eq!(check.json["gone"], ValueCheck::Equals(Value::Null));
        assert_eq!(
            check.json["items"],
            ValueCheck::Like(Wanted { items_max: Some(50), ..Wanted::default() })
        );
        let json = serde_json::to_string(&check).unwrap();
        assert_eq!(serde_json::from_str::<Check>(&json).unwrap(), check);
    }

    #[test]
    fn an_unknown_operator_is_refused_with_the_syntax_for_comparing_objects() {
        let error = serde_saphyr::from_str::<Check>("json: {a: {exist: true}}").unwrap_err().to_string();
        assert!(error.contains("exist") && error.contains("equals"), "{error}");
    }
}
