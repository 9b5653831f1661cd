//! Reads the filter of the history.

use bson::Document;

use super::{parameter, unknown};
use crate::Refusal;

/// The only documents whose changes are kept.
const SUBSYSTEM: &str = "Dataset";

/// Reads a filter: texts for `subsystem` (or `collectionName`, its older name), `documentId`, `operation` and `user`.
///
/// # Errors
/// The filter is not JSON, has another property or a value that is no text, or does not ask for datasets.
pub fn translate(filter: Option<&str>) -> Result<Document, Refusal> {
    let filter = parameter("filter", filter)?;
    let filter =
        filter.as_object().ok_or_else(|| Refusal::bad("Invalid JSON in filter: it needs an object"))?;
    let mut conditions = Document::new();
    for (given, value) in filter {
        let name = match given.as_str() {
            "collectionName" => "subsystem",
            known @ ("subsystem" | "documentId" | "operation" | "user") => known,
            other => return Err(unknown(other)),
        };
        let text = value.as_str().ok_or_else(|| Refusal::bad(format!("{given} needs a text")))?;
        conditions.insert(name, text);
    }
    match conditions.get_str("subsystem") {
        Ok(SUBSYSTEM) => Ok(conditions),
        _ => Err(Refusal::bad(format!(
            "the history is that of {SUBSYSTEM}: give it as subsystem in the filter"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn a_filter_has_texts_for_known_properties() {
        let expected = doc! {"subsystem": "Dataset", "documentId": "a/b", "operation": "update"};
        for name in ["subsystem", "collectionName"] {
            let filter = format!(r#"{{"{name}": "Dataset", "documentId": "a/b", "operation": "update"}}"#);
            assert_eq!(translate(Some(&filter)), Ok(expected.clone()));
        }
        for filter in [
            "{}",
            "[]",
            "{",
            r#"{"documentId": "a"}"#,
            r#"{"subsystem": "Policy"}"#,
            r#"{"subsystem": "Dataset", "documentId": {"$ne": ""}}"#,
            r#"{"subsystem": "Dataset", "$where": "1"}"#,
            r#"{"subsystem": "Dataset", "before": "x"}"#,
        ] {
            assert_eq!(translate(Some(filter)).unwrap_err().status(), 400, "{filter}");
        }
    }
}
