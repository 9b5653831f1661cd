//! Defines the MongoDB sections of a pipeline file and builds sources, sinks and stores from them.

pub use crate::document::identity::IdKind;
pub use crate::source::change_stream::{Payload, Start};
pub use insert::Insert;
pub use keyed::Keyed;
pub use source::{ChangeStream, Positions, Scan};
pub use transactional::{POSITIONS, Transactional};
pub use vector::Vector;

mod insert;
mod keyed;
mod replay;
mod source;
mod transactional;
mod vector;

use plimsoll_measure::duration::Span;
use std::time::Duration;

/// The reason why a section is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Refusal {
    fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// The default time limit of a command.
const TIMEOUT: Span = Span::from_secs(10);
/// The longest time limit.
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// Checks and converts a time limit.
fn timeout(span: Span) -> Result<Duration, Refusal> {
    let timeout = Duration::from_nanos(span.as_ns());
    if timeout.is_zero() || timeout > TIMEOUT_MAX {
        return Err(Refusal(
            "a time limit must be above zero and at most an hour: use for example `timeout: 10s`".into(),
        ));
    }
    Ok(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::keyed::PayloadId;
    use serde::de::DeserializeOwned;

    fn read<T: DeserializeOwned>(json: &str) -> Result<T, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    /// The refusal of a section in which only `more` is invalid.
    fn refusal<T: DeserializeOwned, B>(more: &str, build: impl Fn(&T) -> Result<B, Refusal>) -> String {
        let typed = read::<T>(&format!(r#"{{"uri": "mongodb://localhost", {more}}}"#));
        match typed.map(|typed| build(&typed).map(drop)) {
            Ok(Ok(())) => String::new(),
            Ok(Err(refused)) => refused.to_string(),
            Err(words) => words,
        }
    }

    #[test]
    fn invalid_sections_are_refused_with_a_reason() {
        let insert = |more: &str| refusal(&format!(r#""collection": "d.c"{more}"#), Insert::build);
        assert_eq!(insert(""), "");
        assert!(insert(r#", "conections": 3"#).contains("unknown field `conections`"));
        assert!(insert(r#", "connections": 0"#).contains("1 to 64"));
        assert!(insert(r#", "identity": "payload""#).contains("use `form: bson`"));
        assert!(insert(r#", "write_concern": {"w": 0}"#).contains("at least `w: 1`"));
        assert!(insert(r#", "source_field": "_id""#).contains("not a valid field name"));
        assert!(insert(r#", "source_field": "ts""#).contains("is already a field"));
        assert_eq!(insert(r#", "source_field": "ts", "form": "bson""#), "");
        assert!(insert(r#", "timeout": "0s""#).contains("timeout: 10s"));
        assert!(refusal(r#""collection": "c""#, Insert::build).contains("database.collection"));
    }

    #[test]
    fn whole_numbers_that_would_become_doubles_are_refused() {
        let scan = |more: &str| refusal(&format!(r#""collection": "d.c", {more}"#), Scan::build);
        let stream = |more: &str| refusal(more, ChangeStream::build);
        for number in ["9223372036854775808", "18446744073709551615"] {
            for said in [
                scan(&format!(r#""filter": {{"a": {number}}}"#)),
                scan(&format!(r#""filter": {{"a": {{"$in": [1, {number}]}}}}"#)),
                scan(&format!(r#""splits": [{number}]"#)),
                stream(&format!(r#""stages": [{{"$match": {{"fullDocument.a": {number}}}}}]"#)),
            ] {
                assert!(said.contains(&format!("{number} has more than 63 bits")), "{said}");
                assert!(said.contains("$numberDecimal"), "{said}");
            }
        }
        for number in [
            "9223372036854775807",
            "-9223372036854775808",
            "9.5e18",
            r#"{"$numberDecimal": "9223372036854775808"}"#,
        ] {
            assert_eq!(scan(&format!(r#""filter": {{"a": {number}}}"#)), "", "{number}");
        }
    }

    #[test]
    fn the_write_concern_of_the_address_applies_where_the_section_has_none() {
        let settled = |query: &str, typed: Option<&str>| {
            let typed = typed.map(|json| serde_json::from_str(json).unwrap());
            let uri = format!("mongodb://localhost/{query}");
            let concern = insert::settled(typed.as_ref(), &uri).unwrap();
            serde_json::to_string(&concern).unwrap()
        };
        for (query, typed, concern) in [
            ("", None, r#"{"w":"majority","j":true}"#),
            ("?w=most", None, r#"{"w":"most","j":true}"#),
            ("?w=2&wTimeoutMS=50", None, r#"{"w":2,"j":true,"timeout":"50ms"}"#),
            ("?journal=false", None, r#"{"w":"majority","j":false}"#),
            ("?w=most", Some(r#"{"w": 1}"#), r#"{"w":1,"j":true}"#),
        ] {
            assert_eq!(settled(query, typed), concern, "{query}");
        }
    }

    #[test]
    fn options_of_the_address_that_a_section_cannot_honour_are_refused() {
        fn refused<T: DeserializeOwned, B>(query: &str, build: impl Fn(&T) -> Result<B, Refusal>) -> String {
            let json = format!(r#"{{"uri": "mongodb://localhost/?{query}", "collection": "d.c"}}"#);
            build(&read::<T>(&json).unwrap()).err().map(|refusal| refusal.to_string()).unwrap_or_default()
        }
        assert!(refused("loadBalanced=true", Insert::build).contains("loadBalanced=true is unsupported"));
        assert!(refused("loadBalanced=true", Scan::build).contains("loadBalanced=true is unsupported"));
        assert!(
            refused("w=0", |keyed: &Keyed| keyed.build(PayloadId::Any))
                .contains("`w: 0` means unacknowledged")
        );
        let transactional = |query| refused(query, |typed: &Transactional| typed.build("p").map(drop));
        assert!(transactional("w=1").contains("remove `w` and `journal` from the address"));
        assert_eq!(transactional("w=majority&journal=true"), "");
    }

    #[test]
    fn every_section_is_parsed_and_unknown_keys_are_refused() {
        assert_eq!(refusal(r#""collection": "d.c", "stored": "float32", "by": "source""#, Vector::build), "");
        assert!(refusal(r#""collection": "d.c", "field": "source""#, Vector::build).contains("another name"));
        let kept = |more: &str| refusal(&format!(r#""collection": "d.c", {more}"#), Vector::build);
        assert_eq!(kept(r#""field": "source", "source_field": "origin""#), "");
        assert!(kept(r#""source_field": "payload""#).contains("is already a field"));
        assert!(
            refusal(r#""collection": "d.c", "by": "payload""#, Vector::build).contains("use `form: bson`")
        );
        let build = |typed: &Transactional| typed.build("p");
        assert_eq!(refusal(r#""collection": "d.c", "gather_wait": "100ms""#, build), "");
        assert!(refusal(r#""collection": "d.c", "gather_events": 0"#, build).contains("1 to 50000"));
        assert_eq!(
            refusal(
                r#""watch": "d.c", "stages": [{"$match": {"operationType": "insert"}}]"#,
                ChangeStream::build
            ),
            ""
        );
        let split = r#""stages": [{"$changeStreamSplitLargeEvent": {}}]"#;
        assert!(refusal(split, ChangeStream::build).contains("divides a change into fragments"));
        assert_eq!(refusal(&format!(r#"{split}, "payload": "event""#), ChangeStream::build), "");
        assert!(refusal(r#""stages": [1]"#, ChangeStream::build).contains("not a document"));
        assert_eq!(
            refusal(r#""collection": "d.c", "splits": [{"$oid": "323232323232323232323232"}]"#, Scan::build),
            ""
        );
        assert!(refusal(r#""collection": "d.c", "splits": [[1]]"#, Scan::build).contains("cannot be an _id"));
        assert_eq!(refusal(r#""collection": "d.c""#, |typed: &Positions| typed.build("p")), "");
    }
}
