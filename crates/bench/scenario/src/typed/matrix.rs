//! Defines the `matrix` section: axes, excluded combinations and bounds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use plimsoll_measure::duration::Span;
use plimsoll_measure::size::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

/// The default time limit of a matrix.
const TIME_DEFAULT: Span = Span::from_secs(3600);
/// The default limit of a matrix on the server's disk.
const DISK_DEFAULT: Bytes = Bytes::new(10_000_000_000);

/// Runs of this scenario with different values, for comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// The varied axes; the last one changes fastest.
    pub axes: Vec<Axis>,
    /// Combinations to skip because they make no sense.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leave_out: Vec<LeaveOut>,
    /// The number of runs of every combination: all run once, then all again.
    #[serde(default = "once")]
    pub repetitions: u32,
    /// The operations that tables and charts show, in this order. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub show: Vec<String>,
    /// The limits of the matrix.
    #[serde(default)]
    pub bounds: Bounds,
}

/// A varied axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// The values by name. Each value sets paths of the scenario, as `--set` does.
    pub values: Ordered<Ordered<Json>>,
    /// The values that run unless `--only` selects others. Default: all.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub default: Names,
    /// Whether its values override those of earlier axes at the same path.
    #[serde(default, rename = "override", skip_serializing_if = "is_off")]
    pub wins: bool,
}

/// A combination that makes no sense.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaveOut {
    /// One or several values, by axis. Axes without an entry do not matter.
    pub when: BTreeMap<String, Names>,
    /// The reason, in a few words.
    pub because: String,
}

/// The limits of a matrix. A larger matrix is refused before anything is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// The total time.
    pub time: Span,
    /// The largest use of the server's disk at any time.
    pub disk: Bytes,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { time: TIME_DEFAULT, disk: DISK_DEFAULT }
    }
}

const fn once() -> u32 {
    1
}

const fn is_off(on: &bool) -> bool {
    !*on
}

/// One name or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Json")]
pub struct Names(pub Vec<String>);

impl Names {
    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `name` is in the list.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }
}

impl TryFrom<Json> for Names {
    type Error = String;

    fn try_from(typed: Json) -> Result<Self, String> {
        let all = if let Json::Array(list) = typed { list } else { vec![typed] };
        all.into_iter().map(name).collect::<Result<_, _>>().map(Self)
    }
}

/// Names such as 10 or true need no quotes.
fn name(typed: Json) -> Result<String, String> {
    match typed {
        Json::String(text) => Ok(text),
        Json::Number(_) | Json::Bool(_) => Ok(typed.to_string()),
        other => Err(format!("`{other}` is not a name; write one name or a list of names")),
    }
}

impl JsonSchema for Names {
    fn schema_name() -> Cow<'static, str> {
        "Names".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "One name or several.",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
        })
    }
}

/// A map that keeps its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered<T>(pub Vec<(String, T)>);

impl<T> Ordered<T> {
    /// The entry with this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// Reads a map entry by entry.
struct Entries<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
    type Value = Ordered<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
        let mut ordered = Ordered(Vec::new());
        while let Some((name, value)) = map.next_entry::<String, T>()? {
            if ordered.get(&name).is_some() {
                return Err(de::Error::custom(format!("`{name}` appears twice: keep one of them")));
            }
            ordered.0.push((name, value));
        }
        Ok(ordered)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Ordered<T>, E> {
        Ok(Ordered(Vec::new()))
    }
}

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<T: JsonSchema> JsonSchema for Ordered<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Map_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, T>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPED: &str = "axes:\n  - name: size\n    default: [10K, 5]\n    values:\n      10K: {a.b: 1, a.a: [x]}\n      \
                         5: {}\n      none:\nleave_out:\n  - {when: {size: 5}, because: too small}\n";

    #[test]
    fn a_matrix_keeps_its_order_and_reads_what_it_writes() {
        let matrix: Matrix = serde_saphyr::from_str(TYPED).unwrap();
        let axis = &matrix.axes[0];
        assert_eq!(axis.values.names().collect::<Vec<_>>(), ["10K", "5", "none"]);
        assert_eq!(axis.values.get("10K").unwrap().names().collect::<Vec<_>>(), ["a.b", "a.a"]);
        assert_eq!((axis.default.0.len(), axis.default.has("5")), (2, true));
        assert!(matrix.leave_out[0].when["size"].has("5"));
        assert_eq!((matrix.repetitions, matrix.bounds), (1, Bounds::default()));
        let again: Matrix = serde_saphyr::from_str(&serde_saphyr::to_string(&matrix).unwrap()).unwrap();
        assert_eq!(again, matrix);
        let json: Matrix = serde_json::from_value(serde_json::to_value(&matrix).unwrap()).unwrap();
        assert_eq!(json, matrix);
    }

    #[test]
    fn a_duplicate_value_is_refused() {
        let twice = TYPED.replace("none:", "10K: {}");
        let message = serde_saphyr::from_str::<Matrix>(&twice).unwrap_err().to_string();
        assert!(message.contains("10K") || message.contains("duplicate"), "{message}");
        let json = r#"{"axes": [{"name": "a", "values": {"x": {}, "x": {}}}]}"#;
        let message = serde_json::from_str::<Matrix>(json).unwrap_err().to_string();
        assert!(message.contains("`x` appears twice"), "{message}");
    }
}
