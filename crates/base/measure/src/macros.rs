//! Defines macros for types with a text form.

/// Implements `Serialize`, `Deserialize` and `JsonSchema` by `Display` and `FromStr`. The pattern describes the text.
macro_rules! as_text {
    ($Type:ty, $name:literal, $pattern:literal, $description:literal) => {
        impl serde::Serialize for $Type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $Type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $Type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "pattern": $pattern, "description": $description})
            }
        }
    };
}

/// Defines an enum whose variants have names in files and reports, with `ALL` variants in order.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $Name:ident { $($(#[$of:meta])* $Variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        pub enum $Name {
            $($(#[$of])* $Variant,)+
        }

        impl $Name {
            /// Every variant, in the order of declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$Variant),+];

            /// The name in files and reports.
            pub const fn name(self) -> &'static str {
                [$($name),+][self as usize]
            }
        }
    };
}

pub(crate) use {as_text, named};
