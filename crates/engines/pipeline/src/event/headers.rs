//! Encodes and reads the headers of an event: ordered names with values. Names may repeat.

/// The headers of an event, read from their encoded bytes.
///
/// Each is a name's length (`u16`), the name, a value's length (`u32`, all ones for no value) and the value, little-endian.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a>(&'a [u8]);

const NO_VALUE: u32 = u32::MAX;

impl<'a> Headers<'a> {
    /// The headers in `bytes`, which [`append`] wrote.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The encoded bytes.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether all bytes are valid headers.
    pub(crate) fn are_whole(self) -> bool {
        let mut left = self;
        while left.next().is_some() {}
        left.0.is_empty()
    }

    /// The value of the last header of this name: `None` without such a header, `Some(None)` if the header
    /// has no value.
    pub fn get(self, name: &str) -> Option<Option<&'a [u8]>> {
        self.filter(|(known, _)| *known == name).last().map(|(_, value)| value)
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name_len, rest) = self.0.split_first_chunk::<2>()?;
        let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*name_len)))?;
        let (value_len, rest) = rest.split_first_chunk::<4>()?;
        let value_len = u32::from_le_bytes(*value_len);
        let (value, rest) = match value_len {
            NO_VALUE => (None, rest),
            len => rest.split_at_checked(len as usize).map(|(value, rest)| (Some(value), rest))?,
        };
        self.0 = rest;
        Some((std::str::from_utf8(name).unwrap_or("?"), value))
    }
}

/// Appends a header to `out`. A name longer than 65,535 bytes is cut to this length, at the end of a character; sources reject
/// records with such names.
pub(crate) fn append(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    let name = &name[..name.floor_char_boundary(usize::from(u16::MAX))];
    let name_len = u16::try_from(name.len()).unwrap_or(u16::MAX);
    let value_len = value.map_or(NO_VALUE, |value| u32::try_from(value.len()).unwrap_or(NO_VALUE - 1));
    out.extend_from_slice(&name_len.to_le_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&value_len.to_le_bytes());
    out.extend_from_slice(value.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_order_repetitions_and_missing_values() {
        let mut bytes = Vec::new();
        append(&mut bytes, "a", Some(b"1"));
        append(&mut bytes, "b", None);
        append(&mut bytes, "a", Some(b""));
        let headers = Headers::new(&bytes);
        let all: Vec<_> = headers.collect();
        assert_eq!(all, [("a", Some(&b"1"[..])), ("b", None), ("a", Some(&b""[..]))]);
        assert_eq!(headers.get("a"), Some(Some(&b""[..])));
        assert_eq!(headers.get("b"), Some(None));
        assert_eq!(headers.get("c"), None);
    }

    #[test]
    fn an_oversized_header_name_is_cut_and_later_headers_are_read() {
        let mut bytes = Vec::new();
        append(&mut bytes, &"é".repeat(40_000), Some(b"1"));
        append(&mut bytes, "b", None);
        let lengths: Vec<_> = Headers::new(&bytes).map(|(name, _)| name.len()).collect();
        assert_eq!(lengths, [65_534, 1]);
    }

    #[test]
    fn bytes_that_end_early_end_the_headers() {
        let mut bytes = Vec::new();
        append(&mut bytes, "name", Some(b"value"));
        for cut in 0..bytes.len() {
            assert_eq!(Headers::new(&bytes[..cut]).count(), 0, "cut at {cut}");
            assert_eq!(Headers::new(&bytes[..cut]).are_whole(), cut == 0, "cut at {cut}");
        }
        assert!(Headers::new(&bytes).are_whole());
    }
}
