//! Parses the query of a URL and refuses unknown and duplicate keys.

use std::str::FromStr;

use crate::problem::{InvalidField, Kind, Problem};
use crate::span::Span;
use crate::timestamp;

/// The parameters of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the text after the `?`; `known` lists the accepted keys.
    ///
    /// # Errors
    /// An unknown or duplicate key.
    pub fn parse(text: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (key, value) in form_urlencoded::parse(text.unwrap_or_default().as_bytes()) {
            if !known.contains(&key.as_ref()) {
                let accepted = if known.is_empty() {
                    "this path takes no parameters".into()
                } else {
                    format!("known are {}", known.join(", "))
                };
                return Err(malformed(&key, format!("is unknown; {accepted}")));
            }
            if pairs.iter().any(|(other, _)| *other == key) {
                return Err(malformed(&key, "is given twice: remove one".into()));
            }
            pairs.push((key.into_owned(), value.into_owned()));
        }
        Ok(Self(pairs))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A number from 1 to `most`; `otherwise` if absent.
    ///
    /// # Errors
    /// The value is not such a number.
    pub fn count(&self, key: &str, otherwise: u32, most: u32) -> Result<u32, Problem> {
        let Some(text) = self.get(key) else { return Ok(otherwise.min(most)) };
        let count = text.parse().ok().filter(|count| (1..=most).contains(count));
        count.ok_or_else(|| Problem::field(key, format!("must be a whole number from 1 to {most}")))
    }

    /// A timestamp, in milliseconds since 1970.
    ///
    /// # Errors
    /// The value is not a timestamp.
    pub fn timestamp(&self, key: &str) -> Result<Option<i64>, Problem> {
        let read = |text| timestamp::parse_either(text).map_err(|reason| Problem::field(key, reason));
        self.get(key).map(read).transpose()
    }

    /// A duration.
    ///
    /// # Errors
    /// The value is not a duration.
    pub fn span(&self, key: &str) -> Result<Option<Span>, Problem> {
        self.parsed(key)
    }

    /// A value of any type that parses from text.
    ///
    /// # Errors
    /// The value does not parse.
    pub fn parsed<T: FromStr<Err: std::fmt::Display>>(&self, key: &str) -> Result<Option<T>, Problem> {
        let read = |text: &str| text.parse().map_err(|error: T::Err| Problem::field(key, error.to_string()));
        self.get(key).map(read).transpose()
    }
}

fn malformed(key: &str, reason: String) -> Problem {
    Problem::from(InvalidField::new(key, reason)).with_kind(Kind::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Query, Problem> {
        Query::parse(Some(text), &["limit", "window", "from"])
    }

    #[test]
    fn values_are_decoded_and_parsed() {
        let query = parse("limit=5&window=1h&from=2026-09-21T14%3A13%3A20Z").unwrap();
        assert_eq!(query.count("limit", 50, 100), Ok(5));
        assert_eq!(query.span("window"), Ok(Some(Span::seconds(3600))));
        assert_eq!(query.timestamp("from"), Ok(Some(1_790_000_000_000)));
        assert_eq!(parse("").unwrap().count("limit", 50, 20), Ok(20));
    }

    #[test]
    fn hostile_or_invalid_queries_are_refused() {
        for text in ["limit[$gt]=1", "$where=1", "limit=1&limit=2", "limit=1&x", "from.$ne=1"] {
            assert_eq!(parse(text).unwrap_err().kind(), Kind::Malformed, "{text}");
        }
        for text in ["limit=0", "limit=101", "limit=-1", "limit=1e3", "limit={\"$gt\":0}", "limit="] {
            assert_eq!(
                parse(text).unwrap().count("limit", 50, 100).unwrap_err().kind(),
                Kind::Invalid,
                "{text}"
            );
        }
        assert!(parse("window=1 h").unwrap().span("window").is_err());
        assert!(parse("from=now").unwrap().timestamp("from").is_err());
        assert!(Query::parse(Some("a=1"), &[]).unwrap_err().detail().contains("takes no parameters"));
    }
}
