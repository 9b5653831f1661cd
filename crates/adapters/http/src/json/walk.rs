//! Walks the elements of a BSON document from a template.

/// The elements of a document. A type that no template generates ends the walk.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a> {
    rest: &'a [u8],
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    pub(crate) kind: u8,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

pub(crate) const DOUBLE: u8 = 0x01;
pub(crate) const TEXT: u8 = 0x02;
pub(crate) const DOCUMENT: u8 = 0x03;
pub(crate) const ARRAY: u8 = 0x04;
pub(crate) const BINARY: u8 = 0x05;
pub(crate) const OBJECT_ID: u8 = 0x07;
pub(crate) const BOOL: u8 = 0x08;
pub(crate) const DATE: u8 = 0x09;
pub(crate) const NULL: u8 = 0x0A;
pub(crate) const INT32: u8 = 0x10;
pub(crate) const INT64: u8 = 0x12;
pub(crate) const DECIMAL: u8 = 0x13;

/// Binary of a UUID.
pub(crate) const SUBTYPE_UUID: u8 = 0x04;
/// User-defined binary: here, a timestamp to fill in when a request is sent.
pub(crate) const SUBTYPE_OWN: u8 = 0x80;

impl<'a> Elements<'a> {
    /// The elements of a document or an array, given with its length and final zero.
    pub(crate) fn of(document: &'a [u8]) -> Self {
        let end = document.len().saturating_sub(1);
        Self { rest: document.get(4..end).unwrap_or_default() }
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (&kind, rest) = self.rest.split_first()?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        let key = &rest[..end];
        self.rest = &rest[end + 1..];
        let width = match kind {
            DOUBLE | DATE | INT64 => 8,
            INT32 => 4,
            BOOL => 1,
            NULL => 0,
            OBJECT_ID => 12,
            DECIMAL => 16,
            TEXT => length(self.rest)? + 4,
            BINARY => length(self.rest)? + 5,
            DOCUMENT | ARRAY => length(self.rest)?,
            _ => return None,
        };
        Some(Element { kind, key, value: self.take(width)? })
    }
}

fn length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*bytes.first_chunk()?)).ok()
}

/// The bytes of a text, without its length and its final zero.
pub(crate) fn text(value: &[u8]) -> &[u8] {
    let end = value.len().saturating_sub(1);
    value.get(4..end).unwrap_or_default()
}

/// Subtype and bytes of a binary.
pub(crate) fn binary(value: &[u8]) -> (u8, &[u8]) {
    (value.get(4).copied().unwrap_or_default(), value.get(5..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;
    use proptest::prelude::*;

    #[test]
    fn elements_come_in_their_order() {
        let document = rawdoc! {"a": 1, "b": "x", "c": {"d": [true, null]}, "e": 5_i64, "f": 0.5};
        let kinds: Vec<_> =
            Elements::of(document.as_bytes()).map(|element| (element.key, element.kind)).collect();
        assert_eq!(
            kinds,
            [(&b"a"[..], INT32), (b"b", TEXT), (b"c", DOCUMENT), (b"e", INT64), (b"f", DOUBLE)]
        );
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            Elements::of(&bytes).for_each(|element| {
                text(element.value);
                binary(element.value);
            });
        }
    }
}
