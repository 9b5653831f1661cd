//! Reads one map of settings into two structs, each value at its own place.
//!
//! Serde's `flatten` stores the whole map before it reads a value, so an error would name neither the key nor its line.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};

/// A struct of settings that shares its map with another. [`part!`](crate::part!) implements it.
pub trait Part: Default {
    /// The names of the fields.
    const KEYS: &'static [&'static str];

    /// Reads the value of one of [`Self::KEYS`].
    ///
    /// # Errors
    /// The value is invalid.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

/// Implements [`Part`](crate::part::Part) for a struct with these fields. A missing field does not compile.
#[macro_export]
macro_rules! part {
    ($Part:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::part::Part for $Part {
            const KEYS: &'static [&'static str] = &[$(stringify!($field)),+];

            fn read<'de, A: ::serde::de::MapAccess<'de>>(
                &mut self,
                key: &str,
                map: &mut A,
            ) -> Result<(), A::Error> {
                let Self { $($field),+ } = self;
                $(if key == stringify!($field) {
                    *$field = map.next_value()?;
                })+
                Ok(())
            }
        }
    };
}

/// Reads a map whose keys are those of `A` and of `B`. Missing keys keep their defaults.
///
/// # Errors
/// A key is unknown, or a value is invalid.
pub fn both<'de, A: Part, B: Part, D: Deserializer<'de>>(deserializer: D) -> Result<(A, B), D::Error> {
    deserializer.deserialize_map(Both(PhantomData))
}

struct Both<A, B>(PhantomData<(A, B)>);

impl<'de, A: Part, B: Part> Visitor<'de> for Both<A, B> {
    type Value = (A, B);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(A, B), M::Error> {
        let known = [A::KEYS, B::KEYS].concat();
        let (mut a, mut b) = (A::default(), B::default());
        while let Some(key) = map.next_key_seed(Key(&known))? {
            if A::KEYS.contains(&key) { a.read(key, &mut map)? } else { b.read(key, &mut map)? }
        }
        Ok((a, b))
    }
}

/// One of the known keys.
struct Key<'a>(&'a [&'static str]);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string key")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<&'static str, E> {
        let known = self.0.iter().find(|known| **known == name).copied();
        known.ok_or_else(|| E::custom(format!("unknown field `{name}`, expected one of {}", quoted(self.0))))
    }
}

/// The names as serde writes them.
fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::settings::read;

    #[derive(Debug, Default, PartialEq)]
    struct Size {
        width: u32,
        height: u32,
    }

    #[derive(Debug, Default, PartialEq)]
    struct Look {
        colour: Option<String>,
    }

    part!(Size { width, height });
    part!(Look { colour });

    #[derive(Debug, Default, PartialEq)]
    struct Shape(Size, Look);

    impl<'de> Deserialize<'de> for Shape {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            both(deserializer).map(|(size, look)| Self(size, look))
        }
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Drawing {
        shape: Shape,
    }

    #[test]
    fn each_key_goes_to_its_struct_and_missing_keys_keep_their_defaults() {
        let drawing: Drawing = read("shape: {colour: red, height: 2}").unwrap();
        let look = Look { colour: Some("red".into()) };
        assert_eq!(drawing.shape, Shape(Size { width: 0, height: 2 }, look));
        assert_eq!(read::<Drawing>("shape: {}").unwrap(), Drawing::default());
    }

    #[test]
    fn a_slip_has_its_key_its_line_and_its_column() {
        for (text, said) in [
            ("shape:\n  height: 2\n  width: wide\n", "line 3, column 10: `width`: write a whole number"),
            ("shape: {height: 2, width: wide}\n", "line 1, column 27: `width`: write a whole number"),
            (
                "shape:\n  heigth: 2\n",
                "line 2, column 3: unknown key `heigth`: did you mean `height`? Possible here: `width`, `height`, `colour`",
            ),
            ("shape: {width: 1, width: 2}\n", "line 1, column 19: the key `width` appears twice"),
            ("shape: wide\n", "line 1, column 8: `shape`: write a map of keys"),
        ] {
            let error = read::<Drawing>(text).unwrap_err().to_string();
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}
