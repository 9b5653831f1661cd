//! Parses and prints `database.collection`.

use std::fmt;
use std::str::FromStr;

/// The servers' limit for database name and collection name together.
const BYTES_MAX: usize = 255;

/// A database and a collection: `database.collection`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// The database.
    pub db: String,
    /// The collection. It may contain dots.
    pub collection: String,
}

/// A text that is not a valid namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid database.collection: write for example shop.orders")]
pub struct InvalidNamespace(String);

impl Namespace {
    /// Another collection of the same database.
    pub fn sibling(&self, collection: &str) -> Self {
        Self { db: self.db.clone(), collection: collection.to_owned() }
    }
}

impl FromStr for Namespace {
    type Err = InvalidNamespace;

    fn from_str(text: &str) -> Result<Self, InvalidNamespace> {
        let invalid = || InvalidNamespace(text.to_owned());
        let (db, collection) = text.split_once('.').ok_or_else(invalid)?;
        let forbidden_in_db = |c: char| c.is_whitespace() || "/\\\"$\0".contains(c);
        let valid = !db.is_empty()
            && !collection.is_empty()
            && !db.contains(forbidden_in_db)
            && !collection.contains(['\0', '$'])
            && !collection.starts_with('.')
            && !collection.starts_with("system.")
            && text.len() <= BYTES_MAX;
        if valid { Ok(Self { db: db.to_owned(), collection: collection.to_owned() }) } else { Err(invalid()) }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.db, self.collection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_split_at_its_first_dot() {
        let namespace: Namespace = "shop.orders.open".parse().unwrap();
        assert_eq!((namespace.db.as_str(), namespace.collection.as_str()), ("shop", "orders.open"));
        assert_eq!(namespace.to_string(), "shop.orders.open");
    }

    #[test]
    fn an_invalid_namespace_is_refused() {
        for text in [
            "",
            "shop",
            ".orders",
            "shop.",
            "a b.c",
            "shop.$cmd",
            "shop..x",
            "shop.system.views",
            &format!("a.{}", "b".repeat(300)),
        ] {
            assert!(text.parse::<Namespace>().is_err(), "{text:?}");
        }
    }
}
