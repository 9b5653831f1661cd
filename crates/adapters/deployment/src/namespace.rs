//! Parses and prints `database.collection`.

use std::fmt;
use std::str::FromStr;

/// The servers' limit for database name and collection name together, with the dot between them.
const BYTES_MAX: usize = 255;
/// The servers' limit for a database name.
const DATABASE_BYTES_MAX: usize = 63;
/// The characters that no database name contains, besides the dot and white space.
const FORBIDDEN_IN_DATABASE: &str = "/\\\"$\0";

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
#[error("`{}` is not a valid database.collection: {why}", text.escape_debug())]
pub struct InvalidNamespace {
    text: String,
    why: String,
}

/// Why a database cannot have this name, and the remedy. `None` if it can.
pub fn fault_of_database(name: &str) -> Option<String> {
    let forbidden = |c: &char| c.is_whitespace() || *c == '.' || FORBIDDEN_IN_DATABASE.contains(*c);
    if name.is_empty() {
        return Some("the name of the database is empty: write for example shop.orders".into());
    }
    if name.len() > DATABASE_BYTES_MAX {
        return Some(format!(
            "the name of the database has {} bytes: shorten it to {DATABASE_BYTES_MAX} or fewer",
            name.len()
        ));
    }
    name.chars().find(forbidden).map(|c| {
        format!("the name of the database contains `{}`, which MongoDB forbids: remove it", c.escape_debug())
    })
}

/// Why a collection cannot have this name, and the remedy.
fn fault_of_collection(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("the name of the collection is empty: write for example shop.orders".into());
    }
    if name.starts_with('.') {
        return Some("the name of the collection begins with a dot: remove it".into());
    }
    if name.starts_with("system.") {
        return Some("`system.` is for the server's own collections: choose another name".into());
    }
    name.chars().find(|c| matches!(c, '\0' | '$')).map(|c| {
        format!(
            "the name of the collection contains `{}`, which MongoDB forbids: remove it",
            c.escape_debug()
        )
    })
}

/// Why a text is no namespace, and the remedy.
fn fault_of(text: &str) -> Option<String> {
    let Some((database, collection)) = text.split_once('.') else {
        return Some(
            "the dot between database and collection is missing: write for example shop.orders".into(),
        );
    };
    let too_long = || {
        let fault = format!("it has {} bytes: shorten it to {BYTES_MAX} or fewer", text.len());
        (text.len() > BYTES_MAX).then_some(fault)
    };
    fault_of_database(database).or_else(|| fault_of_collection(collection)).or_else(too_long)
}

impl Namespace {
    /// Another collection of the same database.
    pub fn sibling(&self, collection: &str) -> Self {
        Self { db: self.db.clone(), collection: collection.to_owned() }
    }
}

impl FromStr for Namespace {
    type Err = InvalidNamespace;

    fn from_str(text: &str) -> Result<Self, InvalidNamespace> {
        match (fault_of(text), text.split_once('.')) {
            (None, Some((db, collection))) => {
                Ok(Self { db: db.to_owned(), collection: collection.to_owned() })
            }
            (fault, _) => Err(InvalidNamespace { text: text.to_owned(), why: fault.unwrap_or_default() }),
        }
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
    fn an_invalid_namespace_is_refused_with_its_fault() {
        let long = "b".repeat(254);
        for (text, fault) in [
            ("", "the dot between database and collection is missing"),
            ("shop", "the dot between database and collection is missing"),
            (".orders", "the name of the database is empty"),
            ("shop.", "the name of the collection is empty"),
            ("a b.c", "the name of the database contains ` `"),
            ("a/b.c", "the name of the database contains `/`"),
            ("a\\b.c", "the name of the database contains `\\\\`"),
            ("a\"b.c", "the name of the database contains"),
            ("a$b.c", "the name of the database contains `$`"),
            ("a\0b.c", "the name of the database contains `\\0`"),
            ("shop.$cmd", "the name of the collection contains `$`"),
            ("shop.a\0", "the name of the collection contains `\\0`"),
            ("shop..x", "the name of the collection begins with a dot"),
            ("shop.system.views", "`system.` is for the server's own collections"),
            (&format!("{}.c", "a".repeat(64)), "the name of the database has 64 bytes: shorten it to 63"),
            (&format!("{}.c", "é".repeat(32)), "the name of the database has 64 bytes"),
            (&format!("a.{long}"), "it has 256 bytes: shorten it to 255"),
        ] {
            let said = text.parse::<Namespace>().unwrap_err().to_string();
            assert!(said.contains(fault) && !said.contains('\0'), "{text:?}: {said}");
        }
        assert!(format!("a.{}", &long[1..]).parse::<Namespace>().is_ok());
        assert!(format!("{}.c", "a".repeat(63)).parse::<Namespace>().is_ok());
    }
}
