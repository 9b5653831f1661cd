//! Reads arrivals as typed: in Plimsoll's form, or as one of k6's executors.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{EnumAccessDeserializer, StrDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, VariantAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{Executor, ResolvedExecutor};
use crate::arrivals::Arrivals;
use crate::stop::Stop;

/// Every name of [`Typed`]: Plimsoll's, then k6's.
pub(super) const NAMES: [&str; 13] = [
    "closed",
    "writers",
    "constant",
    "poisson",
    "ramp",
    "steps",
    "rates",
    "constant-vus",
    "ramping-vus",
    "per-vu-iterations",
    "shared-iterations",
    "constant-arrival-rate",
    "ramping-arrival-rate",
];

/// Arrivals as typed: in Plimsoll's form, or as one of k6's executors.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ArrivalsOrExecutor")]
pub enum Typed {
    /// Plimsoll's form.
    Ours(Arrivals),
    /// k6's form, with the executor's name before its settings.
    K6(Executor),
}

impl Typed {
    /// Resolves the arrivals.
    pub fn resolve(&self) -> ResolvedExecutor {
        match self {
            Self::Ours(arrivals) => ResolvedExecutor { arrivals: arrivals.clone(), stop: Stop::default() },
            Self::K6(executor) => executor.resolve(),
        }
    }
}

impl From<Arrivals> for Typed {
    fn from(arrivals: Arrivals) -> Self {
        Self::Ours(arrivals)
    }
}

impl<'de> Deserialize<'de> for Typed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum("Arrivals", &NAMES, TypedVisitor)
    }
}

/// Reads the name, then its settings in Plimsoll's or in k6's form.
struct TypedVisitor;

impl<'de> Visitor<'de> for TypedVisitor {
    type Value = Typed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arrivals such as closed, constant or constant-arrival-rate")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Typed, A::Error> {
        let (name, variant) = access.variant_seed(Name)?;
        let chosen = EnumAccessDeserializer::new(Chosen { name, variant });
        if name.contains('-') {
            Executor::deserialize(chosen).map(Typed::K6)
        } else {
            Arrivals::deserialize(chosen).map(Typed::Ours)
        }
    }
}

/// One of [`NAMES`].
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a kind of arrivals")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<&'static str, E> {
        let known = NAMES.iter().find(|known| **known == name);
        known.copied().ok_or_else(|| E::unknown_variant(name, &NAMES))
    }
}

/// A variant whose name has been read.
struct Chosen<V> {
    name: &'static str,
    variant: V,
}

impl<'de, V: VariantAccess<'de>> EnumAccess<'de> for Chosen<V> {
    type Error = V::Error;
    type Variant = V;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, V), V::Error> {
        let name: StrDeserializer<'_, V::Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self.variant))
    }
}
