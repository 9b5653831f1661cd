//! Checks and translates the names of fields.

use super::bounds::{NAME_BYTES_MAX, NAME_PARTS_MAX};
use super::dialect::Dialect;
use super::unknown;
use crate::Refusal;
use crate::documents::metadata::key;
use crate::documents::schema::{self, Kind};

/// The object with the metadata.
const METADATA: &str = "scientificMetadata";

/// A field of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// The path in the stored document.
    pub(super) path: String,
    /// The type; `None` below free objects and for fields that the catalogue does not know.
    pub(super) kind: Option<Kind>,
}

impl Field {
    /// Reads a name. Version 4 accepts only known properties.
    ///
    /// # Errors
    /// The name has a meaning to MongoDB, is too long or unknown.
    pub(super) fn parse(name: &str, dialect: Dialect) -> Result<Self, Refusal> {
        let parts: Vec<&str> = name.split('.').collect();
        let is_plain = |part: &&str| !part.is_empty() && !part.starts_with('$') && !part.contains('\0');
        let is_encoded = parts[0] == METADATA;
        let is_valid = parts.iter().all(is_plain) && (is_encoded || !name.contains('$'));
        if name.len() > NAME_BYTES_MAX || parts.len() > NAME_PARTS_MAX || !is_valid {
            return Err(unknown(name));
        }
        if dialect == Dialect::V4 && !is_known(&parts) {
            return Err(unknown(name));
        }
        Ok(Self { path: stored(&parts, dialect), kind: kind(&parts) })
    }

    /// Whether a text that looks like a date counts as a date.
    pub(super) fn takes_dates(&self, dialect: Dialect) -> bool {
        match self.kind {
            Some(kind) => kind == Kind::Date,
            None => dialect == Dialect::V3,
        }
    }
}

fn is_known(parts: &[&str]) -> bool {
    match (parts[0], &parts[1..]) {
        ("_id" | "id", []) => true,
        (root, rest) => match schema::kind(root) {
            Some(Kind::Free) => true,
            Some(Kind::Lifecycle) => rest.iter().all(|part| schema::lifecycle_kind(part).is_some()),
            Some(Kind::Objects) => {
                rest.iter().all(|part| schema::NESTED.contains(part) || schema::kind(part).is_some())
            }
            Some(_) => rest.is_empty(),
            None => false,
        },
    }
}

fn kind(parts: &[&str]) -> Option<Kind> {
    match parts {
        ["_id" | "id"] => Some(Kind::Text),
        [root] => schema::kind(schema::plural(root)),
        ["datasetlifecycle", field] => schema::lifecycle_kind(field),
        _ => None,
    }
}

/// The path in the stored document: `pid` is the key of the collection, and keys of metadata are encoded.
fn stored(parts: &[&str], dialect: Dialect) -> String {
    match parts {
        ["pid" | "id"] => "_id".to_owned(),
        [METADATA, keys @ ..] => {
            let keys = keys.iter().map(|part| key::encode_again(part));
            std::iter::once(METADATA.to_owned()).chain(keys).collect::<Vec<_>>().join(".")
        }
        [one] if dialect == Dialect::V3 => schema::plural(one).to_owned(),
        _ => parts.join("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_the_path_of_the_stored_field() {
        for (name, path) in [
            ("pid", "_id"),
            ("ownerGroup", "ownerGroup"),
            ("proposalId", "proposalIds"),
            ("datasetlifecycle.archivable", "datasetlifecycle.archivable"),
            ("scientificMetadata.sample temp.value", "scientificMetadata.sample%20temp.value"),
            ("scientificMetadata.a$b", "scientificMetadata.a%24b"),
            ("scientificMetadata.sample%20temp.valueSI", "scientificMetadata.sample%20temp.valueSI"),
        ] {
            assert_eq!(Field::parse(name, Dialect::V3).unwrap().path, path);
        }
    }

    #[test]
    fn a_name_with_a_meaning_to_the_database_is_refused() {
        for dialect in [Dialect::V3, Dialect::V4] {
            for name in ["", "$where", "a.$where", "a$", ".", "a..b", "a.", "$expr", "x\0y", &"a.".repeat(40)]
            {
                assert!(Field::parse(name, dialect).is_err(), "{name}");
            }
        }
    }

    #[test]
    fn version_4_accepts_only_known_properties() {
        for name in ["pid", "techniques.name", "scientificMetadata.any.thing", "datasetlifecycle.archivable"]
        {
            assert!(Field::parse(name, Dialect::V4).is_ok(), "{name}");
        }
        for name in ["password", "pid.x", "datasetlifecycle.x", "techniques.x", "proposalId", "__proto__"] {
            let refusal = Field::parse(name, Dialect::V4).unwrap_err().to_string();
            assert_eq!(refusal, format!("Property {name} should not exist in the filter object"));
        }
    }
}
