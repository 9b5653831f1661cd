//! Pauses a closed writer between two operations. The pause is not part of any latency.

use std::borrow::Cow;
use std::fmt;

use plimsoll_measure::duration::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::mix::scramble;

/// The think time of a writer, as typed: `1s`, `{uniform: {min: 1s, max: 3s}}` or `{exponential: {mean:
/// 2s}}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Think {
    /// A constant time.
    Constant(Span),
    /// A random time.
    Random(Random),
}

/// A random time, which follows from the seed, the writer and the number of its pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Random {
    /// Uniformly distributed.
    Uniform {
        /// The shortest.
        min: Span,
        /// The longest.
        max: Span,
    },
    /// Exponentially distributed, as for independent users.
    Exponential {
        /// The mean.
        mean: Span,
    },
}

impl Think {
    /// Whether the shortest time does not exceed the longest.
    pub const fn is_sound(&self) -> bool {
        match self {
            Self::Random(Random::Uniform { min, max }) => min.as_ns() <= max.as_ns(),
            _ => true,
        }
    }

    /// The pause after a writer's operation `number` (its own count), in nanoseconds.
    pub fn after_ns(&self, seed: u64, writer: u64, number: u64) -> u64 {
        match self {
            Self::Constant(span) => span.as_ns(),
            Self::Random(random) => random.draw_ns(scramble(scramble(seed, writer), number)),
        }
    }
}

impl Random {
    fn draw_ns(self, bits: u64) -> u64 {
        // 53 random bits, shifted off zero so that the logarithm stays finite.
        let uniform = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        match self {
            Self::Uniform { min, max } => min.as_ns() + (uniform * (max.as_ns() - min.as_ns()) as f64) as u64,
            Self::Exponential { mean } => (-uniform.ln() * mean.as_ns() as f64) as u64,
        }
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(span) => write!(f, "{span}"),
            Self::Random(Random::Uniform { min, max }) => write!(f, "{min} to {max}"),
            Self::Random(Random::Exponential { mean }) => write!(f, "{mean} on average"),
        }
    }
}

impl<'de> Deserialize<'de> for Think {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ThinkVisitor)
    }
}

struct ThinkVisitor;

impl<'de> Visitor<'de> for ThinkVisitor {
    type Value = Think;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 1s, {uniform: {min, max}} or {exponential: {mean}}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Think, E> {
        text.parse().map(Think::Constant).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Think, A::Error> {
        Random::deserialize(MapAccessDeserializer::new(map)).map(Think::Random)
    }
}

impl JsonSchema for Think {
    fn schema_name() -> Cow<'static, str> {
        "Think".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (span, random) = (generator.subschema_for::<Span>(), generator.subschema_for::<Random>());
        json_schema!({
            "description": "The pause of a closed writer between its operations; it is part of no latency.",
            "anyOf": [span, random]
        })
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::clock::SECOND_NS;

    use super::*;

    fn draws(think: Think) -> Vec<f64> {
        (0..50_000)
            .map(|number| think.after_ns(7, number % 10, number / 10) as f64 / SECOND_NS as f64)
            .collect()
    }

    fn mean(draws: &[f64]) -> f64 {
        draws.iter().sum::<f64>() / draws.len() as f64
    }

    #[test]
    fn a_random_pause_has_its_mean_and_bounds_and_follows_from_the_seed() {
        let uniform = Think::Random(Random::Uniform { min: Span::from_secs(1), max: Span::from_secs(3) });
        let drawn = draws(uniform);
        assert!(drawn.iter().all(|pause| (1.0..=3.0).contains(pause)));
        assert!((mean(&drawn) - 2.0).abs() < 0.02, "seed 7: {}", mean(&drawn));
        let exponential = Think::Random(Random::Exponential { mean: Span::from_secs(2) });
        assert!((mean(&draws(exponential)) - 2.0).abs() < 0.04, "seed 7: {}", mean(&draws(exponential)));
        assert_eq!(draws(exponential), draws(exponential));
        assert_ne!(exponential.after_ns(7, 0, 0), exponential.after_ns(7, 1, 0));
    }

    #[test]
    fn all_three_forms_read_back_from_what_is_written() {
        for json in [r#""1s""#, r#"{"uniform":{"min":"1s","max":"3s"}}"#, r#"{"exponential":{"mean":"2s"}}"#]
        {
            let think: Think = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&think).unwrap(), json);
        }
        for json in ["1", r#""soon""#, r#"{"uniform":{"min":"1s"}}"#, r#"{"normal":{}}"#] {
            assert!(serde_json::from_str::<Think>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn swapped_bounds_are_invalid() {
        let wrong = Random::Uniform { min: Span::from_secs(3), max: Span::from_secs(1) };
        assert!(!Think::Random(wrong).is_sound() && Think::Constant(Span::default()).is_sound());
    }
}
