//! Holds one answer of either protocol.

use crate::http1;

/// An answer. It holds only the requested parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub status: u16,
    pub fields: Fields<'a>,
    /// Empty unless the request keeps it.
    pub body: &'a [u8],
    pub body_len: u64,
    pub is_too_large: bool,
}

/// The headers of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fields<'a> {
    /// As received.
    Raw(&'a [u8]),
    /// As the library parsed them.
    Map(&'a http::HeaderMap),
}

impl<'a> Fields<'a> {
    /// The first header of that name, which is given in lower case.
    pub(crate) fn get(self, name: &str) -> Option<&'a [u8]> {
        match self {
            Self::Raw(head) => http1::header(head, name),
            Self::Map(map) => map.get(name).map(http::HeaderValue::as_bytes),
        }
    }
}
