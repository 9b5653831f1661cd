//! A database and a collection.

use std::fmt;
use std::str::FromStr;

/// The longest name of a database and a collection together, as servers have it.
const BYTES_MAX: usize = 255;

/// A database and a collection: `database.collection`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// The database.
    pub db: String,
    /// The collection, which may hold dots itself.
    pub collection: String,
}

/// A text that names no collection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no collection: write database.collection, such as shop.orders")]
pub struct NoNamespace(String);

impl Namespace {
    /// Another collection of the same database.
    pub fn beside(&self, collection: &str) -> Self {
        Self { db: self.db.clone(), collection: collection.to_owned() }
    }
}

impl FromStr for Namespace {
    type Err = NoNamespace;

    fn from_str(text: &str) -> Result<Self, NoNamespace> {
        let refused = || NoNamespace(text.to_owned());
        let (db, collection) = text.split_once('.').ok_or_else(refused)?;
        let odd = |c: char| c.is_whitespace() || "/\\\"$\0".contains(c);
        let sound = !db.is_empty()
            && !collection.is_empty()
            && !db.contains(odd)
            && !collection.contains(['\0', '$'])
            && !collection.starts_with('.')
            && text.len() <= BYTES_MAX;
        if sound { Ok(Self { db: db.to_owned(), collection: collection.to_owned() }) } else { Err(refused()) }
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
    fn what_names_no_collection_is_refused() {
        for text in [
            "",
            "shop",
            ".orders",
            "shop.",
            "a b.c",
            "shop.$cmd",
            "shop..x",
            &format!("a.{}", "b".repeat(300)),
        ] {
            assert!(text.parse::<Namespace>().is_err(), "{text:?}");
        }
    }
}
