//! Parses a dead letter from a line of a file, as the file sink writes it in the form `whole`.

use serde_json::Value;

use super::letter::DeadLetter;

/// A parsed line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    appended_ms: u64,
    key: Option<Vec<u8>>,
    payload: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

/// Parses a line.
///
/// # Errors
///
/// If the line is invalid. The error is the reason.
pub(super) fn read(line: &[u8]) -> Result<Line, String> {
    let whole: Value =
        serde_json::from_slice(line).map_err(|error| format!("this line is not JSON: {error}"))?;
    let part =
        |name: &str| bytes(whole.get(name).unwrap_or(&Value::Null)).ok_or(format!("`{name}` cannot be read"));
    Ok(Line {
        appended_ms: whole
            .get("appended_ms")
            .and_then(Value::as_u64)
            .ok_or("`appended_ms` cannot be read")?,
        key: part("key")?,
        payload: part("payload")?,
        headers: headers(whole.get("headers").unwrap_or(&Value::Null)).ok_or("`headers` cannot be read")?,
    })
}

impl Line {
    /// The letter of the line.
    pub(super) fn letter(&self) -> DeadLetter<'_> {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
        DeadLetter {
            appended_ms: self.appended_ms,
            key: self.key.as_deref(),
            payload: self.payload.as_deref(),
            headers: headers.collect(),
        }
    }
}

/// Reads headers from an object, or from pairs where names repeat.
fn headers(value: &Value) -> Option<Vec<(String, Option<Vec<u8>>)>> {
    match value {
        Value::Object(object) => {
            object.iter().map(|(name, value)| Some((name.clone(), bytes(value)?))).collect()
        }
        Value::Array(pairs) => pairs.iter().map(pair).collect(),
        _ => None,
    }
}

fn pair(value: &Value) -> Option<(String, Option<Vec<u8>>)> {
    let [name, value] = value.as_array()?.as_slice() else { return None };
    Some((name.as_str()?.to_owned(), bytes(value)?))
}

/// Reads a text, `{"hex": …}`, or null.
fn bytes(value: &Value) -> Option<Option<Vec<u8>>> {
    match value {
        Value::Null => Some(None),
        Value::String(text) => Some(Some(text.clone().into_bytes())),
        Value::Object(object) => Some(Some(unhex(object.get("hex")?.as_str()?)?)),
        _ => None,
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_bytes_and_null_are_read_as_written() {
        let line = read(
            br#"{"topic":"t","appended_ms":5,"key":null,"headers":{"a":"1","b":null,"c":{"hex":"ff00"}},"payload":{"hex":""}}"#,
        );
        let headers = vec![
            ("a".to_owned(), Some(b"1".to_vec())),
            ("b".to_owned(), None),
            ("c".to_owned(), Some(vec![255, 0])),
        ];
        assert_eq!(line.unwrap(), Line { appended_ms: 5, key: None, payload: Some(Vec::new()), headers });
        let line = read(br#"{"appended_ms":5,"headers":[["a","1"],["b","2"],["a",null]]}"#).unwrap();
        assert_eq!(line.headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b", "a"]);
    }

    #[test]
    fn an_invalid_line_is_refused() {
        for line in [
            "",
            "{}",
            r#"{"appended_ms":5,"headers":{"a":7}}"#,
            r#"{"appended_ms":5,"headers":{},"payload":{"hex":"f"}}"#,
            r#"{"appended_ms":5,"headers":{},"payload":{"hex":"gg"}}"#,
            r#"{"appended_ms":5,"headers":[["a"]]}"#,
        ] {
            assert!(read(line.as_bytes()).is_err(), "{line}");
        }
    }
}
