//! Holds one answer, whichever protocol brought it.

use crate::http1;

/// An answer, as far as it was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub status: u16,
    pub fields: Fields<'a>,
    /// Empty unless it was to be kept.
    pub body: &'a [u8],
    pub body_len: u64,
    pub is_too_large: bool,
}

/// The headers of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fields<'a> {
    /// As they came.
    Raw(&'a [u8]),
    /// As the library understood them.
    Map(&'a http::HeaderMap),
}

impl<'a> Fields<'a> {
    /// The first of that name, which is in lower case.
    pub(crate) fn get(self, name: &str) -> Option<&'a [u8]> {
        match self {
            Self::Raw(head) => http1::header(head, name),
            Self::Map(map) => map.get(name).map(http::HeaderValue::as_bytes),
        }
    }
}
