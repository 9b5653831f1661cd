//! Reads a rule of a scenario's `expect`: an expression that must hold, and whether the run ends when it does not.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::duration::{Span, milliseconds};

/// Reads the rules of one metric: always a list, as in k6.
///
/// # Errors
/// If the value is not a list, with the list to write.
pub fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Rule>, D::Error> {
    deserializer.deserialize_any(ListVisitor)
}

/// Reads the rules by metric, one list each.
///
/// # Errors
/// As [`list`].
pub fn by_metric<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Vec<Rule>>, D::Error> {
    let lists: BTreeMap<String, List> = Deserialize::deserialize(deserializer)?;
    Ok(lists.into_iter().map(|(metric, List(rules))| (metric, rules)).collect())
}

/// A list of rules.
struct List(Vec<Rule>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list(deserializer).map(Self)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = Vec<Rule>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of expressions such as [\"p(99)<50ms\"]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Rule>, A::Error> {
        let mut rules = Vec::new();
        while let Some(rule) = seq.next_element()? {
            rules.push(rule);
        }
        Ok(rules)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<Rule>, E> {
        Err(E::custom(format!("thresholds are always a list, even a single one: write [\"{text}\"]")))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<Rule>, A::Error> {
        let Rule { threshold, .. } = Rule::deserialize(MapAccessDeserializer::new(map))?;
        Err(de::Error::custom(format!(
            "thresholds are always a list, even a single one: put the one with `{threshold}` into [ ]"
        )))
    }
}

/// A rule as typed: `p(99)<50ms`, or `{threshold: p(99)<50ms, abort_on_fail: true, delay_abort_eval: 10s}`.
///
/// The derived functions read and write the long form.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Rule {
    /// The expression.
    pub threshold: String,
    /// Whether the run ends when it does not hold.
    #[serde(default, alias = "abortOnFail")]
    pub abort_on_fail: bool,
    /// How long the operations must be under load before the run may end.
    #[serde(default, alias = "delayAbortEval", deserialize_with = "milliseconds::deserialize")]
    pub delay_abort_eval: Span,
}

impl Rule {
    /// A rule that is checked against the whole run and does not end it.
    pub fn new(threshold: impl Into<String>) -> Self {
        Self { threshold: threshold.into(), abort_on_fail: false, delay_abort_eval: Span::default() }
    }

    /// How long the operations must be under load before the rule may end the run; nothing if it never ends the run.
    pub fn abort_after(&self) -> Option<Span> {
        self.abort_on_fail.then_some(self.delay_abort_eval)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RuleVisitor)
    }
}

struct RuleVisitor;

impl<'de> Visitor<'de> for RuleVisitor {
    type Value = Rule;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an expression such as p(99)<50ms, or {threshold, abort_on_fail, delay_abort_eval}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Rule, E> {
        Ok(Rule::new(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rule, A::Error> {
        Rule::deserialize(MapAccessDeserializer::new(map))
    }
}

impl Serialize for Rule {
    /// In the short form if it suffices.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::new(self.threshold.as_str()) {
            return serializer.serialize_str(&self.threshold);
        }
        Self::serialize(self, serializer)
    }
}

impl JsonSchema for Rule {
    fn schema_name() -> Cow<'static, str> {
        "Rule".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let span = generator.subschema_for::<Span>();
        json_schema!({
            "description": "An expression of k6's grammar that must hold, such as p(99)<50ms or rate<0.01, or one that may end the run.",
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {
                        "threshold": {"type": "string", "description": "The expression."},
                        "abort_on_fail": {"type": "boolean", "description": "Whether the run ends when it does not hold; checked every 2 seconds.", "default": false},
                        "abortOnFail": {"type": "boolean", "description": "`abort_on_fail`, as k6 writes it."},
                        "delay_abort_eval": {"description": "How long its operations must be under load first; a number means milliseconds.", "anyOf": [span, {"type": "number"}]},
                        "delayAbortEval": {"description": "`delay_abort_eval`, as k6 writes it.", "anyOf": [span, {"type": "number"}]}
                    },
                    "required": ["threshold"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Rule, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn both_forms_and_both_spellings_are_read() {
        let ten =
            Rule { abort_on_fail: true, delay_abort_eval: Span::from_secs(10), ..Rule::new("rate<0.01") };
        for (json, rule) in [
            (r#""p(95)<500""#, Rule::new("p(95)<500")),
            (r#"{"threshold": "p(95)<500"}"#, Rule::new("p(95)<500")),
            (r#"{"threshold": "rate<0.01", "abort_on_fail": true, "delay_abort_eval": "10s"}"#, ten.clone()),
            (r#"{"threshold": "rate<0.01", "abortOnFail": true, "delayAbortEval": "10s"}"#, ten.clone()),
            (r#"{"threshold": "rate<0.01", "abortOnFail": true, "delayAbortEval": 10000}"#, ten.clone()),
        ] {
            assert_eq!(read(json).unwrap(), rule, "{json}");
        }
        assert_eq!(ten.abort_after(), Some(Span::from_secs(10)));
        assert_eq!(Rule::new("p(95)<500").abort_after(), None);
    }

    #[test]
    fn a_rule_outside_a_list_is_refused_with_the_list_to_write() {
        let read = |json: &str| by_metric(&mut serde_json::Deserializer::from_str(json));
        assert_eq!(read(r#"{"a": ["max<1s", {"threshold": "min>0"}]}"#).unwrap()["a"].len(), 2);
        for (json, words) in [
            (r#"{"a": "max<1s"}"#, r#"write ["max<1s"]"#),
            (r#"{"a": {"threshold": "max<1s", "abortOnFail": true}}"#, "`max<1s` into [ ]"),
            (r#"{"a": 5}"#, "expected a list of expressions"),
        ] {
            let message = read(json).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn written_rules_read_back_and_the_short_form_stays_short() {
        let long = Rule { abort_on_fail: true, ..Rule::new("max<1s") };
        for rule in [Rule::new("max<1s"), long] {
            assert_eq!(read(&serde_json::to_string(&rule).unwrap()).unwrap(), rule);
        }
        assert_eq!(serde_json::to_string(&Rule::new("max<1s")).unwrap(), r#""max<1s""#);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let message = read(r#"{"threshold": "max<1s", "abort": true}"#).unwrap_err().to_string();
        assert!(message.contains("unknown field `abort`"), "{message}");
    }
}
