//! Encodes states: a byte for the version of the form, then JSON with short names.

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
    /// The state has no JSON form.
    #[error("the state has no JSON form: {0}")]
    Form(String),
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
        Ok(bytes)
    }

    /// The state of bytes.
    ///
    /// # Errors
    ///
    /// If they are damaged, or in another form.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some((&FORM, json)) = bytes.split_first() else {
            return Err(DecodeError::Form(bytes.first().copied()));
        };
        serde_json::from_slice(json).map_err(|error| DecodeError::Damaged(error.to_string()))
    }
}
