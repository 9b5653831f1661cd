//! Encodes states: a byte for the version of the form, then JSON with short names.

use std::borrow::Cow;

use serde::Deserialize;

use super::State;

/// The version of the form.
const FORM: u8 = 1;
/// Bytes of an encoded state at most: below the limit of a MongoDB document.
pub const STATE_BYTES_MAX: usize = 8 << 20;

/// The reason why a state has no bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The state is too large.
    #[error("the state has {0} bytes, and {STATE_BYTES_MAX} are allowed: keep large data elsewhere")]
    Large(usize),
    /// The state is nested too deep to be read again.
    #[error("the state is nested {0} levels deep, and {NESTING_MAX} are allowed: keep deep data as text")]
    Deep(usize),
    /// The state has no JSON form.
    #[error("the state has no JSON form: {0}")]
    Form(String),
}

/// Levels of lists and maps in stored JSON. Readers refuse 128.
pub const NESTING_MAX: usize = 120;

/// The levels of lists and maps in a JSON text.
pub fn nesting(json: &[u8]) -> usize {
    let (mut level, mut most, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => {
                level += 1;
                most = most.max(level);
            }
            b']' | b'}' if !is_text => level = level.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// The reason why bytes are no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Another form.
    #[error("the state has form {0:?}, and this version reads form {FORM}: upgrade this process")]
    Form(Option<u8>),
    /// Invalid bytes.
    #[error("the state is damaged: {0}")]
    Damaged(String),
}

impl State {
    /// The bytes of the state.
    ///
    /// # Errors
    ///
    /// If they are too many.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = vec![FORM];
        serde_json::to_writer(&mut bytes, self).map_err(|error| EncodeError::Form(error.to_string()))?;
        if bytes.len() > STATE_BYTES_MAX {
            return Err(EncodeError::Large(bytes.len()));
        }
        let levels = nesting(&bytes);
        if levels > NESTING_MAX {
            return Err(EncodeError::Deep(levels));
        }
        Ok(bytes)
    }

    /// The state of bytes.
    ///
    /// # Errors
    ///
    /// If they are damaged, or in another form.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }

    /// Whether the state of bytes remembers a signal as applied. It reads no other part of the state.
    pub fn has_applied(bytes: &[u8], signal: &str) -> bool {
        #[derive(Deserialize)]
        struct Applied<'a> {
            #[serde(rename = "a", borrow, default)]
            ids: Vec<Cow<'a, str>>,
        }
        decode(bytes).is_ok_and(|Applied { ids }| ids.iter().any(|id| id == signal))
    }
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let Some((&FORM, json)) = bytes.split_first() else {
        return Err(DecodeError::Form(bytes.first().copied()));
    };
    serde_json::from_slice(json).map_err(|error| DecodeError::Damaged(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn nesting_counts_lists_and_maps_outside_of_texts() {
        assert_eq!(nesting(b"1"), 0);
        assert_eq!(nesting(br#"{"a": [{"b": "[[[{\"["}], "c": []}"#), 3);
    }

    #[test]
    fn applied_signals_are_found_without_the_rest_of_the_state() {
        let bytes = b"\x01{\"t\": 5, \"a\": [\"s1\", \"s\\n2\"]}";
        assert!(State::has_applied(bytes, "s1") && State::has_applied(bytes, "s\n2"));
        assert!(!State::has_applied(bytes, "s3") && !State::has_applied(b"\x02{}", "s1"));
        assert!(!State::has_applied(b"\x01{}", "s1"));
    }

    #[test]
    fn the_deepest_allowed_json_can_be_read_again() {
        let deep = (0..NESTING_MAX).fold(json!(1), |value, _| json!([value]));
        let text = serde_json::to_vec(&deep).unwrap();
        assert_eq!(nesting(&text), NESTING_MAX);
        assert!(serde_json::from_slice::<Value>(&text).is_ok());
    }
}
